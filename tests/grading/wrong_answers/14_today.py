"""What students answer in the exercises of chapter 14: wrong, with the message due, and right."""

from bank import changed

GROUPED = """
import torch

def grouped_heads(q, k, v):
    H, n = q.shape[1], k.shape[1]
    heads = []
    for h in range(H):
        g = h * n // H
        scores = torch.matmul(q[:, h], k[:, g].transpose(1, 2)) / q.shape[-1] ** 0.5
        heads.append(torch.softmax(scores, dim=-1) @ v[:, g])
    return torch.stack(heads, dim=1)
"""

GROUPED_BY_AXES = """
import torch

def grouped_heads(q, k, v):
    B, H, T, d = q.shape
    q = q.reshape(B, k.shape[1], -1, T, d) * d**-0.5
    weights = torch.einsum("bgrtd,bgsd->bgrts", q, k).softmax(-1)
    return torch.einsum("bgrts,bgsv->bgrtv", weights, v).flatten(1, 2)
"""

RMS = """
import torch

def rms_rows(x, gain, eps):
    scale = torch.rsqrt(torch.mean(x * x, dim=1) + eps)
    return torch.einsum("nd,n,d->nd", x, scale, gain)
"""

RMS_NUMPY = """
import numpy as np
import torch

def rms_rows(x, gain, eps):
    rows, g = x.numpy(), gain.numpy()
    lengths = np.linalg.norm(rows, axis=1, keepdims=True) ** 2 / rows.shape[1]
    return torch.tensor(rows / np.sqrt(lengths + eps) * g, dtype=x.dtype)
"""

BYTES = """
def cached_bytes(T, window, L, H_kv, d_k, size):
    kept = T if T < window else window
    keys = L * H_kv * d_k * kept
    values = keys
    return (keys + values) * size
"""

BYTES_LOOP = """
def cached_bytes(T, window, L, H_kv, d_k, size):
    total = 0
    for t in range(T):
        if t >= T - window:
            total += 2 * L * H_kv * d_k * size
    return total
"""

STEP = """
import torch

def online_step(m, total, output, scores, values):
    new = torch.cat([m[:, None], scores], dim=1).max(dim=1, keepdim=True).values
    old = torch.exp(m[:, None] - new)
    weights = torch.exp(scores - new)
    total = old * total[:, None] + weights.sum(dim=1, keepdim=True)
    return torch.cat([new, total, old * output + torch.matmul(weights, values)], dim=1)
"""

STEP_ROWS = """
import numpy as np
import torch

def online_step(m, total, output, scores, values):
    rows = []
    v = values.numpy()
    for a, b, c, s in zip(m.numpy(), total.numpy(), output.numpy(), scores.numpy()):
        top = max(a, s.max())
        f, w = np.exp(a - top), np.exp(s - top)
        rows.append(np.concatenate([[top, b * f + w.sum()], c * f + w @ v]))
    return torch.tensor(np.array(rows), dtype=scores.dtype)
"""

BLOCKS = """
import torch

def unpacked_blocks(packed, d, m):
    low = torch.remainder(packed, 16)
    high = torch.div(packed, 16, rounding_mode="floor")
    q = torch.hstack([low, high])
    return torch.addcmul(m.unsqueeze(1), q.to(d.dtype), d.unsqueeze(1))
"""

BLOCKS_ROWS = """
import torch

def unpacked_blocks(packed, d, m):
    rows = []
    for block, scale, least in zip(packed.tolist(), d.tolist(), m.tolist()):
        q = [b & 0xF for b in block] + [b >> 4 for b in block]
        rows.append([scale * n + least for n in q])
    return torch.tensor(rows, dtype=d.dtype)
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "grouped_heads": [
        (changed(GROUPED, "h * n // H", "h % n"), "head h takes group h mod"),
        (changed(GROUPED, "h * n // H", "0"), "the first keys and values"),
        (changed(GROUPED, "h * n // H", "n - 1"), "the last keys and values"),
        (changed(GROUPED, " / q.shape[-1] ** 0.5", ""), "not divided by √d_k"),
        (changed(GROUPED, " ** 0.5", ""), "by its root"),
        (changed(GROUPED, "dim=-1", "dim=-2"), "runs over the queries"),
        (changed(GROUPED, "@ v[:, g]", "@ v[:, h % n]"), "your values are not"),
        (changed(GROUPED, "k[:, g]", "k[:, h % n]"), "your keys are not"),
    ],
    "rms_rows": [
        (changed(RMS, "torch.mean", "torch.sum"), "formula as it is printed"),
        (
            changed(RMS, "torch.mean(x * x, dim=1) + eps", "torch.mean(x * x, dim=1)"),
            "ε is missing",
        ),
        (
            """
def rms_rows(x, gain, eps):
    x = x - x.mean(1, keepdim=True)
    return x / (x.square().mean(1, keepdim=True) + eps).sqrt() * gain
""",
            "that is layernorm",
        ),
        (
            """
def rms_rows(x, gain, eps):
    return x / (x.square().mean(1, keepdim=True).sqrt() + eps) * gain
""",
            "outside the root",
        ),
        (
            """
def rms_rows(x, gain, eps):
    return x / (x.square().mean(1, keepdim=True) + eps) * gain
""",
            "by its root",
        ),
        (
            """
def rms_rows(x, gain, eps):
    return x / (x.square().mean() + eps).sqrt() * gain
""",
            "over all rows",
        ),
        (
            """
def rms_rows(x, gain, eps):
    return x / (x.square().mean(1, keepdim=True) + eps).sqrt()
""",
            "the gain is missing",
        ),
    ],
    "cached_bytes": [
        (changed(BYTES, "(keys + values)", "keys"), "as many values"),
        (changed(BYTES, "T if T < window else window", "T"), "you keep all t tokens"),
        (changed(BYTES, "T if T < window else window", "window"), "always fill the window"),
        (changed(BYTES, "T < window", "T > window"), "the larger of text and window"),
        (changed(BYTES, " * size", ""), "how many numbers"),
        (changed(BYTES, "L * H_kv", "H_kv"), "this is one layer"),
        (changed(BYTES, "L * H_kv", "L"), "this is one head"),
    ],
    "online_step": [
        (
            changed(STEP, "old * total[:, None]", "total[:, None]", "old * output", "output"),
            "is not shrunk",
        ),
        (changed(STEP, "old * output", "output"), "the output is not"),
        (changed(STEP, "old * total[:, None]", "total[:, None]"), "the sum is not"),
        (changed(STEP, "torch.cat([m[:, None], scores], dim=1)", "scores"), "the new scores alone"),
        (changed(STEP, "torch.exp(m[:, None] - new)", "0 * new"), "what was there is lost"),
        (
            changed(STEP, "m[:, None] - new)", "new - m[:, None])"),
            "the exponent has the wrong sign",
        ),
    ],
    "unpacked_blocks": [
        (changed(BLOCKS, "[low, high]", "[high, low]"), "the high halves come first"),
        (
            changed(BLOCKS, "torch.hstack([low, high])", "torch.stack([low, high], 2).flatten(1)"),
            "side by side",
        ),
        (changed(BLOCKS, "[low, high]", "[packed, packed]"), "you use the bytes whole"),
        (changed(BLOCKS, "[low, high]", "[low, packed - low]"), "still multiplied by 16"),
        (changed(BLOCKS, "[low, high]", "[packed, high]"), "are the whole bytes"),
        (changed(BLOCKS, "m.unsqueeze", "-m.unsqueeze"), "m is subtracted"),
        (changed(BLOCKS, "q.to(d.dtype)", "(q.to(d.dtype) - 8)"), "you centre q on 8"),
        (
            changed(BLOCKS, "(m.unsqueeze", "(d.unsqueeze", " d.unsqueeze", " m.unsqueeze"),
            "d and m have changed places",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "grouped_heads": [GROUPED, GROUPED_BY_AXES],
    "rms_rows": [RMS, RMS_NUMPY],
    "cached_bytes": [BYTES, BYTES_LOOP],
    "online_step": [STEP, STEP_ROWS],
    "unpacked_blocks": [BLOCKS, BLOCKS_ROWS],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "grouped_heads": {
        "size = q.shape[1] // v.shape[1]": "as many values as keys",
        "weights = (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1)": "keys are as wide as queries",
    },
    "rms_rows": {"mean_square = x.square().mean(1, keepdim=True)": "the last of two axes"},
    "cached_bytes": {"tokens = min(window, T)": "the smaller either way"},
    "online_step": {"new = torch.maximum(scores.amax(1), m)": "the larger either way"},
    "unpacked_blocks": {"q = torch.cat([15 & packed, packed >> 4], 1)": "and, either way"},
}
