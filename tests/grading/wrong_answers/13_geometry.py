"""What students answer in the exercises of chapter 13: wrong, with the message due, and right."""

from bank import changed

COSINE = """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1)
    total = (units * mask[..., None]).sum(-2)
    n = mask.sum(-1)
    squared = total.square().sum(-1)
    sim = (squared - n) / (n * (n - 1))
    return sim
"""

ENTROPY = """
def row_entropy(A, mask):
    n = mask.sum(-1)
    rows = -torch.xlogy(A, A).sum(-1)
    mean = rows.masked_fill(~mask, 0).sum(-1) / n
    return mean / n.clamp(min=2).log()
"""

ALIGNED = """
def aligned_keys(weights, q):
    logs = weights.log()
    gains = logs - logs.min()
    lengths = 1 + gains * len(q) ** 0.5 / q.norm()
    K = lengths[:, None] * (q / q.norm())
    return K
"""

OUTSIDE = """
def outside_cone(y, V):
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        for j, v in enumerate(V):
            r = y - a @ V
            a[j] = (a[j] + r @ v / (v @ v)).clamp(min=0)
    left = y - a @ V
    return left.norm() / y.norm()
"""

SHIFT = """
def uniform_shift(A, V, mask):
    n = mask.sum(-1)
    own = A @ V
    even = (V * mask[..., None]).sum(-2, keepdim=True) / n[:, None, None]
    shares = (own - even).norm(dim=-1) / own.norm(dim=-1)
    return shares.masked_fill(~mask, 0).sum(-1) / n
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "mean_cosine": [
        (changed(COSINE, "(squared - n) / (n * (n - 1))", "squared / n**2"), "paired with itself"),
        (changed(COSINE, "(squared - n)", "squared"), "the n cosines of a row with itself"),
        (changed(COSINE, "(n * (n - 1))", "n**2"), "but not out of the number of pairs"),
        (changed(COSINE, "(n * (n - 1))", "(n * (n - 1)) / 2"), "this is half of it"),
        (changed(COSINE, "(n * (n - 1))", "(n * (n - 1) / 2)"), "this is twice of it"),
        (
            """
def mean_cosine(M, mask):
    M = M * mask[..., None]
    n = mask.sum(-1)
    own = M.square().sum((-2, -1))
    return (M.sum(-2).square().sum(-1) - own) / (n * (n - 1))
""",
            "rows have different lengths",
        ),
        (
            changed(COSINE, "torch.nn.functional.normalize(M, dim=-1)", "M"),
            "the rows are not of length 1",
        ),
        (
            changed(COSINE, "normalize(M, dim=-1)", "normalize(M * mask[..., None], dim=-2)"),
            "columns are brought to length 1",
        ),
        (
            changed(COSINE, "(units * mask[..., None])", "units", "mask.sum(-1)", "M.shape[-2]"),
            "rows of padding are in your sum: only",
        ),
        (
            changed(COSINE, "(units * mask[..., None])", "units"),
            "rows of padding are in your sum, though",
        ),
        (changed(COSINE, "mask.sum(-1)", "M.shape[-2]"), "counted in your n"),
        (
            changed(
                COSINE,
                "torch.nn.functional.normalize(M, dim=-1)",
                "M / M.norm(dim=-1, keepdim=True)",
            ),
            "0/0 is nan",
        ),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1)
    both = mask[..., 1:] & mask[..., :-1]
    cosines = (units[..., 1:, :] * units[..., :-1, :]).sum(-1)
    return (cosines * both).sum(-1) / both.sum(-1)
""",
            "the cosines of neighbours",
        ),
        (
            """
def mean_cosine(M, mask):
    center = (M * mask[..., None]).sum(-2, keepdim=True)
    cosines = torch.cosine_similarity(M, center, dim=-1)
    return (cosines * mask).sum(-1) / mask.sum(-1)
""",
            "the cosine with the mean row",
        ),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1) * mask[..., None]
    n = mask.sum(-1)
    return ((units @ units.mT).abs().sum((-2, -1)) - n) / (n * (n - 1))
""",
            "absolute values",
        ),
        (
            changed(COSINE, "(squared - n) / (n * (n - 1))", "squared.sqrt() / n"),
            "the length of the mean direction",
        ),
        (changed(COSINE, "(squared - n)", "1 - (squared - n)"), "1 − cosine"),
        (changed(COSINE, "return sim", "return sim.mean()"), "one number"),
        (changed(COSINE, "return sim", "return sim.double()"), "expected float32"),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M[mask], dim=-1)
    n = len(units)
    return (units.sum(0).square().sum() - n) / (n * (n - 1))
""",
            "has the shape",
        ),
        (
            changed(
                COSINE,
                "units = torch.nn.functional.normalize(M, dim=-1)",
                "M /= M.norm(dim=-1, keepdim=True).clamp(min=1e-9)",
                "(units",
                "(M",
            ),
            "in place",
        ),
        (changed(COSINE, ", dim=-1", ""), "normalize without dim"),
        (
            changed(
                COSINE, "M, dim=-1", "M * mask[..., None]", "(units * mask[..., None])", "units"
            ),
            "differ",
        ),
        (
            changed(
                COSINE,
                "torch.nn.functional.normalize(M, dim=-1)",
                "M / (M**2).sum(-1, keepdim=True)",
            ),
            "by its squared length",
        ),
        (
            changed(
                COSINE,
                "torch.nn.functional.normalize(M, dim=-1)",
                "M / (M**2).sum(-1, keepdim=True).clamp(min=1e-9)",
            ),
            "differ",
        ),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1) * mask[..., None]
    n = mask.sum(-1)
    return (((units @ units.mT) ** 2).sum((-2, -1)) - n) / (n * (n - 1))
""",
            "the squares of the cosines",
        ),
        (
            changed(COSINE, ").sum(-2)", ")", "square().sum(-1)", "square().sum((-2, -1))"),
            "you add up squares",
        ),
        (changed(COSINE, "total.square().sum(-1)", "total.norm(dim=-1)"), "is not squared"),
        (changed(COSINE, "total.square().sum(-1)", "total.sum(-1)"), "differ"),
        (
            """
def mean_cosine(M, mask):
    rows, masks = M.reshape(-1, *M.shape[-2:]), mask.reshape(-1, mask.shape[-1])
    answer = []
    for x, n in zip(rows, masks.sum(-1)):
        units = torch.nn.functional.normalize(x[:n], dim=-1)
        answer.append((units.sum(0).square().sum() - n) / (n * (n - 1)))
    return torch.stack(answer).reshape(M.shape[:-2])
""",
            "you take the first n rows",
        ),
        (changed(COSINE, "return sim", "print(sim)"), "is a return missing?"),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1) * mask[..., None]
    return (units @ units.mT).mean((-2, -1))
""",
            "the mean of the whole table of cosines: the n pairs",
        ),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1)
    return (units @ units.mT).mean((-2, -1))
""",
            "the mean of the whole table of cosines, with those of padding",
        ),
        (
            """
def mean_cosine(M, mask):
    units = torch.nn.functional.normalize(M, dim=-1)
    n = mask.sum(-1)
    both = units @ (units * mask[..., None]).mT
    return (both.sum((-2, -1)) - n) / (n * (n - 1))
""",
            "masked on one side only",
        ),
        (changed(COSINE, "M, dim=-1", "M, dim=-2"), "to length 1, padding and all"),
        (changed(COSINE, "mask.sum(-1)", "mask.sum(1)"), "has not so many axes"),
    ],
    "row_entropy": [
        (changed(ENTROPY, "n.clamp(min=2).log()", "math.log(A.shape[-1])"), "you divide by ln t"),
        (
            """
def row_entropy(A, mask):
    rows = -torch.xlogy(A, A).nan_to_num().sum(-1)
    return rows.mean(-1) / mask.sum(-1).clamp(min=2).log()
""",
            "rows of padding count in your mean",
        ),
        (
            changed(ENTROPY, ".sum(-1)\n    mean", ".nan_to_num().sum(-1)\n    mean")
            .replace(".masked_fill(~mask, 0)", "")
            .replace("n.clamp", "n.clamp"),
            "rows of padding are in your sum",
        ),
        (changed(ENTROPY, "sum(-1) / n", "mean(-1)"), "the sum over the rows by t"),
        (changed(ENTROPY, " / n.clamp(min=2).log()", ""), "the entropy in nats"),
        (changed(ENTROPY, " / n.clamp(min=2).log()", " / math.log(2)"), "the entropy in bits"),
        (
            changed(ENTROPY, "clamp(min=2).log()", "clamp(min=2).log() / math.log(2)"),
            "base 2 divided by ln n",
        ),
        (changed(ENTROPY, ".clamp(min=2).log()", ""), "n instead of ln n"),
        (changed(ENTROPY, "-torch", "torch"), "the sign is wrong"),
        (changed(ENTROPY, "return mean", "return 1 - mean"), "how far the rows are from uniform"),
        (changed(ENTROPY, "torch.xlogy(A, A)", "(A * A.log())"), "0 · ln 0"),
        (changed(ENTROPY, ".clamp(min=2)", ""), "a text of one real token"),
        (changed(ENTROPY, "rows.masked_fill(~mask, 0)", "(rows * mask)"), "nan times 0"),
        (
            """
def row_entropy(A, mask):
    n = mask.sum(-1)
    rows = A.masked_fill(~mask[..., None], 0).sum(1) / n[:, None]
    return torch.special.entr(rows).sum(-1) / n.clamp(min=2).log()
""",
            "the entropy of the mean row",
        ),
        (
            """
def row_entropy(A, mask):
    n = mask.sum(-1)
    tokens = torch.special.entr(A).sum(-1).exp().masked_fill(~mask, 0)
    return tokens.sum(-1) / n / n
""",
            "a number of tokens",
        ),
        (changed(ENTROPY, "log()", "log()).mean()", "return ", "return ("), "one number"),
        (
            changed(ENTROPY, ".sum(-1) / n\n", "\n", "n.clamp(min=2)", "n.clamp(min=2)[:, None]"),
            "a number for every row",
        ),
        (changed(ENTROPY, "A, A).sum(-1)", "A, A).sum(-2)"), "the entropy of the columns"),
        (changed(ENTROPY, "return mean", "mean = mean"), "is a return missing?"),
        (
            """
def row_entropy(A, mask):
    rows = -torch.xlogy(A, A).sum(-1).masked_fill(~mask, 0)
    return rows.mean(-1) / math.log(A.shape[-1])
""",
            "t stands where n belongs, in the mean and in the logarithm: only",
        ),
        (
            """
def row_entropy(A, mask):
    return torch.special.entr(A).sum(-1).mean(-1) / math.log(A.shape[-1])
""",
            "and rows of padding are in the sum",
        ),
        (changed(ENTROPY, ".sum(-1) / n\n", ".sum(-1)\n"), "this is the sum over the rows"),
        (
            """
def row_entropy(A, mask):
    shares = torch.special.entr(A).sum(-1) / mask.sum(-1)[:, None].clamp(min=2).log()
    return shares[mask].mean()
""",
            "one mean over the rows of all texts",
        ),
        (
            """
def row_entropy(A, mask):
    rows = torch.distributions.Categorical(probs=A).entropy()
    n = mask.sum(-1)
    return rows.masked_fill(~mask, 0).sum(-1) / n / n.clamp(min=2).log()
""",
            "some values are not what is wanted there, such as nan",
        ),
        (
            """
def row_entropy(A, mask):
    n = mask.sum(-1)
    rows = -(A * (A + 0.01).log()).sum(-1)
    return rows.masked_fill(~mask, 0).sum(-1) / n / n.clamp(min=2).log()
""",
            "differ",
        ),
        (
            """
def row_entropy(A, mask):
    real = A[mask]
    n = mask.sum(-1).repeat_interleave(mask.sum(-1))
    return -torch.xlogy(real, real).sum(-1) / n.clamp(min=2).log()
""",
            "has the shape",
        ),
        (changed(ENTROPY, "n = mask", "A[~mask] = 0\n    n = mask"), "in place"),
        (changed(ENTROPY, "mean / n", "mean.float() / n.float()"), "expected float64"),
        (
            """
def row_entropy(A, mask):
    n = int(mask[0].sum())
    rows = -torch.xlogy(A, A).sum(-1).masked_fill(~mask, 0)
    return rows.sum(-1) / mask.sum(-1) / math.log(n)
""",
            "differ",
        ),
        (
            """
def row_entropy(A, mask):
    answer = []
    for a, n in zip(A, mask.sum(-1)):
        x = a[:n, :n]
        h = -torch.xlogy(x, x).sum(-1).mean()
        answer.append(h / n.log() if n > 1 else h * 0)
    return torch.stack(answer)
""",
            "you take the first n rows and columns: padding may stand in front",
        ),
        (
            """
def row_entropy(A, mask):
    answer = []
    for a, n in zip(A, mask.sum(-1)):
        x = a[:n]
        h = -torch.xlogy(x, x).sum(-1).mean()
        answer.append(h / n.log() if n > 1 else h * 0)
    return torch.stack(answer)
""",
            "you take the first n rows: padding may stand in front",
        ),
        (
            """
def row_entropy(A, mask):
    answer = []
    for a, n in zip(A, mask.sum(-1)):
        x = a[:n, :n]
        h = -torch.where(x > 0, x * x.clamp(min=1e-30).log(), 0).sum(-1).mean()
        answer.append(h / n.log() if n > 1 else h * 0)
    return torch.stack(answer)
""",
            "differ",
        ),
    ],
    "aligned_keys": [
        (changed(ALIGNED, " * len(q) ** 0.5", ""), "√d is missing"),
        (changed(ALIGNED, "* len", "/ len"), "you divide by √d"),
        (changed(ALIGNED, " ** 0.5", ""), "d is a factor"),
        (changed(ALIGNED, "len(q)", "len(weights)"), "√n instead of √d"),
        (changed(ALIGNED, "0.5 / q.norm()", "0.5"), "the length of the query is missing"),
        (changed(ALIGNED, "0.5 / q.norm()", "0.5 * q.norm()"), "belongs below the line"),
        (changed(ALIGNED, "0.5 / q.norm()", "0.5 / (q @ q)"), "you divide by |q| twice"),
        (changed(ALIGNED, "(q / q.norm())", "q"), "multiples of q and not of q/|q|"),
        (changed(ALIGNED, "1 + ", ""), "has the length 0"),
        (changed(ALIGNED, "min", "max"), "and not the longest"),
        (changed(ALIGNED, " - logs.min()", "", "1 + ", ""), "ln a_j is below 0"),
        (changed(ALIGNED, " - logs.min()", ""), "subtract the least logarithm first"),
        (changed(ALIGNED, ".log()", ""), "the logarithm is missing"),
        (
            """
def aligned_keys(weights, q):
    return (weights / weights.min())[:, None] * q / q.norm()
""",
            "in proportion to the weights",
        ),
        (changed(ALIGNED, "log()", "log2()"), "you take another logarithm"),
        (
            changed(ALIGNED, "logs - logs.min()", "logs.max() - logs"),
            "the smallest weight has your longest key",
        ),
        (changed(ALIGNED, "(q / q", "-(q / q"), "away from the query"),
        (
            changed(
                ALIGNED, "lengths[:, None] * (q / q.norm())", "torch.outer(q / q.norm(), lengths)"
            ),
            "each column is a key",
        ),
        (changed(ALIGNED, "[:, None] * (q / q.norm())", ""), "these are the lengths alone"),
        (
            """
def aligned_keys(weights, q):
    return (q / q.norm()).expand(len(weights), -1).clone()
""",
            "differ",
        ),
        (
            """
def aligned_keys(weights, q):
    lengths = 1 + weights.log() - weights.log()[0]
    lengths = lengths * len(q) ** 0.5 / q.norm()
    return lengths[:, None] * q / q.norm()
""",
            "differ",
        ),
        (changed(ALIGNED, "logs.min()", "logs[0]"), "your first key has the length 1"),
        (
            """
def aligned_keys(weights, q):
    logs = weights.log()
    lengths = 1 + (logs - logs.min()) * len(q) ** 0.5 / (q @ q)
    return lengths[:, None] * q
""",
            "in units of q",
        ),
        (changed(ALIGNED, "weights.log()", "weights.log10()"), "differ"),
        (changed(ALIGNED, "return K", "return K.float()"), "expected float64"),
        (changed(ALIGNED, "return K", "return K.tolist()"), "is a list"),
        (
            """
def aligned_keys(weights, q):
    gains = (weights.log() - weights.log().min()) * len(q) ** 0.5
    keys = gains[:, None] * q / (q @ q)
    return keys + q / q.norm() * 100
""",
            "differ",
        ),
        (changed(ALIGNED, " * len(q) ** 0.5 / q.norm()", ""), "√d and |q| are missing"),
        (
            changed(
                ALIGNED,
                "1 + gains",
                "(1 + gains)",
                "\n    K",
                "\n    lengths /= lengths.min()\n    K",
            ),
            "because you divide by the shortest",
        ),
        (changed(ALIGNED, "1 + gains", "(1 + gains)"), "the 1 is added after the factor"),
        (
            """
def aligned_keys(weights, q):
    lengths = weights.log() * len(q) ** 0.5 / q.norm()
    return (lengths / lengths.min())[:, None] * q / q.norm()
""",
            "you divide by one length",
        ),
        (
            """
def aligned_keys(weights, q):
    lengths = weights.log() * len(q) ** 0.5 / q.norm()
    return (lengths / lengths.max())[:, None] * q / q.norm()
""",
            "you divide all lengths by the shortest",
        ),
        (
            """
def aligned_keys(weights, q):
    lengths = weights.log() * len(q) ** 0.5 / q.norm()
    return (lengths / lengths.abs().min())[:, None] * q / q.norm()
""",
            "your lengths are below 0, and divided",
        ),
    ],
    "outside_cone": [
        (changed(OUTSIDE, ".clamp(min=0)", ""), "the span of the values"),
        (changed(OUTSIDE, "(a[j] + r @ v / (v @ v))", "(r @ v / (v @ v))"), "takes the place of"),
        (
            """
def outside_cone(y, V):
    a = y @ torch.linalg.pinv(V)
    return (y - a @ V).norm() / y.norm()
""",
            "the span of the values",
        ),
        (
            """
def outside_cone(y, V):
    a = (y @ torch.linalg.pinv(V)).clamp(min=0)
    return (y - a @ V).norm() / y.norm()
""",
            "coefficients of either sign",
        ),
        (changed(OUTSIDE, "range(300)", "range(1)"), "after one round"),
        (changed(OUTSIDE, "range(300)", "range(3)"), "after a few rounds"),
        (
            """
def outside_cone(y, V):
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        r = y - a @ V
        a = (a + V @ r / V.square().sum(-1)).clamp(min=0)
    return (y - a @ V).norm() / y.norm()
""",
            "from the same remainder",
        ),
        (
            """
def outside_cone(y, V):
    best = [(y @ v / (v @ v)).clamp(min=0) * v for v in V]
    return torch.stack([(y - one).norm() for one in best]).min() / y.norm()
""",
            "the best single value",
        ),
        (changed(OUTSIDE, " / y.norm()", ""), "this is the distance"),
        (
            changed(OUTSIDE, "left.norm() / y.norm()", "(left @ left) / (y @ y)"),
            "the squared length",
        ),
        (changed(OUTSIDE, "left.norm()", "(a @ V).norm()"), "the share that the cone has"),
        (changed(OUTSIDE, "left.norm()", "1 - left.norm()"), "what is left is asked for"),
        (changed(OUTSIDE, "return left.norm() / y.norm()", "return left"), "the remainder itself"),
        (changed(OUTSIDE, "return left.norm() / y.norm()", "return a"), "return the coefficients"),
        (changed(OUTSIDE, "y.norm()", "y.norm()).item()", "return ", "return ("), "expected"),
        (
            """
def outside_cone(y, V):
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        for j, v in enumerate(V):
            a[j] = (a[j] + (y - a @ V) @ v / (v @ v)).clamp(min=0)
        a = a / a.sum().clamp(min=1e-9)
    return (y - a @ V).norm() / y.norm()
""",
            "differ",
        ),
        (changed(OUTSIDE, "clamp(min=0)", "clamp(0, 1)"), "differ"),
        (changed(OUTSIDE, " / (v @ v)", " / v.norm()"), "divided by the length of v_j"),
        (changed(OUTSIDE, " / (v @ v)", ""), "not divided by v_j · v_j"),
        (changed(OUTSIDE, "left.norm() / y.norm()", "print(left)", "return ", ""), "is a return"),
        (changed(OUTSIDE, "r = y - a @ V", "r = y"), "r stays y in all your rounds"),
        (
            changed(OUTSIDE, "    left", "    a = a / a.sum()\n    left"),
            "you divide the coefficients by their sum",
        ),
        (
            """
def outside_cone(y, V):
    a = torch.zeros(len(V), dtype=y.dtype)
    for j, v in enumerate(V):
        for _ in range(300):
            a[j] = (a[j] + (y - a @ V) @ v / (v @ v)).clamp(min=0)
    return (y - a @ V).norm() / y.norm()
""",
            "or your loops are the other way round",
        ),
        (
            """
def outside_cone(y, V):
    a = (V @ y / V.square().sum(-1)).clamp(min=0)
    return (y - a @ V).norm() / y.norm()
""",
            "each value is fitted by itself",
        ),
        (
            """
def outside_cone(y, V):
    from scipy.optimize import nnls
    rows = torch.cat([V, torch.full((len(V), 1), 1e3)], 1).double().numpy()
    a = nnls(rows.T, torch.cat([y, torch.tensor([1e3])]).double().numpy())[0]
    return (y - torch.tensor(a).to(y) @ V).norm() / y.norm()
""",
            "your coefficients sum to 1",
        ),
        (
            """
def outside_cone(y, V):
    while len(V):
        a = torch.linalg.lstsq(V.T.double(), y.double()[:, None], driver="gelsd").solution
        if (a >= 0).all():
            return (y - a[:, 0].to(y) @ V).norm() / y.norm()
        V = V[a[:, 0] > 0]
    return torch.ones_like(y[0])
""",
            "you drop the values whose best coefficients are below 0, and choose the others anew",
        ),
        (
            """
def outside_cone(y, V):
    while len(V):
        a = torch.linalg.lstsq(V.T.double(), y.double()[:, None], driver="gelsd").solution[:, 0]
        if (a >= 0).all():
            return (y - a.to(y) @ V).norm() / y.norm()
        V = V[torch.arange(len(V)) != a.argmin()]
    return torch.ones_like(y[0])
""",
            "may be needed all the same",
        ),
        (
            """
def outside_cone(y, V):
    V = V[y.double() @ torch.linalg.pinv(V.double()) > 0]
    a = (y.double() @ torch.linalg.pinv(V.double())).clamp(min=0).to(y)
    return (y - a @ V).norm() / y.norm()
""",
            "choose the others anew, and put 0",
        ),
        (
            """
def outside_cone(y, V):
    V = V[y.double() @ torch.linalg.pinv(V.double()) > 0]
    a = (y.double() @ torch.linalg.pinv(V.double())).to(y)
    return (y - a @ V).norm() / y.norm()
""",
            "choose the others anew only once",
        ),
        (
            """
from itertools import combinations

def outside_cone(y, V):
    best = y.norm()
    for size in (1, 2, 3):
        for some in combinations(V, size):
            chosen = torch.stack(some)
            a = (y.double() @ torch.linalg.pinv(chosen.double())).to(y)
            if (a >= 0).all():
                best = torch.minimum(best, (y - a @ chosen).norm())
    return best / y.norm()
""",
            "the best sum of at most three values",
        ),
        (changed(OUTSIDE, "clamp(min=0)", "abs()"), "differ"),
        (changed(OUTSIDE, ", dtype=y.dtype", ""), "raised runtimeerror"),
        (
            """
def outside_cone(y, V):
    best = torch.cosine_similarity(V, y, dim=-1).max().clamp(min=0)
    return (1 - best**2).sqrt()
""",
            "the best single value",
        ),
        (
            """
def outside_cone(y, V):
    from scipy.optimize import nnls
    return torch.tensor(nnls(V.T.numpy(), y.numpy())[1] / y.norm().item())
""",
            "expected float",
        ),
        (
            """
def outside_cone(y, V):
    left = y.clone()
    for v in V:
        left = left - (left @ v / (v @ v)).clamp(min=0) * v
    return left.norm() / y.norm()
""",
            "after one round",
        ),
        (
            changed(OUTSIDE, "(a[j] + r @ v / (v @ v))", "a[j] + (r @ v / (v @ v))"),
            "the maximum is around your step alone",
        ),
        (
            """
def outside_cone(y, V):
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        for j in range(len(V)):
            r = y - a @ V
            a[j] += max(0, r @ V[j] / (V[j] @ V[j]))
    return (y - a @ V).norm() / y.norm()
""",
            "the maximum is around your step alone",
        ),
        (changed(OUTSIDE, "range(300)", "range(2)"), "differ"),
        (changed(OUTSIDE, "range(300)", "range(10)"), "after ten rounds"),
        (changed(OUTSIDE, "range(300)", "range(30)"), "differ"),
        (changed(OUTSIDE, "range(300)", "range(len(V))"), "differ"),
    ],
    "uniform_shift": [
        (
            changed(SHIFT, "(V * mask[..., None])", "V", "n[:, None, None]", "V.shape[1]"),
            "1/t in your answer",
        ),
        (changed(SHIFT, "n[:, None, None]", "V.shape[1]"), "but divide by t"),
        (changed(SHIFT, "(V * mask[..., None])", "V"), "padding is in the sum of the values"),
        (
            changed(SHIFT, "shares.masked_fill(~mask, 0).sum(-1) / n", "shares.mean(-1)"),
            "rows of padding count in your mean",
        ),
        (changed(SHIFT, "sum(-1) / n", "mean(-1)"), "the sum over the destinations by t"),
        (changed(SHIFT, "shares.masked_fill(~mask, 0)", "(shares * mask)"), "times 0 is nan"),
        (changed(SHIFT, "/ own.norm", "/ even.norm"), "the length of the uniform output"),
        (changed(SHIFT, " / own.norm(dim=-1)", ""), "the distance itself"),
        (
            """
def uniform_shift(A, V, mask):
    n = mask.sum(-1)
    own = (A @ V) * mask[..., None]
    even = (V * mask[..., None]).sum(1, keepdim=True) / n[:, None, None] * mask[..., None]
    return (own - even).norm(dim=-1).sum(-1) / own.norm(dim=-1).sum(-1)
""",
            "the mean of the shares",
        ),
        (
            changed(
                SHIFT,
                "(own - even).norm(dim=-1) / own.norm(dim=-1)",
                "(own - even).square().sum(-1) / own.square().sum(-1)",
            ),
            "you take squares",
        ),
        (
            changed(
                SHIFT, "(own - even).norm(dim=-1)", "(own.norm(dim=-1) - even.norm(dim=-1)).abs()"
            ),
            "you subtract lengths",
        ),
        (
            """
def uniform_shift(A, V, mask):
    n = mask.sum(-1)
    even = mask[:, None] / n[:, None, None]
    shares = (A - even).norm(dim=-1) / A.norm(dim=-1)
    return shares.masked_fill(~mask, 0).sum(-1) / n
""",
            "the weights and not the outputs",
        ),
        (changed(SHIFT, "(own - even)", "(own - V)"), "its own value"),
        (
            changed(SHIFT, "own = A @ V", "own = (A * mask[..., None]).mT @ V"),
            "rows and columns of a have changed places",
        ),
        (changed(SHIFT, "return ", "return (", "sum(-1) / n", "sum(-1) / n).mean()"), "one number"),
        (changed(SHIFT, "sum(-1) / n", "amax(-1)", "0)", "-1)"), "the largest shift of a text"),
        (changed(SHIFT, "dim=-1) / own.norm(dim=-1)", "dim=-2) / own.norm(dim=-2)"), "raised"),
        (changed(SHIFT, "(own - even)", "(own + even)"), "differ"),
        (changed(SHIFT, ".masked_fill(~mask, 0)", ""), "in your sum over the destinations"),
        (changed(SHIFT, "A @ V", "A.mT @ V"), "have changed places, and padding gets in"),
        (changed(SHIFT, "(V * mask", "(own * mask"), "compared with the mean of the outputs"),
        (changed(SHIFT, " / n[:, None, None]", ""), "and you take their sum"),
        (changed(SHIFT, "sum(-1) / n", "sum(-1)"), "the sum over the destinations: divide"),
        (changed(SHIFT, "/ own.norm(dim=-1)", "/ own.square().sum(-1)"), "the squared length of"),
        (changed(SHIFT, ".sum(-1) / n", ""), "has the shape"),
        (
            """
def uniform_shift(A, V, mask):
    V[~mask] = 0
    n = mask.sum(-1)
    own = A @ V
    even = V.sum(1, keepdim=True) / n[:, None, None]
    shares = (own - even).norm(dim=-1) / own.norm(dim=-1)
    return shares.masked_fill(~mask, 0).sum(-1) / n
""",
            "in place",
        ),
        (
            """
def uniform_shift(A, V, mask):
    own, even = A @ V, V[mask].mean(0)
    shares = (own - even).norm(dim=-1) / own.norm(dim=-1)
    return shares.masked_fill(~mask, 0).sum(-1) / mask.sum(-1)
""",
            "differ",
        ),
        (
            """
def uniform_shift(A, V, mask):
    n = mask.sum(-1)
    even = (V * mask[..., None]).sum(1) / n[:, None]
    own = ((A @ V) * mask[..., None]).sum(1) / n[:, None]
    return (own - even).norm(dim=-1) / own.norm(dim=-1)
""",
            "differ",
        ),
        (changed(SHIFT, "(dim=-1) / own", "(p=1, dim=-1) / own"), "differ"),
        (
            """
def uniform_shift(A, V, mask):
    answer = []
    for a, v, n in zip(A, V, mask.sum(-1)):
        own = a[:n, :n] @ v[:n]
        answer.append(((own - v[:n].mean(0)).norm(dim=-1) / own.norm(dim=-1)).mean())
    return torch.stack(answer)
""",
            "you take the first n tokens",
        ),
        (
            """
def uniform_shift(A, V, mask):
    answer = []
    for a, v, real in zip(A, V, mask):
        own = a[real][:, real] @ v[real]
        answer.append(((own - v[real].mean(0)).norm(dim=-1) / own.norm(dim=-1)).mean())
    return answer
""",
            "is a list of 1, expected a float32 tensor of shape (1,): torch.stack",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "mean_cosine": [
        """
def mean_cosine(M, mask):
    flat, masks = M.reshape(-1, *M.shape[-2:]), mask.reshape(-1, mask.shape[-1])
    out = []
    for rows, real in zip(flat, masks):
        rows = rows[real]
        cosines = torch.cosine_similarity(rows[:, None], rows[None], dim=-1)
        out.append(cosines[~torch.eye(len(rows), dtype=torch.bool)].mean())
    return torch.stack(out).reshape(M.shape[:-2])
""",
        """
def mean_cosine(M, mask):
    if M.dim() > 2:
        return torch.stack([mean_cosine(*pair) for pair in zip(M, mask)])
    u = np.array([row / math.dist(row, [0] * len(row)) for row in M[mask].double().numpy()])
    n, s = len(u), u.sum(axis=0)
    return torch.tensor((s @ s - n) / n / (n - 1), dtype=M.dtype)
""",
    ],
    "row_entropy": [
        """
def row_entropy(A, mask):
    n = mask.sum(-1, keepdim=True)
    A = torch.where(mask[..., None], A, torch.eye(A.shape[-1], dtype=A.dtype))
    logs = torch.where(A > 0, A, 1).log() / torch.where(n > 1, n, 2).log()[..., None]
    return -(A * logs).sum((1, 2)) / n[:, 0]
""",
        """
def row_entropy(A, mask):
    out = np.zeros(len(A), dtype=A.numpy().dtype)
    for k, (rows, real) in enumerate(zip(A.numpy(), mask.numpy())):
        n = real.sum()
        for i in np.flatnonzero(real):
            w = rows[i][rows[i] > 0]
            out[k] += (w * np.log(1 / w)).sum() / n / np.log(max(n, 2))
    return torch.from_numpy(out)
""",
    ],
    "aligned_keys": [
        """
def aligned_keys(weights, q):
    d = q.numel()
    scores = torch.log(weights / weights.min())
    unit = torch.nn.functional.normalize(q, dim=0)
    return torch.outer(1 + scores * math.sqrt(d) / torch.linalg.norm(q), unit)
""",
        """
import numpy as np

def aligned_keys(weights, q):
    w, x = weights.numpy().astype(float), q.numpy().astype(float)
    lengths = np.log(w) * np.sqrt(x.size) / np.linalg.norm(x)
    lengths += 1 - lengths.min()
    return torch.as_tensor(lengths[:, None] * (x / np.linalg.norm(x))[None, :]).to(q)
""",
    ],
    "outside_cone": [
        """
from itertools import combinations

def outside_cone(y, V):
    best = y.norm()
    for size in range(1, len(V) + 1):
        for some in combinations(range(len(V)), size):
            chosen = V[list(some)].double()
            a = torch.linalg.pinv(chosen.T) @ y.double()
            if (a >= 0).all():
                best = torch.minimum(best, (y.double() - a @ chosen).norm().to(y))
    return best / y.norm()
""",
        """
def outside_cone(y, V):
    target, values = y.tolist(), V.tolist()
    a, left = [0.0] * len(values), list(target)
    for _ in range(400):
        for j, v in enumerate(values):
            step = sum(r * x for r, x in zip(left, v)) / sum(x * x for x in v)
            step = max(step, -a[j])
            a[j] += step
            left = [r - step * x for r, x in zip(left, v)]
    return torch.tensor(math.hypot(*left) / math.hypot(*target), dtype=y.dtype)
""",
    ],
    "uniform_shift": [
        """
def uniform_shift(A, V, mask):
    w = mask.to(V.dtype)
    uniform = torch.einsum("nt,ntd->nd", w, V) / w.sum(1)[:, None]
    own = torch.einsum("nij,njd->nid", A, V)
    away = torch.linalg.vector_norm(own - uniform.unsqueeze(1), dim=2)
    length = torch.linalg.vector_norm(own, dim=2)
    share = torch.where(mask, away / length, 0)
    return share.sum(1) / w.sum(1)
""",
        """
import numpy as np

def uniform_shift(A, V, mask):
    shares = []
    for a, v, m in zip(A.numpy(), V.numpy(), mask.numpy()):
        own, even = a[m] @ v, v[m].mean(axis=0)
        shares.append(np.mean(np.linalg.norm(own - even, axis=1) / np.linalg.norm(own, axis=1)))
    return torch.tensor(np.array(shares), dtype=V.dtype)
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "row_entropy": {
        "n = mask.sum(1)": "the last of two axes",
        "mean = rows.masked_fill(~mask, 0).sum(1) / n": "the last of two axes",
    },
    "outside_cone": {
        "a = torch.ones(len(V), dtype=y.dtype)": "the rounds end at the same point",
        "for _ in range(301):": "nothing changes any more",
        "for _ in range(299):": "nothing changes any more",
        "a = torch.zeros(len(V), dtype=V.dtype)": "y and V share their dtype",
        "return (a @ V - y).norm() / y.norm()": "a length has no sign",
        "a[j] = (a[j] + v @ r / (v @ v)).clamp(min=0)": "a scalar product either way",
    },
    "uniform_shift": {
        "n = mask.sum(1)": "the last of two axes",
        "return shares.masked_fill(~mask, 0).sum(1) / n": "the last of two axes",
        "shares = (even - own).norm(dim=-1) / own.norm(dim=-1)": "a length has no sign",
    },
}
