"""SmolLM2 as a browser runs it: an ONNX graph that holds the blocks of its own file.

The file keeps 32 weights as d · q + m, with four bits for each q. That is d · (q − 8) and a part
that the 32 share, m + 8d, which is multiplied with the sum of their inputs. When the graph is
loaded, d · (q − 8) becomes a matrix in single precision, which is fast to multiply with. `SESSION`
asks for that: without it, onnxruntime makes the matrix anew at every pass, and takes many times as
long.

What flows between the weights stays in single precision, because a few dimensions of this model's
stream are a hundred times larger than the others, and eight bits would leave nothing of these.

The model only looks back. What it has read stays, as keys and values of every token, and a pass
reads the tokens that are new.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlib.models import TransformerConfig
from attnlib.positions import frequencies
from attnlib.pretrained.gguf import GGUF

BLOCK = 32  # weights that share a scale
REAL, WHOLE, SIGNED = 1, 7, {4: 22, 8: 3}  # float32, int64, int4 and int8, as ONNX numbers them
OPSETS = {"": 23, "com.microsoft": 1}
OF_RUNTIME = ("RotaryEmbedding",)  # operators of onnxruntime, not of ONNX
SESSION = {"disable_quant_qdq": "1"}  # entries "session.…" of onnxruntime's configuration


class Graph:
    """An ONNX graph that grows by a node with every call; needs `onnx`."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.from_array = helper, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.names = (f"x{number}" for number in count())

    def __call__(self, op: str, *inputs: Any, into: int | str = 1, **attributes: Any) -> Any:
        """The output of a new node, or a list if there are several; inputs as in `keep`."""
        names = [name if isinstance(name, str) else self.keep(name) for name in inputs]
        outputs = [into] if isinstance(into, str) else [next(self.names) for _ in range(into)]
        domain = "com.microsoft" if op in OF_RUNTIME else ""
        self.nodes.append(self.helper.make_node(op, names, outputs, domain=domain, **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def keep(self, numbers: float | Sequence[int] | Tensor) -> str:
        """The name of a constant: a float in single precision, whole numbers in 64 bits."""
        if not isinstance(numbers, Tensor):
            kind = torch.float32 if isinstance(numbers, float) else torch.int64
            numbers = torch.tensor(numbers, dtype=kind)
        array = np.ascontiguousarray(numbers.numpy())
        self.weights.append(self.from_array(array.reshape(numbers.shape), next(self.names)))
        return str(self.weights[-1].name)

    def scaled(self, q: Tensor, d: str, bits: int) -> str:
        """The matrix (N, K) of signed numbers of so many bits, with a d (N, K / 32) for a block."""
        name, sizes, raw = next(self.names), (len(q), q[0].numel() * 8 // bits), q.numpy().tobytes()
        self.weights.append(self.helper.make_tensor(name, SIGNED[bits], sizes, raw, raw=True))
        return str(self("DequantizeLinear", name, d, axis=1, block_size=BLOCK))

    def model(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
        """The ONNX model, from the kind and shape of what goes in and comes out."""
        sides = [
            [self.helper.make_tensor_value_info(name, *kind) for name, kind in side.items()]
            for side in (inputs, outputs)
        ]
        graph = self.helper.make_graph(self.nodes, "model", *sides, self.weights)
        opsets = [self.helper.make_opsetid(*pair) for pair in OPSETS.items()]
        return self.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def four_bits(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Blocks of Q4_1 (…, 20) as q (…, 16), d and m (…): what ONNX takes four bits from.

    The file has the first 16 of the q in the low bits; ONNX, two neighbours in a byte.

    >>> q, d, m = four_bits(torch.tensor([0, 56, 0, 188, *range(16)], dtype=torch.uint8))
    >>> q[:8].tolist(), d.item(), m.item()  # 0 and 1, 2 and 3, ...
    ([16, 50, 84, 118, 152, 186, 220, 254], 0.5, -1.0)
    """
    d, m = blocks[..., :4].contiguous().view(torch.float16).unbind(-1)
    packed = blocks[..., 4:]
    q = torch.cat([packed & 15, packed >> 4], -1)
    return q[..., ::2] | q[..., 1::2] << 4, d, m


class Llama:
    """A Llama in a GGUF file, as a graph.

    It takes the new ids (T,), what was `kept` of S tokens before them (S, L, 2, H_kv, d_k), and a
    gate (L, H) that each head's output is multiplied with. It gives the maps of the new tokens
    (T, L, H, S + T), what to keep of them, and the logits (D,) of the next one.

    Args:
        file: with its weights, of which the embedding has eight bits and the others four.
        config: of the model.
        reads: the most tokens that it reads, S + T.
    """

    def __init__(self, file: GGUF, config: TransformerConfig, reads: int) -> None:
        self.file, self.config = file, config
        self.graph = Graph()
        self.width, self.kv_heads = config.d_model // config.heads, config.kv_heads or config.heads
        angles = torch.arange(reads)[:, None] * frequencies(self.width, config.rotary_base)
        self.turns = [self.graph.keep(part.float()) for part in (angles.cos(), angles.sin())]

    def model(self) -> Any:
        """The ONNX model."""
        g, layers = self.graph, self.config.layers
        start, embedding = g("Shape", "past", start=0, end=1), self.embedding()
        mask = self.look_back(start)
        pasts = g("Transpose", "past", perm=[1, 2, 3, 0, 4])
        pasts = g("Split", pasts, into=layers, num_outputs=layers)
        gates = g("Split", "gate", into=layers, num_outputs=layers)
        x, maps, kept = g("Gather", embedding, "ids"), [], []
        for layer, (past, gate) in enumerate(zip(pasts, gates, strict=True)):
            name = f"blk.{layer}"
            written, weights, own = self.attention(name, x, past, gate, start, mask)
            x = g("Add", x, written)
            x = g("Add", x, self.feed_forward(name, x))
            maps.append(weights)
            kept.append(own)
        by_token = g("Transpose", g("Concat", *maps, axis=0), perm=[2, 0, 1, 3])
        g("Reshape", by_token, [0, layers, self.config.heads, -1], into="maps")
        g("Transpose", g("Concat", *kept, axis=0), perm=[3, 0, 1, 2, 4], into="kept")
        last = self.norm("output", g("Gather", x, [-1]))
        g("Squeeze", g("Gemm", last, embedding, transB=1), [0], into="logits")
        sizes = [layers, 2, self.kv_heads, self.width]
        inputs = {"ids": (WHOLE, ["T"]), "past": (REAL, ["S", *sizes])}
        inputs["gate"] = REAL, [layers, self.config.heads]
        outputs = {"maps": (REAL, ["T", layers, self.config.heads, "N"])}
        outputs |= {"kept": (REAL, ["T", *sizes]), "logits": (REAL, [self.config.vocab_size])}
        return g.model(inputs, outputs)

    def look_back(self, start: str) -> str:
        """What the scores (T, S + T) get added: nothing, and −∞ for what comes later."""
        g = self.graph
        first, end = (g("Squeeze", at) for at in (start, g("Add", start, g("Shape", "ids"))))
        query, key = g("Range", first, end, 1), g("Range", 0, end, 1)
        later = g("Greater", key, g("Unsqueeze", query, [1]))
        return str(g("Where", later, -torch.inf, 0.0))

    def embedding(self) -> str:
        """The embedding, (D, d_model), whose q have eight bits."""
        blocks = self.file.blocks("token_embd.weight")
        d = blocks[..., :2].contiguous().view(torch.float16).squeeze(-1)
        return self.graph.scaled(blocks[..., 2:].contiguous(), self.graph("Cast", d, to=REAL), 8)

    def linear(self, x: str, *names: str) -> str:
        """x times one matrix, or several whose outputs stand side by side."""
        g = self.graph
        q, d, m = four_bits(torch.cat([self.file.blocks(f"{name}.weight") for name in names]))
        sums = g("ReduceSum", g("Reshape", x, [0, -1, BLOCK]), [2], keepdims=0)
        scale, low = (g("Cast", part, to=REAL) for part in (d, m))
        shared = g("Gemm", sums, g("Add", low, g("Mul", scale, 8.0)), transB=1)
        return str(g("Gemm", x, g.scaled(q ^ 0x88, scale, 4), shared, transB=1))

    def norm(self, name: str, x: str) -> str:
        """The norm of this name."""
        weight = self.file[f"{name}_norm.weight"]
        return str(self.graph("RMSNormalization", x, weight, epsilon=self.config.norm_eps))

    def attention(
        self, name: str, x: str, past: str, gate: str, start: str, mask: str
    ) -> tuple[str, str, str]:
        """What a layer's heads write, their maps (H_kv, H / H_kv, T, S + T), and what to keep."""
        g, heads, kv_heads = self.graph, self.config.heads, self.kv_heads
        y = self.linear(self.norm(f"{name}.attn", x), *(f"{name}.attn_{part}" for part in "qkv"))
        parts = g("Reshape", y, [1, -1, heads + 2 * kv_heads, self.width])
        parts = g("Transpose", parts, perm=[0, 2, 1, 3])
        turned, v = g("Split", parts, [heads + kv_heads, kv_heads], axis=1, into=2)
        turned = g("RotaryEmbedding", turned, start, *self.turns, interleaved=1)
        q, k = g("Split", turned, [heads, kv_heads], axis=1, into=2)
        own = g("Unsqueeze", g("Concat", k, v, axis=0), [0])
        whole = g("Split", g("Concat", past, own, axis=3), axis=1, num_outputs=2, into=2)
        k, v = (g("Reshape", part, [kv_heads, 1, -1, self.width]) for part in whole)
        q = g("Reshape", q, [kv_heads, heads // kv_heads, -1, self.width])
        k = g("Transpose", g("Mul", k, self.width**-0.5), perm=[0, 1, 3, 2])
        weights = g("Softmax", g("Add", g("MatMul", q, k), mask))
        mixed = g("Mul", g("MatMul", weights, v), g("Reshape", gate, [kv_heads, -1, 1, 1]))
        mixed = g("Reshape", g("Transpose", mixed, perm=[2, 0, 1, 3]), [0, -1])
        return self.linear(mixed, f"{name}.attn_output"), weights, own

    def feed_forward(self, name: str, x: str) -> str:
        """What a layer's other half adds."""
        g = self.graph
        y = self.linear(self.norm(f"{name}.ffn", x), f"{name}.ffn_gate", f"{name}.ffn_up")
        gate, up = g("Split", y, axis=1, num_outputs=2, into=2)
        return self.linear(g("Mul", g("Mul", gate, g("Sigmoid", gate)), up), f"{name}.ffn_down")
