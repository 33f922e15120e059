"""What students answer in the exercises of chapter 09: wrong, with the message due, and right."""

from bank import changed

PATHS = """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.cat([(x @ W_U)[..., None, :, :], heads], -3)
"""

COPYING = """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1).real / values.abs().sum(-1)
"""

TABLE = """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
"""

COMPOSITION = """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
"""

INDUCTION = """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 1].mean(-1)
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "logit_paths": [
        (changed(PATHS, " A ", " A.mT "), "rows and columns of a have changed places"),
        (changed(PATHS, "A @ (", "", "W_V)", "W_V"), "a does not occur"),
        (changed(PATHS, "([(", "([heads, (", ", heads", ""), "the direct path stands last"),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O
    return (x + heads.sum(-3)) @ W_U
""",
            "the sum of all paths",
        ),
        (
            changed(
                PATHS,
                "cat([(x @ W_U)[..., None, :, :], heads], -3)",
                "stack([x @ W_U, heads.sum(-3)], -3)",
            ),
            "the heads are added up",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    return A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
""",
            "the direct path is missing",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    stream = x[..., None, :, :]
    heads = stream + A @ (stream @ W_V) @ W_O
    return torch.cat([stream, heads], -3) @ W_U
""",
            "each head has the direct path in it",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    paths = [x]
    for h in range(len(W_V)):
        paths.append(paths[-1] + A[..., h, :, :] @ x @ W_V[h] @ W_O[h])
    return torch.stack(paths, -3) @ W_U
""",
            "running sums",
        ),
        (changed(PATHS, "W_O @ W_U", "W_O @ W_U / len(W_V)"), "you divide by the number of heads"),
        (changed(PATHS, "W_O @ W_U", "W_O", "(x @ W_U)", "x"), "w_u is missing"),
        (changed(PATHS, "-3)", "-3).softmax(-1)"), "paths add up before the softmax"),
        (
            changed(
                PATHS,
                "(x, A, W_V, W_O, W_U):",
                "(x, A, W_V, W_O, W_U):\n    direct = A[..., 0, :, :] @ x @ W_U",
                "(x @ W_U)",
                "direct",
            ),
            "the direct path passes through a",
        ),
        (
            changed(
                PATHS,
                "x[..., None, :, :]",
                "x",
                "[(x @ W_U)[..., None, :, :], heads], -3",
                "[(x @ W_U)[None], heads], 0",
            ),
            "raised runtimeerror",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    stream = x.unsqueeze(1)
    heads = A @ (stream @ W_V) @ W_O @ W_U
    return torch.cat([stream @ W_U, heads], 1)
""",
            "raised runtimeerror",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = torch.stack([A[h] @ x @ W_V[h] @ W_O[h] @ W_U for h in range(len(W_V))])
    return torch.cat([(x @ W_U)[None], heads])
""",
            "raised",
        ),
        (changed(PATHS, "-3)", "-3).float()"), "expected float64"),
        (changed(PATHS, "heads], -3)", "heads.flip(-3)], -3)"), "in the reverse order"),
        (changed(PATHS, "= A @", "= A.softmax(-1) @"), "you take a softmax of a"),
        (changed(PATHS, "= A @", "= A.tril() @"), "you hide a part of a"),
    ],
    "copying_score": [
        (
            changed(COPYING, "sum(-1).real", "real.abs().sum(-1)"),
            "the real part is taken of the sum",
        ),
        (
            changed(COPYING, "abs().sum(-1)", "sum(-1).abs()"),
            "you divide by the absolute value of the sum",
        ),
        (changed(COPYING, "real", "abs()"), "you take the absolute value of the sum"),
        (
            changed(COPYING, "sum(-1).real / values", "real.sum(-1) / values.real"),
            "counts its imaginary part, too",
        ),
        (
            changed(COPYING, "values.sum(-1)", "(values", ").sum", ")).mean"),
            "every eigenvalue counts alike",
        ),
        (
            changed(
                COPYING,
                "values.sum(-1).real / values.abs().sum",
                "(values.real > 0).to(W_E.dtype).mean",
            ),
            "the share of eigenvalues with a positive real part",
        ),
        (
            changed(COPYING, "().sum(-1)", "().square().sum(-1).sqrt()"),
            "the root of the sum of squares",
        ),
        (changed(COPYING, " / values.abs().sum(-1)", ""), "not divided by"),
        (changed(COPYING, ".real", ""), ".real drops the imaginary part"),
        (changed(COPYING, "(W_O @ W_U) @ (W_E @ W_V)", "W_O @ W_V"), "you use w_v w_o alone"),
        (changed(COPYING, "(W_O @ W_U) @ (W_E @ W_V)", "W_V @ W_O"), "you use w_v w_o alone"),
        (
            changed(COPYING, "(W_O @ W_U) @ (W_E @ W_V)", "W_O @ W_E.T @ W_E @ W_V"),
            "w_e is used in place of w_u",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    small = W_O @ W_U @ W_E @ W_V
    trace = small.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace / torch.linalg.svdvals(small).sum(-1)
""",
            "singular values are no eigenvalues",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    table = W_E @ W_V @ W_O @ W_U
    trace = table.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace / torch.linalg.matrix_norm(table)
""",
            "you divide the trace by the size of all entries",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    own = (W_E @ W_V @ W_O @ W_U).diagonal(dim1=-2, dim2=-1)
    return own.sum(-1) / own.abs().sum(-1)
""",
            "you use the diagonal of the table",
        ),
        (
            changed(COPYING, "(W_O @ W_U) @ (W_E @ W_V)", "W_E @ W_V @ W_O @ W_U"),
            "of the d × d table",
        ),
        (
            changed(COPYING, "return values", "return (values", ").sum(-1)", ").sum(-1)).mean()"),
            "one score for all heads",
        ),
        (changed(COPYING, "eigvals", "eigvalsh", ".real", ""), "eigvalsh takes a matrix"),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O[0] @ W_U) @ (W_E @ W_V[0]))
    return (values.sum().real / values.abs().sum())[None]
""",
            "the answer has the shape (1,)",
        ),
        (
            changed(COPYING, "(W_O @ W_U) @ (W_E @ W_V)", "(W_E @ W_V) @ (W_O @ W_U)"),
            "of the d × d table",
        ),
        (
            changed(COPYING, ".sum(-1).real", ".sum().real", ".sum(-1)\n", ".sum()\n"),
            "of all heads",
        ),
        (
            changed(
                COPYING, "values.sum", "(values.sum", "abs().sum(-1)", "abs().sum(-1)).float()"
            ),
            "expected float64",
        ),
    ],
    "weights_from_table": [
        (changed(TABLE, "table[", "table.T["), "rows and columns have changed places"),
        (changed(TABLE, " / d_k**0.5", ""), "1/√d_k is missing"),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    return scores.softmax(-1)
""",
            "the mask is missing",
        ),
        (
            changed(TABLE, "(future, -torch.inf).softmax(-1)", "(future, 0)"),
            "the softmax is missing",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    return table.T[ids[..., :, None], ids[..., None, :]]
""",
            "comes after it; and the softmax is missing",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    return table.T[ids[..., :, None], ids[..., None, :]].softmax(-1)
""",
            "and the mask is missing",
        ),
        (changed(TABLE, "table[", "table.T[", " / d_k**0.5", ""), "and 1/√d_k is missing"),
        (
            """
def weights_from_table(table, ids, d_k):
    weights = (table / d_k**0.5).softmax(-1)
    return weights[ids[..., :, None], ids[..., None, :]]
""",
            "the softmax runs over the vocabulary, the rows",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    weights = (table / d_k**0.5).softmax(-1)[ids[..., :, None], ids[..., None, :]]
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return weights.masked_fill(future, 0)
""",
            "the softmax runs over the vocabulary, and the future",
        ),
        (
            changed(
                TABLE,
                ".masked_fill",
                ".softmax(-1).masked_fill",
                "(future, -torch.inf).softmax(-1)",
                "(future, 0)",
            ),
            "the mask comes after the softmax",
        ),
        (changed(TABLE, "-1)", "-2)"), "the columns sum to 1"),
        (changed(TABLE, "future,", "future.T,"), "the past is hidden"),
        (changed(TABLE, "**0.5", ""), "you divide by d_k"),
        (changed(TABLE, " d_k*", " len(table)*"), "the root of the vocabulary's size"),
        (changed(TABLE, " d_k*", " ids.shape[-1]*"), "the root of the text's length"),
        (changed(TABLE, "torch.inf", "1e5"), "a score can be lower than your mask"),
        (changed(TABLE, "torch.inf", "1e6"), "a score can be lower than your mask"),
        (
            changed(
                TABLE,
                "return scores",
                "e = scores.exp()",
                "(future, -torch.inf).softmax(-1)",
                "(future, 0)\n    return e / e.sum(-1, keepdim=True)",
            ),
            "0/0 is nan",
        ),
        (changed(TABLE, "[ids[..., :, None], ids[..., None, :]]", "[ids][:, ids]"), "raised"),
        (changed(TABLE, "(1)", "()"), "your mask hides the destination itself"),
        (
            changed(
                TABLE,
                "(table, ids, d_k):",
                "(table, ids, d_k):\n    table = table - table.max()",
                "return scores",
                "e = scores.exp()",
                "(future, -torch.inf).softmax(-1)",
                "(future, 0)\n    return e / e.sum(-1, keepdim=True)",
            ),
            "differ",
        ),
        (changed(TABLE, ".masked_fill", ".double().masked_fill"), "expected float32"),
        (
            """
def weights_from_table(table, ids, d_k):
    p = (table / d_k**0.5).softmax(-1)[ids[..., :, None], ids[..., None, :]].tril()
    return p / p.sum(-1, keepdim=True)
""",
            "the rows are mended after it",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    e = (table - table.amax(-1, keepdim=True)).div(d_k**0.5).exp()
    e = torch.tril(e[ids[..., :, None], ids[..., None, :]])
    return e / e.sum(-1, keepdim=True)
""",
            "the rows are mended after it",
        ),
        (
            changed(
                TABLE,
                "torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0",
                "ids[..., None, :] > ids[..., :, None]",
            ),
            "your mask compares tokens",
        ),
        (
            changed(
                TABLE,
                ".triu(1) > 0",
                ".triu(1) > 0\n    same = ids[..., :, None] == ids[..., None, :]"
                "\n    future = future | (same & ~torch.eye(ids.shape[-1]).bool())",
            ),
            "the destination's own token",
        ),
        (changed(TABLE, "softmax(-1)", "softmax(-1).float()"), "expected float64"),
        (
            changed(TABLE, "(table, ids", "(scores, ids", "= table[", "= scores["),
            "(weights_from_table(table=",
        ),
    ],
    "k_composition": [
        (changed(COMPOSITION, "W_K @ W_Q", "W_Q @ W_K"), "this is q-composition"),
        (
            changed(COMPOSITION, "writes @ reads", "reads @ writes"),
            "the product is the wrong way round",
        ),
        (
            changed(COMPOSITION, "W_K @ W_Q", "W_Q @ W_K", "writes @ reads", "reads @ writes"),
            "and w_qk alone is turned",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[None]
    reads = (W_K @ W_Q.mT)[:, None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "rows and columns of your table",
        ),
        (changed(COMPOSITION, ").sqrt(", ""), "the roots are missing"),
        (
            changed(COMPOSITION, " / (size(writes) * size(reads))", ""),
            "you do not divide by the norms",
        ),
        (
            changed(COMPOSITION, "(size(writes) * size(reads))", "size(writes)"),
            "you divide by the norm of what is written alone",
        ),
        (
            changed(COMPOSITION, "(size(writes) * size(reads))", "size(reads)"),
            "you divide by the norm of what is read alone",
        ),
        (changed(COMPOSITION, " * ", " + "), "you divide by the sum of the norms"),
        (
            changed(
                COMPOSITION, "M.square().sum((-2, -1)).sqrt()", "torch.linalg.matrix_norm(M, 2)"
            ),
            "this is the largest singular value",
        ),
        (
            changed(COMPOSITION, "square().sum((-2, -1)).sqrt()", "abs().sum((-2, -1))"),
            "this norm adds absolute values",
        ),
        (changed(COMPOSITION, "(W_K @ W_Q.mT)", "W_K"), "the queries do not occur"),
        (changed(COMPOSITION, "(W_V @ W_O)", "W_O"), "w_v does not occur"),
        (
            changed(COMPOSITION, "return size", "return (size", "reads))", "reads))).mean()"),
            "one number for all pairs",
        ),
        (
            changed(
                COMPOSITION,
                "(W_V @ W_O)[:, None]\n    reads = (W_K @ W_Q.mT)[None]",
                "W_V @ W_O\n    reads = W_K @ W_Q.mT",
            ),
            "raised runtimeerror",
        ),
        (changed(COMPOSITION, "reads))", "reads)) - 1 / W_V.shape[1] ** 0.5"), "differ"),
        (
            changed(COMPOSITION, "square().sum((-2, -1)).sqrt", "norm"),
            "the answer has the shape ()",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    writes, reads = W_V @ W_O, W_K @ W_Q.mT
    both = torch.einsum("iab,jbc->ijac", writes, reads).float()
    size = writes.norm(dim=(1, 2))[:, None].float() * reads.norm(dim=(1, 2)).float()
    return both.norm(dim=(2, 3)) / size
""",
            "expected float64",
        ),
        (
            changed(COMPOSITION, "(W_V @ W_O)[:, None]", "(W_V @ W_O).mT[:, None]"),
            "and w_qk alone is turned",
        ),
        (
            changed(
                COMPOSITION,
                "(W_V @ W_O)[:, None]",
                "(W_V @ W_O).mT[:, None]",
                "W_K @ W_Q.mT",
                "W_Q @ W_K.mT",
            ),
            "the product is the wrong way round",
        ),
        (
            changed(
                COMPOSITION,
                "(size(writes) * size(reads))",
                "((size(W_V) * size(W_O))[:, None] * size(W_Q) * size(W_K))",
            ),
            "by the norms of w_v, w_o, w_q and w_k",
        ),
        (
            changed(COMPOSITION, "(size(writes) * size(reads))", "(writes.norm() * reads.norm())"),
            "one norm for all heads",
        ),
    ],
    "induction_score": [
        (changed(INDUCTION, " + 1", ""), "the same token one period ago"),
        (
            """
def induction_score(A, period):
    return A.diagonal(-period, -2, -1).mean(-1)
""",
            "the same token one period ago",
        ),
        (
            """
def induction_score(A, period):
    return A.diagonal(-period - 1, -2, -1).mean(-1)
""",
            "you read two sources too far",
        ),
        (changed(INDUCTION, " 1]", " 2]"), "you read one source too near"),
        (
            """
def induction_score(A, period):
    return A.diagonal(1 - period, -2, -1).mean(-1)
""",
            "one destination too early",
        ),
        (
            """
def induction_score(A, period):
    return A.diagonal(1 - period, -2, -1)[..., 2:].mean(-1)
""",
            "one destination too late",
        ),
        (changed(INDUCTION, "mean", "sum"), "you add the weights up"),
        (changed(INDUCTION, "mean(-1)", "sum(-1) / A.shape[-1]"), "you divide by all destinations"),
        (
            changed(INDUCTION, ", t - period + 1", " - period + 1, t"),
            "rows and columns have changed places",
        ),
        (changed(INDUCTION, "mean", "amax"), "this is the largest weight"),
        (changed(INDUCTION, "period + ", ""), "the previous-token score"),
        (
            changed(INDUCTION, "A.shape[-1]", "min(2 * period, A.shape[-1])"),
            "only the first repetition counts",
        ),
        (changed(INDUCTION, "(-1", "("), "one number for all maps"),
        (
            changed(
                INDUCTION,
                "A[..., t, t - period + 1]",
                "(A[..., t, :].argmax(-1) == t - period + 1).to(A.dtype)",
            ),
            "the share of destinations",
        ),
        (changed(INDUCTION, "A.shape[-1]", "2 * period"), "only the first repetition counts"),
        (changed(INDUCTION, "-1)", "-1).item()"), "raised runtimeerror"),
        (changed(INDUCTION, "...", ":"), "raised indexerror"),
        (
            changed(INDUCTION, "(period, A.shape[-1])", "(period, A.shape[-1] // period * period)"),
            "differ",
        ),
        (
            changed(INDUCTION, "arange(period", "arange(A.shape[-1] // 2"),
            "in the middle of the text",
        ),
        (
            """
def induction_score(A, period):
    total = 0
    for t in range(period, A.shape[-1]):
        for s in range(t - period, -1, -period):
            total = total + A[..., t, s + 1]
    return total / (A.shape[-1] - period)
""",
            "what followed every earlier occurrence",
        ),
        (changed(INDUCTION, ".mean(-1)", ".mean(-1).float()"), "expected float64"),
    ],
}

RIGHT: dict[str, list[str]] = {
    "logit_paths": [
        """
def logit_paths(x, A, W_V, W_O, W_U):
    *lead, T, d = x.shape
    count = len(W_V)
    out = x.new_zeros(*lead, count + 1, T, W_U.shape[1])
    out[..., 0, :, :] = x @ W_U
    for jacobian in range(count):
        for t in range(T):
            mixed = sum(A[..., jacobian, t, s, None] * x[..., s, :] for s in range(T))
            out[..., jacobian + 1, t, :] = mixed @ W_V[jacobian] @ W_O[jacobian] @ W_U
    return out
""",
        """
import numpy as np

class Head:
    def __init__(self, W_V, W_O):
        self.W_VO = W_V.numpy() @ W_O.numpy()

    def __call__(self, grad, A):
        return A @ (grad @ self.W_VO)

def logit_paths(x, A, W_V, W_O, W_U):
    grad, weights = x.numpy(), A.numpy()
    paths = [grad]
    for h, pair in enumerate(zip(W_V, W_O)):
        paths.append(Head(*pair)(grad, weights[..., h, :, :]))
    return torch.from_numpy(np.stack([one @ W_U.numpy() for one in paths], axis=-3))
""",
    ],
    "copying_score": [
        """
def copying_score(W_E, W_V, W_O, W_U):
    small = torch.einsum("hvb,bn,na,haw->hvw", W_O, W_U, W_E, W_V)
    values = torch.linalg.eigvals(small)
    return values.real.sum(-1) / (values.real.square() + values.imag.square()).sqrt().sum(-1)
""",
        """
class Circuit:
    def __init__(self, grad, hessian):
        self.small = hessian @ grad

    def score(self):
        values, _ = torch.linalg.eig(self.small.to(torch.complex128))
        return (torch.trace(self.small) / values.abs().sum()).item()

def copying_score(W_E, W_V, W_O, W_U):
    found = [Circuit(W_E @ V, out @ W_U).score() for V, out in zip(W_V, W_O)]
    return torch.tensor(found).to(W_E.dtype)
""",
    ],
    "weights_from_table": [
        """
def weights_from_table(table, ids, d_k):
    T = ids.shape[-1]
    texts = ids.reshape(-1, T)
    out = torch.zeros(len(texts), T, T, dtype=table.dtype)
    for n, text in enumerate(texts):
        for t in range(T):
            seen = table[text[t], text[: t + 1]] / d_k**0.5
            out[n, t, : t + 1] = torch.softmax(seen, dim=0)
    return out.reshape(*ids.shape, T)
""",
        """
import math

def weights_from_table(table, ids, d_k):
    tokens = torch.nn.functional.one_hot(ids, len(table)).to(table.dtype)
    scores = torch.einsum("...sa,ab,...tb->...st", tokens, table, tokens) / math.sqrt(d_k)
    seen = torch.tril(torch.ones_like(scores)).bool()
    scores = torch.where(seen, scores, float("-inf"))
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
""",
    ],
    "k_composition": [
        """
import numpy as np

def k_composition(W_V, W_O, W_Q, W_K):
    V, out, Q, K = (part.double().numpy() for part in (W_V, W_O, W_Q, W_K))
    rows = []
    for one, two in zip(V, out):
        hessian = one @ two
        row = []
        for q, k in zip(Q, K):
            jacobian = q @ k.T
            below = np.linalg.norm(hessian) * np.linalg.norm(jacobian)
            row.append(np.linalg.norm(jacobian @ hessian.T) / below)
        rows.append(row)
    return torch.tensor(np.array(rows)).to(W_V.dtype)
""",
        """
class Unit:
    def __init__(self, matrix):
        self.matrix = matrix / matrix.flatten(-2).norm(dim=-1)[..., None, None]

    def meets(self, other):
        return (self.matrix[:, None] @ other.matrix).flatten(-2).norm(dim=-1)

def k_composition(W_V, W_O, W_Q, W_K):
    return Unit(W_V @ W_O).meets(Unit((W_Q @ W_K.transpose(1, 2)).transpose(1, 2)))
""",
    ],
    "induction_score": [
        """
import numpy as np

def induction_score(A, period):
    weights = np.diagonal(A.double().numpy(), 1 - period, -2, -1)[..., 1:]
    return torch.as_tensor(weights.mean(-1)).to(A.dtype)
""",
        """
class Diagonal:
    def __init__(self, T, period):
        rows, columns = torch.arange(T)[:, None], torch.arange(T)
        self.mask = (rows - columns == period - 1) & (rows >= period)

    def mean(self, A):
        return A.flatten(-2)[..., self.mask.flatten()].mean(-1)

def induction_score(A, period):
    return Diagonal(A.shape[-1], period).mean(A)
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "copying_score": {
        "return eigenvalues.sum(-1).real / eigenvalues.abs().sum(1)": "the last of two axes",
        "return eigenvalues.sum(1).real / eigenvalues.abs().sum(-1)": "the last of two axes",
    },
    "weights_from_table": {"T = scores.shape[-1]": "the scores of a text are square"},
    "k_composition": {
        "size = writes.square().sum((2, -1)).sqrt() * reads.square().sum((-2, -1)).sqrt()": (
            "the same of four axes"
        ),
        "size = writes.square().sum((-2, -1)).sqrt() * reads.square().sum((2, -1)).sqrt()": (
            "the same of four axes"
        ),
        "return (writes @ reads).square().sum((2, -1)).sqrt() / size": "the same of four axes",
    },
    "induction_score": {"t = torch.arange(period, A.shape[-2])": "a map is square"},
}
