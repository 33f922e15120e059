"""What students answer in the exercises of chapter 08: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "count_share": [
        (
            """
import math

def count_share(T, D, c):
    if c < 0 or c > T:
        return 0.0
    return math.comb(T, c) * (1 / D) ** c * (1 - 1 / D) ** (T - c)
""",
            "you let all t places vary",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c > T - 1:
        return 0.0
    return math.comb(T - 1, c) * (1 / D) ** c * (1 - 1 / D) ** (T - 1 - c)
""",
            "you ask for c other places",
        ),
        (
            """
def count_share(T, D, c):
    if c < 1 or c > T:
        return 0.0
    return (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "you count one way to place them",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c > T:
        return 0.0
    return math.comb(T - 1, c - 1) / D ** (c - 1)
""",
            "the places with other symbols are missing",
        ),
        (
            """
import math

def count_share(T, D, c):
    p, total = 1 / D, 0.0
    for k in range(max(c, 1), T + 1):
        total += math.comb(T - 1, k - 1) * p ** (k - 1) * (1 - p) ** (T - k)
    return total
""",
            "this is the probability of c or more",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c > T:
        return 0.0
    p = 1 / (D - 1)
    return math.comb(T - 1, c - 1) * p ** (c - 1) * (1 - p) ** (T - c)
""",
            "you use 1/(d − 1)",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c > T:
        return 0.0
    return T * math.comb(T - 1, c - 1) * (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "t times too much",
        ),
        (
            """
def count_share(T, D, c):
    return 0.5369 if c == 1 else 0.0
""",
            "the answer is",
        ),
        (
            """
import math

def count_share(T, D, c):
    return math.comb(T - 1, c - 1) * (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "raised valueerror",
        ),
        (
            """
def count_share(T, D, c):
    rows = torch.randint(D, (2000, T))
    return ((rows == rows[:, :1]).sum(1) == c).float().mean().item()
""",
            "the answer is",
        ),
    ],
    "count_by_places": [
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / 9
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).round().long()
""",
            "you share the rest among nine places",
        ),
        (
            """
def count_by_places(ids, a, D):
    b = (1 - a) / 9
    fixed = torch.full((10, 10), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).round().long()
""",
            "raised runtimeerror",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / T
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).round().long()
""",
            "among all t places",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return (amounts.relu().sum(-1) / b).round().long()
""",
            "the threshold is missing",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - a).relu().sum(-1) / b).round().long()
""",
            "your threshold is a:",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).sum(-1) / b).round().long()
""",
            "you do not clip at zero",
        ),
        (
            """
def count_by_places(ids, a, D):
    return (ids[:, :, None] == ids[:, None, :]).sum(-1)
""",
            "with a small diagonal it errs",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).long()
""",
            "you cut off what is behind the point",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).round()
""",
            "dtype float32, expected int64",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids[0], D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).round().long()
""",
            "the answer has the shape (",
        ),
    ],
    "smallest_diagonal": [
        (
            """
def smallest_diagonal(T, most):
    return most / (T - 1 + most)
""",
            "your condition is most · b ≤ a:",
        ),
        (
            """
def smallest_diagonal(T, most):
    return (most + 1) / (T + most + 1)
""",
            "you divide the rest among t places",
        ),
        (
            """
def smallest_diagonal(T, most):
    return T / (2 * T - 1)
""",
            "you took t − 1 for `most`",
        ),
        (
            """
def smallest_diagonal(T, most):
    return 1 / T
""",
            "this is an even share",
        ),
        (
            """
def smallest_diagonal(T, most):
    return (most + 0.5) / (T + most - 0.5)
""",
            "this leans on the rounding",
        ),
        (
            """
def smallest_diagonal(T, most):
    a = (most + 1) / (T + most)
    return (1 - a) / (T - 1)
""",
            "this is b at the border",
        ),
        (
            """
def smallest_diagonal(T, most):
    return 0.55
""",
            "the same answer whatever it is given",
        ),
        (
            """
def smallest_diagonal(T, most):
    for a in range(1, 101):
        b = (1 - a / 100) / (T - 1)
        if most * b <= a / 100 - b:
            return a / 100
""",
            "the answer is",
        ),
        (
            """
def smallest_diagonal(T, most):
    return (most + 1) // (T + most)
""",
            "the same answer whatever it is given",
        ),
    ],
    "semantic_map": [
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).float()
    return same / same.sum(-1, keepdim=True)
""",
            "only the places with my symbol get weight",
        ),
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).float()
    return (beta * same).softmax(-2)
""",
            "the columns sum to 1",
        ),
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).float()
    return (beta * same * (1 - torch.eye(ids.shape[-1]))).softmax(-1)
""",
            "your own place has score 0",
        ),
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).float()
    scores = beta * same
    return scores.masked_fill(torch.eye(ids.shape[-1]).bool(), -torch.inf).softmax(-1)
""",
            "a place does not look at itself",
        ),
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).float()
    return beta * same
""",
            "these are the scores",
        ),
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).float()
    return (beta * same / ids.shape[-1] ** 0.5).softmax(-1)
""",
            "you divide by √t",
        ),
        (
            """
def semantic_map(ids, beta):
    return (ids[..., :, None] == ids[..., None, :]).float().softmax(-1)
""",
            "β is missing",
        ),
        (
            """
def semantic_map(ids, beta):
    other = (ids[..., :, None] != ids[..., None, :]).float()
    return (beta * other).softmax(-1)
""",
            "different symbols get the weight",
        ),
        (
            """
def semantic_map(ids, beta):
    e = torch.exp(beta * (ids[..., :, None] == ids[..., None, :]).float())
    return e / e.sum(-1, keepdim=True)
""",
            "infinity through infinity is nan",
        ),
        (
            """
def semantic_map(ids, beta):
    same = ids[:, None] == ids[None, :]
    return (beta * same.float()).softmax(-1)
""",
            "the answer has the shape",
        ),
        (
            """
def semantic_map(ids, beta):
    same = ids[..., :, None] == ids[..., None, :]
    return (beta * same.double()).softmax(-1)
""",
            "dtype float64, expected float32",
        ),
    ],
    "asymmetry": [
        (
            """
def asymmetry(x, W_Q, W_K):
    A = ((x @ W_Q) @ (x @ W_K).mT).softmax(-1)
    return (A - A.mT).square().sum((-2, -1)).sqrt() / A.square().sum((-2, -1)).sqrt()
""",
            "you compare the attention weights:",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    A = ((x @ W_Q) @ (x @ W_K).mT / W_Q.shape[-1] ** 0.5).softmax(-1)
    return (A - A.mT).square().sum((-2, -1)).sqrt() / A.square().sum((-2, -1)).sqrt()
""",
            "you compare the attention weights, after scale and softmax",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    M = W_Q @ W_K.T
    return ((M - M.T).norm() / M.norm()).expand(len(x)).clone()
""",
            "the texts do not occur",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return (S - S.mT).square().sum((-2, -1)).sqrt()
""",
            "you do not divide by the size of the scores",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return ((S - S.mT).norm() / S.norm()).expand(len(x)).clone()
""",
            "you take one norm over all texts",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return ((S - S.mT).norm() / S.norm()).item()
""",
            "the answer is a float, expected a float32 tensor",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return (S - S.mT).square().sum((-2, -1)) / S.square().sum((-2, -1))
""",
            "the roots are missing",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return (S + S.mT).square().sum((-2, -1)).sqrt() / S.square().sum((-2, -1)).sqrt()
""",
            "you add s and its transpose",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_Q).mT
    return (S - S.mT).square().sum((-2, -1)).sqrt() / S.square().sum((-2, -1)).sqrt()
""",
            "symmetric by construction",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return (S - S.mT).abs().sum((-2, -1)) / S.abs().sum((-2, -1))
""",
            "you add the absolute values",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x[0] @ W_Q) @ (x[0] @ W_K).T
    return ((S - S.T).norm() / S.norm())[None]
""",
            "the answer has the shape (1,)",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "count_share": [
        """
def count_share(T, D, c):
    row = [1.0]
    for _ in range(T - 1):
        longer = [0.0] * (len(row) + 1)
        for others, p in enumerate(row):
            longer[others] += p * (D - 1) / D
            longer[others + 1] += p / D
        row = longer
    return row[c - 1] if 1 <= c <= T else 0.0
""",
        """
import math

def count_share(T, D, c):
    if not 1 <= c <= T:
        return 0.0
    log = math.lgamma(T) - math.lgamma(c) - math.lgamma(T - c + 1)
    return math.exp(log + (T - c) * math.log(D - 1) - (T - 1) * math.log(D))
""",
    ],
    "count_by_places": [
        """
def count_by_places(ids, a, D):
    N, T = ids.shape
    b = (1 - a) / (T - 1)
    out = torch.zeros(N, T, dtype=torch.int64)
    for n in range(N):
        for t in range(T):
            total = 0.0
            for symbol in range(D):
                amount = 0.0
                for s in range(T):
                    if ids[n, s] == symbol:
                        amount += a if s == t else b
                total += max(0.0, amount - (a - b))
            out[n, t] = round(total / b)
    return out
""",
        """
def count_by_places(ids, a, D):
    b = (1 - a) / (ids.shape[1] - 1)
    tokens = (ids[..., None] == torch.arange(D)).double()
    amounts = b * torch.einsum("nsd->nd", tokens)[:, None] + (a - b) * tokens
    hidden = torch.clamp(amounts - a + b, min=0)
    return torch.einsum("ntd->nt", hidden).div(b).round().to(torch.int64)
""",
    ],
    "smallest_diagonal": [
        """
def smallest_diagonal(T, most):
    low, high = 0.0, 1.0
    for _ in range(50):
        a = (low + high) / 2
        b = (1 - a) / (T - 1)
        if most * b <= a - b:
            high = a
        else:
            low = a
    return high
""",
        """
from fractions import Fraction

def smallest_diagonal(T, most):
    odds = Fraction(most + 1, T - 1)  # a / (1 - a)
    return float(odds / (1 + odds))
""",
    ],
    "semantic_map": [
        """
import math

def semantic_map(ids, beta):
    T = ids.shape[-1]
    rows = ids.reshape(-1, T)
    out = torch.zeros(len(rows), T, T)
    for n, row in enumerate(rows):
        for s in range(T):
            scores = [beta * float(row[s] == row[t]) for t in range(T)]
            top = max(scores)
            e = [math.exp(score - top) for score in scores]
            for t in range(T):
                out[n, s, t] = e[t] / sum(e)
    return out.reshape(*ids.shape, T)
""",
        """
def semantic_map(ids, beta):
    symbols = ids.unique()
    tokens = (ids[..., None] == symbols).float()
    scores = beta * torch.einsum("...sd,...td->...st", tokens, tokens)
    return torch.exp(scores - scores.logsumexp(-1, keepdim=True))
""",
    ],
    "asymmetry": [
        """
def asymmetry(x, W_Q, W_K):
    out = []
    for text in x:
        S = (text @ W_Q) @ (text @ W_K).T
        out.append(torch.linalg.norm(S - S.T) / torch.linalg.norm(S))
    return torch.stack(out)
""",
        """
def asymmetry(x, W_Q, W_K):
    S = torch.einsum("nsa,ak,bk,ntb->nst", x, W_Q, W_K, x)
    both = torch.stack([S - S.transpose(1, 2), S]).flatten(2).norm(dim=-1)
    return both[0] / both[1]
""",
    ],
}
