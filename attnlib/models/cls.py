"""A classifier that reads a text from the state of a [CLS] token before it.

Ids and masks are those of `AttentionClassifier`, without [CLS]: it is added here, so whatever has
a place in the sequence has one more: embeddings (B, T + 1, d_model), maps of T + 1 tokens.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.models.transformer import Edits, Transformer, TransformerConfig
from attnlib.tokenizers.words import CLS, padding_mask
from attnlib.trace import Trace, token_names, wanted


def with_cls(mask: Tensor) -> Tensor:
    """The mask (B, T + 1) of texts with [CLS] in front, from that of the texts."""
    return torch.cat([torch.ones_like(mask[:, :1]), mask], 1)


class TransformerClassifier(nn.Module):
    """A transformer encoder that classifies from the last state of [CLS].

    Args:
        vocab_size: as in `TransformerConfig`.
        d_model: likewise.
        layers: likewise.
        heads: likewise.
        d_ff: likewise.
        max_len: the most tokens of a text that it reads, [CLS] not counted.
        settings: the rest of the configuration, such as dropout and norm; bias is True if it
            is not among them.
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
        super().__init__()
        settings.setdefault("bias", True)
        config = TransformerConfig(
            vocab_size,
            d_model=d_model,
            layers=layers,
            heads=heads,
            d_ff=d_ff,
            max_len=max_len + 1,
            causal=False,
            head=False,
            **settings,
        )
        self.encoder = Transformer(config)
        self.output = nn.Linear(d_model, 1)

    @property
    def max_len(self) -> int:
        """The most tokens of a text that it reads, [CLS] not counted."""
        return self.encoder.config.max_len - 1

    def embed(self, ids: Tensor) -> Tensor:
        """What enters the first layer, [CLS] in front: (B, T) to (B, T + 1, d_model)."""
        return self.encoder.embed(torch.cat([torch.full_like(ids[:, :1], CLS), ids], 1))

    def classify_embeddings(
        self, x: Tensor, mask: Tensor, need_weights: bool = False, edits: Edits | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits (B,) and maps (B, L, H, T + 1, T + 1), if needed, from embeddings."""
        maps: list[Tensor] = []
        for state in self.encoder.run(x, with_cls(mask), need_weights=need_weights, edits=edits):
            x = state.resid_post
            if need_weights and state.pattern is not None:
                maps.append(state.pattern)
        logits = self.output(self.encoder.final_norm(x)[:, 0]).squeeze(-1)
        return logits, torch.stack(maps, 1) if need_weights else None

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, edits: Edits | None = None
    ) -> Tensor:
        """Logits (B,) of ids (B, T)."""
        mask = padding_mask(ids) if mask is None else mask
        return self.classify_embeddings(self.embed(ids), mask, edits=edits)[0]

    @torch.no_grad()
    def maps(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """All attention maps of a batch, (B, L, H, T + 1, T + 1); token 0 is [CLS]."""
        mask = padding_mask(ids) if mask is None else mask
        _, maps = self.classify_embeddings(self.embed(ids), mask, need_weights=True)
        assert maps is not None
        return maps

    def scorer(self, mask: Tensor, edits: Edits | None = None) -> Callable[[Tensor], Tensor]:
        """ŷ (B,) as a function of embeddings (B, T + 1, d_model)."""
        return lambda x: self.classify_embeddings(x, mask, edits=edits)[0].sigmoid()

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
        edits: Edits | None = None,
    ) -> Trace:
        """The record of one text (T,), as `Transformer.trace` makes it; token 0 is [CLS].

        The logits are (T + 1, 1): what the output makes of each last state. That of [CLS], in
        row 0, is the prediction.
        """
        names, tokens = wanted(keep), ("[CLS]", *token_names(ids, tokens))
        trace = self.encoder.trace(
            torch.cat([ids.new_tensor([CLS]), ids]),
            tokens=tokens,
            word_ids=None if word_ids is None else [0, *(word + 1 for word in word_ids)],
            keep={*names, "final"},
            edits=edits,
        )
        assert trace.final is not None
        logits = self.output(trace.final)
        return replace(
            trace,
            final=trace.final if "final" in names else None,
            logits=logits if "logits" in names else None,
        )
