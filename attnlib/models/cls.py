"""Classifiers that read a text from the state of a [CLS] token before it.

Ids and masks are those of `AttentionClassifier`, without [CLS]: it is added here, so whatever has
a place in the sequence has one more: embeddings (B, T + 1, d_model), maps of T + 1 tokens.
`TransformerClassifier` is an encoder of any size; `ClsClassifier` is the layer of Bhardwaj et al.
(2021), of which no row but that of [CLS] is computed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from attnlib.attention import masked_softmax
from attnlib.models.config import TransformerConfig
from attnlib.models.transformer import Transformer
from attnlib.tokenizers.words import CLS, padding_mask
from attnlib.trace import Trace, kept, token_names, wanted


def with_cls(mask: Tensor) -> Tensor:
    """The mask (B, T + 1) of texts with [CLS] in front, from that of the texts."""
    return torch.cat([torch.ones_like(mask[:, :1]), mask], 1)


class _Encoder(nn.Module):
    """An encoder over [CLS] and a text, and a linear output for the state of [CLS]."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        config = replace(config, max_len=config.max_len + 1, causal=False, head=False)
        self.encoder, self.output = Transformer(config), nn.Linear(config.d_model, 1)

    def embed(self, ids: Tensor) -> Tensor:
        """What enters the first layer, [CLS] in front: (B, T) to (B, T + 1, d_model)."""
        return self.encoder.embed(torch.cat([torch.full_like(ids[:, :1], CLS), ids], 1))


class TransformerClassifier(_Encoder):
    """A transformer encoder that classifies from the last state of [CLS].

    Args:
        vocab_size, d_model, layers, heads, d_ff: of its `TransformerConfig`.
        max_len: the most tokens of a text that it reads, [CLS] not counted.
        settings: the rest of the configuration, such as dropout and norm; biases unless told.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 64,
        layers: int = 2,
        heads: int = 4,
        d_ff: int | None = 128,
        max_len: int = 256,
        **settings: Any,
    ) -> None:
        sizes = {"d_ff": d_ff, "max_len": max_len, "bias": True}
        super().__init__(TransformerConfig(vocab_size, d_model, layers, heads, **sizes | settings))

    @property
    def max_len(self) -> int:
        """The most tokens of a text that it reads, [CLS] not counted."""
        return self.encoder.config.max_len - 1

    def classify_embeddings(
        self, x: Tensor, mask: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Logits (B,) and maps (B, L, H, T + 1, T + 1), if needed, from embeddings."""
        maps = []
        for state in self.encoder.run(x, with_cls(mask), need_weights=need_weights):
            x = state.residual
            maps.append(state.attention)
        logits = self.output(self.encoder.final_norm(x)[:, 0]).squeeze(-1)
        return logits, torch.stack(maps, 1) if need_weights else None  # type: ignore[arg-type]

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B,) of ids (B, T)."""
        mask = padding_mask(ids) if mask is None else mask
        return self.classify_embeddings(self.embed(ids), mask)[0]

    @torch.no_grad()
    def maps(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """All attention maps of a batch, (B, L, H, T + 1, T + 1); token 0 is [CLS]."""
        mask = padding_mask(ids) if mask is None else mask
        found = self.classify_embeddings(self.embed(ids), mask, need_weights=True)[1]
        assert found is not None
        return found

    def scorer(self, mask: Tensor) -> Callable[[Tensor], Tensor]:
        """ŷ (B,) as a function of embeddings (B, T + 1, d_model)."""
        return lambda x: self.classify_embeddings(x, mask)[0].sigmoid()

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
    ) -> Trace:
        """The record of one text (T,), as `Transformer.trace` makes it; token 0 is [CLS].

        The logits are (T + 1, 1): what the output makes of each last state. That of [CLS], in
        row 0, is the prediction.
        """
        names, tokens = wanted(keep), ("[CLS]", *token_names(ids, tokens))
        found = self.encoder.trace(
            torch.cat([ids.new_tensor([CLS]), ids]),
            tokens,
            None if word_ids is None else (0, *(word + 1 for word in word_ids)),
            {*names, "final"},
        )
        assert found.final is not None
        parts = kept(names, final=found.final, logits=self.output(found.final))
        return replace(found, **{"final": None} | parts)


class ClsClassifier(_Encoder):
    """One encoder layer of which only the row of [CLS] is computed, and a linear output.

    The output reads no other row, and without positions the query of [CLS] is the same in every
    text. So a head scores a word x by x · u, with u = W_K q / divisor: the width of the keys
    changes how u is made, and not what it can be.

    Args:
        vocab_size: D.
        d_k: width of queries and keys.
        combine: "concat" (d_v = d_model / heads) or "add" (d_v = d_model).
        divisor: "d_k" or "d_v", whose root divides the scores.
    """

    def __init__(self, vocab_size: int, d_k: int, combine: str, divisor: str = "d_k") -> None:
        config = TransformerConfig(vocab_size, 32, d_k=d_k, d_ff=256, combine=combine, dropout=0.1)
        config = replace(config, norm="post", positions="none", activation="relu", bias=True)
        super().__init__(config)
        layer = self.layer.attention
        self.scale = (d_k if divisor == "d_k" else layer.W_V.shape[-1]) ** -0.5
        nn.init.normal_(self.encoder.W_E)  # as the authors' code begins
        for W in (layer.W_Q, layer.W_K, layer.W_V):
            bound = (6 / (W.shape[1] + W.shape[0] * W.shape[2])) ** 0.5
            nn.init.uniform_(W, -bound, bound)

    @property
    def layer(self) -> Any:
        """The encoder's only block."""
        return self.encoder.blocks[0]

    def directions(self, x: Tensor) -> Tensor:
        """u of every head, (B, H, d_model), from the embedding of [CLS], (B, d_model)."""
        layer = self.layer.attention
        q = torch.einsum("bd,hdk->bhk", x, layer.W_Q) + layer.b_Q
        u: Tensor = torch.einsum("bhk,hdk->bhd", q, layer.W_K) * self.scale
        return u

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B,) of ids (B, T), padded at the end."""
        mask, x = padding_mask(ids) if mask is None else mask, self.embed(ids)
        scores = self.directions(x[:, 0]) @ x.mT  # (B, H, T + 1)
        weights = masked_softmax(scores, with_cls(mask)[:, None])
        block, p = self.layer, self.encoder.config.dropout if self.training else 0.0
        layer = block.attention
        mixed = torch.einsum("bhd,hdv->bhv", weights @ x, layer.W_V) + layer.b_V
        y = block.norm_1(x[:, :1] + dropout(layer.write(mixed[:, :, None]), p))
        y = block.norm_2(y + dropout(block.feed_forward(y), p))
        logits: Tensor = self.output(y[:, 0]).squeeze(-1)
        return logits
