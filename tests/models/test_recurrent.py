"""The loop, the framework's recurrences, and what becomes of a gradient on its way back."""

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.models.recurrent import Elman, Recurrent


def ids_of(seed: int, *shape: int) -> torch.Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


def elman(seed: int = 0, d_model: int = 6, d_hidden: int = 8) -> Elman:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Elman(vocab_size=11, d_model=d_model, d_hidden=d_hidden)


def framework_twin(model: Elman) -> torch.nn.RNN:
    """`torch.nn.RNN` with our weights: it keeps them transposed and adds two biases."""
    twin = torch.nn.RNN(*model.W_x.shape, batch_first=True)
    with torch.no_grad():
        twin.weight_ih_l0.copy_(model.W_x.T)
        twin.weight_hh_l0.copy_(model.W_h.T)
        twin.bias_ih_l0.copy_(model.b)
        twin.bias_hh_l0.zero_()
    return twin


@pytest.mark.claim(36)
@settings(deadline=None, max_examples=25)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 40),
    d_model=st.integers(1, 9),
    d_hidden=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_loop_equals_the_framework(batch, length, d_model, d_hidden, seed):
    model = elman(seed, d_model, d_hidden)
    with torch.no_grad():
        model.b.uniform_(-1, 1)
    ids = ids_of(seed, batch, length)
    expected, last = framework_twin(model)(model.W_E[ids])
    torch.testing.assert_close(model.hidden(ids), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.hidden(ids)[:, -1], last[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(ids), model.hidden(ids) @ model.W_U)


def reach(model: Elman, ids: torch.Tensor) -> torch.Tensor:
    """Mean length of ∂(u · h_last)/∂x_s for every s, u a random direction of length 1."""
    x = model.W_E[ids].detach().requires_grad_()
    last = model.states(x)[:, -1]
    directions = torch.nn.functional.normalize(torch.randn_like(last), dim=-1)
    (last * directions).sum().backward()
    return x.grad.norm(dim=-1).mean(0)


@pytest.mark.claim(36)
def test_gradient_to_early_tokens_decays():
    torch.manual_seed(0)
    model, ids = Elman(11, 32, 32), ids_of(0, 64, 50)
    norms = reach(model, ids)
    assert norms[0] > 0
    assert norms[-1] > 10 * norms[-21] > 100 * norms[-41]
    # Each step back multiplies by W_h and by 1 − h² ≤ 1: with |W_h| = 0.5 it at least halves.
    with torch.no_grad():
        model.W_h *= 0.5
        bound = torch.linalg.matrix_norm(model.W_x, 2) * 0.5 ** torch.arange(49, -1, -1)
    norms = reach(model, ids)
    assert (norms <= bound).all()
    assert norms[-1] > 0.1 * bound[-1]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gated_cells_are_the_frameworks(cell):
    torch.manual_seed(0)
    model, ids = Recurrent(11, 6, 8, cell), ids_of(1, 3, 9)
    twin = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](6, 8, batch_first=True)
    twin.load_state_dict(model.rnn.state_dict())
    hidden = model.hidden(ids)
    torch.testing.assert_close(hidden, twin(model.W_E[ids])[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(ids), hidden @ model.W_U)


MODELS = {
    "elman": lambda: elman(1),
    "lstm": lambda: Recurrent(11, 6, 8, "lstm"),
    "gru": lambda: Recurrent(11, 6, 8, "gru"),
}


@pytest.mark.parametrize("name", MODELS)
@settings(deadline=None, max_examples=15)
@given(where=st.integers(0, 7), seed=st.integers(0, 99))
def test_the_past_does_not_see_the_future_and_the_future_sees_the_past(name, where, seed):
    model, ids = MODELS[name](), ids_of(seed, 1, 8)
    other = ids.clone()
    other[0, where] = (ids[0, where] + 1) % 11
    moved = (model.hidden(ids) - model.hidden(other)).abs().amax(-1)[0]
    assert (moved[:where] <= 1e-6).all()
    assert (moved[where:] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_on_any_device_in_any_float(name, device, dtype):
    model, ids = MODELS[name](), ids_of(4, 2, 8)
    expected = model(ids)
    logits = model.to(device, dtype)(ids.to(device))
    assert (logits.device.type, logits.dtype) == (device, dtype)
    atol = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(logits.float().cpu(), expected, atol=atol, rtol=0)
    with nothing_made_elsewhere():
        assert torch.equal(model(ids.to(device)), logits)


def test_a_text_in_two_pieces_is_the_same_text():
    model, ids = elman(2), ids_of(6, 2, 10)
    whole, x = model.hidden(ids), model.W_E[ids]
    first = model.states(x[:, :4])
    second = model.states(x[:, 4:], first[:, -1])
    torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-6, rtol=0)


def test_recurrence_begins_orthogonal():
    """And its width is d_hidden, not d_model."""
    W_h = Elman(vocab_size=11, d_model=3, d_hidden=17).W_h.detach()
    torch.testing.assert_close(W_h @ W_h.T, torch.eye(17), atol=1e-5, rtol=0)


def test_empty_text():
    assert elman()(ids_of(0, 2, 0)).shape == (2, 0, 11)


def test_unknown_cell():
    with pytest.raises(ValueError, match="cell must be one of"):
        Recurrent(11, 6, 8, "tanh")
