"""The transformer once more, as its equations: one text, one head, one pair of tokens at a time.

Nothing here calls the code under test but for the frequencies of a `RotaryScaling`, which has a
test of its own. Parameters are read by the names under which a model keeps them.
"""

from math import cos, sin
from typing import Any

import torch
from torch import Tensor

from attnlib.models import Transformer, TransformerConfig

ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * torch.special.ndtr(x),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + (-x).exp()),
}


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Bounded softly."""
    return x if cap is None else cap * (x / cap).tanh()


def of_layer(value: Any, layer: int) -> Any:
    """A setting that is one for all layers, or one for each."""
    return value[layer] if isinstance(value, tuple) else value


def sinusoids(length: int, width: int) -> Tensor:
    """The table of fixed positions, which has single precision, (T, d_model) float64."""
    angles = [[t / 10_000 ** (2 * i / width) for i in range(width // 2)] for t in range(length)]
    rows = [[f(angle) for angle in row for f in (sin, cos)] for row in angles]
    return torch.tensor(rows, dtype=torch.float32).double()


def turned(x: Tensor, config: TransformerConfig, layer: int) -> Tensor:
    """Each pair of the first dimensions of x (T, d_k) turned by its angle."""
    base, scaling = of_layer(config.rotary_base, layer), of_layer(config.rotary_scaling, layer)
    n, y = int(config.rotary_share * x.shape[1]), x.clone()
    for i in range(n // 2):
        frequency = torch.tensor(base ** (-2 * i / n), dtype=torch.float64)
        frequency = frequency if scaling is None else scaling(frequency)
        a, b = (2 * i, 2 * i + 1) if config.rotary_pairs == "adjacent" else (i, i + n // 2)
        for t in range(len(x)):
            c, s = cos(t * frequency), sin(t * frequency)
            y[t, a], y[t, b] = x[t, a] * c - x[t, b] * s, x[t, a] * s + x[t, b] * c
    return y


class Plain:
    """A transformer's logits (T, D) of one text (T,), in the model's own precision."""

    def __init__(self, model: Transformer) -> None:
        self.config, self.weights = model.config, dict(model.named_parameters())

    def __call__(self, ids: Tensor) -> Tensor:
        x = self.normed("embed_norm", self.embedded(ids))
        for layer in range(self.config.layers):
            x = self.layer(x, layer)
        x = self.normed("final_norm", x)
        unembedding = self.weights["W_E"].T if self.config.tied else self.weights["_W_U"]
        return capped(x @ unembedding + self.bias("head", "b_U"), self.config.logit_cap)

    def bias(self, part: str, name: str) -> Any:
        """The bias of this name, or 0 if the configuration gives this part of the model none."""
        biased = part in self.config.biases
        assert biased == (name in self.weights), f"{name}, with bias={self.config.bias}"
        return self.weights[name] if biased else 0

    def normed(self, name: str, x: Tensor) -> Tensor:
        """x after the norm of this name, if there is one."""
        if f"{name}.weight" not in self.weights:
            return x
        if self.config.norm_kind == "layer" and "attention" not in name:
            x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + self.config.norm_eps).sqrt()
        y: Tensor = x * self.weights[f"{name}.weight"] + self.weights.get(f"{name}.bias", 0)
        return y

    def embedded(self, ids: Tensor) -> Tensor:
        """Token plus position."""
        x, config = self.weights["W_E"][ids] * self.config.embed_scale, self.config
        if config.positions == "learned":
            x = x + self.weights["W_P"][: len(ids)]
        if config.positions == "sinusoidal":
            x = x + sinusoids(len(ids), config.d_model)
        return x

    def layer(self, x: Tensor, layer: int) -> Tensor:
        """The stream (T, d_model) after one layer."""
        config, name = self.config, f"blocks.{layer}."
        if config.norm == "post":
            x = self.normed(name + "norm_1", x + self.attended(x, layer))
            return (
                x if config.d_ff is None else self.normed(name + "norm_2", x + self.fed(x, layer))
            )
        y = x + self.normed(
            name + "norm_1_after", self.attended(self.normed(name + "norm_1", x), layer)
        )
        if config.d_ff is None:
            return y
        second = name + ("norm_1" if config.shared_norm else "norm_2")
        read = self.normed(second, x if config.parallel else y)
        return y + self.normed(name + "norm_2_after", self.fed(read, layer))

    def attended(self, x: Tensor, layer: int) -> Tensor:
        """What all heads of a layer write, (T, d_model)."""
        name, W_O = f"blocks.{layer}.attention.", self.weights[f"blocks.{layer}.attention.W_O"]
        heads = [self.head(x, layer, h) for h in range(self.config.heads)]
        if self.config.combine == "add":
            written = sum(heads[1:], heads[0]) @ W_O[0]
        else:
            written = torch.cat(heads, -1) @ torch.cat(list(W_O))
        y: Tensor = written + self.bias("out", name + "b_O")
        return y

    def head(self, x: Tensor, layer: int, head: int) -> Tensor:
        """The weighted values of one head, (T, d_v)."""
        config, name = self.config, f"blocks.{layer}.attention."
        group = head * len(self.weights[name + "W_K"]) // config.heads
        q, k, v = (
            x @ self.weights[f"{name}W_{letter}"][i] + self.head_bias(f"{name}b_{letter}", i)
            for letter, i in (("Q", head), ("K", group), ("V", group))
        )
        q, k = self.normed(name + "q_norm", q), self.normed(name + "k_norm", k)
        if config.positions == "rotary":
            q, k = turned(q, config, layer), turned(k, config, layer)
        scale = q.shape[1] ** -0.5 if config.score_scale is None else config.score_scale
        scores = capped(q @ k.T * scale, config.score_cap)
        window = of_layer(config.window, layer)
        for t in range(len(x)):
            for s in range(len(x)):
                if config.causal and (s > t or (window is not None and t - s >= window)):
                    scores[t, s] = -torch.inf
        z: Tensor = scores.softmax(-1) @ v
        return z

    def head_bias(self, name: str, head: int) -> Any:
        """What is added to the queries, keys or values of one head."""
        bias = self.bias("qkv", name)
        return 0 if isinstance(bias, int) else bias[head]

    def fed(self, x: Tensor, layer: int) -> Tensor:
        """What the feed-forward block writes, (T, d_model)."""
        name, f = f"blocks.{layer}.feed_forward.", ACTIVATIONS[self.config.activation]
        up = x @ self.weights[name + "W_1"] + self.bias("mlp", name + "b_1")
        if self.config.gated:
            up = f(x @ self.weights[name + "W_gate"]) * up
        else:
            up = f(up)
        y: Tensor = up @ self.weights[name + "W_2"] + self.bias("mlp", name + "b_2")
        return y
