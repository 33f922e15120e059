"""What students answer in the exercises of chapter 15: wrong, with the message due, and right."""

from bank import changed

TERMS = """
import torch

def direct_terms(parts, gain, eps, W_U, right, wrong):
    x = torch.sum(parts, dim=0)
    scale = gain * torch.rsqrt(torch.mean(x * x) + eps)
    logits = torch.einsum("nd,d,dD->nD", parts, scale, W_U)
    return logits[:, right] - logits[:, wrong]
"""

TERMS_LOOP = """
import numpy as np
import torch

def direct_terms(parts, gain, eps, W_U, right, wrong):
    rows, g, table = parts.numpy(), gain.numpy(), W_U.numpy()
    whole = np.zeros(rows.shape[1])
    for row in rows:
        whole += row
    root = np.sqrt(np.dot(whole, whole) / len(whole) + eps)
    direction = g * (table.T[right] - table.T[wrong])
    return torch.tensor([float(row @ direction / root) for row in rows], dtype=parts.dtype)
"""

RESTORED = """
import torch

def restored_share(patched, clean, corrupted):
    above = patched.mean(dim=0) - corrupted.mean()
    below = clean.mean() - corrupted.mean()
    return above / below
"""

RESTORED_LOOP = """
import torch

def restored_share(patched, clean, corrupted):
    n, H = patched.shape
    b, c = corrupted.tolist(), clean.tolist()
    found = []
    for h in range(H):
        p = patched[:, h].tolist()
        found.append(sum(p[i] - b[i] for i in range(n)) / sum(c[i] - b[i] for i in range(n)))
    return torch.tensor(found, dtype=patched.dtype)
"""

HARM = """
import torch

def logit_difference(x, t):
    return torch.einsum("...d,...d->...", x, t) * torch.rsqrt(x.pow(2).mean(dim=-1))

def resampled_harm(stream, written, toward, donors):
    n, R = donors.shape
    put = written.index_select(0, donors.flatten()).reshape(n, R, -1)
    kept = stream - written
    after = logit_difference(kept.unsqueeze(1) + put, toward.unsqueeze(1))
    return (logit_difference(stream, toward).unsqueeze(1) - after).mean(dim=1)
"""

HARM_LOOP = """
import numpy as np
import torch

def resampled_harm(stream, written, toward, donors):
    x, w, t = stream.numpy(), written.numpy(), toward.numpy()

    def m(row, direction):
        return np.dot(row, direction) * np.sqrt(len(row)) / np.linalg.norm(row)

    found = []
    for i, givers in enumerate(donors.tolist()):
        left = [m(x[i] - w[i] + w[j], t[i]) for j in givers]
        found.append(m(x[i], t[i]) - sum(left) / len(left))
    return torch.tensor(np.array(found), dtype=stream.dtype)
"""

WRITE = """
import torch

def write(q, k, v, W_O):
    T = q.shape[-2]
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ v @ W_O
"""

PATHS = (
    WRITE
    + """
def path_effects(clean, corrupted, W_Q, W_K, W_V, W_O, toward, receiver):
    def layer(x, l):
        return [x @ W[l] for W in (W_Q, W_K, W_V)]

    def run(x):
        out = write(*layer(x, 0), W_O[0])
        middle = x + out.sum(0)
        return out, middle, end(middle, *layer(middle, 1))

    def end(stream, q, k, v):
        return torch.dot((stream + write(q, k, v, W_O[1]).sum(0))[-1], toward)

    sent, good, whole = run(clean)
    kept, bad, none = run(corrupted)
    found = torch.zeros(len(sent), dtype=clean.dtype)
    for h in range(len(sent)):
        q, k, v = layer(bad, 1)
        told = bad + sent[h] - kept[h]
        q[receiver] = told @ W_Q[1, receiver]
        found[h] = (end(bad, q, k, v) - none) / (whole - none)
    return found
"""
)

PATHS_LAST = """
import math
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

def path_effects(clean, corrupted, W_Q, W_K, W_V, W_O, toward, receiver):
    both = torch.stack([clean, corrupted])[:, None]  # (2, 1, T, d)
    mixed = attention(both @ W_Q[0], both @ W_K[0], both @ W_V[0], is_causal=True)
    out = mixed @ W_O[0]
    middle = both + out.sum(1, keepdim=True)
    mixed = attention(middle @ W_Q[1], middle @ W_K[1], middle @ W_V[1], is_causal=True)
    heads = (mixed @ W_O[1])[:, :, -1] @ toward  # (2, H): what each head says at the last token
    ends = heads.sum(1) + middle[:, 0, -1] @ toward
    # the last token's query is the only one that the answer hangs on
    x = middle[1, 0, -1] + (out[0] - out[1])[:, -1]  # (H, d), a sender in each row
    k, v = middle[1, 0] @ W_K[1, receiver], middle[1, 0] @ W_V[1, receiver]
    scores = x @ W_Q[1, receiver] @ k.T / math.sqrt(k.shape[1])
    says = scores.softmax(1) @ v @ W_O[1, receiver] @ toward
    return (says - heads[1, receiver]) / (ends[0] - ends[1])
"""

RANKED = """
import torch

def rank_interval(x, y, rows):
    def ranks(z, row):
        means = torch.stack([z[i] for i in row]).mean(dim=0)
        return (means[:, None] > means[None, :]).sum(dim=1).to(x.dtype)

    def rho(row):
        H = x.shape[1]
        d = ranks(x, row) - ranks(y, row)
        return float(1 - 6 * (d * d).sum() / (H * (H**2 - 1)))

    found = torch.tensor([rho(row) for row in rows.tolist()], dtype=x.dtype)
    value = rho(list(range(len(x))))
    low, high = torch.quantile(found, 0.025), torch.quantile(found, 0.975)
    return torch.tensor([value, low, high], dtype=x.dtype)
"""

RANKED_NUMPY = """
import numpy as np
import torch

def rank_interval(x, y, rows):
    n, counts = len(x), np.stack([np.bincount(r, minlength=len(x)) for r in rows.numpy()])
    counts = np.concatenate([np.ones((1, n)), counts]) / n  # all prompts once, then the draws
    ranks = []
    for z in (x, y):
        order = np.argsort(counts @ z.numpy().astype(float), axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(x.shape[1])[None], axis=1)
        ranks.append(rank - rank.mean(axis=1, keepdims=True))
    r, s = ranks
    rho = (r * s).sum(1) / np.sqrt((r * r).sum(1) * (s * s).sum(1))
    return torch.tensor([rho[0], *np.percentile(rho[1:], [2.5, 97.5])], dtype=x.dtype)
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "direct_terms": [
        (
            changed(
                TERMS,
                "torch.mean(x * x)",
                "(parts * parts).mean(dim=1, keepdim=True)",
                '"nd,d,dD->nD"',
                '"nd,nd,dD->nD"',
            ),
            "divided by its own root mean square",
        ),
        (changed(TERMS, "torch.mean(x * x)", "torch.mean(parts * parts)"), "of all parts"),
        (changed(TERMS, "torch.mean", "torch.sum"), "by the length of the stream"),
        (changed(TERMS, "torch.rsqrt(torch.mean(x * x) + eps)", "1"), "nothing is divided"),
        (changed(TERMS, "torch.rsqrt(", "1 / ("), "you divide by the mean square"),
        (changed(TERMS, " + eps", ""), "ε is missing"),
        (
            changed(
                TERMS, "torch.rsqrt(torch.mean(x * x) + eps)", "1 / (x.pow(2).mean()**.5 + eps)"
            ),
            "ε stands outside the root",
        ),
        (changed(TERMS, "gain * ", "torch.ones_like(gain) * "), "the gain is missing"),
        (
            changed(
                TERMS, "x = torch", "parts = parts - parts.mean(1, keepdim=True)\n    x = torch"
            ),
            "that is layernorm",
        ),
        (changed(TERMS, " - logits[:, wrong]", ""), "of `right` alone"),
        (
            changed(
                TERMS, "logits[:, right] - logits[:, wrong]", "logits[:, wrong] - logits[:, right]"
            ),
            "the sign is turned",
        ),
        (changed(TERMS, "] - logits", "] + logits"), "you add the two logits"),
        (changed(TERMS, "dD->nD", "Dd->nD"), "you read rows of w_u"),
        (
            changed(
                TERMS,
                "return logits[:, right] - logits[:, wrong]",
                "terms = logits[:, right] - logits[:, wrong]\n    return terms / terms.sum()",
            ),
            "shares that sum to 1",
        ),
        (
            changed(TERMS, "logits[:, wrong]", "logits[:, wrong].sum()"),
            "values of the answer differ",
        ),
        (
            changed(TERMS, "return logits[:, right] - logits[:, wrong]", "return logits"),
            "has the shape",
        ),
        (changed(TERMS, "x = torch", "parts /= 1 + eps\n    x = torch"), "in place"),
    ],
    "restored_share": [
        (changed(RESTORED, "clean.mean() - corrupted.mean()", "clean.mean()"), "as it is printed"),
        (
            """
def restored_share(patched, clean, corrupted):
    ratios = (patched - corrupted[:, None]) / (clean - corrupted)[:, None]
    return ratios.mean(0)
""",
            "the mean of ratios",
        ),
        (
            changed(
                RESTORED, "patched.mean(dim=0) - corrupted.mean()", "clean.mean() - patched.mean(0)"
            ),
            "0 and 1 have changed places",
        ),
        (
            changed(RESTORED, "clean.mean() - corrupted.mean()", "corrupted.mean() - clean.mean()"),
            "the sign is turned",
        ),
        (
            changed(
                RESTORED, "clean.mean() - corrupted.mean()", "(clean - corrupted).abs().mean()"
            ),
            "you take sizes of the differences",
        ),
        (
            changed(
                RESTORED,
                "clean.mean() - corrupted.mean()",
                "(clean - corrupted).clamp(min=1e-3).mean()",
            ),
            "values of the answer differ",
        ),
        (
            """
def restored_share(patched, clean, corrupted):
    keep = clean > corrupted
    gaps = (clean - corrupted)[keep]
    return (patched - corrupted[:, None])[keep].sum(0) / gaps.sum()
""",
            "values of the answer differ",
        ),
        (changed(RESTORED, "above / below", "above"), "this is the change itself"),
        (
            changed(RESTORED, "clean.mean() - corrupted.mean()", "clean.mean() - patched.mean(0)"),
            "what is still missing",
        ),
        (
            changed(RESTORED, "clean.mean() - corrupted.mean()", "corrupted.mean()"),
            "by the corrupted run",
        ),
        (
            changed(RESTORED, "clean.mean() - corrupted.mean()", "clean.sum() - corrupted.sum()"),
            "on one side only",
        ),
        (changed(RESTORED, "above / below", "(above / below).clamp(0, 1)"), "you cut effects"),
        (changed(RESTORED, "above / below", "(above / below).abs()"), "the size of the effect"),
        (
            """
def restored_share(patched, clean, corrupted):
    return (patched - corrupted).mean(0) / (clean - corrupted).mean()
""",
            "along the heads",
        ),
        (changed(RESTORED, "above / below", "(above / below).mean()"), "has the shape"),
        (changed(RESTORED, "above / below", "(above / below).double()"), "has the dtype"),
    ],
    "resampled_harm": [
        (changed(HARM, "put,", "0 * put,"), "you put zeros"),
        (changed(HARM, "put,", "put.mean(1, keepdim=True),"), "the mean of the donors"),
        (changed(HARM, "put,", "written.mean(0),"), "the mean over all prompts"),
        (changed(HARM, "put,", "put[:, :1],"), "the first donor in alone"),
        (
            changed(HARM_LOOP, "for j in givers", "for j in set(givers)"),
            "a donor that stands twice",
        ),
        (
            """
import torch

def resampled_harm(stream, written, toward, donors):
    n = len(stream)
    mask = torch.zeros(n, n, dtype=stream.dtype)
    mask[torch.arange(n)[:, None], donors] = 1
    after = (stream - written)[:, None] + written[None]
    left = (after * toward[:, None]).sum(-1) / after.square().mean(-1).sqrt()
    before = (stream * toward).sum(-1) / stream.square().mean(-1).sqrt()
    return before - (mask * left).sum(1) / mask.sum(1)
""",
            "a donor that stands twice",
        ),
        (changed(HARM, "kept = stream - written", "kept = stream"), "is still there"),
        (changed(HARM, "kept.unsqueeze(1) + put", "stream[donors]"), "the donor's whole stream"),
        (
            changed(HARM, "kept.unsqueeze(1) + put", "kept[donors] + written.unsqueeze(1)"),
            "into the donor's run",
        ),
        (changed(HARM, "toward.unsqueeze(1)", "toward[donors]"), "your direction is the donor's"),
        (changed(HARM, " * torch.rsqrt(x.pow(2).mean(dim=-1))", ""), "nothing is divided"),
        (
            """
def resampled_harm(stream, written, toward, donors):
    change = (written[:, None] - written[donors]).mean(1)
    return (change * toward).sum(-1) / stream.square().mean(-1).sqrt()
""",
            "your divisor is held",
        ),
        (
            changed(
                HARM,
                "(logit_difference(stream, toward).unsqueeze(1) - after)",
                "(after - logit_difference(stream, toward).unsqueeze(1))",
            ),
            "the sign is turned",
        ),
        (
            changed(HARM, "(logit_difference(stream, toward).unsqueeze(1) - after)", "after"),
            "this is what is left",
        ),
        (
            changed(
                HARM,
                "(logit_difference(stream, toward).unsqueeze(1) - after).mean(dim=1)",
                "logit_difference(stream, toward) - after.sum(dim=1)",
            ),
            "you sum over the donors",
        ),
        (changed(HARM, "mean(dim=1)\n", "mean(dim=0)\n"), "has the shape"),
        (changed(HARM, "kept = stream - written", "kept = stream.sub_(written)"), "in place"),
    ],
    "path_effects": [
        (
            changed(
                PATHS,
                """q, k, v = layer(bad, 1)
        told = bad + sent[h] - kept[h]
        q[receiver] = told @ W_Q[1, receiver]
""",
                """told = bad + sent[h] - kept[h]
        q, k, v = layer(told, 1)
""",
                "end(bad, q, k, v)",
                "end(told, q, k, v)",
            ),
            "that is activation patching",
        ),
        (
            changed(PATHS, "q[receiver] = told @ W_Q[1, receiver]", "q = told @ W_Q[1]"),
            "all heads of layer 1 hear",
        ),
        (changed(PATHS, "end(bad, q, k, v)", "end(told, q, k, v)"), "straight to the end"),
        (
            changed(
                PATHS,
                "q[receiver] = told @ W_Q[1, receiver]",
                "for own, other in zip((q, k, v), layer(told, 1)):\n"
                "            own[receiver] = other[receiver]",
            ),
            "in queries, keys and values",
        ),
        (
            changed(
                PATHS,
                "q[receiver] = told @ W_Q[1, receiver]",
                "k[receiver] = told @ W_K[1, receiver]",
            ),
            "hears it in its keys",
        ),
        (
            changed(
                PATHS,
                "q[receiver] = told @ W_Q[1, receiver]",
                "v[receiver] = told @ W_V[1, receiver]",
            ),
            "hears it in its values",
        ),
        (changed(PATHS, " - kept[h]", ""), "is still there: exchange it"),
        (changed(PATHS, "bad + sent[h] - kept[h]", "good"), "all of its clean queries"),
        (
            changed(
                PATHS,
                "sent, good, whole = run(clean)\n    kept, bad, none = run(corrupted)",
                "kept, bad, none = run(clean)\n    sent, good, whole = run(corrupted)",
            ),
            "this breaks the clean run",
        ),
        (changed(PATHS, " / (whole - none)", ""), "this is the change itself"),
        (
            changed(PATHS, "(end(bad, q, k, v) - none) / (whole - none)", "end(bad, q, k, v)"),
            "after the patch: subtract",
        ),
        (changed(PATHS, "(end(bad, q, k, v) - none)", "end(bad, q, k, v)"), "is not subtracted"),
        (changed(PATHS, "write(q, k, v, W_O[1])", "write(q, k, v, W_O[0])"), "differ"),
    ],
    "rank_interval": [
        (
            changed(
                RANKED,
                "return (means[:, None] > means[None, :]).sum(dim=1).to(x.dtype)",
                "return means",
                "return float(1 - 6 * (d * d).sum() / (H * (H**2 - 1)))",
                "return float(torch.corrcoef(torch.stack([ranks(x, row), ranks(y, row)]))[0, 1])",
            ),
            "the correlation of the values",
        ),
        (
            changed(RANKED, "(means[:, None] > means[None, :]).sum(dim=1)", "means.argsort()"),
            "an order, not ranks",
        ),
        (
            """
import torch

def rank_interval(x, y, rows):
    ranks = [z.argsort(1).argsort(1).to(x.dtype) for z in (x, y)]
    each = torch.stack([torch.corrcoef(torch.stack(pair))[0, 1] for pair in zip(*ranks)])
    drawn = each[rows].mean(1)
    return torch.stack([each.mean(), drawn.quantile(0.025), drawn.quantile(0.975)])
""",
            "the mean of the prompts' rank correlations",
        ),
        (changed(RANKED, "[z[i] for i in row]", "[z[i].abs() for i in row]"), "you rank sizes"),
        (changed(RANKED, ".mean(dim=0)", ".mean(dim=0).abs()"), "sizes of the means"),
        (
            changed(RANKED, "ranks(y, row)", "ranks(y, range(len(y)))"),
            "the two measures are drawn apart",
        ),
        (changed(RANKED, "for i in row]", "for i in set(row)]"), "counts once in your mean"),
        (changed(RANKED, "rho(list(range(len(x))))", "found.mean()"), "the mean of the drawn ones"),
        (
            changed(RANKED, "rho(list(range(len(x))))", "torch.quantile(found, 0.5)"),
            "the median of the drawn ones",
        ),
        (changed(RANKED, "0.025", "0.05", "0.975", "0.95"), "5 % lie outside at each end"),
        (
            changed(RANKED, "torch.quantile(found, 0.025)", "found.min()", "0.975", "1.0"),
            "the least and the largest",
        ),
        (
            changed(
                RANKED,
                "(found, 0.025)",
                "(found, 0.025, interpolation='nearest')",
                "(found, 0.975)",
                "(found, 0.975, interpolation='nearest')",
            ),
            "drawn values themselves",
        ),
        (
            changed(
                RANKED,
                "torch.quantile(found, 0.025)",
                "value - 1.96 * found.std()",
                "torch.quantile(found, 0.975)",
                "value + 1.96 * found.std()",
            ),
            "± 1.96 standard deviations",
        ),
        (changed(RANKED, "[value, low, high]", "[value, high, low]"), "have changed places"),
        (changed(RANKED, "[value, low, high]", "[low, high]"), "has the shape"),
        (
            changed(RANKED, "[value, low, high], dtype=x.dtype)", "[value, low, high]).double()"),
            "has the dtype",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "direct_terms": [TERMS, TERMS_LOOP],
    "restored_share": [RESTORED, RESTORED_LOOP],
    "resampled_harm": [HARM, HARM_LOOP],
    "path_effects": [PATHS, PATHS_LAST],
    "rank_interval": [RANKED, RANKED_NUMPY],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "direct_terms": {},
    "restored_share": {},
    "resampled_harm": {
        "before = (stream * toward).sum(1) / stream.square().mean(-1).sqrt()": "of two axes",
        "before = (stream * toward).sum(-1) / stream.square().mean(1).sqrt()": "of two axes",
    },
    "path_effects": {
        "T = k.shape[-2]": "a key for every query",
        "T = v.shape[-2]": "a value for every query",
        "scores = (q @ k.mT / k.shape[-1] ** 0.5).masked_fill(later, -torch.inf)": (
            "keys are as wide as queries"
        ),
        "return toward @ (stream + written.sum(0))[-1]": "a product of two vectors, either way",
    },
    "rank_interval": {
        "ranks = torch.stack([z[row].sum(0).argsort().argsort() for z in (x, y)])": (
            "sums over as many prompts rank as means"
        ),
        "return torch.corrcoef(ranks.to(x))[0, 1]": "a tensor lends its dtype",
        "return torch.corrcoef(ranks.to(y.dtype))[0, 1]": "one dtype",
        "ends = drawn.quantile(torch.tensor([0.025, 0.975], dtype=y.dtype))": "one dtype",
        "ends = drawn.quantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype))": "one dtype",
        "value = spearman(torch.arange(len(y)))": "as many prompts",
    },
}
