"""The loop that trains: what it does at each step, and how it stops and fails."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import gpt, same, stream_of

from attnlib.training import evaluate, fit, next_token_loss, shuffled, windows

STREAM = stream_of(200)


def train(model, steps=8, loss=next_token_loss, **options):
    data = windows(STREAM.to(model.W_E.device), length=6, batch_size=3)
    return fit(model, data, loss, steps=steps, **{"lr": 0.01, "progress": False} | options)


class Point(torch.nn.Module):
    """One number, whose loss falls by its gradient per unit moved."""

    def __init__(self, start):
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor([start]))


def moved(loss, start=0.0, **options):
    """A point after some steps, and the history."""
    model = Point(start)
    return model, fit(model, lambda step: step, loss, progress=False, **options)


def rates_of(steps, **options):
    """The learning rate of every step: a constant gradient moves AdamW by just that."""
    places = []
    options["on_step"] = lambda step, model: places.append(model.x.item())
    moved(lambda model, _: model.x.sum(), steps=steps, **options)
    return [before - after for before, after in pairwise(places)]


# --- the loop ---------------------------------------------------------------------------------


def test_training_lowers_the_loss():
    """A stream that counts 0, 1, 2, … 10, 0, 1, … leaves nothing to be unsure of."""
    stream = torch.arange(500) % 11
    model = gpt(dropout=0.0)
    history = fit(
        model, windows(stream, 6, 8), next_token_loss, steps=60, lr=0.03, warmup=5, progress=False
    )
    assert history.losses[0] > 2
    assert history.losses[-1] < 0.2
    assert evaluate(model, stream, 6) < 0.2
    assert (model(torch.tensor([[8, 9, 10]])).argmax(-1) == torch.tensor([[9, 10, 0]])).all()
    assert not model.training
    assert history.steps == len(history.losses) == 60
    assert history.tokens == 60 * 8 * 7  # what the batches held
    assert history.seconds > 0
    assert not history.interrupted


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_learns_where_it_lies(device, dtype):
    """Without dropout a run has the same losses everywhere, up to the rounding of its numbers."""
    expected = train(gpt(dropout=0.0)).losses
    model = gpt(dropout=0.0).to(device, dtype)
    history = train(model)
    assert model.W_E.device.type == device
    assert model.W_E.dtype == dtype
    close = 1e-4 if dtype == torch.float32 else 0.1
    assert history.losses == pytest.approx(expected, abs=close)
    assert evaluate(model, STREAM.to(device), 6) == pytest.approx(history.losses[-1], abs=0.3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_seed_repeats_its_run_and_leaves_the_callers_draws_alone(device):
    def draws():
        return torch.rand(3), torch.rand(3, device=device)

    with torch.random.fork_rng():
        torch.manual_seed(5)
        expected = draws()
        torch.manual_seed(5)
        models = [gpt().to(device) for _ in range(3)]
        losses = [train(m, seed=seed).losses for m, seed in zip(models, (3, 3, 4), strict=True)]
        assert all(map(torch.equal, draws(), expected))
    assert losses[0] == losses[1]
    assert same(models[0].state_dict(), models[1].state_dict())
    assert losses[0] != losses[2]


def test_nothing_else_than_dropout_is_drawn():
    plain = [train(gpt(dropout=0.0), seed=seed).losses for seed in (3, 4)]
    assert plain[0] == plain[1]


def test_every_step_draws_its_own_numbers():
    """Or dropout would silence the same units from the first step to the last."""

    def draws(seed):
        drawn = []

        def loss(model, batch):
            drawn.append(torch.rand(()).item())
            return model.x.sum()

        moved(loss, steps=6, seed=seed)
        return drawn

    assert draws(1) == draws(1)
    assert len({*draws(1), *draws(2)}) == 12


def test_training_makes_every_tensor_where_the_model_lies():
    model, expected, stream = gpt(), train(gpt()), stream_of(50)
    with nothing_made_elsewhere():
        history = train(model)
        held_out = evaluate(model, stream, 6)
        (rows,) = shuffled((stream,), 7)(3)
    assert history.losses == expected.losses
    assert held_out == evaluate(model, stream, 6)
    assert torch.equal(rows, shuffled((stream,), 7)(3)[0])


def test_on_step_sees_the_model_in_training_before_each_step_and_after_the_last():
    calls, model = [], gpt().eval()

    def note(step, model):
        calls.append((step, model.W_E[0, 0].item()))
        assert model.training

    train(model, steps=3, on_step=note)
    assert [step for step, _ in calls] == [0, 1, 2, 3]
    assert calls[0][1] == gpt().W_E[0, 0].item()
    assert len({weight for _, weight in calls}) == 4


def test_on_step_may_draw_without_changing_the_run():
    def draw(step, model):
        torch.rand(7)
        model.trace(torch.tensor([1, 2, 3]))

    assert train(gpt(), on_step=draw).losses == train(gpt()).losses


def test_a_checkpoint_is_called_at_the_start_after_each_step_and_after_an_interrupt():
    calls = []

    def checkpoint(model, optimizer, history):
        calls.append((history.steps, history.interrupted))
        assert len(optimizer.state) == (len(list(model.parameters())) if history.steps else 0)

    def stop(step, model):
        if step == 2:
            raise KeyboardInterrupt

    train(gpt(), steps=4, on_step=stop, checkpoint=checkpoint)
    assert calls == [(0, False), (1, False), (2, False), (2, True)]


def test_a_checkpoint_may_put_back_an_earlier_run():
    """What it writes into model, optimizer and history at the start is where the run goes on."""
    middle, whole, again = {}, gpt(), gpt(seed=99)

    def keep(model, optimizer, history):
        if history.steps == 3:
            parts = (model.state_dict(), optimizer.state_dict(), vars(history))
            middle.update(zip("moh", copy.deepcopy(parts), strict=True))

    def put_back(model, optimizer, history):
        if history.steps == 0:
            model.load_state_dict(middle["m"])
            optimizer.load_state_dict(middle["o"])
            vars(history).update(middle["h"])

    expected = train(whole, checkpoint=keep)
    history = train(again, checkpoint=put_back)
    assert history.losses == expected.losses
    assert history.tokens == expected.tokens
    assert history.seconds > middle["h"]["seconds"]
    assert same(again.state_dict(), whole.state_dict())


def test_warmup_and_cosine():
    rates = rates_of(20, lr=0.1, warmup=4)
    assert rates[:5] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1], rel=1e-3)
    expected = [0.1 * (0.1 + 0.9 * (1 + math.cos(math.pi * k / 16)) / 2) for k in range(16)]
    assert rates[4:] == pytest.approx(expected, rel=1e-3)
    assert rates[-1] == pytest.approx(0.01, rel=0.1)


def test_constant_schedule_and_no_warmup():
    assert rates_of(5, lr=0.1, schedule="constant") == pytest.approx([0.1] * 5, rel=1e-3)
    assert rates_of(5, lr=0.1)[0] == pytest.approx(0.1, rel=1e-3)
    later = rates_of(4, lr=0.1, schedule="constant", warmup=1)
    assert later == pytest.approx([0.05, 0.1, 0.1, 0.1], rel=1e-3)


@pytest.mark.parametrize(
    ("clip", "gradient", "expected"),
    [(0.5, 100.0, 0.5), (math.inf, 100.0, 100.0), (0.5, 0.2, 0.2)],  # a short one stays
)
def test_the_gradient_is_never_longer_than_clip(clip, gradient, expected):
    model, _ = moved(lambda m, _: gradient * m.x.sum(), steps=1, clip=clip)
    assert model.x.grad.norm().item() == pytest.approx(expected, rel=1e-4)


def test_weight_decay_shrinks_what_has_no_gradient():
    model, still = moved(lambda m, _: 0 * m.x.sum(), 1.0, steps=1, lr=0.1, weight_decay=0.5)
    assert still.losses == [0.0]
    assert model.x.item() == pytest.approx(1 - 0.1 * 0.5)


def test_progress_shows_loss_and_tokens_per_second(capsys, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    history = train(gpt(), steps=3, progress=True)
    shown = capsys.readouterr().err
    assert f"loss {history.losses[-1]:.3f}" in shown
    assert "tokens/s" in shown
    train(gpt(), steps=3, progress=False)
    assert capsys.readouterr() == ("", "")


# --- interrupts and errors ----------------------------------------------------------------------


def test_interrupt_leaves_a_usable_model(capsys):
    model, three = gpt(), gpt()
    steps = iter(range(8))

    def loss(model, window):
        if next(steps) == 3:
            raise KeyboardInterrupt
        return next_token_loss(model, window)

    history = train(model, loss=loss, schedule="constant")
    assert history.interrupted
    assert history.steps == 3
    assert "Interrupted after 3 of 8 steps" in capsys.readouterr().out
    assert not model.training
    train(three, steps=3, schedule="constant")
    assert same(model.state_dict(), three.state_dict())  # as the last finished step left it


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_before_it_spoils_the_weights(value):
    model = gpt()
    with pytest.raises(FloatingPointError, match=f"became {value}: lower the learning rate"):
        train(model, loss=lambda model, window: next_token_loss(model, window) * value)
    assert same(model.state_dict(), gpt().state_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"schedule": "linear"}, "got 'linear'"), ({"steps": 0}, "at least 1, got 0")],
)
def test_settings_that_fit_refuses(settings, message):
    with pytest.raises(ValueError, match=message):
        train(gpt(), **settings)


# --- batches of the rows of a data set --------------------------------------------------------


@settings(deadline=None)
@given(n=st.integers(1, 40), batch_size=st.integers(1, 50), seed=st.integers(0, 99))
def test_shuffled_shows_every_row_once_an_epoch(n, batch_size, seed):
    x = torch.arange(n)
    batch = shuffled((x, x.double() * 10), batch_size, seed)
    per_epoch = math.ceil(n / batch_size)
    for epoch in range(3):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        parts = [batch(step) for step in steps]
        rows = torch.cat([rows for rows, _ in parts])
        assert torch.equal(rows.sort().values, x)
        assert torch.equal(torch.cat([tens for _, tens in parts]), rows.double() * 10)
        assert all(len(rows) == batch_size for rows, _ in parts[:-1])


@pytest.mark.parametrize("device", DEVICES)
def test_shuffled_is_new_each_epoch_and_the_same_each_time_and_everywhere(device):
    x = torch.arange(30)
    batch, again = shuffled((x,), 30, seed=1), shuffled((x.to(device),), 30, seed=1)
    before = torch.get_rng_state()
    assert not torch.equal(batch(0)[0], batch(1)[0])
    assert torch.equal(batch(5)[0].to(device), again(5)[0])
    assert not torch.equal(batch(0)[0], shuffled((x,), 30, seed=2)(0)[0])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("lengths", [(3, 2), (0,)])
def test_shuffled_needs_rows_of_one_number(lengths):
    with pytest.raises(ValueError, match="one length ≥ 1"):
        shuffled([torch.arange(n) for n in lengths], 2)
