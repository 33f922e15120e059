"""The one transformer of the course.

Language models, encoders and classifiers are configurations of it, from one layer of attention
without anything else to GPT-2. Heads keep their own matrices (see `attention.MultiHeadAttention`),
so that every head can be looked at, changed or removed on its own.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import shared
from attnlib.models.block import Block, Encoded, LayerState, norm
from attnlib.models.cache import KVCache
from attnlib.models.config import TransformerConfig
from attnlib.models.edits import Edits, LayerEdits, check_edits
from attnlib.models.evaluation import evaluating
from attnlib.models.initial import normal
from attnlib.positions import sinusoidal
from attnlib.trace import BY_LAYER, Trace, kept, token_names, wanted


class Transformer(nn.Module):
    """Embed, L blocks, unembed.

    Attributes:
        config: its `TransformerConfig`.
        W_E: embeddings (D, d_model). W_P: learned positions (max_len, d_model), or None.
        blocks: the layers.
        W_U: unembedding (d_model, D), the transposed W_E if tied; None without a head.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        # 0.02 as in GPT-2: tied to the unembedding, larger embeddings would start with sure errors
        scale = 0.02 if config.tied or config.norm == "pre" else config.d_model**-0.5
        if config.positions == "sinusoidal" and not config.tied:
            scale = 1.0  # to be seen beside sines and cosines (Vaswani et al. 2017, section 3.4)
        self.W_E = normal(config.vocab_size, config.d_model, std=scale)
        self.W_P = None
        if config.positions == "learned":
            self.W_P = normal(config.max_len, config.d_model, std=scale)
        self.embed_norm = norm(config, config.embed_norm)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = norm(config, config.norm == "pre")
        self._W_U = None
        if config.head and not config.tied:
            self._W_U = normal(config.d_model, config.vocab_size, std=config.d_model**-0.5)

    @property
    def W_U(self) -> Tensor | None:
        """The unembedding, (d_model, D)."""
        if not self.config.head:
            return None
        return self.W_E.T if self._W_U is None else self._W_U

    @property
    def max_len(self) -> int:
        """The most tokens that it reads at once."""
        return self.config.max_len

    @property
    def parameter_count(self) -> int:
        """Numbers learned; what is tied counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """What enters the first layer: token plus position, (B, T) to (B, T, d_model).

        The first token stands at position `start`.

        Raises:
            ValueError: if the input is longer than the learned positions reach.
            IndexError: if an id lies outside 0 … D − 1.
        """
        length = start + ids.shape[-1]
        x = F.embedding(ids, self.W_E)
        if self.W_P is not None:
            if length > self.config.max_len:
                raise ValueError(
                    f"{length} tokens are more than the {self.config.max_len} positions this model "
                    "has learned: shorten the text"
                )
            x = x + self.W_P[start:length]
        elif self.config.positions == "sinusoidal":
            x = x + sinusoidal(length, self.config.d_model)[start:].to(x)
        x = self.embed_norm(x)
        return F.dropout(x, self.config.dropout, self.training)

    def run(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        need_weights: bool = False,
        memory: Encoded | None = None,
        edits: Edits | None = None,
        first: int = 0,
    ) -> Iterator[LayerState]:
        """Send embeddings (B, T, d_model) through the layers: what each did, one after the other.

        The one loop over the blocks; mask, cache, memory and edits are as in `hidden`. With a
        `first` other than 0, x is the stream that enters this layer, and those before are left out.
        """
        config = self.config
        if config.cross != (memory is not None):
            wants = "needs a memory to look at" if config.cross else "looks at no memory"
            raise ValueError(f"a model with cross={config.cross} {wants}")
        if edits and cache is not None:
            raise ValueError("edits and a cache do not go together: read the whole text anew")
        check_edits(edits or {}, config.layers, config.cross, config.d_ff is not None)
        allowed = None if mask is None else mask[:, None, None, :]
        x = LayerEdits(edits, first)("stream", x)
        for layer, block in list(enumerate(self.blocks))[first:]:
            state: LayerState = block(x, allowed, need_weights, cache, layer, memory, edits)
            x = LayerEdits(edits, layer + 1)("stream", state.residual)
            yield state._replace(residual=x)

    def hidden(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
        edits: Edits | None = None,
    ) -> Tensor:
        """The last state of every position, ready to be unembedded: (B, T) to (B, T, d_model).

        Args:
            ids: (B, T).
            mask: True on real tokens, False on padding, (B, T); all real if None.
            cache: of the tokens before these, which it then takes in; needs a causal model,
                and no mask.
            memory: states (B, M, d_model) of another text and its mask (B, M), True on real
                tokens, for a model with `config.cross`.
            edits: what to replace on the way, see `attnlib.models.edits`; not with a cache.
        """
        if cache is not None and (mask is not None or not self.config.causal):
            raise ValueError("a cache needs a causal model and a batch without padding mask")
        x = self.embed(ids, 0 if cache is None else cache.length)
        for state in self.run(x, mask, cache, memory=memory, edits=edits):
            x = state.residual
        final: Tensor = self.final_norm(x)
        return final

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
        edits: Edits | None = None,
    ) -> Tensor:
        """Logits (B, T, D) of ids (B, T), or the last state if there is no head.

        Mask, cache, memory and edits are as in `hidden`.
        """
        x = self.hidden(ids, mask, cache, memory, edits)
        return x if self.W_U is None else x @ self.W_U

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
        edits: Edits | None = None,
    ) -> Trace:
        """Run one text and record it; without dropout, whatever the mode.

        Args:
            ids: (T,).
            tokens: their names for the axes of figures; the ids themselves if None.
            word_ids: word index of each token, if known.
            keep: what to keep beside the attention, of `attnlib.trace.OPTIONAL`; "all" for all.
            edits: as in `hidden`.

        Returns:
            a Trace.
        """
        tokens, names = token_names(ids, tokens), wanted(keep)
        with evaluating(self):
            x = self.embed(ids[None])
            layers: dict[str, list[Tensor]] = {name: [] for name in names if name in BY_LAYER}
            layers["attention"] = [x.new_zeros(0, self.config.heads, len(ids), len(ids))]
            if "residual" in names:
                layers["residual"] = [LayerEdits(edits, 0)("stream", x)]
            for state in self.run(x, need_weights=True, edits=edits):
                x = state.residual
                for name, parts in layers.items():
                    part = getattr(state, name)
                    shares = name in ("keys", "values")  # each head's own view of them
                    parts.append(shared(part, self.config.heads) if shares else part)
            final = self.final_norm(x)[0]
        found = {name: torch.cat(parts) for name, parts in layers.items() if parts}
        if "logits" in names and self.W_U is not None:
            found["logits"] = final @ self.W_U
        words = None if word_ids is None else tuple(word_ids)
        return Trace(
            tokens, found.pop("attention"), None, words, **kept(names, final=final, **found)
        )
