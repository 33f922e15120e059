"""Answers that students give to the exercises of chapter 02, wrong ones and right ones.

WRONG: by task, the source of an answer cell and a piece of the message that must come.
RIGHT: by task, answers written differently from the solution.
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "elman_states": [
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, s = h0, []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h + b); s.append(h)
    return torch.stack(s, -1)
""",
            "your axes are (b, d_hidden, t)",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h) + b
        states.append(h)
    return torch.stack(states, 1)
""",
            "you add b after the tanh",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = x[:, t] @ W_x + torch.tanh(h @ W_h + b)
        states.append(h)
    return torch.stack(states, 1)
""",
            "your tanh is around a part of the sum",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    axis = 1 if x.shape[0] != x.shape[1] else 0
    h, states = h0, []
    for x_t in x.unbind(axis):
        h = torch.tanh(x_t @ W_x + h @ W_h + b)
        states.append(h)
    return torch.stack(states, axis)
""",
            "differ",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] + h @ W_h + b)
        states.append(h)
    return torch.stack(states, 1)
""",
            "must pass through w_x",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h.T + b)
        states.append(h)
    return torch.stack(states, 1)
""",
            "you have transposed w_h",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = torch.zeros_like(h0), []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h + b)
        states.append(h)
    return torch.stack(states, 1)
""",
            "your first state starts from zeros",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h = h0
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h + b)
    return h
""",
            "the last state alone",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        states.append(h)
        h = torch.tanh(x[:, t] @ W_x + h @ W_h + b)
    return torch.stack(states, 1)
""",
            "slipped by one",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    states = [h0]
    for t in range(x.shape[1]):
        states.append(torch.tanh(x[:, t] @ W_x + states[-1] @ W_h + b))
    return torch.stack(states, 1)
""",
            "h0 is among your states",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = x[:, t] @ W_x + h @ W_h + b
        states.append(h)
    return torch.stack(states, 1)
""",
            "the tanh is missing",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    return torch.stack([torch.tanh(x[:, t] @ W_x + h0 @ W_h + b) for t in range(x.shape[1])], 1)
""",
            "each of your states starts from h0",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h + b)
        states.append(h)
    return torch.stack(states)
""",
            "your axes are (t, b, d_hidden)",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W_x + h @ W_h)
        states.append(h)
    return torch.stack(states, 1)
""",
            "the bias b is missing",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    states = []
    for t in range(x.shape[1]):
        h0.copy_(torch.tanh(x[:, t] @ W_x + h0 @ W_h + b))
        states.append(h0.clone())
    return torch.stack(states, 1)
""",
            "changes its argument h0 in place",
        ),
        (
            """
def elman_states(x, h0, W_x, W_h, b):
    net = torch.nn.RNN(W_x.shape[0], W_x.shape[1], batch_first=True).to(x.dtype)
    net.weight_ih_l0.data, net.weight_hh_l0.data = W_x.T.contiguous(), W_h.T.contiguous()
    net.bias_ih_l0.data, net.bias_hh_l0.data = b.clone(), torch.zeros_like(b)
    return net(x, h0[None])[0].detach()
""",
            "uses rnn, which would be the answer",
        ),
    ],
    "product_of_slopes": [
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0), dtype=h0.dtype)
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        product = torch.diag(1 - h**2) @ W_h.T @ product
    return product
""",
            "rows and columns are swapped",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0), dtype=h0.dtype)
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        product = (W_h * (1 - h**2)) @ product
    return product
""",
            "factors in the wrong order",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0), dtype=h0.dtype)
    for one in inputs:
        product = product @ (W_h * (1 - h**2))
        h = torch.tanh(one + h @ W_h)
    return product
""",
            "at the state before the step",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0), dtype=h0.dtype)
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        product = product @ (W_h * (1 - h))
    return product
""",
            "your slope is 1 − h",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0), dtype=h0.dtype)
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        product = product @ torch.diag(1 - h**2) @ W_h
    return product
""",
            "you scale the rows",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    return torch.linalg.matrix_power(W_h, len(inputs))
""",
            "the slope of tanh is missing",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0), dtype=h0.dtype)
    for one in inputs[:-1]:
        h = torch.tanh(one + h @ W_h)
        product = product @ (W_h * (1 - h**2))
    return product
""",
            "one factor is missing, the last",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    states = [h0]
    for one in inputs:
        states.append(torch.tanh(one + states[-1] @ W_h))
    product = torch.eye(len(h0), dtype=h0.dtype)
    for h in states[2:]:
        product = product @ (W_h * (1 - h**2))
    return product
""",
            "one factor is missing, the first",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.ones_like(W_h)
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        product = product * W_h * (1 - h**2)
    return product
""",
            "you multiply entry by entry",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, slopes = h0, torch.ones_like(h0)
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        slopes = slopes * (1 - h**2)
    return torch.diag(slopes)
""",
            "you leave w_h out",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h, product = h0, torch.eye(len(h0))
    for one in inputs:
        h = torch.tanh(one + h @ W_h)
        product = product @ (W_h * (1 - h**2)).float()
    return product
""",
            "dtype",
        ),
        (
            """
def product_of_slopes(h0, inputs, W_h):
    h = h0.clone().requires_grad_()
    last = h
    for one in inputs:
        last = torch.tanh(one + last @ W_h)
    rows = [torch.autograd.grad(one, h, retain_graph=True)[0] for one in last]
    return torch.stack(rows, 1)
""",
            "which would be the answer",
        ),
    ],
    "gru_step": [
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + (r * h) @ U[2] + c[2])
    return (1 - z) * n + z * h
""",
            "the reset gate acts too early",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + r * (h @ U[2]) + c[2])
    return (1 - z) * n + z * h
""",
            "h @ u[2] alone",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + r * (h @ U[2] + c[2]))
    return z * n + (1 - z) * h
""",
            "the update gate works backwards",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    z, r = [torch.sigmoid(x @ W[i] + b[i] + h @ U[i] + c[i]) for i in (0, 1)]
    n = torch.tanh(x @ W[2] + b[2] + r * (h @ U[2] + c[2]))
    return (1 - z) * n + z * h
""",
            "exchanged the two gates",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.sigmoid(x @ W[2] + b[2] + r * (h @ U[2] + c[2]))
    return (1 - z) * n + z * h
""",
            "has a sigmoid",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + h @ U[2] + c[2])
    return (1 - z) * n + z * h
""",
            "the reset gate is missing",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    return torch.tanh(x @ W[2] + b[2] + r * (h @ U[2] + c[2]))
""",
            "you return the new content",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + r * (h @ U[2] + c[2]))
    return n + z * h
""",
            "you add all of the new content",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + r @ (h @ U[2] + c[2]).T)
    return (1 - z) * n + z * h
""",
            "it raised",
        ),
        (
            """
def gru_step(x, h, W, U, b, c):
    r = torch.sigmoid(x @ W[0] + b[0] + h @ U[0] + c[0])
    z = torch.sigmoid(x @ W[1] + b[1] + h @ U[1] + c[1])
    n = torch.tanh(x @ W[2] + b[2] + r * (h @ U[2] + c[2]))
    h *= z
    h += (1 - z) * n
    return h
""",
            "changes its argument h in place",
        ),
    ],
    "clipped": [
        (
            """
def clipped(gradients, limit):
    total = sum((g**2).sum() for g in gradients)
    f = limit / total**.5 if total > limit else 1.0
    return [g * f for g in gradients]
""",
            "you compare the square of the length with the limit",
        ),
        (
            """
def clipped(gradients, limit):
    length = torch.cat([g.flatten() for g in gradients]).norm()
    return [g / length if length > limit else g.clone() for g in gradients]
""",
            "you scale to the length 1",
        ),
        (
            """
def clipped(gradients, limit):
    length = float(sum((g**2).sum() for g in gradients)) ** 0.5
    return gradients if length <= limit else [g * (limit / length) for g in gradients]
""",
            "it returns what it was given",
        ),
        (
            """
def clipped(gradients, limit):
    length = float(sum((g**2).sum() for g in gradients)) ** 0.5
    return [g.float() * min(1.0, limit / max(length, 1e-12)) for g in gradients]
""",
            "dtype",
        ),
        (
            """
def clipped(gradients, limit):
    length = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * (limit / length) for g in gradients]
""",
            "you scale whatever the length",
        ),
        (
            """
def clipped(gradients, limit):
    return [g * min(1.0, limit / max(float(g.norm()), 1e-9)) for g in gradients]
""",
            "you clip each tensor by its own length",
        ),
        (
            """
def clipped(gradients, limit):
    return [g.clamp(-limit, limit) for g in gradients]
""",
            "you clip each number by itself",
        ),
        (
            """
def clipped(gradients, limit):
    length = sum((g**2).sum() for g in gradients) ** 0.5
    return [g * limit / (length + 1e-9) for g in gradients]
""",
            "you make short gradients longer",
        ),
        (
            """
def clipped(gradients, limit):
    length = sum((g**2).sum() for g in gradients) ** 0.5
    return [g * limit / length for g in gradients]
""",
            "0/0",
        ),
        (
            """
def clipped(gradients, limit):
    length = sum(float(g.norm()) for g in gradients)
    return [g * limit / length if length > limit else g.clone() for g in gradients]
""",
            "you add the lengths of the tensors",
        ),
        (
            """
def clipped(gradients, limit):
    length = sum(float((g**2).sum()) for g in gradients)
    return [g * min(1.0, limit / length) if length else g.clone() for g in gradients]
""",
            "the root is missing",
        ),
        (
            """
def clipped(gradients, limit):
    length = float(torch.cat([g.reshape(-1) for g in gradients]).norm())
    return [g / length if length > 0 else g.clone() for g in gradients]
""",
            "length 1, whatever the limit",
        ),
        (
            """
def clipped(gradients, limit):
    largest = max(float(g.abs().max()) for g in gradients)
    return [g * limit / largest if largest > limit else g.clone() for g in gradients]
""",
            "the largest number for the length",
        ),
        (
            """
def clipped(gradients, limit):
    length = float(sum((g**2).sum() for g in gradients)) ** 0.5
    for g in gradients:
        if length > limit:
            g *= limit / length
    return gradients
""",
            "changes its argument gradients in place",
        ),
        (
            """
def clipped(gradients, limit):
    length = float(sum((g**2).sum() for g in gradients)) ** 0.5
    return torch.cat([g.flatten() for g in gradients]) * min(1.0, limit / max(length, 1e-9))
""",
            "expected a list",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "elman_states": [
        """
from itertools import accumulate


def elman_states(x, h0, W_x, W_h, b):
    inputs = (x.double() @ W_x.double() + b.double()).unbind(1)
    step = lambda h, one: torch.tanh(one + h @ W_h.double())
    states = list(accumulate(inputs, step, initial=h0.double()))[1:]
    return torch.stack(states, 1).to(x.dtype)
""",
        """
def elman_states(x, h0, W_x, W_h, b):
    B, T, _ = x.shape
    out = x.new_zeros(B, T, len(b))
    for i in range(B):
        h = h0[i]
        for t in range(T):
            h = torch.tanh(torch.einsum("m,mh->h", x[i, t], W_x) + W_h.T @ h + b)
            out[i, t] = h
    return out
""",
    ],
    "product_of_slopes": [
        """
def product_of_slopes(h0, inputs, W_h):
    h, W = h0.double().numpy(), W_h.double().numpy()
    jvp = np.identity(len(h))
    for one in inputs.double().numpy():
        h = np.tanh(one + h @ W)
        jvp = np.einsum("ij,jk,k->ik", jvp, W, 1 - h**2)
    return torch.from_numpy(jvp).to(h0.dtype)
""",
        """
def product_of_slopes(h0, inputs, W_h):
    if len(inputs) == 0:
        return torch.eye(len(h0)).to(h0)
    h1 = torch.tanh(inputs[0] + h0 @ W_h)
    return W_h @ torch.diag(1 - h1**2) @ product_of_slopes(h1, inputs[1:], W_h)
""",
    ],
    "gru_step": [
        """
class GRU:
    def __init__(self, W, U, b, c):
        self.weights = W, U, b, c

    def gate(self, i, x, h):
        W, U, b, c = self.weights
        return x @ W[i] + b[i], h @ U[i] + c[i]


def gru_step(x, h, W, U, b, c):
    gru = GRU(W, U, b, c)
    r, z = (1 / (1 + torch.exp(-sum(gru.gate(i, x, h)))) for i in (0, 1))
    new, old = gru.gate(2, x, h)
    n = torch.tanh(new + r * old)
    return n + z * (h - n)
""",
        """
def gru_step(x, h, W, U, b, c):
    left = torch.einsum("bi,gij->gbj", x, W) + b[:, None]
    right = torch.einsum("bi,gij->gbj", h, U) + c[:, None]
    r, z = (left[:2] + right[:2]).sigmoid()
    return torch.lerp((left[2] + r * right[2]).tanh(), h, z)
""",
    ],
    "clipped": [
        """
def clipped(gradients, limit):
    sizes = [one.numel() for one in gradients]
    long = torch.cat([one.reshape(-1) for one in gradients])
    norm = torch.linalg.vector_norm(long.double())
    long = long * torch.clamp(limit / norm.clamp(min=1e-300), max=1.0).to(long.dtype)
    return [part.view(one.shape) for part, one in zip(long.split(sizes), gradients)]
""",
        """
import math


def clipped(gradients, limit):
    squares = 0.0
    for g in gradients:
        for number in g.flatten().tolist():
            squares += number * number
    length = max(math.sqrt(squares), limit)
    return [limit * g / length for g in gradients]
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "product_of_slopes": {
        "h, product = (h0, torch.eye(len(W_h), dtype=h0.dtype))": "W_h is as wide as h0",
        "h, product = (h0, torch.eye(len(h0), dtype=inputs.dtype))": "all three have one dtype",
        "h, product = (h0, torch.eye(len(h0), dtype=W_h.dtype))": "all three have one dtype",
    },
    "clipped": {
        "length = sum(((one ** 2).sum() for one in gradients)) ** 0.5": (
            "a tensor without axes keeps the dtype of the others"
        ),
        "factor = limit / length if length >= limit else 1.0": (
            "at the limit the factor is 1 either way"
        ),
    },
}
