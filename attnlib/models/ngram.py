"""Language models that see a fixed number of tokens.

- `CountModel`: a table of what followed what, smoothed.
- `ZeroLayer`: one token in, a guess out; a bigram table squeezed through d_model dimensions.
- `NeuralNgram`: the last n − 1 embeddings side by side, one hidden layer.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.models.initial import uniform


class CountModel:
    """An n-gram model that counts.

    With "witten-bell" smoothing each order leans on the one below, down to 1/D for every token:

        p_m(w | c) = (count(c, w) + kinds(c) · p_{m−1}(w | c′)) / (count(c) + kinds(c))

    where c′ is the context c without its oldest token and kinds(c) the number of different tokens
    seen after c: the more kinds, the likelier one more (Witten and Bell 1991, in the recursive
    form of Chen and Goodman 1999). A context never seen passes the question on.

    With "absolute" discounting every count gives up the same δ_m of its order, and what is
    gathered goes to the shorter context:

        p_m(w | c) = (max(count(c, w) − δ_m, 0) + δ_m · kinds(c) · p_{m−1}(w | c′)) / count(c)

    where δ_m = n₁ / (n₁ + 2 n₂), and n₁ and n₂ say how many m-grams occurred once and twice
    (an estimate that programs credit to Ney, Essen and Kneser 1994). With a number k, k is added
    to every count of the longest context and nothing is asked of a shorter one.

    The counts form a tree of sorted arrays. Level m holds every different (m + 1)-gram as one
    number, its key: (index of its first m tokens on level m − 1) · D + last token; its suffix is
    the index of its last m tokens there. Counts and probabilities are computed on the CPU, in
    double precision, wherever the ids lie.

    >>> pairs = CountModel(2, vocab_size=10).fit(torch.tensor([5, 7, 5, 9]))
    >>> pairs.keys[0], pairs.counts[0]  # the single tokens
    (tensor([5, 7, 9]), tensor([2, 1, 1]))
    >>> pairs.keys[1]  # 5 7 and 5 9, whose 5 has index 0, and 7 5, whose 7 has index 1
    tensor([ 7,  9, 15])
    >>> pairs.suffixes[1]  # they end in 7, 9 and 5
    tensor([1, 2, 0])

    Args:
        n: order; a token is predicted from the n − 1 before it.
        vocab_size: D.
        smoothing: "witten-bell", "absolute", or the number k > 0 to add to each count.
    """

    def __init__(self, n: int, vocab_size: int, smoothing: float | str = "witten-bell") -> None:
        if n < 1 or vocab_size < 1:
            raise ValueError(f"need n ≥ 1 and vocab_size ≥ 1, got n = {n} and {vocab_size}")
        known = smoothing in ("witten-bell", "absolute")
        if not known and (isinstance(smoothing, str) or smoothing <= 0):
            raise ValueError(
                f"smoothing is 'witten-bell', 'absolute' or a number > 0, got {smoothing!r}"
            )
        self.n, self.vocab_size, self.smoothing = n, vocab_size, smoothing
        self.keys: list[Tensor] = []  # per level: sorted (U,)
        self.suffixes: list[Tensor] = []  # per level: each without its first token (U,)
        self.counts: list[Tensor] = []  # per level: how often each occurred (U,)
        self.totals: list[Tensor] = []  # per level: tokens seen after each node of the level above
        self.kinds: list[Tensor] = []  # … and how many different ones

    def fit(self, stream: Tensor) -> "CountModel":
        """Count every n-gram, and every shorter one, of a stream of ids (N,). Returns the model."""
        stream = self._checked(stream)
        self.keys, self.suffixes, self.counts, self.totals, self.kinds = [], [], [], [], []
        begun = stream.new_zeros(len(stream) + 1)  # at each token the empty n-gram: the root
        nodes = 1
        for m in range(min(self.n, len(stream))):
            key, place, count = torch.unique(
                begun[:-1] * self.vocab_size + stream[m:], return_inverse=True, return_counts=True
            )
            above = key // self.vocab_size
            self.keys.append(key)
            self.suffixes.append(torch.empty_like(key).scatter_(0, place, begun[1:]))
            self.counts.append(count)
            self.totals.append(torch.bincount(above, count.double(), minlength=nodes))
            self.kinds.append(torch.bincount(above, minlength=nodes))
            begun, nodes = place, len(key)  # the (m + 1)-gram that begins at each token
        return self

    def variant(self, n: int, smoothing: float | str) -> "CountModel":
        """The same counts, asked with n no larger than this model's, or smoothed another way."""
        if n > self.n:
            raise ValueError(f"only n-grams up to n = {self.n} were counted; fit one with n = {n}")
        other = CountModel(n, self.vocab_size, smoothing)
        other.keys, other.suffixes = self.keys[:n], self.suffixes[:n]
        other.counts = self.counts[:n]
        other.totals, other.kinds = self.totals[:n], self.kinds[:n]
        return other

    def probabilities(self, context: Tensor) -> Tensor:
        """The next token's distribution (D,) after a context (T,); its last n − 1 ids count."""
        context = self._checked(context)
        p = torch.full(
            (self.vocab_size,), 1 / self.vocab_size, dtype=torch.float64, device=context.device
        )
        for m in range(min(len(context) + 1, len(self.keys))):
            node = context.new_zeros(())
            for level, token in enumerate(context[len(context) - m :]):
                node = self._children(level, node, token)
            count = torch.zeros_like(p)
            if node >= 0:
                edges = torch.stack([node, node + 1]) * self.vocab_size
                first, last = torch.searchsorted(self.keys[m], edges).tolist()
                tokens = self.keys[m][first:last] % self.vocab_size
                count[tokens] = self.counts[m][first:last].double()
            total, kinds = _at(self.totals[m], node), _at(self.kinds[m], node)
            p = self._smooth(m, count, total, kinds, p)
        return p

    def losses(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each token, and how often the context it was predicted from was seen.

        Args:
            stream: ids (N,) or (B, N); the first of a row is only a context.

        Returns:
            nats, and how often the n − 1 tokens before each token occurred in training with a
            token after them, 0 where a row has fewer: both (B, N − 1), B = 1 for (N,).

        Raises:
            ValueError: if an id lies outside 0 … D − 1, or a row has no second token.
        """
        ids = self._checked(stream)
        if ids.ndim == 1:
            ids = ids[None]
        if ids.shape[1] < 2:
            raise ValueError("nothing to predict: a row needs a first token and one more")
        p = torch.full(ids.shape, 1 / self.vocab_size, dtype=torch.float64, device=ids.device)
        times = torch.zeros_like(p)
        parent = torch.zeros_like(ids)  # the context of each token, at first of no tokens
        for m in range(len(self.keys)):  # m tokens of context; the row has them from column m on
            node = self._children(m, parent, ids[:, m:])
            count = _at(self.counts[m], node).double()
            total = _at(self.totals[m], parent)
            kinds = _at(self.kinds[m], parent)
            p[:, m:] = self._smooth(m, count, total, kinds, shorter=p[:, m:])
            times = F.pad(total, (m, 0))
            parent = node[:, :-1]
        return -p[:, 1:].log(), times[:, 1:]

    def unseen(self, stream: Tensor) -> list[float]:
        """Share of a stream's n-grams (N,) that were never counted, for each order from 1 to n."""
        stream = self._checked(stream)
        parent = torch.zeros_like(stream)
        shares = []
        for m in range(len(self.keys)):
            node = self._children(m, parent, stream[m:])
            shares.append((node < 0).double().mean().item())
            parent = node[:-1]
        return shares

    def _smooth(
        self, m: int, count: Tensor, total: Tensor, kinds: Tensor, shorter: Tensor
    ) -> Tensor:
        """From counts after m tokens, and the shorter context's answer, to probabilities."""
        if not isinstance(self.smoothing, str):
            return (count + self.smoothing) / (total + self.smoothing * self.vocab_size)
        if self.smoothing == "witten-bell":
            mixed = (count + kinds * shorter) / (total + kinds)
        else:
            discount = self._discount(m)
            mixed = ((count - discount).clamp(min=0) + discount * (kinds * shorter)) / total
        return torch.where(total > 0, mixed, shorter)

    def _discount(self, m: int) -> float:
        """What absolute discounting takes from each count of level m; above 0, at most 1."""
        once = max(1, int((self.counts[m] == 1).sum()))
        twice = int((self.counts[m] == 2).sum())
        return once / (once + 2 * twice)

    def _children(self, level: int, parent: Tensor, token: Tensor) -> Tensor:
        """Places on a level of the children `token` of `parent`; −1 where never seen."""
        keys = self.keys[level]
        wanted = parent * self.vocab_size + token  # negative, as no key is, if the parent is −1
        place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return torch.where(keys[place] == wanted, place, -1)

    def _checked(self, ids: Tensor) -> Tensor:
        """The ids on the CPU, if they are in the vocabulary."""
        ids = ids.cpu()
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab_size:
            raise ValueError(
                f"ids must lie in 0 … {self.vocab_size - 1}, got {ids.min()} … {ids.max()}"
            )
        return ids


def _at(values: Tensor, places: Tensor) -> Tensor:
    """The values at some places, and 0 where a place is −1: what was never seen."""
    return torch.where(places >= 0, values[places.clamp(min=0)], 0)


class ZeroLayer(nn.Module):
    """The zero-layer transformer: embed, unembed, nothing in between.

    logits_t = W_E[id_t] W_U: row `id_t` of one (D, D) table of rank at most d_model. All it can
    learn is which token follows which (Elhage et al. 2021).

    Attributes:
        W_E: embeddings (D, d_model). W_U: unembedding (d_model, D), without bias.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        self.W_U = uniform(d_model, vocab_size, width=d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, D) for the token after each of `ids` (B, T)."""
        return self.unembed(self.hidden(ids))

    def unembed(self, x: Tensor) -> Tensor:
        """Logits (…, D) of states (…, d)."""
        return x @ self.W_U

    def hidden(self, ids: Tensor) -> Tensor:
        """The embeddings (B, T, d_model) of `ids` (B, T)."""
        embedded: Tensor = self.W_E[ids]
        return embedded


class NeuralNgram(nn.Module):
    """The neural n-gram model (Bengio et al. 2003, without the direct connections).

    h_t = tanh([e_t, e_{t−1}, …, e_{t−n+2}] W_H + b), logits_t = h_t W_U: the embeddings of the
    last n − 1 tokens are concatenated, so every distance has its own (d_model, d_hidden) block of
    W_H. A token further back is not in the input. Where the window reaches over the start of the
    text it finds `before`, one learned embedding that belongs to no token.

    Attributes:
        W_E: embeddings (D, d_model). before: (d_model,).
        W_H: (n − 1, d_model, d_hidden), block i for the token i places back. b: (d_hidden,).
        W_U: unembedding (d_hidden, D), without bias.

    Raises:
        ValueError: if n < 2 (a window of no tokens).
    """

    def __init__(self, vocab_size: int, n: int, d_model: int, d_hidden: int) -> None:
        super().__init__()
        if n < 2:
            raise ValueError(f"an n-gram model needs n ≥ 2 (n − 1 tokens of context), got n = {n}")
        self.n = n
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        self.before = nn.Parameter(torch.randn(d_model))
        self.W_H = uniform(n - 1, d_model, d_hidden, width=(n - 1) * d_model)
        self.b = nn.Parameter(torch.zeros(d_hidden))
        self.W_U = uniform(d_hidden, vocab_size, width=d_hidden)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, D) for the token after each of `ids` (B, T)."""
        return self.unembed(self.hidden(ids))

    def unembed(self, x: Tensor) -> Tensor:
        """Logits (…, D) of states (…, d)."""
        return x @ self.W_U

    def hidden(self, ids: Tensor) -> Tensor:
        """The hidden layer (B, T, d_hidden) of `ids` (B, T)."""
        batch, length = ids.shape
        pad = self.before.expand(batch, self.n - 2, -1)
        x = torch.cat([pad, self.W_E[ids]], 1)  # (B, n − 2 + T, d_model)
        back = range(self.n - 2, -1, -1)  # x[:, s:s + T] is the text moved n − 2 − s places
        window = torch.cat([x[:, start : start + length] for start in back], -1)
        return torch.tanh(window @ self.W_H.flatten(0, 1) + self.b)  # one product for all blocks
