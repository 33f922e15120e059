"""Recurrent language models: read one token, update a state, predict; again and again.

`Elman` is the simple recurrent network as a readable loop. `Recurrent` is the same model around
the framework's LSTM or GRU, for contrast. Both start every text from a state of zeros.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnlib.attention import check_choice
from attnlib.models.initial import uniform


class Elman(nn.Module):
    """A language model with one recurrent layer (Elman 1990).

    h_t = tanh(x_t W_x + h_{t−1} W_h + b) with h_{−1} = 0, logits_t = h_t W_U.

    Everything the model knows about tokens 0 … t is in the d_hidden numbers of h_t. Weights are
    drawn from ±1/√d_hidden except W_h, which starts orthogonal: it keeps the length of h, so that
    at the start only the tanh shrinks what travels through time.

    Attributes:
        W_E: embeddings (D, d_model). W_x: (d_model, d_hidden). W_h: (d_hidden, d_hidden).
        b: (d_hidden,). W_U: unembedding (d_hidden, D), without bias.
    """

    def __init__(self, vocab_size: int, d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        self.W_x = uniform(d_model, d_hidden, width=d_hidden)
        self.W_h = nn.Parameter(nn.init.orthogonal_(torch.empty(d_hidden, d_hidden)))
        self.b = nn.Parameter(torch.zeros(d_hidden))
        self.W_U = uniform(d_hidden, vocab_size, width=d_hidden)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, D) for the token after each of `ids` (B, T)."""
        return self.unembed(self.hidden(ids))

    def unembed(self, x: Tensor) -> Tensor:
        """Logits (…, D) of states (…, d)."""
        return x @ self.W_U

    def hidden(self, ids: Tensor) -> Tensor:
        """States h_0 … h_{T−1}, (B, T, d_hidden), of token ids (B, T)."""
        return self.states(self.W_E[ids])

    def states(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """The recurrence itself.

        Args:
            x: inputs, (B, T, d_model).
            h: the state before the first input, (B, d_hidden); zeros if not given.

        Returns:
            (B, T, d_hidden), the state after each input.
        """
        inputs = x @ self.W_x + self.b  # (B, T, d_hidden): no time in it, so all at once
        if h is None:
            h = x.new_zeros(x.shape[0], self.W_h.shape[0])
        states = []
        for input_t in inputs.unbind(1):  # this part waits: step t needs the h of step t − 1
            h = torch.tanh(input_t + h @ self.W_h)
            states.append(h)
        if not states:
            return inputs  # of a text of no tokens, (B, 0, d_hidden)
        return torch.stack(states, 1)


class Recurrent(nn.Module):
    """The same language model around the framework's gated cells.

    A thin wrapper: embedding, one layer of `torch.nn.LSTM` (Hochreiter and Schmidhuber 1997, with
    a forget gate) or `torch.nn.GRU` (Cho et al. 2014), unembedding. A gate multiplies the old
    state by a number near 1 or near 0: kept or replaced, instead of squashed at every step.

    Attributes:
        W_E: embeddings (D, d_model). rnn: the framework's layer. W_U: (d_hidden, D), no bias.

    Raises:
        ValueError: if the cell is neither "lstm" nor "gru".
    """

    def __init__(self, vocab_size: int, d_model: int, d_hidden: int, cell: str = "lstm") -> None:
        super().__init__()
        check_choice("cell", cell, ("lstm", "gru"))
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        layer = nn.LSTM if cell == "lstm" else nn.GRU
        self.rnn = layer(d_model, d_hidden, batch_first=True)
        self.W_U = uniform(d_hidden, vocab_size, width=d_hidden)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, D) for the token after each of `ids` (B, T)."""
        return self.unembed(self.hidden(ids))

    def unembed(self, x: Tensor) -> Tensor:
        """Logits (…, D) of states (…, d)."""
        return x @ self.W_U

    def hidden(self, ids: Tensor) -> Tensor:
        """States (B, T, d_hidden) of token ids (B, T)."""
        states: Tensor
        states, _ = self.rnn(self.W_E[ids])
        return states


def run_padded(rnn: nn.RNNBase, x: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
    """A layer of the framework over padded rows, so that padding has no influence.

    Packing lets the backward direction start at the last real token.

    Args:
        rnn: with `batch_first`.
        x: (B, T, d).
        lengths: real tokens of each row, at least 1, (B,).

    Returns:
        states (B, T, d_state), zeros on padding, and what the layer ended with.
    """
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    packed_states, last = rnn(packed)
    states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=x.shape[1])
    return states, last
