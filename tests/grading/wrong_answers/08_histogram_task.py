"""What students answer in the exercises of chapter 08: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "count_share": [
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c > T:
        return 0.0
    return math.comb(T, c) * (1 / D) ** c * (1 - 1 / D) ** (T - c)
""",
            "you let all t places vary, where",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c > T:
        return 0.0
    return math.comb(T, c - 1) * (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c + 1)
""",
            "you let t others vary",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c >= T:
        return 0.0
    return math.comb(T - 1, c) * (1 / D) ** c * (1 - 1 / D) ** (T - 1 - c)
""",
            "you ask for c others",
        ),
        (
            """
def count_share(T, D, c):
    return (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "the number of ways is missing",
        ),
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
        (
            """
import math

def count_share(T, D, c):
    if c < 1 or c >= T:
        return 0.0
    return math.comb(T - 1, c - 1) * (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "the answer is 0",
        ),
        (
            """
import math

def count_share(T, D, c):
    if c == 0 or c > T:
        return 0.0
    return math.comb(T - 1, c - 1) * (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "raised valueerror",
        ),
        (
            """
def count_share(T, D, c):
    if c == 0 or c > T:
        return 0.0
    ways = 1.0
    for i in range(c - 1):
        ways *= (T - 1 - i) / (i + 1)
    return ways * (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c)
""",
            "expected 0",
        ),
    ],
    "count_by_places": [
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]; b = (1 - a) / (T - 1)
    m = torch.full((T, T), b).fill_diagonal_(a)
    amounts = m @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu() / b).round().sum(-1).long()
""",
            "you round each unit, and then add",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]; b = (1 - a) / (T - 1)
    m = torch.full((T, T), b).fill_diagonal_(a)
    amounts = m @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - b).relu().sum(-1) / b).round().long()
""",
            "your threshold is b",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]; b = (1 - a) / (T - 1)
    m = torch.full((T, T), b).fill_diagonal_(a)
    amounts = m @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts.sum(-1) - (a - b)).relu() / b).round().long()
""",
            "you take the threshold off once",
        ),
        (
            """
def count_by_places(ids, a, D):
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    own = amounts.gather(-1, ids[..., None]).squeeze(-1)
    return ((own - (a - b)).relu() / b).round().long()
""",
            "as if only my own symbol passed the threshold",
        ),
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
            "with a small diagonal others pass",
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
        (
            """
def count_by_places(ids, a, D):
    T = min(ids.shape[1], 10)
    b = (1 - a) / (T - 1)
    amounts = b * torch.nn.functional.one_hot(ids, D).float().sum(1, keepdim=True)
    amounts = amounts + (a - b) * torch.nn.functional.one_hot(ids, D)
    return ((amounts - (a - b)).relu().sum(-1) / b).round().long()
""",
            "differ",
        ),
        (
            """
def count_by_places(ids, a, D):
    D = min(D, ids.shape[1])
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    fixed = torch.full((T, T), b).fill_diagonal_(a)
    amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
    return ((amounts - (a - b)).relu().sum(-1) / b).round().long()
""",
            "raised runtimeerror",
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
        (
            """
def smallest_diagonal(T, most):
    return (min(most, T - 2) + 1) / (T + min(most, T - 2))
""",
            "the answer is",
        ),
        (
            """
def smallest_diagonal(length, most):
    return (most + 1) / (length + most)
""",
            "raised typeerror",
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
        (
            """
def semantic_map(ids, beta):
    same = ids[..., :, None] == ids[..., None, :]
    return (beta * same).softmax(-1)
""",
            "notimplementederror",
        ),
        (
            """
def semantic_map(ids, beta):
    same = (ids[..., :, None] == ids[..., None, :]).double()
    e = torch.exp(beta * same)
    return (e / e.sum(-1, keepdim=True)).float()
""",
            "differ",
        ),
    ],
    "asymmetry": [
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_K) @ (x @ W_K).mT
    n = lambda a: a.square().sum((-2, -1)).sqrt()
    return n(S - S.mT) / n(S)
""",
            "your number is 0 whatever the matrices are",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    n = lambda a: a.square().sum((-2, -1)).sqrt()
    return n(S - S) / n(S)
""",
            "your number is 0 whatever the matrices are",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    n = lambda a: a.sum((-2, -1)).square().sqrt()
    return n(S - S.mT) / n(S)
""",
            "your number is 0 whatever the matrices are",
        ),
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    return (S - S.mT).mean((-2, -1)).abs() / S.abs().mean((-2, -1))
""",
            "your number is 0 whatever the matrices are",
        ),
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
            "your number is 0 whatever the matrices are",
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
        (
            """
def asymmetry(x, W_Q, W_K):
    S = (x @ W_Q) @ (x @ W_K).mT
    S = S if S.dtype == torch.float64 else S.float()
    return (S - S.mT).square().sum((-2, -1)).sqrt() / S.square().sum((-2, -1)).sqrt()
""",
            "expected float16",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "count_share": [
        """
from fractions import Fraction

class Binomial:
    def __init__(self, n, p):
        self.n, self.p = n, p

    def at(self, k):
        ways = Fraction(1)
        for i in range(k):
            ways = ways * (self.n - i) / (i + 1)
        return ways * self.p**k * (1 - self.p) ** (self.n - k)

def count_share(T, D, c):
    return float(Binomial(T - 1, Fraction(1, D)).at(c - 1)) if c in range(1, T + 1) else 0.0
""",
        """
import numpy as np

def count_share(T, D, c):
    jacobian = np.ones(1)
    for _ in range(T - 1):
        jacobian = np.convolve(jacobian, [1 - 1 / D, 1 / D])
    shares = dict(enumerate(jacobian.tolist(), start=1))
    return shares.get(c, 0.0)
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
class Counter:
    def __init__(self, T, a):
        self.b = (1 - a) / (T - 1)
        self.threshold = a - self.b
        self.map = torch.eye(T).double() * self.threshold + self.b

    def __call__(self, row, D):
        tokens = torch.nn.functional.one_hot(row, D).double()
        units = torch.clamp(self.map.matmul(tokens) - self.threshold, min=0.0)
        return torch.floor(units.sum(1) / self.b + 0.5).to(torch.int64)

def count_by_places(ids, a, D):
    count = Counter(ids.shape[1], a)
    return torch.stack([count(row, D) for row in ids])
""",
    ],
    "smallest_diagonal": [
        """
import numpy as np

def smallest_diagonal(T, most):
    # a - b >= most b and a + (T - 1) b = 1, both with equality
    left = np.array([[1.0, -1.0 - most], [1.0, T - 1.0]])
    return float(np.linalg.solve(left, np.array([0.0, 1.0]))[0])
""",
        """
class Map:
    def __init__(self, T):
        self.T = T

    def even(self, a):
        return (1 - a) / (self.T - 1)

def smallest_diagonal(T, most):
    cross_entropy, fixed, step = 0.0, Map(T), 1.0
    while step > 1e-12:
        step /= 2
        a = cross_entropy + step
        if (most + 1) * fixed.even(a) > a:
            cross_entropy = a
    return cross_entropy + step
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
class Head:
    def __init__(self, W_E, beta):
        self.W_E, self.beta = W_E, beta

    def scores(self, ids):
        x = self.W_E[ids]
        return torch.einsum("...sd,...td->...st", self.beta * x, x)

def semantic_map(ids, beta):
    grad = Head(torch.eye(int(ids.max()) + 1, dtype=torch.float64), beta).scores(ids)
    grad = grad - grad.amax(-1, keepdim=True)
    return (grad.exp() / grad.exp().sum(-1, keepdim=True)).to(torch.float32)
""",
    ],
    "asymmetry": [
        """
def asymmetry(x, W_Q, W_K):
    S = torch.einsum("nsa,ak,bk,ntb->nst", x, W_Q, W_K, x)
    both = torch.stack([S - S.transpose(1, 2), S]).flatten(2).norm(dim=-1)
    return both[0] / both[1]
""",
        """
def size(matrix):
    return sum(value**2 for row in matrix for value in row) ** 0.5

class Text:
    def __init__(self, x, jacobian):
        self.scores = (x @ jacobian @ x.T).tolist()

    def mirrored(self):
        rows = range(len(self.scores))
        return [[self.scores[s][t] - self.scores[t][s] for t in rows] for s in rows]

def asymmetry(x, W_Q, W_K):
    jacobian = W_Q.double() @ W_K.double().T
    texts = [Text(one.double(), jacobian) for one in x]
    found = [size(text.mirrored()) / size(text.scores) for text in texts]
    return torch.tensor(found, dtype=x.dtype)
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "count_share": {
        "if c < 1:": "math.comb is 0 beyond T",
        "if c < 1 or T > T:": "math.comb is 0 beyond T",
        "if c < 1 or c > c:": "math.comb is 0 beyond T",
    },
    "count_by_places": {
        "amounts = fixed @ torch.nn.functional.one_hot(ids).float()": "absent symbols count 0"
    },
    "asymmetry": {
        "return (S.mT - S).square().sum((-2, -1)).sqrt() / size": "the size of a difference"
    },
}
