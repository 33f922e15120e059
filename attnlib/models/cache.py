"""What a causal transformer keeps of the tokens that it has read."""

import torch
from torch import Tensor


class KVCache:
    """What a causal transformer has read: keys and values, (B, H_kv, S, d_k or d_v), of each layer.

    A token's keys and values depend on nothing after it. Kept, they need not be computed again
    when the next token comes: `model(new_ids, cache=cache)` reads only what is new.

    Args:
        layers: of the model.
    """

    def __init__(self, layers: int) -> None:
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers

    @property
    def length(self) -> int:
        """S, the tokens read so far."""
        last = self.keys[-1] if self.keys else None
        return 0 if last is None else last.shape[-2]

    @property
    def batch(self) -> int:
        """B, texts read side by side."""
        last = self.keys[-1] if self.keys else None
        return 1 if last is None else len(last)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens to a layer's, and return all of that layer."""
        old_keys, old_values = self.keys[layer], self.values[layer]
        if old_keys is not None and old_values is not None:
            keys = torch.cat([old_keys, keys], -2)
            values = torch.cat([old_values, values], -2)
        self.keys[layer], self.values[layer] = keys, values
        return keys, values

    def select(self, rows: Tensor) -> "KVCache":
        """A new cache with these rows of the batch, in this order, repeated if asked twice."""
        chosen = KVCache(len(self.keys))
        chosen.keys = [None if x is None else x[rows] for x in self.keys]
        chosen.values = [None if x is None else x[rows] for x in self.values]
        return chosen
