"""What students answer in the exercises of chapter 09: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "logit_paths": [
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A.mT @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.cat([(x @ W_U)[..., None, :, :], heads], -3)
""",
            "rows and columns of a have changed places",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = x[..., None, :, :] @ W_V @ W_O @ W_U
    return torch.cat([(x @ W_U)[..., None, :, :], heads], -3)
""",
            "a does not occur",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.cat([heads, (x @ W_U)[..., None, :, :]], -3)
""",
            "the direct path stands last",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O
    return (x + heads.sum(-3)) @ W_U
""",
            "the sum of all paths",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.stack([x @ W_U, heads.sum(-3)], -3)
""",
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
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U / len(W_V)
    return torch.cat([(x @ W_U)[..., None, :, :], heads], -3)
""",
            "you divide by the number of heads",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O
    return torch.cat([x[..., None, :, :], heads], -3)
""",
            "w_u is missing",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.cat([(x @ W_U)[..., None, :, :], heads], -3).softmax(-1)
""",
            "paths add up before the softmax",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    direct = A[..., 0, :, :] @ x @ W_U
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.cat([direct[..., None, :, :], heads], -3)
""",
            "the direct path passes through a",
        ),
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x @ W_V) @ W_O @ W_U
    return torch.cat([(x @ W_U)[None], heads], 0)
""",
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
        (
            """
def logit_paths(x, A, W_V, W_O, W_U):
    heads = A @ (x[..., None, :, :] @ W_V) @ W_O @ W_U
    return torch.cat([(x @ W_U)[..., None, :, :], heads], -3).float()
""",
            "expected float64",
        ),
    ],
    "copying_score": [
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.real.abs().sum(-1) / values.abs().sum(-1)
""",
            "the real part is taken of the sum",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1).real / values.sum(-1).abs()
""",
            "you divide by the absolute value of the sum",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1).abs() / values.abs().sum(-1)
""",
            "you take the absolute value of the sum",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.real.sum(-1) / values.real.abs().sum(-1)
""",
            "counts its imaginary part, too",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return (values.real / values.abs()).mean(-1)
""",
            "every eigenvalue counts alike",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return (values.real > 0).to(W_E.dtype).mean(-1)
""",
            "the share of eigenvalues with a positive real part",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1).real / values.abs().square().sum(-1).sqrt()
""",
            "the root of the sum of squares",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1).real
""",
            "not divided by",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1) / values.abs().sum(-1)
""",
            "returned a complex64 tensor",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals(W_O @ W_V)
    return values.sum(-1).real / values.abs().sum(-1)
""",
            "you use w_v w_o alone",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals(W_V @ W_O)
    return values.sum(-1).real / values.abs().sum(-1)
""",
            "you use w_v w_o alone",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals(W_O @ W_E.T @ W_E @ W_V)
    return values.sum(-1).real / values.abs().sum(-1)
""",
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
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals(W_E @ W_V @ W_O @ W_U)
    return values.sum(-1).real / values.abs().sum(-1)
""",
            "differ",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O @ W_U) @ (W_E @ W_V))
    return (values.sum(-1).real / values.abs().sum(-1)).mean()
""",
            "one score for all heads",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvalsh((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1) / values.abs().sum(-1)
""",
            "differ",
        ),
        (
            """
def copying_score(W_E, W_V, W_O, W_U):
    values = torch.linalg.eigvals((W_O[0] @ W_U) @ (W_E @ W_V[0]))
    return (values.sum().real / values.abs().sum())[None]
""",
            "the answer has the shape (1,)",
        ),
    ],
    "weights_from_table": [
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table.T[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "rows and columns have changed places",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]]
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "1/√d_k is missing",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    return scores.softmax(-1)
""",
            "the mask is missing",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, 0)
""",
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
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table.T[ids[..., :, None], ids[..., None, :]]
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "and 1/√d_k is missing",
        ),
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
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.softmax(-1).masked_fill(future, 0)
""",
            "the mask comes after the softmax",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-2)
""",
            "the columns sum to 1",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future.T, -torch.inf).softmax(-1)
""",
            "the past is hidden",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "you divide by d_k",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / len(table)**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "the root of the vocabulary's size",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / ids.shape[-1]**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "the root of the text's length",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -1e5).softmax(-1)
""",
            "a score can be lower than your mask",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -1e6).softmax(-1)
""",
            "a score can be lower than your mask",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    e = scores.exp().masked_fill(future, 0)
    return e / e.sum(-1, keepdim=True)
""",
            "0/0 is nan",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids][:, ids] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "raised runtimeerror",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu() > 0
    return scores.masked_fill(future, -torch.inf).softmax(-1)
""",
            "differ",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    table = table - table.max()
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    e = scores.exp().masked_fill(future, 0)
    return e / e.sum(-1, keepdim=True)
""",
            "differ",
        ),
        (
            """
def weights_from_table(table, ids, d_k):
    scores = table[ids[..., :, None], ids[..., None, :]] / d_k**0.5
    future = torch.ones(ids.shape[-1], ids.shape[-1]).triu(1) > 0
    return scores.double().masked_fill(future, -torch.inf).softmax(-1)
""",
            "expected float32",
        ),
    ],
    "k_composition": [
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_Q @ W_K.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "this is q-composition",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(reads @ writes) / (size(writes) * size(reads))
""",
            "the product is the wrong way round",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_Q @ W_K.mT)[None]
    return size(reads @ writes) / (size(writes) * size(reads))
""",
            "and w_qk not turned",
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
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1))

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "the roots are missing",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads)
""",
            "you do not divide by the norms",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / size(writes)
""",
            "you divide by the norm of what is written alone",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / size(reads)
""",
            "you divide by the norm of what is read alone",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) + size(reads))
""",
            "you divide by the sum of the norms",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return torch.linalg.matrix_norm(M, 2)

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "this is the largest singular value",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.abs().sum((-2, -1))

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "this norm adds absolute values",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = W_K[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "the queries do not occur",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = W_O[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "w_v does not occur",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return (size(writes @ reads) / (size(writes) * size(reads))).mean()
""",
            "one number for all pairs",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = W_V @ W_O
    reads = W_K @ W_Q.mT
    return size(writes @ reads) / (size(writes) * size(reads))
""",
            "raised runtimeerror",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.square().sum((-2, -1)).sqrt()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads)) - 1 / W_V.shape[1] ** 0.5
""",
            "differ",
        ),
        (
            """
def k_composition(W_V, W_O, W_Q, W_K):
    def size(M):
        return M.norm()

    writes = (W_V @ W_O)[:, None]
    reads = (W_K @ W_Q.mT)[None]
    return size(writes @ reads) / (size(writes) * size(reads))
""",
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
    ],
    "induction_score": [
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period].mean(-1)
""",
            "the same token one period ago",
        ),
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
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 2].mean(-1)
""",
            "you read one source too near",
        ),
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
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 1].sum(-1)
""",
            "you add the weights up",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 1].sum(-1) / A.shape[-1]
""",
            "you divide by all destinations",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t - period + 1, t].mean(-1)
""",
            "rows and columns have changed places",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 1].amax(-1)
""",
            "this is the largest weight",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - 1].mean(-1)
""",
            "the previous-token score",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, min(2 * period, A.shape[-1]))
    return A[..., t, t - period + 1].mean(-1)
""",
            "only the first repetition counts",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 1].mean()
""",
            "one number for all maps",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return (A[..., t, :].argmax(-1) == t - period + 1).to(A.dtype).mean(-1)
""",
            "the share of destinations",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, 2 * period)
    return A[..., t, t - period + 1].mean(-1)
""",
            "only the first repetition counts",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[..., t, t - period + 1].mean(-1).item()
""",
            "raised runtimeerror",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1])
    return A[:, t, t - period + 1].mean(-1)
""",
            "raised indexerror",
        ),
        (
            """
def induction_score(A, period):
    t = torch.arange(period, A.shape[-1] // period * period)
    return A[..., t, t - period + 1].mean(-1)
""",
            "differ",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "logit_paths": [
        """
def logit_paths(x, A, W_V, W_O, W_U):
    paths = [x]
    for h in range(len(W_V)):
        paths.append(A[..., h, :, :].matmul(x).matmul(W_V[h] @ W_O[h]))
    return torch.stack([path @ W_U for path in paths], dim=-3)
""",
        """
def logit_paths(x, A, W_V, W_O, W_U):
    by_head = torch.einsum("...hts,...sa,hav,hvb,bn->...htn", A, x, W_V, W_O, W_U)
    return torch.cat([torch.einsum("...td,dn->...tn", x, W_U).unsqueeze(-3), by_head], dim=-3)
""",
        """
def logit_paths(x, A, W_V, W_O, W_U):
    *lead, T, d = x.shape
    count = len(W_V)
    out = x.new_zeros(*lead, count + 1, T, W_U.shape[1])
    out[..., 0, :, :] = x @ W_U
    for jacobian in range(count):
        for t in range(T):
            mixed = sum(A[..., jacobian, t, s, None] * x[..., s, :] for s in range(t + 1))
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
import numpy as np

def copying_score(W_E, W_V, W_O, W_U):
    between = W_U.double().numpy() @ W_E.double().numpy()
    found = []
    for V, out in zip(W_V.double().numpy(), W_O.double().numpy()):
        values = np.linalg.eigvals(out @ between @ V)
        found.append(values.real.sum() / np.abs(values).sum())
    return torch.tensor(found, dtype=W_E.dtype)
""",
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
        """
def copying_score(W_E, W_V, W_O, W_U):
    # the d x d product has the same eigenvalues, and some more zeros
    E, V, out, U = W_E.double(), W_V.double(), W_O.double(), W_U.double()
    values = torch.linalg.eigvals(V @ out @ (U @ E)).tolist()
    scores = [sum(v.real for v in row) / sum(abs(v) for v in row) for row in values]
    return torch.tensor(scores, dtype=W_E.dtype)
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
        """
import numpy as np

def weights_from_table(table, ids, d_k):
    rows = ids.numpy()
    scores = table.numpy()[rows[..., :, None], rows[..., None, :]] / np.sqrt(d_k)
    T = rows.shape[-1]
    scores = np.where(np.arange(T)[:, None] >= np.arange(T), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return torch.from_numpy(e / e.sum(-1, keepdims=True)).to(table.dtype)
""",
        """
class Mask:
    def __init__(self, T):
        self.bias = torch.full((T, T), -torch.inf).triu(diagonal=1)

    def __call__(self, scores):
        return scores + self.bias.to(scores.dtype)

def weights_from_table(table, ids, d_k):
    asked = table.index_select(0, ids.flatten()).reshape(*ids.shape, -1)
    where = ids[..., None, :].expand(*ids.shape, ids.shape[-1])
    scores = Mask(ids.shape[-1])(asked.gather(-1, where).div(d_k**0.5))
    return (scores - scores.logsumexp(-1, keepdim=True)).exp()
""",
    ],
    "k_composition": [
        """
def k_composition(W_V, W_O, W_Q, W_K):
    out = torch.zeros(len(W_V), len(W_Q), dtype=W_V.dtype)
    for i in range(len(W_V)):
        for j in range(len(W_Q)):
            W_VO, W_QK = W_V[i] @ W_O[i], W_Q[j] @ W_K[j].T
            norms = torch.linalg.norm(W_VO) * torch.linalg.norm(W_QK)
            out[i, j] = torch.linalg.norm(W_VO @ W_QK.T) / norms
    return out
""",
        """
def k_composition(W_V, W_O, W_Q, W_K):
    writes = torch.einsum("iav,ivb->iab", W_V, W_O)
    reads = torch.einsum("jak,jbk->jab", W_Q, W_K)
    both = torch.einsum("iab,jcb->ijac", writes, reads)
    squares = (both**2).sum(dim=(2, 3))
    return (squares / (writes**2).sum((1, 2))[:, None] / (reads**2).sum((1, 2))) ** 0.5
""",
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
def induction_score(A, period):
    total = torch.zeros(A.shape[:-2], dtype=A.dtype)
    for t in range(period, A.shape[-1]):
        total += A[..., t, t - (period - 1)]
    return total / (A.shape[-1] - period)
""",
        """
def induction_score(A, period):
    return torch.diagonal(A, offset=1 - period, dim1=-2, dim2=-1)[..., 1:].mean(-1)
""",
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
