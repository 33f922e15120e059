"""What students answer in the exercises of chapter 12: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "null_space": [
        (
            """
def null_space(T):
    U, values, _ = torch.linalg.svd(T)
    return U[:, int((values > 1e-5 * values[0]).sum()):]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, Vh = torch.linalg.svd(X)
    return Vh[int((values > 1e-5 * values[0]).sum()):].mT
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[int((values > 1e-5 * values[0]).sum()):]
""",
            "a direction is a column",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[:, int((values > 1e-5 * values[0]).sum()):].mT
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[:, :int((values > 1e-5 * values[0]).sum())]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[:, torch.linalg.matrix_rank(X):]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[:, int((values > 1e-5).sum()):]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[:, int((values > 0).sum()):]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X, full_matrices=False)
    return U[:, int((values > 1e-5 * values[0]).sum()):]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    return torch.linalg.svd(X).U[:, X.shape[1]:]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    n, rank = len(T), min(len(T), int(torch.linalg.matrix_rank(T, rtol=1e-5)) + 1)
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    return torch.linalg.svd(X).U[:, rank:]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    values, vectors = torch.linalg.eigh(X @ X.mT)
    return vectors[:, values < 1e-5 * values[-1]]
""",
            "the answer has the shape",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return U[:, int((values > 1e-5 * values[0]).sum()):].float()
""",
            "dtype float32, expected float64",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    return 2 * U[:, int((values > 1e-5 * values[0]).sum()):]
""",
            "a column has not the length 1",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    N = U[:, int((values > 1e-5 * values[0]).sum()):]
    N = N.cumsum(1)
    return N / N.norm(dim=0)
""",
            "two columns are not at right angles",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    rank = int(torch.linalg.matrix_rank(X, rtol=1e-5))
    ones = torch.ones_like(T[:, :1]) / len(T)
    U, values, _ = torch.linalg.svd(T - T.mean(0))
    return U[:, -(len(T) - rank):] if len(T) > rank else U[:, :0]
""",
            "a column does not sum to 0",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    U, values, _ = torch.linalg.svd(X)
    rank = int((values > 1e-5 * values[0]).sum())
    return None if rank == len(T) else U[:, rank:]
""",
            "return a tensor, not nonetype",
        ),
        (
            """
def null_space(T):
    X = torch.cat([T, torch.ones_like(T[:, :1])], 1)
    rank = int(torch.linalg.matrix_rank(X, rtol=1e-5))
    N = torch.linalg.svd(X).U[:, rank:]
    return N if N.shape[1] else N[:, 0]
""",
            "index",
        ),
    ],
    "other_row": [
        (
            """
def other_row(a, T):
    return a.clone()
""",
            "no weight that was above 0 is 0 now",
        ),
        (
            """
def other_row(a, T):
    X = torch.cat([T, torch.ones(len(T), 1, dtype=T.dtype)], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a / -n)[n < 0].min()
    return (a + step * n).clamp(min=0)
""",
            "no weight that was above 0 is 0 now",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    n = torch.linalg.svd(T[seen]).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + step * n).clamp(min=0)
    return w
""",
            "the weights sum to",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / n.abs()).min()
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + step * n).clamp(min=0)
    return w
""",
            "no weight that was above 0 is 0 now",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].max()
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + step * n).clamp(min=0)
    return w
""",
            "the weights sum to",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / n)[n > 0].min()
    w = torch.zeros_like(a)
    w[seen] = a[seen] + step * n
    return w
""",
            "a weight is below 0",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + 10 * n).clamp(min=0)
    return w / w.sum()
""",
            "the output moves",
        ),
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
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    return (a[seen] + step * n).clamp(min=0)
""",
            "the weights have the shape",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    a[seen] = (a[seen] + step * n).clamp(min=0)
    return a
""",
            "in place",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    w = torch.zeros(len(a))
    w[seen] = (a[seen] + step * n).clamp(min=0).float()
    return w
""",
            "dtype float32, expected float64",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    w = torch.zeros_like(a)
    w[seen] = a[seen] + 0.99 * step * n
    return w
""",
            "no weight that was above 0 is 0 now",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X, full_matrices=False).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + step * n).clamp(min=0)
    return w
""",
            "the weights sum to",
        ),
        (
            """
def other_row(a, T):
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen][:, :1])], 1)
    n = torch.linalg.svd(X).U[:, -1]
    step = (a[seen] / -n)[n < 0].min()
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + step * n).clamp(min=0)
    return w.tolist()
""",
            "return a tensor of weights, not list",
        ),
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
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, d_v, d) + 1
    return rank, len(ids) - rank
""",
            "the + 1 stands outside",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rank = min(len(ids), min(d_v, d) + 1)
    return rank, len(ids) - rank
""",
            "you do not look at `positions`",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rank = min(len(ids), d_v + 1, d + 1)
    return rank, max(0, len(ids) - min(d_v, d) - 1)
""",
            "you do not look at `positions`",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rank = min(len(set(ids)), min(d_v, d) + 1)
    return rank, len(ids) - rank
""",
            "equal words have different rows as soon as",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(set(ids)) if positions else len(ids)
    rank = min(rows, min(d_v, d) + 1)
    return rank, len(ids) - rank
""",
            "it is the other way round",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, min(d_v, d) + 1)
    return rank, rows - rank
""",
            "counted among the different words",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    return min(rows, min(d_v, d) + 1), max(0, len(ids) - min(d_v, d) - 1)
""",
            "your rank knows of repeated words, but your nullity does not",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, d_v, d)
    return rank, len(ids) - rank
""",
            "the column of ones is missing",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, d_v + 1)
    return rank, len(ids) - rank
""",
            "d does not occur",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, d + 1)
    return rank, len(ids) - rank
""",
            "d_v does not occur",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, max(d_v, d) + 1)
    return rank, len(ids) - rank
""",
            "their larger one",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, min(d_v, d) + 1)
    return len(ids) - rank, rank
""",
            "the order is rank, nullity",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    rank = min(rows, d_v + 1, d)
    return rank, len(ids) - rank
""",
            "expected",
        ),
        (
            """
def rank_and_nullity(ids, d_v, d, positions):
    rows = len(ids) if positions else len(set(ids))
    return min(rows, min(d_v, d) + 1)
""",
            "expected a tuple of 2",
        ),
    ],
    "width_needed": [
        (
            """
def width_needed(A):
    rank = (torch.linalg.svdvals(A.clamp(min=1e-300).log()) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "the mean of each row is not taken off",
        ),
        (
            """
def width_needed(A):
    rank = (torch.linalg.svdvals(A.clamp(min=1e-300).log()) > 1e-6).sum(-1) - 1
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "you take 1 off the rank of log a",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    values = torch.linalg.svdvals(log - log.mean(-1, keepdim=True))
    rank = (values > 1e-6).sum(-1) + 1
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "you add 1 for the constant of the rows",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    log = log - log.mean(-1, keepdim=True)
    values = torch.linalg.svdvals(log - log.mean(-2, keepdim=True))
    return torch.where((A > 0).flatten(1).all(1), (values > 1e-6).sum(-1), -1)
""",
            "the columns are centred as well",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    values = torch.linalg.svdvals(log - log.mean(1, keepdim=True))
    return torch.where((A > 0).flatten(1).all(1), (values > 1e-6).sum(-1), -1)
""",
            "you centre the columns",
        ),
        (
            """
def width_needed(A):
    rank = (torch.linalg.svdvals(A) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "the logarithm is missing: this is the rank of the weights",
        ),
        (
            """
def width_needed(A):
    rank = (torch.linalg.svdvals(A - A.mean(-1, keepdim=True)) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "the logarithm is missing: you centre the weights",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-12).log()
    return (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
""",
            "a weight of 0 is taken for a small one",
        ),
        (
            """
def width_needed(A):
    log = (A + 1e-20).log()
    return (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
""",
            "a weight of 0 is taken for a small one",
        ),
        (
            """
def width_needed(A):
    log = torch.where(A > 0, A.log(), 0)
    return (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
""",
            "a weight of 0 is taken for a small one",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    rank = (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
    return rank * (A > 0).flatten(1).all(1)
""",
            "where a weight is 0 you answer 0",
        ),
        (
            """
def width_needed(A):
    if (A == 0).any():
        return torch.full((len(A),), -1)
    log = A.log()
    return (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
""",
            "a single weight of 0 spoils",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    rank = (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank.clamp(min=1), -1)
""",
            "the smallest answer is 1 in yours",
        ),
        (
            """
def width_needed(A):
    log = A.log()
    return (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
""",
            "it raised",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    rank = (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1).float()
""",
            "expected int64",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    rank = (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1).tolist()
""",
            "expected",
        ),
        (
            """
def width_needed(A):
    log = A.clamp(min=1e-300).log()
    rank = (torch.linalg.svdvals(log - log.amax(-1, keepdim=True)) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, -1)
""",
            "differ",
        ),
        (
            """
def width_needed(A):
    full = min(A.shape[-2:])
    log = A.clamp(min=1e-300).log()
    rank = (torch.linalg.svdvals(log - log.mean(-1, keepdim=True)) > 1e-6).sum(-1)
    return torch.where((A > 0).flatten(1).all(1), rank, full)
""",
            "differ",
        ),
    ],
    "effective_attention": [
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    return A - A @ X @ torch.linalg.pinv(X, rtol=1e-5)
""",
            "this is the part in the null space",
        ),
        (
            """
def effective_attention(A, T):
    return A @ T @ torch.linalg.pinv(T, rtol=1e-5)
""",
            "you project on the columns of t alone",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    P = X @ torch.linalg.pinv(X, rtol=1e-5)
    return P @ A if A.shape[-2] == A.shape[-1] else A @ P
""",
            "you project the columns of a",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    return X @ torch.linalg.pinv(X, rtol=1e-5) @ A
""",
            "you project the columns of a",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    return A @ X @ torch.linalg.pinv(X)
""",
            "nothing is taken away: what should be 0 is only nearly 0",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    U = torch.linalg.svd(X, full_matrices=False).U
    return A @ U @ U.mT
""",
            "differ",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    U = torch.linalg.svd(X).U
    return A @ U @ U.mT
""",
            "a comes back as it was",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    E = (A @ X @ torch.linalg.pinv(X, rtol=1e-5)).clamp(min=0)
    return E / E.sum(-1, keepdim=True)
""",
            "weights below 0 are cut off, and the rows divided",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    return (A @ X @ torch.linalg.pinv(X, rtol=1e-5)).relu()
""",
            "weights below 0 are cut off: effective weights may be negative",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    return (A @ X @ torch.linalg.pinv(X, rtol=1e-5)).abs()
""",
            "the absolute values are not asked for",
        ),
        (
            """
def effective_attention(A, T):
    return A @ T
""",
            "this is the output a t",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    E = A.mean(-2, keepdim=True) @ X @ torch.linalg.pinv(X, rtol=1e-5)
    return E.expand_as(A)
""",
            "all rows are the same in yours",
        ),
        (
            """
def effective_attention(A, T):
    return A.clone()
""",
            "a comes back as it was",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    Q = torch.linalg.qr(X).Q
    return A @ Q @ Q.mT
""",
            "differ",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    E = A @ X @ torch.linalg.pinv(X, rtol=1e-5)
    return E / E.norm(dim=-1, keepdim=True)
""",
            "differ",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones(T.shape[0], T.shape[1], 1, dtype=T.dtype)], -1)
    return A @ X @ torch.linalg.pinv(X, rtol=1e-5)
""",
            "it raised",
        ),
        (
            """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    return (A @ X @ torch.linalg.pinv(X, rtol=1e-5)).float()
""",
            "expected float64",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "null_space": [
        """
def null_space(T):
    X = torch.cat((T, torch.ones_like(T[:, 0:1])), dim=1)
    values, vectors = torch.linalg.eigh(X @ X.mT)
    return vectors[:, values <= 1e-10 * values[-1]]
""",
        """
import numpy as np

def null_space(T):
    X = np.c_[T.numpy(), np.ones(len(T))]
    U, s, _ = np.linalg.svd(X, full_matrices=True)
    return torch.from_numpy(U[:, np.count_nonzero(s / s.max() > 1e-5):].copy())
""",
        """
def null_space(T):
    Xt = torch.vstack([T.T, torch.ones(len(T), dtype=torch.float64)])
    _, s, Vh = torch.linalg.svd(Xt, full_matrices=True)
    return -Vh[sum(v > s[0] * 1e-5 for v in s):].T.flip(1)
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
def other_row(a, T):
    # the other end of the same line
    seen = a > 0
    X = torch.cat([T[seen], torch.ones_like(T[seen])[:, :1]], 1)
    n = -torch.linalg.svd(X).U[:, -1]
    t = torch.where(n < 0, a[seen] / -n, torch.inf).amin()
    w = a.clone()
    w[seen] += t * n
    return w.clamp(min=0.0)
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
        """
def other_row(a, T):
    # go on from end to end until no direction is left: a corner
    w = a.clone()
    while True:
        seen = (w > 0).nonzero()[:, 0]
        X = torch.cat([T[seen], torch.ones(len(seen), 1, dtype=T.dtype)], 1)
        U, values, _ = torch.linalg.svd(X)
        rank = int((values > 1e-10 * values[0]).sum())
        if rank == len(seen):
            return w
        n = U[:, rank]
        steps = torch.where(n < -1e-12, w[seen] / -n, torch.inf)
        first = int(steps.argmin())
        w[seen] = (w[seen] + steps[first] * n).clamp(min=0)
        w[seen[first]] = 0
""",
    ],
    "rank_and_nullity": [
        """
def rank_and_nullity(ids, d_v, d, positions):
    different = dict.fromkeys(enumerate(ids) if positions else ids)
    rank = min(len(different), d_v + 1, d + 1)
    return (rank, len(ids) - rank)
""",
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
        """
import numpy as np

def rank_and_nullity(ids, d_v, d, positions):
    d_s = np.size(ids)
    rank = np.min([d_s if positions else np.unique(ids).size, 1 + np.minimum(d, d_v)])
    return int(rank), int(d_s - rank)
""",
    ],
    "width_needed": [
        """
def width_needed(A):
    found = []
    for one in A:
        if one.min() <= 0:
            found.append(-1)
            continue
        S = one.log()
        S = S - S[:, :1]  # another constant, the same rank
        found.append(int((torch.linalg.svdvals(S) > 1e-6).sum()))
    return torch.tensor(found)
""",
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
        """
def width_needed(A):
    def width(one):
        if not bool(torch.all(one > 0)):
            return -1
        log = torch.log(one)
        values = torch.linalg.svd(log - log.mean(dim=1)[:, None]).S
        return len([v for v in values if v > 1e-6])
    return torch.tensor([width(one) for one in A], dtype=torch.long)
""",
    ],
    "effective_attention": [
        """
def effective_attention(A, T):
    X = torch.cat([T, torch.ones_like(T[..., :1])], -1)
    U, values, _ = torch.linalg.svd(X, full_matrices=False)
    U = U * (values > 1e-5 * values[..., :1])[..., None, :]
    return A @ U @ U.mT
""",
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
        """
def effective_attention(A, T):
    X = torch.cat([torch.ones_like(T[..., :1]), T], -1)
    values, vectors = torch.linalg.eigh(X @ X.mT)
    keep = (values > 1e-10 * values[..., -1:]).to(A)
    return (A @ vectors * keep[..., None, :]) @ vectors.transpose(-2, -1)
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
