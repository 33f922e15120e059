"""What students answer in the exercises of chapter 12: wrong, with the message due, and right."""

from bank import changed

NULL = """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, Vh = torch.linalg.svd(X)
    rank = int((values > 1e-5 * values[0]).sum())
    return U[:, rank:]
"""

ROW = """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + step * n).clamp(min=0)
    return w
"""

COUNT = """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, min(d_v, d) + 1)
    return rank, len(ids) - rank
"""

WIDTH = """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    centred = log - log.mean(-1, keepdim=True)
    rank = (torch.linalg.svdvals(centred) > 1e-6).sum(-1)
    possible = (A > 0).flatten(1).all(1)
    return torch.where(possible, rank, -1)
"""

EFFECTIVE = """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    inverse = torch.linalg.pinv(X, rtol=1e-5)
    return A @ X @ inverse
"""

KEPT = """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    U, values, _ = torch.linalg.svd(X, full_matrices=False)
    U = U * (values > 1e-5 * values[..., :1])[..., None, :]
    return A @ U @ U.mT
"""

RANK = """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    U, values, _ = torch.linalg.svd(X, full_matrices=False)
    ranks = (values > 1e-5 * values[..., :1]).sum(-1).flatten()
    U = U[..., :int(ranks.max())]
    return A @ U @ U.mT
"""

# the direction is one of all words, also of those without weight
ALL = ("T[seen], torch.ones_like(T[seen][:, :1])", "T, torch.ones_like(T[:, :1])")
WITH_ALL = changed(ROW, *ALL, "a[seen] / -n", "a / -n", "w[seen] = (a[seen] +", "w = (a +")
CLAMPED = "(a[seen] + step * n).clamp(min=0)"
POSSIBLE = "(A > 0).flatten(1).all(1)"

WRONG: dict[str, list[tuple[str, str]]] = {
    "null_space": [
        (changed(NULL, "1e-5 *", "1e-3 *"), "count as 0 (eigenvalues"),
        (changed(NULL, "U[:, rank:]", "U[:, X.shape[1]:]"), "as if the sizes of [t, 1]"),
        (
            changed(
                NULL,
                "U[:, rank:]",
                "torch.eye(len(T)).double() - X @ torch.linalg.pinv(X, rtol=1e-5)",
            ),
            "this is the projector",
        ),
        (
            changed(NULL, "U[:, rank:]", "torch.linalg.qr(X, mode='complete').Q[:, rank:]"),
            "a column does not sum to 0",
        ),
        (changed(NULL, "svd(X)", "svd(T)"), "the column of ones belongs to [t, 1]"),
        (changed(NULL, "U[:, rank:]", "Vh[rank:].mT"), "belong to the transpose of [t, 1]"),
        (changed(NULL, "U[:, rank:]", "U[rank:]"), "the transpose is one too many"),
        (changed(NULL, "U[:, rank:]", "U[:, rank:].mT"), "the transpose is one too many"),
        (changed(NULL, "U[:, rank:]", "U[rank:].mT"), "these are rows of u"),
        (changed(NULL, "U[:, rank:]", "U[:, :rank]"), "these lie in the space of the columns"),
        (
            changed(NULL, "U[:, rank:]", "torch.linalg.eigh(X @ X.mT).eigenvectors[:, rank:]"),
            "these lie in the space of the columns",
        ),
        (
            changed(NULL, "int((values > 1e-5 * values[0]).sum())", "torch.linalg.matrix_rank(X)"),
            "up to 1e-5 times the largest count as 0",
        ),
        (changed(NULL, "1e-5 * values[0]", "1e-5"), "up to 1e-5 times the largest"),
        (changed(NULL, "1e-5 * values[0]", "0"), "up to 1e-5 times the largest"),
        (changed(NULL, "svd(X)", "svd(X, full_matrices=False)"), "u must be square"),
        (
            changed(NULL, "int((values > 1e-5 * values[0]).sum())", "min(X.shape)"),
            "as if the sizes",
        ),
        (
            changed(
                NULL,
                "int((values > 1e-5 * values[0]).sum())",
                "min(len(T), int(torch.linalg.matrix_rank(T, rtol=1e-5)) + 1)",
            ),
            "directions, and yours",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    values, vectors = torch.linalg.eigh(X @ X.mT)
    return vectors[:, values < 1e-5 * values[-1]]
""",
            "directions, and yours are",
        ),
        (changed(NULL, "U[:, rank:]", "U[:, rank:].float()"), "dtype float32, expected float64"),
        (changed(NULL, "U[:, rank:]", "2 * U[:, rank:]"), "a column has not the length 1"),
        (
            changed(
                NULL,
                "return U[:, rank:]",
                "N = U[:, rank:].cumsum(1)\n    return N / N.norm(dim=0)",
            ),
            "two columns are not at right angles",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    rank = int(torch.linalg.matrix_rank(X, rtol=1e-5))
    U = torch.linalg.svd(T - T.mean(0)).U
    return U[:, -(len(T) - rank):] if len(T) > rank else U[:, :0]
""",
            "a direction changes what the head writes",
        ),
        (
            changed(NULL, "return U", "return None if rank == len(T) else U"),
            "return a tensor, not nonetype",
        ),
        (
            changed(NULL, "U[:, rank:]", "U[:, rank:] if rank < len(T) else U[:, rank:][:, 0]"),
            "index",
        ),
        ("null_space = lambda T: None", "return a tensor, not nonetype"),
    ],
    "other_row": [
        ("def other_row(a, T):\n    return a.clone()", "no weight that was above 0 is 0 now"),
        (changed(ROW, "U[:, -1]", "U[:, X.shape[1]]"), "it raised indexerror"),
        (
            changed(
                ROW,
                "n = torch.linalg.svd(X).U[:, -1]",
                "U, values, _ = torch.linalg.svd(X)\n"
                "    n = U[:, int((values > 1e-12 * values[0]).sum())]",
            ),
            "it raised indexerror",
        ),
        (
            changed(
                ROW,
                "n = torch.linalg.svd(X).U[:, -1]",
                "U, values, _ = torch.linalg.svd(X)\n    n = U[:, len(values)]",
            ),
            "it raised indexerror",
        ),
        (WITH_ALL, "words have no weight: leave them out"),
        (changed(WITH_ALL, "U[:, -1]", "U[:, -1] * -1"), "words have no weight: leave them out"),
        (
            changed(
                ROW, "X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)", "X = T[seen]"
            ),
            "the weights sum to",
        ),
        (
            changed(ROW, "(a[seen] / -n)[n < 0]", "(a[seen] / n.abs())"),
            "no weight that was above 0",
        ),
        (changed(ROW, ".min()", ".max()"), "the weights sum to"),
        (
            changed(ROW, "(a[seen] / -n)[n < 0]", "(a[seen] / n)[n > 0]", ".clamp(min=0)", ""),
            "a weight is below 0",
        ),
        (
            changed(
                ROW,
                "step = (a[seen] / -n)[n < 0].min()",
                "first = torch.where(n < 0, a[seen], 2.0).argmin()\n"
                "    step = (a[seen] / -n)[first]",
                ".clamp(min=0)",
                "",
            ),
            "the smallest weight need not be the first to reach 0",
        ),
        (changed(ROW, "step * n", "10 * n", "return w", "return w / w.sum()"), "the output moves"),
        (
            """
def other_row(a, T):
    w = a.clone()
    w[a.argmax()] = 0
    return w / w.sum()
""",
            "the output moves",
        ),
        (
            """
def other_row(a, T):
    i, j = a.topk(2).indices
    w = a.clone()
    w[j] = w[i] + w[j]
    w[i] = 0
    return w
""",
            "the output moves",
        ),
        (changed(ROW, f"w[seen] = {CLAMPED}", f"w = {CLAMPED}"), "the weights have the shape"),
        (changed(ROW, "torch.zeros_like(a)", "a"), "in place"),
        (
            changed(ROW, "zeros_like(a)", "zeros(len(a))", CLAMPED, f"{CLAMPED}.float()"),
            "dtype float32, expected float64",
        ),
        (changed(ROW, CLAMPED, "a[seen] + 0.99 * step * n"), "no weight that was above 0 is 0 now"),
        (changed(ROW, "svd(X)", "svd(X, full_matrices=False)"), "the weights sum to"),
        (changed(ROW, "return w", "return w.tolist()"), "return a tensor of weights, not list"),
        ("other_row = lambda a, T: None", "return a tensor of weights, not nonetype"),
    ],
    "rank_and_nullity": [
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    d_s = len(ids)
    return min(d_s, d_v, d) + 1, d_s - d_v - 1
""",
            "this is as printed",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    d_s = len(ids)
    return min(d_s, d_v, d) + 1, max(0, d_s - d_v - 1)
""",
            "the nullity is cut off at 0",
        ),
        (changed(COUNT, "min(d_v, d) + 1)", "d_v, d) + 1"), "the + 1 stands outside"),
        (changed(COUNT, " if positions else len(set(ids))", ""), "you do not look at `positions`"),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rank = min(len(ids), d_v + 1, d + 1)
    return rank, max(0, len(ids) - min(d_v, d) - 1)
""",
            "you do not look at `positions`",
        ),
        (
            changed(
                COUNT,
                "set(ids)",
                "list(groupby(ids))",
                "def",
                "from itertools import groupby\n\ndef",
            ),
            "you count a word once where it stands twice in a row",
        ),
        (changed(COUNT, "len(set(ids))", "max(ids) + 1"), "the largest number in `ids`"),
        (changed(COUNT, "len(ids) if positions else ", ""), "equal words have different rows as"),
        (changed(COUNT, "if positions", "if not positions"), "it is the other way round"),
        (changed(COUNT, "len(ids) - rank", "rows - rank"), "counted among the different words"),
        (
            changed(COUNT, "len(ids) - rank", "max(0, len(ids) - min(d_v, d) - 1)"),
            "your rank knows of repeated words, but your nullity does not",
        ),
        (changed(COUNT, "min(d_v, d) + 1", "min(d_v, d)"), "the column of ones is missing"),
        (changed(COUNT, "min(d_v, d)", "d_v"), "d does not occur"),
        (changed(COUNT, "min(d_v, d)", "d"), "d_v does not occur"),
        (changed(COUNT, "min(d_v, d)", "max(d_v, d)"), "their larger one"),
        (changed(COUNT, "rank, len(ids) - rank", "len(ids) - rank, rank"), "the order is rank"),
        (changed(COUNT, "min(d_v, d) + 1", "d_v + 1, d"), "only d_v gets the + 1"),
        (changed(COUNT, "min(d_v, d) + 1", "d_v, d + 1"), "only d gets the + 1"),
        (
            changed(COUNT, "min(rows, min(d_v, d) + 1)", "min(len(ids), min(rows, d_v, d) + 1)"),
            "the number of different rows gets the + 1 as well",
        ),
        (
            changed(COUNT, "len(ids) - rank", "max(0, len(ids) - d_v - 1)"),
            "the nullity is the printed one",
        ),
        (
            changed(COUNT, "min(rows, min(d_v, d) + 1)", "min(len(ids), d_v, d) + 1"),
            "but the rank is still as printed: the + 1 belongs to the widths",
        ),
        (changed(COUNT, "rank, len(ids) - rank", "rank"), "expected a tuple of 2"),
    ],
    "width_needed": [
        (changed(WIDTH, " - log.mean(-1, keepdim=True)", ""), "the mean of each row is not taken"),
        (
            changed(WIDTH, " - log.mean(-1, keepdim=True)", "", "sum(-1)", "sum(-1) - 1"),
            "you take 1 off the rank of log a",
        ),
        (changed(WIDTH, "sum(-1)", "sum(-1) + 1"), "you add 1 for the constant of the rows"),
        (
            changed(WIDTH, "svdvals(centred)", "svdvals(centred - centred.mean(-2, keepdim=True))"),
            "the columns are centred as well",
        ),
        (changed(WIDTH, "mean(-1", "mean(1"), "you centre the columns"),
        (changed(WIDTH, "svdvals(centred)", "svdvals(A)"), "this is the rank of the weights"),
        (
            changed(WIDTH, "A.clamp(min=1e-300).log()", "A"),
            "the logarithm is missing: you centre the weights",
        ),
        (
            changed(WIDTH, "1e-300", "1e-12", POSSIBLE, "rank >= 0"),
            "a weight of 0 is taken for a small one, and small ones are cut off",
        ),
        (
            changed(WIDTH, POSSIBLE, "rank >= 0"),
            "a weight of 0 is taken for a small one: no finite",
        ),
        (changed(WIDTH, "1e-300", "1e-12"), "small weights are cut off before"),
        (changed(WIDTH, "A.clamp(min=1e-300)", "(A + 1e-9)"), "before the logarithm: that changes"),
        (changed(WIDTH, "A.clamp(min=1e-300)", "(A + 1e-12)"), "as small as 1e-12 is added"),
        (
            changed(WIDTH, "A.clamp(min=1e-300)", "(A + 1e-9)", POSSIBLE, "rank >= 0"),
            "before the logarithm, and a weight of 0",
        ),
        (
            changed(WIDTH, "A.clamp(min=1e-300)", "(A + 1e-12)", POSSIBLE, "rank >= 0"),
            "as small as 1e-12 is added to every weight before the logarithm, and",
        ),
        (changed(WIDTH, "A > 0", "A > 1e-6"), "a weight that is only small counts as 0"),
        (changed(WIDTH, "log.mean(-1,", "log.mean((-2, -1),"), "the mean of the whole map"),
        (
            changed(WIDTH, "A.clamp(min=1e-300)", "(A + 1e-40)", POSSIBLE, "rank >= 0"),
            "a weight of 0 is taken for a small one",
        ),
        (
            changed(
                WIDTH,
                "A.clamp(min=1e-300).log()",
                "torch.where(A > 0, A.log(), 0)",
                POSSIBLE,
                "rank >= 0",
            ),
            "a weight of 0 is taken for a small one",
        ),
        (changed(WIDTH, "rank, -1", "rank, 0"), "where a weight is 0 you answer 0"),
        (changed(WIDTH, POSSIBLE, "(A > 0).all()"), "a single weight of 0 spoils"),
        (changed(WIDTH, POSSIBLE, "(A > 0).all(-1).any(-1)"), "a weight of 0 in every row"),
        (changed(WIDTH, POSSIBLE, "(A[:, 0] > 0).all(-1)"), "in the first row only"),
        (changed(WIDTH, "rank, -1", "rank.clamp(min=1), -1"), "the smallest answer is 1 in yours"),
        (changed(WIDTH, "A.clamp(min=1e-300)", "A"), "it raised"),
        (
            changed(WIDTH, "(torch.linalg.svdvals(centred) > 1e-6).sum(-1)", "DEFAULT").replace(
                "DEFAULT", "torch.linalg.matrix_rank(centred)"
            ),
            "matrix_rank draws its own line",
        ),
        (
            """
def width_needed(A):
    found = []
    for one in A:
        S = one.log()
        S -= S.mean(-1, keepdim=True)
        found.append(torch.linalg.matrix_rank(S) if (one > 0).all() else torch.tensor(-1))
    return torch.stack(found)
""",
            "matrix_rank draws its own line",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    values = torch.linalg.svdvals(log - log.mean(-1, keepdim=True))
    rank = (values > 1e-5 * values[:, :1]).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "a share of the largest singular value",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    rank = torch.linalg.matrix_rank(log - log.mean(-1, keepdim=True), rtol=1e-6)
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "a share of the largest singular value",
        ),
        (changed(WIDTH, "rank, -1)", "rank, -1).float()"), "expected int64"),
        (changed(WIDTH, "rank, -1)", "rank, -1).tolist()"), "expected"),
        (changed(WIDTH, "log.mean", "log.amax"), "you take the largest entry off each row"),
        (changed(WIDTH, "rank, -1", "rank, min(A.shape[-2:])"), "differ"),
    ],
    "effective_attention": [
        (changed(EFFECTIVE, "A @ X", "A - A @ X"), "this is the part in the null space"),
        (
            changed(EFFECTIVE, "torch.cat([T, torch.ones_like(T[..., :1])], -1)", "T"),
            "you project on the columns of t alone",
        ),
        (
            changed(
                EFFECTIVE,
                "torch.cat([T, torch.ones_like(T[..., :1])], -1)",
                "T - T.mean(-2, keepdim=True)",
            ),
            "with their means taken off",
        ),
        (
            changed(
                EFFECTIVE, "torch.linalg.pinv(X, rtol=1e-5)", "torch.linalg.inv(X.mT @ X) @ X.mT"
            ),
            "effective_attention(",
        ),
        (
            changed(
                EFFECTIVE,
                "return A @ X @ inverse",
                "P = X @ inverse\n    return P @ A if A.shape[-2] == A.shape[-1] else A @ P",
            ),
            "you project the columns of a",
        ),
        (changed(EFFECTIVE, "A @ X @ inverse", "X @ inverse @ A"), "you project the columns of a"),
        (changed(EFFECTIVE, ", rtol=1e-5", ""), "whose singular value is only nearly 0"),
        (
            changed(KEPT, "(values > 1e-5 * values[..., :1])[..., None, :]", "1"),
            "all columns of the thin u are kept",
        ),
        (
            changed(
                EFFECTIVE,
                "    inverse",
                "    if T.shape[-2] <= T.shape[-1] + 1:\n        return A.clone()\n    inverse",
            ),
            "a comes back where t has as many columns",
        ),
        (
            changed(
                KEPT,
                "(values > 1e-5 * values[..., :1])[..., None, :]",
                "1",
                ", full_matrices=False",
                "",
            ),
            "a comes back as it was",
        ),
        (changed(KEPT, "values[..., :1]", "values.max()"), "the largest singular value of all"),
        (changed(KEPT, "1e-5 * values[..., :1]", "1e-5"), "your line stands at 1e-5"),
        (changed(EFFECTIVE, "rtol", "rtol=0.0, atol"), "your line stands at 1e-5"),
        (RANK, "the largest of all ranks"),
        (changed(RANK, "ranks.max()", "ranks.min()"), "the smallest of all ranks"),
        (changed(RANK, "ranks.max()", "ranks[0]"), "the rank of the first one"),
        (
            changed(
                EFFECTIVE,
                "return A @ X @ inverse",
                "E = (A @ X @ inverse).clamp(min=0)\n    return E / E.sum(-1, keepdim=True)",
            ),
            "weights below 0 are cut off, and the rows divided",
        ),
        (
            changed(EFFECTIVE, "A @ X @ inverse", "(A @ X @ inverse).relu()"),
            "weights below 0 are cut off: effective weights may be negative",
        ),
        (
            changed(EFFECTIVE, "A @ X @ inverse", "(A @ X @ inverse).abs()"),
            "the absolute values are not asked for",
        ),
        ("def effective_attention(A, T):\n    return A @ T", "this is the output a t"),
        (
            changed(
                EFFECTIVE,
                "A @ X @ inverse",
                "(A.mean(-2, keepdim=True) @ X @ inverse).expand_as(A)",
            ),
            "all rows are the same in yours",
        ),
        ("def effective_attention(A, T):\n    return A.clone()", "a comes back as it was"),
        (
            changed(
                EFFECTIVE,
                "inverse = torch.linalg.pinv(X, rtol=1e-5)",
                "Q = torch.linalg.qr(X).Q",
                "A @ X @ inverse",
                "A @ Q @ Q.mT",
            ),
            "differ",
        ),
        (
            changed(
                EFFECTIVE,
                "return A @ X @ inverse",
                "E = A @ X @ inverse\n    return E / E.norm(dim=-1, keepdim=True)",
            ),
            "differ",
        ),
        (
            changed(
                EFFECTIVE,
                "torch.ones_like(T[..., :1])",
                "torch.ones(T.shape[0], T.shape[1], 1, dtype=T.dtype)",
            ),
            "it raised",
        ),
        (changed(EFFECTIVE, "A @ X @ inverse", "(A @ X @ inverse).float()"), "expected float64"),
    ],
}

RIGHT: dict[str, list[str]] = {
    "null_space": [
        """
import numpy as np

def null_space(T):
    X = np.c_[T.numpy(), np.ones(len(T))]
    U, s, _ = np.linalg.svd(X, full_matrices=True)
    return torch.from_numpy(U[:, np.count_nonzero(s / s.max() > 1e-5):].copy())
""",
        """
def null_space(T):
    # take from the unit matrix what the columns of X can make, and make the rest orthonormal
    d_s = T.size(0)
    X = torch.hstack([T, T.new_ones(d_s, 1)])
    free = torch.eye(d_s, dtype=T.dtype) - X @ torch.linalg.pinv(X, rtol=1e-5)
    nullity = round(free.trace().item())
    return torch.linalg.svd(free)[0].narrow(1, 0, nullity)
""",
    ],
    "other_row": [
        """
def other_row(a, T):
    keep = a.nonzero().flatten()
    X = torch.hstack([T[keep], torch.ones(len(keep), 1).double()])
    n = torch.linalg.svd(X).U[:, -1]
    t = min(float(x / -s) for x, s in zip(a[keep], n) if s < 0)
    return torch.zeros_like(a).index_put((keep,), (a[keep] + t * n).clamp_min(0))
""",
        """
import numpy as np

def other_row(a, T):
    a, T = a.numpy(), T.numpy()
    seen = np.flatnonzero(a)
    X = np.column_stack([T[seen], np.ones(seen.size)])
    _, values, Vh = np.linalg.svd(X.T)
    n = Vh[-1]
    i = min((k for k in range(len(n)) if n[k] < -1e-12), key=lambda k: a[seen[k]] / -n[k])
    w = a.copy()
    w[seen] = np.maximum(a[seen] - a[seen[i]] / n[i] * n, 0)
    w[seen[i]] = 0
    return torch.as_tensor(w)
""",
    ],
    "rank_and_nullity": [
        """
def rank_and_nullity(ids, d_v, d, positions):
    rows = []
    for place, word in enumerate(ids):
        row = (word, place) if positions else word
        if row not in rows:
            rows += [row]
    smallest = sorted([len(rows) - 1, d_v, d])[0]
    return smallest + 1, max(0, len(ids) - smallest - 1)
""",
        """
def rank_and_nullity(ids, d_v, d, positions):
    # measured: random values reach the bound
    g = torch.Generator().manual_seed(0)
    d_s = len(ids)
    table = torch.randn(max(ids) + 1 + d_s, d_v, generator=g, dtype=torch.float64)
    V = table[max(ids) + 1:] if positions else table[ids]
    T = V @ torch.randn(d_v, d, generator=g, dtype=torch.float64)
    X = torch.cat([T, torch.ones(d_s, 1, dtype=torch.float64)], 1)
    rank = torch.linalg.matrix_rank(X).item()
    return rank, d_s - rank
""",
    ],
    "width_needed": [
        """
import numpy as np

def width_needed(A):
    width = np.full(len(A), -1)
    for i, one in enumerate(A.numpy()):
        if np.all(one > 0):
            steps = np.diff(np.log(one), axis=1)
            width[i] = (np.linalg.svd(steps, compute_uv=False) > 1e-6).sum()
    return torch.from_numpy(width).to(torch.int64)
""",
        """
def width_needed(A):
    S = A.shape[-1]
    centre = torch.eye(S).double() - 1 / S
    possible = ~(A == 0).any(-1).any(-1)
    scores = torch.where(possible[:, None, None], A, 1 / S).log() @ centre
    rank = torch.linalg.matrix_rank(scores, atol=1e-6, rtol=0.0)
    return rank.masked_fill(~possible, -1)
""",
    ],
    "effective_attention": [
        """
def effective_attention(A, T):
    # take away what lies in the null space, head by head
    Q, S, d = A.shape[-2], A.shape[-1], T.shape[-1]
    out = []
    for a, t in zip(A.reshape(-1, Q, S), T.reshape(-1, S, d)):
        X = torch.hstack([t, torch.ones(S, 1, dtype=t.dtype)])
        U, values, _ = torch.linalg.svd(X)
        N = U[:, int((values > 1e-5 * values[0]).sum()):]
        out.append(a - a @ N @ N.T)
    return torch.stack(out).reshape(A.shape)
""",
        """
import numpy as np

def effective_attention(A, T):
    X = np.concatenate([T.numpy(), np.ones(T.shape[:-1] + (1,))], axis=-1)
    P = X @ np.linalg.pinv(X, rcond=1e-5)
    return torch.from_numpy(np.einsum("...qs,...sr->...qr", A.numpy(), P))
""",
    ],
}

LINE = "no singular value is near the line"
BOTH = "torch.cat gives the wider dtype, and a one is a one in all of them"
TWICE = "a second column of ones adds nothing to the rank"
ZEROS = "only maps with a weight of 0 are touched, and they get −1"
EQUIVALENT: dict[str, dict[str, str]] = {
    "null_space": {
        "rank = (values > 1e-05 * values[0]).sum()": (
            "a tensor with one whole number may be an index"
        ),
        "X = torch.cat([T, torch.ones(len(T), 1)], 1)": BOTH,
        "X = torch.cat([T, torch.ones(len(T), 2, dtype=T.dtype)], 1)": TWICE,
        "rank = int((values >= 1e-05 * values[0]).sum())": LINE,
        "rank = int((values > 2e-05 * values[0]).sum())": LINE,
        "rank = int((values > 5e-06 * values[0]).sum())": LINE,
    },
    "other_row": {
        "w[seen] = a[seen] + step * n": "what is left below 0 is rounding, and allowed",
        "w[seen] = (a[seen] + step * n).clamp(min=-1)": (
            "what is left below 0 is rounding, and allowed"
        ),
        "X = torch.cat([T[seen], torch.ones(int(seen.sum()), 1)], 1)": BOTH,
        "X = torch.cat([T[seen], torch.ones(int(seen.sum()), 1, dtype=a.dtype)], 1)": BOTH,
        "X = torch.cat([T[seen], torch.ones(int(seen.sum()), 1, dtype=seen.dtype)], 1)": BOTH,
        "X = torch.cat([T[seen], torch.ones(seen.sum(), 1, dtype=T.dtype)], 1)": (
            "a tensor with one whole number may be a size"
        ),
        "X = torch.cat([T[seen], torch.ones(int(seen.sum()), 2, dtype=T.dtype)], 1)": TWICE,
        "step = (a[seen] / -n)[n <= 0].min()": "a weight that does not fall gives an infinite step",
    },
    "rank_and_nullity": {
        "rank = min(min(d_v, d) + 1, rows)": "a minimum has no order",
        "rank = min(rows, min(d, d_v) + 1)": "a minimum has no order",
    },
    "width_needed": {
        "log = A.clamp(min=1e-300).log2()": "another base multiplies the matrix, not its rank",
        "values = torch.linalg.svdvals(log.mean(-1, keepdim=True) - log)": (
            "the other sign has the same rank"
        ),
        "rank = (values > 1e-06).sum(1)": "the last of two axes",
        "return torch.where((A > 0).flatten(1).all(1), rank, -1)": "the last of two axes",
        "rank = (values >= 1e-06).sum(-1)": LINE,
        "rank = (values > 2e-06).sum(-1)": LINE,
        "rank = (values > 5e-07).sum(-1)": LINE,
        "log = A.clamp(min=2e-300).log()": ZEROS,
        "log = A.clamp(min=5e-301).log()": ZEROS,
    },
    "effective_attention": {
        "ones = torch.ones(*T.shape[:-1], 1)": BOTH,
        "ones = torch.ones(*T.shape[:-1], 1, dtype=A.dtype)": BOTH,
        "ones = torch.ones(*T.shape[:-1], 2, dtype=T.dtype)": TWICE,
        "return A @ X @ torch.linalg.pinv(X, rtol=2e-05)": LINE,
        "return A @ X @ torch.linalg.pinv(X, rtol=5e-06)": LINE,
    },
}
