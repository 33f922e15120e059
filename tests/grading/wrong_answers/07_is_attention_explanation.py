"""What students answer in the exercises of chapter 07: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "saliencies": [
        (
            """
def saliencies(G):
    return G.mean(-1), G.abs().mean(-1), G.abs().mean(-1)
""",
            "your third one is g-l1 again",
        ),
        (
            """
def saliencies(G):
    average, l1, l2 = G.mean(-1), G.abs().mean(-1), G.square()
    same = torch.ones_like(average)
    return (
        same * average.sum(-1, keepdim=True),
        same * l1.sum(-1, keepdim=True),
        same * l2.sum((-2, -1)).sqrt()[..., None],
    )
""",
            "all words get the same number",
        ),
        (
            """
def saliencies(G):
    return G.mean(-2), G.abs().mean(-2), G.square().sum(-2).sqrt()
""",
            "you sum over the words",
        ),
        (
            """
def saliencies(G):
    return G.mean(-1), G.abs().mean(-1), G.square().sum(-1)
""",
            "the root in g-l2 is missing",
        ),
        (
            """
def saliencies(G):
    return G.mean(-1), G.abs().mean(-1), G.square().mean(-1).sqrt()
""",
            "g-l2 has no 1/d",
        ),
        (
            """
def saliencies(G):
    return G.mean(-1), G.abs().mean(-1), G.norm(dim=-1) / G.shape[-1]
""",
            "you divide g-l2 by d",
        ),
        (
            """
def saliencies(G):
    return G.sum(-1), G.abs().sum(-1), G.norm(dim=-1)
""",
            "lack their 1/d",
        ),
        (
            """
def saliencies(G):
    return G.mean(-1), G.abs().sum(-1), G.norm(dim=-1)
""",
            "g-l1 lacks its 1/d",
        ),
        (
            """
def saliencies(G):
    return G.mean(-1), G.mean(-1).abs(), G.norm(dim=-1)
""",
            "positive and negative parts cancel",
        ),
        (
            """
def saliencies(G):
    return G.abs().mean(-1), G.abs().mean(-1), G.norm(dim=-1)
""",
            "g-avg keeps its sign",
        ),
        (
            """
def saliencies(G):
    return G.norm(dim=-1)
""",
            "expected a tuple of 3",
        ),
        (
            """
def saliencies(G):
    G = G.float() if G.dtype != torch.float64 else G
    return G.mean(-1), G.abs().mean(-1), G.square().sum(-1).sqrt()
""",
            "expected float16",
        ),
    ],
    "kendall_tau": [
        (
            """
def kendall_tau(x, y):
    a, b = torch.sign(x[:, None] - x), torch.sign(y[:, None] - y)
    n = len(x) * (len(x) - 1)
    nx, ny = (a == 0).sum(), (b == 0).sum()
    return ((a * b).sum() / ((n - nx) * (n - ny)).float().sqrt()).item()
""",
            "the diagonal of your table",
        ),
        (
            """
def kendall_tau(x, y):
    def s(v):
        d = v[:, None] - v
        return torch.where(d.abs() < 1e-8, 0, d.sign())
    a, b = s(x), s(y)
    return ((a * b).sum() / (a.abs().sum() * b.abs().sum()).sqrt()).item()
""",
            "you take scores for tied that are merely close",
        ),
        (
            """
def kendall_tau(x, y):
    a, b = torch.sign(x[:, None] - x), torch.sign(y[:, None] - y)
    return ((a * b).sum() / (a.abs().sum() * b.abs().sum())).item()
""",
            "in your tables every pair counts twice",
        ),
        (
            """
def kendall_tau(x, y):
    r = lambda v: v.argsort().argsort()
    x, y = r(x), r(y)
    a, b = torch.sign(x[:, None] - x), torch.sign(y[:, None] - y)
    return ((a * b).sum() / (a.abs().sum() * b.abs().sum()).float().sqrt()).item()
""",
            "tied words get an order all the same",
        ),
        (
            """
def kendall_tau(x, y):
    C = D = 0
    for i in range(len(x)):
        for j in range(i):
            if (x[i] >= x[j]) == (y[i] >= y[j]): C += 1
            else: D += 1
    return (C - D) / (C + D)
""",
            "tied words get an order all the same",
        ),
        (
            """
def kendall_tau(x, y):
    C = D = n = 0
    for i in range(len(x)):
        for j in range(i):
            s = (x[i] - x[j]).sign() * (y[i] - y[j]).sign()
            C, D, n = C + int(s > 0), D + int(s < 0), n + 1
    return (C - D) / n
""",
            "you divide by all pairs",
        ),
        (
            """
def kendall_tau(x, y):
    C = D = 0
    for i in range(len(x)):
        for j in range(i):
            s = (x[i] - x[j]).sign() * (y[i] - y[j]).sign()
            C, D = C + int(s > 0), D + int(s < 0)
    return (C - D) / (C + D)
""",
            "you divide by the concordant and discordant pairs",
        ),
        (
            """
def kendall_tau(x, y):
    a, b = (x[:, None] - x).sign(), (y[:, None] - y).sign()
    pairs = torch.tril_indices(len(x), len(x), -1)
    a, b = a[pairs[0], pairs[1]], b[pairs[0], pairs[1]]
    return ((a * b).sum() / ((a != 0).sum() * (b != 0).sum())).item()
""",
            "the root in the denominator is missing",
        ),
        (
            """
def kendall_tau(x, y):
    C = n = 0
    for i in range(len(x)):
        for j in range(i):
            C, n = C + int((x[i] > x[j] and y[i] > y[j]) or (x[i] < x[j] and y[i] < y[j])), n + 1
    return C / n
""",
            "this is the share of concordant pairs",
        ),
        (
            """
def kendall_tau(x, y):
    a, b = (x[:, None] - x).sign(), (y - y[:, None]).sign()
    return ((a * b).sum() / ((a != 0).sum() * (b != 0).sum()).sqrt()).item()
""",
            "the sign is the wrong way round",
        ),
        (
            """
def kendall_tau(x, y):
    a, b = (x[:, None] - x).sign(), (y[:, None] - y).sign()
    n_x, n_y = (a != 0).sum() / 2, (b != 0).sum() / 2
    return ((a * b).sum() / (n_x * n_y).sqrt()).item()
""",
            "you count a pair twice above the line",
        ),
        (
            """
def kendall_tau(x, y):
    x, y = x.double() - x.double().mean(), y.double() - y.double().mean()
    return ((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt()).item()
""",
            "this is pearson",
        ),
        (
            """
def kendall_tau(x, y):
    def ranks(z):
        return (z[:, None] > z).sum(1) + ((z[:, None] == z).sum(1) - 1) / 2

    return torch.corrcoef(torch.stack([ranks(x), ranks(y)]))[0, 1].item()
""",
            "this is spearman",
        ),
        (
            """
def kendall_tau(x, y):
    ranks = torch.stack([x.argsort().argsort(), y.argsort().argsort()]).float()
    return torch.corrcoef(ranks)[0, 1].item()
""",
            "tied words get different ranks",
        ),
        (
            """
def kendall_tau(x, y):
    return torch.corrcoef(torch.stack([x, y]))[0, 1].item()
""",
            "this is pearson's correlation, and nan",
        ),
        (
            """
def kendall_tau(x, y):
    a, b = (x[:, None] - x).sign(), (y[:, None] - y).sign()
    return ((a * b == 1).sum() / ((a != 0).sum() * (b != 0).sum()).sqrt()).item()
""",
            "you leave out the discordant pairs",
        ),
        (
            """
def kendall_tau(x, y):
    C = D = 0
    for i in range(len(x)):
        for j in range(i):
            if (x[i] > x[j]) == (y[i] > y[j]):
                C += 1
            else:
                D += 1
    return (C - D) / (C + D)
""",
            "a tied pair counts as agreement",
        ),
        (
            """
def kendall_tau(x, y):
    return (x.diff().sign() * y.diff().sign()).mean().item()
""",
            "you compare neighbours only",
        ),
        (
            """
def kendall_tau(x, y):
    a, b = (x[:, None] - x).sign(), (y[:, None] - y).sign()
    return (a * b).sum() / ((a != 0).sum() * (b != 0).sum()).sqrt()
""",
            ".item() makes a number",
        ),
        (
            """
def kendall_tau(x, y):
    above = n = n_x = n_y = 0
    for i in range(len(x)):
        for j in range(i):
            a = int(x[i] > x[j]) - int(x[i] < x[j])
            b = int(y[i] > y[j]) - int(y[i] < y[j])
            above, n = above + a * b, n + 1
            n_x += a == 0 and b != 0
            n_y += b == 0 and a != 0
    return above / ((n - n_x) * (n - n_y)) ** 0.5
""",
            "you leave a pair that is tied in both",
        ),
        (
            """
def kendall_tau(x, y):
    C = D = n = n_x = n_y = 0
    for i in range(len(x)):
        for j in range(i):
            n += 1
            n_x += int(x[i] == x[j])
            n_y += int(y[i] == y[j])
            s = (x[i] - x[j]) * (y[i] - y[j])
            C += int(s > 0)
            D += int(s < 0)
    return (C - D) / ((n - n_x) * (n - n_y)) ** 0.5
""",
            "the product of two tiny ones",
        ),
        (
            """
def kendall_tau(x, y):
    def signs(z):
        apart = z[:, None] - z
        return torch.where(apart.abs() < 1e-8, 0, apart.sign())

    a, b = signs(x), signs(y)
    return ((a * b).sum() / ((a != 0).sum() * (b != 0).sum()).sqrt()).item()
""",
            "you take scores for tied that are merely close",
        ),
    ],
    "jensen_shannon": [
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    ok = (p > 0) & (q > 0)
    return torch.where(ok, p * (p / m).log() + q * (q / m).log(), 0).sum(-1) / 2
""",
            "where *either* weight is 0 you drop both terms",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    return torch.where(p > 0, p * (p / m).log(), 0).sum(-1) / 2
""",
            "one of the two halves is missing",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    one, other = (((x + 1e-12) / (m + 1e-12)).log() for x in (p, q))
    return (p * one + q * other).sum(-1) / 2
""",
            "got nan",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    return ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)) / 2
""",
            "where a weight is 0 you get nan",
        ),
        (
            """
def jensen_shannon(p, q):
    return torch.where(p > 0, p * (p / q).log(), 0).sum(-1)
""",
            "this is the kl divergence",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    return torch.where(p > 0, p * (p / m).log(), 0).sum(-1)
""",
            "you compare only p with the middle",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    parts = [torch.where(one > 0, one * (one / m).log(), 0).sum(-1) for one in (p, q)]
    return parts[0] + parts[1]
""",
            "the halves are missing",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    parts = [torch.where(one > 0, one * (one / m).log2(), 0).sum(-1) for one in (p, q)]
    return (parts[0] + parts[1]) / 2
""",
            "this is in bits",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    parts = [torch.where(one > 0, one * (one / m).log(), 0).sum(-1) for one in (p, q)]
    return ((parts[0] + parts[1]) / 2).sqrt()
""",
            "this is the root of it",
        ),
        (
            """
def jensen_shannon(p, q):
    m = p + q
    parts = [torch.where(one > 0, one * (one / m).log(), 0).sum(-1) for one in (p, q)]
    return (parts[0] + parts[1]) / 2
""",
            "your middle is p + q",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    parts = [torch.where(one > 0, one * (one / m).log(), 0).mean(-1) for one in (p, q)]
    return (parts[0] + parts[1]) / 2
""",
            "you take the mean over the words",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    return sum(torch.where(one > 0, one * (one / m).log(), 0).sum() for one in (p, q)) / 2
""",
            "you add up the whole tensor",
        ),
        (
            """
def jensen_shannon(p, q):
    p[p == 0] = 1e-12
    q[q == 0] = 1e-12
    m = (p + q) / 2
    return ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)) / 2
""",
            "changes its argument p in place",
        ),
        (
            """
def jensen_shannon(p, q):
    return (p - q).abs().sum(-1) / 2
""",
            "this is the total variation",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    return (torch.xlogy(p, p / m) + torch.xlogy(q, q / m)).sum(-1) / 2
""",
            "where both weights are 0 you get nan",
        ),
        (
            """
def jensen_shannon(p, q):
    m = (p + q) / 2
    parts = [torch.where(one > 1e-3, one * (one / m).log(), 0).sum(-1) for one in (p, q)]
    return (parts[0] + parts[1]) / 2
""",
            "differ",
        ),
        (
            """
def jensen_shannon(p, q):
    p, q = (one if one.dtype == torch.float64 else one.float() for one in (p, q))
    m = (p + q) / 2
    parts = [torch.where(one > 0, one * (one / m).log(), 0).sum(-1) for one in (p, q)]
    return (parts[0] + parts[1]) / 2
""",
            "expected float16",
        ),
    ],
    "other_attention": [
        (
            """
def other_attention(votes, alpha, far):
    y = (alpha * votes).sum()
    lo = torch.where(votes < y, alpha, torch.inf).argmin()
    hi = torch.where(votes > y, alpha, torch.inf).argmin()
    lam = (votes[hi] - y) / (votes[hi] - votes[lo])
    w = torch.zeros_like(alpha); w[lo] = lam; w[hi] = 1 - lam
    return w
""",
            "the distance is 0.600",
        ),
        (
            """
def other_attention(votes, alpha, far):
    return alpha.clone()
""",
            "choose words that have little of alpha",
        ),
        (
            """
def other_attention(votes, alpha, far):
    return torch.full_like(alpha, 1 / len(alpha))
""",
            "the sum of the votes moves",
        ),
        (
            """
def other_attention(votes, alpha, far):
    w = torch.zeros_like(alpha)
    w[alpha.argmin()] = 1.0
    return w
""",
            "the sum of the votes moves",
        ),
        (
            """
def other_attention(votes, alpha, far):
    return alpha.flip(0)
""",
            "the sum of the votes moves",
        ),
        (
            """
def other_attention(votes, alpha, far):
    y, i, j = (alpha * votes).sum(), votes.argmin(), votes.argmax()
    w = torch.zeros_like(alpha)
    w[j] = (votes[j] - y) / (votes[j] - votes[i])
    w[i] = 1 - w[j]
    return w
""",
            "the sum of the votes moves",
        ),
        (
            """
def other_attention(votes, alpha, far):
    y = (alpha * votes).sum()
    i, j = alpha.argsort()[:2].tolist()
    w = torch.zeros_like(alpha)
    w[i] = (votes[j] - y) / (votes[j] - votes[i])
    w[j] = 1 - w[i]
    return w
""",
            "a weight is below 0",
        ),
        (
            """
def other_attention(votes, alpha, far):
    w = alpha.clone()
    w[alpha.argmax()] = 0.0
    return w
""",
            "the weights sum to",
        ),
        (
            """
def other_attention(votes, alpha, far):
    y = (alpha * votes).sum()
    i, j = votes.argmin(), votes.argmax()
    w = torch.zeros_like(alpha)
    w[i] = (votes[j] - y) / (votes[j] - votes[i])
    w[j] = 1 - w[i]
    return 0.5 * w + 0.5 * alpha
""",
            "choose words that have little of alpha",
        ),
        (
            """
def other_attention(votes, alpha, far):
    y, i, j = (alpha * votes).sum(), votes.argmin(), votes.argmax()
    w = torch.zeros_like(alpha)
    w[i] = (votes[j] - y) / (votes[j] - votes[i])
    w[j] = 1 - w[i]
    return w
""",
            "choose words that have little of alpha",
        ),
    ],
    "rollout": [
        (
            """
def rollout(A):
    out = torch.eye(A.shape[-1], dtype=A.dtype)
    for a in A.mean(1): out = (0.5 * a + 0.5) @ out
    return out
""",
            "you add ½ to every entry",
        ),
        (
            """
def rollout(A):
    out = torch.eye(A.shape[-1], dtype=A.dtype)
    for a in A.mean(0): out = (a + torch.eye(len(a), dtype=A.dtype)) / 2 @ out
    return out
""",
            "you average over the layers (axis 0)",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A.mean(1):
        out = out @ (layer + unit) / 2
    return out
""",
            "multiplied in the wrong order",
        ),
        (
            """
def rollout(A):
    out = torch.eye(A.shape[-1], dtype=A.dtype)
    for layer in A.mean(1):
        out = layer @ out
    return out
""",
            "the residual connection is missing",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A.mean(1):
        out = (layer + unit) @ out
    return out
""",
            "you add i without halving",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A.sum(1):
        out = (layer + unit) / 2 @ out
    return out
""",
            "the heads are added up",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A[:, 0]:
        out = (layer + unit) / 2 @ out
    return out
""",
            "you use the first head only",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = torch.ones_like(unit)
    for layer in A.mean(1):
        out = (layer + unit) / 2 * out
    return out
""",
            "you multiply entry by entry",
        ),
        (
            """
def rollout(A):
    return (A.mean((0, 1)) + torch.eye(A.shape[-1], dtype=A.dtype)) / 2
""",
            "you average the layers",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    return (A[-1].mean(0) + unit) / 2
""",
            "this is the last layer alone",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A.mean(1):
        out = (layer + unit) / 2 @ out
    return out.T
""",
            "rows and columns are exchanged",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A.mean(1):
        out = layer @ out
    return (out + unit) / 2
""",
            "the residual connection is added once",
        ),
        (
            """
def rollout(A):
    out = torch.eye(A.shape[-1])
    for layer in A.float().mean(1):
        out = (layer + torch.eye(A.shape[-1])) / 2 @ out
    return out
""",
            "dtype float32, expected float64",
        ),
        (
            """
def rollout(A):
    A = A if A.dtype == torch.float64 else A.float()
    out = unit = torch.eye(A.shape[-1], dtype=A.dtype)
    for layer in A.mean(1):
        out = (layer + unit) / 2 @ out
    return out
""",
            "expected float16",
        ),
        (
            """
def rollout(A):
    unit = torch.eye(A.shape[-1], dtype=A.dtype)
    out = unit
    for layer in A.mean(0):
        out = (layer + unit) / 2 @ out
    return out
""",
            "you average over the layers (axis 0)",
        ),
        (
            """
def rollout(maps):
    out = unit = torch.eye(maps.shape[-1], dtype=maps.dtype)
    for layer in maps.mean(1):
        out = (layer + unit) / 2 @ out
    return out
""",
            "raised typeerror",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "saliencies": [
        """
def saliencies(G):
    d = G.shape[-1]
    l1 = torch.linalg.vector_norm(G, ord=1, dim=-1) / d
    l2 = torch.einsum("...d,...d->...", G, G).sqrt()
    return torch.einsum("...d->...", G) / d, l1, l2
""",
        """
from functools import reduce

class Row:
    def __init__(self, jacobian):
        self.jacobian = jacobian.unbind(-1)

    def mean(self, change):
        return reduce(torch.add, map(change, self.jacobian)) / len(self.jacobian)

def saliencies(G):
    row = Row(G)
    l2 = (row.mean(lambda part: part.double() ** 2) * G.size(-1)).sqrt()
    return row.mean(lambda part: part), row.mean(torch.abs), l2.to(G)
""",
    ],
    "kendall_tau": [
        """
import numpy as np

def order(z):
    grad = np.subtract.outer(z.numpy(), z.numpy())
    return np.sign(grad)[np.triu_indices(len(grad), 1)]

def kendall_tau(x, y):
    a, b = order(x), order(y)
    return float(np.dot(a, b) / np.sqrt(np.count_nonzero(a)) / np.sqrt(np.count_nonzero(b)))
""",
        """
from collections import Counter
from itertools import combinations

class Pairs:
    def __init__(self, z):
        self.number = len(z) * (len(z) - 1) // 2
        self.tied = sum(n * (n - 1) // 2 for n in Counter(z).values())

def kendall_tau(x, y):
    words = sorted(zip(x.tolist(), y.tolist()))
    score = 0
    for (a, b), (c, d) in combinations(words, 2):
        if a < c:
            score += (d > b) - (d < b)
    left, right = Pairs(x.tolist()), Pairs(y.tolist())
    return score / ((left.number - left.tied) * (right.number - right.tied)) ** 0.5
""",
    ],
    "jensen_shannon": [
        """
def jensen_shannon(p, q):
    both = torch.stack([p, q])
    m = both.mean(0)
    return (torch.xlogy(both, both) - torch.xlogy(both, m)).sum(-1).mean(0)
""",
        """
import numpy as np

def entropy(p):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.nansum(p * np.log(p), axis=-1)

def jensen_shannon(p, q):
    a, b = p.double().numpy(), q.double().numpy()
    found = entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2
    return torch.as_tensor(found, dtype=p.dtype)
""",
    ],
    "other_attention": [
        """
import numpy as np
from itertools import permutations

class Adversary:
    def __init__(self, votes, alpha):
        self.votes, self.alpha = votes.double().numpy(), alpha.double().numpy()
        self.y = self.votes @ self.alpha

    def corner(self, i, j):
        w = np.zeros_like(self.alpha)
        w[j] = (self.y - self.votes[i]) / (self.votes[j] - self.votes[i])
        w[i] = 1 - w[j]
        return w

    def distance(self, w):
        return np.abs(w - self.alpha).sum() / 2

def other_attention(votes, alpha, far):
    adversary = Adversary(votes, alpha)
    pairs = permutations(range(len(alpha)), 2)
    corners = [adversary.corner(i, j) for i, j in pairs if adversary.votes[i] != adversary.votes[j]]
    corners = [w for w in corners if w.min() >= 0]
    return torch.tensor(max(corners, key=adversary.distance), dtype=alpha.dtype)
""",
        """
def other_attention(votes, alpha, far):
    v, a = votes.tolist(), alpha.tolist()
    y = sum(s * t for s, t in zip(v, a))
    lower = sorted((t for t in range(len(v)) if v[t] < y), key=lambda t: a[t])
    upper = sorted((t for t in range(len(v)) if v[t] >= y), key=lambda t: a[t])
    for i in lower:
        for j in upper:
            grad = (y - v[i]) / (v[j] - v[i])
            if 1 - min(a[i], 1 - grad) - min(a[j], grad) >= far:
                shares = {i: 1 - grad, j: grad}
                return torch.tensor([shares.get(t, 0.0) for t in range(len(v))])
""",
    ],
    "rollout": [
        """
def rollout(A):
    L, H, T, _ = A.shape
    out = torch.eye(T, dtype=A.dtype)
    for l in range(L):
        new = torch.zeros(T, T, dtype=A.dtype)
        for t in range(T):
            for s in range(T):
                weight = sum(A[l, h, t, s] for h in range(H)) / (2 * H) + 0.5 * (s == t)
                new[t] += weight * out[s]
        out = new
    return out
""",
        """
import numpy as np

def rollout(A):
    heads = A.double().numpy()
    maps = [0.5 * layer.mean(axis=0) + 0.5 * np.identity(layer.shape[-1]) for layer in heads]
    out = maps[-1]
    for layer in maps[-2::-1]:
        out = np.dot(out, layer)
    return torch.from_numpy(out).to(A.dtype)
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "other_attention": {
        "y, best, longest = ((alpha * votes).sum(), votes, -1.0)": "the first pair replaces it",
        "y, best, longest = ((alpha * votes).sum(), far, -1.0)": "the first pair replaces it",
        "y, best, longest = ((alpha * votes).sum(), alpha, -2.0)": "the first pair replaces it",
        "y, best, longest = ((alpha * votes).sum(), alpha, -0.5)": "the first pair replaces it",
        "for i in range(len(alpha)):": "all of one length",
        "for i in range(len(best)):": "all of one length",
        "for j in range(len(alpha)):": "all of one length",
        "for j in range(len(best)):": "all of one length",
        "w = torch.zeros_like(votes)": "all of one length",
        "w = torch.zeros_like(best)": "all of one length",
        "if votes[i] <= y <= votes[j]:": "a word that votes y alone is never needed",
        "if votes[i] < y < votes[j]:": "a word that votes y alone is never needed",
        "distance = (w - alpha).abs().sum() / 2": "a tensor of one number compares alike",
        "if far > longest:": "ends with a pair that is far enough, too",
        "if distance > far:": "ends with a pair that is far enough, too",
        "best, longest = (w, far)": "ends with a pair that is far enough, too",
        "if distance >= longest:": "among equals any will do",
        "distance = float((w - alpha).abs().sum())": "another scale, the same order",
        "distance = float((w - alpha).abs().sum() * 2)": "another scale, the same order",
        "distance = float((w - alpha).abs().sum() / 3)": "another scale, the same order",
        "distance = float((w - alpha).abs().sum() / 1)": "another scale, the same order",
        "distance = float((w - alpha).abs().mean() / 2)": "another scale, the same order",
        "distance = float((alpha - w).abs().sum() / 2)": "the size of a difference",
    },
    "rollout": {"unit = torch.eye(A.shape[-2], dtype=A.dtype)": "the maps are square"},
}
