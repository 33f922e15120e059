"""The loop that trains: what it does at each step, and how it stops, goes on and fails."""

import math
from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
import torch
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import gpt, stream_of

from attnlib.training import evaluate, fit, loop, next_token_loss, shuffled, windows
from recipes import resumed
from recipes.resumed import Resumed


def train(model, steps=8, **options):
    data = windows(stream_of(200), length=6, batch_size=3)
    loss = options.pop("loss", next_token_loss)
    options = {"lr": 0.01, "progress": False} | options
    return fit(model, data, loss, steps=steps, **options)


def same_weights(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def interrupted_at(step):
    """A loss during which the reader presses the stop button."""
    calls = count()

    def loss(model, window):
        if next(calls) == step:
            raise KeyboardInterrupt
        return next_token_loss(model, window)

    return loss


def clock(monkeypatch, tick):
    """Every look at the clock finds it `tick` seconds later."""
    times = count(0, tick)
    for module in (loop, resumed):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))


class Point(torch.nn.Module):
    """One number, whose loss falls by its gradient per unit moved."""

    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(1))


def moved(loss, start=0.0, **options):
    """A point after some steps, and the history."""
    model = Point()
    torch.nn.init.constant_(model.x, start)
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


def test_history_tells_what_happened():
    history = train(gpt(), steps=5)
    assert history.steps == len(history.losses) == 5
    assert history.tokens == 5 * 3 * 7  # what the batches held
    assert history.seconds > 0
    assert not history.interrupted


def test_same_seed_same_run_other_seed_other_dropout():
    one, two, other = gpt(), gpt(), gpt()
    losses = [train(model, seed=seed).losses for model, seed in ((one, 3), (two, 3), (other, 4))]
    assert losses[0] == losses[1]
    assert same_weights(one, two)
    assert losses[0] != losses[2]
    plain = [train(gpt(dropout=0.0), seed=seed).losses for seed in (3, 4)]
    assert plain[0] == plain[1]  # nothing else is drawn


def test_every_step_draws_its_own_bits():
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


def test_the_callers_random_state_is_untouched():
    model = gpt()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(model)
    assert torch.equal(before, torch.get_rng_state())


def test_on_step_sees_the_model_in_training_before_each_step_and_after_the_last():
    calls, model = [], gpt().eval()

    def note(step, model):
        calls.append((step, model.W_E[0, 0].item()))
        assert model.training

    train(model, steps=3, on_step=note)
    assert [step for step, _ in calls] == [0, 1, 2, 3]
    assert calls[0][1] == gpt().W_E[0, 0].item()
    assert len({weight for _, weight in calls}) == 4
    assert not model.training


def test_on_step_may_draw_without_changing_the_run():
    def draw(step, model):
        torch.rand(7)
        model.trace(torch.tensor([1, 2, 3]))

    assert train(gpt(), on_step=draw).losses == train(gpt()).losses


def test_seconds_are_a_cap(monkeypatch):
    clock(monkeypatch, tick=1.0)
    history = train(gpt(), steps=100, seconds=5.5)
    assert 3 <= history.steps <= 7
    assert history.seconds > 5.5
    assert not history.interrupted


def test_seconds_of_a_resumed_run_are_its_own(monkeypatch, tmp_path):
    clock(monkeypatch, tick=1.0)
    state = tmp_path / "run.state"
    first = train(gpt(), steps=100, seconds=5.5, kind=partial(Resumed, state))
    second = train(gpt(), steps=100, seconds=5.5, kind=partial(Resumed, state))
    assert first.steps < second.steps <= 2 * first.steps + 1  # as many again
    assert second.seconds > first.seconds + 5


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


def test_clipping():
    """The gradient that reaches the optimizer is never longer than `clip`."""

    def run(clip, scale):
        return moved(lambda m, _: scale * m.x.sum(), steps=1, clip=clip)[0].x.grad.norm().item()

    assert run(clip=0.5, scale=100.0) == pytest.approx(0.5, rel=1e-4)
    assert run(clip=math.inf, scale=100.0) == pytest.approx(100.0)
    assert run(clip=0.5, scale=0.2) == pytest.approx(0.2)  # a short one stays


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


# --- interrupts, stops and errors ---------------------------------------------------------------


def test_interrupt_leaves_a_usable_model(capsys):
    model, three = gpt(), gpt()
    history = train(model, loss=interrupted_at(3), schedule="constant")
    assert history.interrupted
    assert history.steps == 3
    assert "Interrupted after 3 of 8 steps" in capsys.readouterr().out
    assert not model.training
    assert model(torch.tensor([[1, 2]])).isfinite().all()
    train(three, steps=3, schedule="constant")
    assert same_weights(model, three)  # as the last finished step left it


@pytest.mark.parametrize("stopped_at", [0, 1, 5])
def test_resumed_run_equals_an_uninterrupted_one(tmp_path, stopped_at):
    state = tmp_path / "new" / "run.state"
    whole, model = gpt(), gpt()
    expected = train(whole)
    first = train(model, loss=interrupted_at(stopped_at), kind=partial(Resumed, state))
    assert (first.steps, first.interrupted) == (stopped_at, True)
    again = gpt(seed=99)  # its own weights are replaced by those of the file
    history = train(again, kind=partial(Resumed, state))
    assert history.losses == expected.losses
    assert history.tokens == expected.tokens
    assert not history.interrupted
    assert same_weights(again, whole)


def test_state_is_saved_about_once_a_minute(monkeypatch, tmp_path):
    """A process that is killed can save nothing at its end, and still goes on from there."""
    clock(monkeypatch, tick=20.0)  # two looks a step: a save every other step
    state, saves, real = tmp_path / "run.state", [], Resumed.save

    def save(run):
        saves.append(run.history.steps)
        real(run)

    monkeypatch.setattr(Resumed, "save", save)

    def killed(step, model):
        if step == 7:
            raise MemoryError

    with pytest.raises(MemoryError):
        train(gpt(), kind=partial(Resumed, state), on_step=killed)
    assert 2 <= len(saves) <= 4
    assert 0 < saves[-1] < 7  # something is lost, not much
    model, whole = gpt(), gpt()
    history = train(model, kind=partial(Resumed, state))
    assert history.losses == train(whole).losses
    assert same_weights(model, whole)


def test_a_stop_while_writing_keeps_the_last_good_state(monkeypatch, tmp_path):
    state = tmp_path / "run.state"
    train(gpt(), loss=interrupted_at(4), kind=partial(Resumed, state))
    good = state.read_bytes()

    def half(thing, path):
        path.write_bytes(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="no space"):
        train(gpt(), loss=interrupted_at(1), kind=partial(Resumed, state))
    assert state.read_bytes() == good


def test_a_run_does_not_go_on_with_other_settings(tmp_path):
    state = tmp_path / "run.state"
    train(gpt(), loss=interrupted_at(2), kind=partial(Resumed, state))
    good = state.read_bytes()
    with pytest.raises(ValueError, match=r"is the state of a run with .*delete the file"):
        train(gpt(), lr=0.5, kind=partial(Resumed, state))
    assert state.read_bytes() == good


def test_a_finished_run_is_not_run_again(tmp_path):
    state, calls = tmp_path / "run.state", count()
    model = gpt()
    first = train(model, kind=partial(Resumed, state))
    again = gpt(seed=1)

    def loss(model, window):
        next(calls)
        return next_token_loss(model, window)

    history = train(again, kind=partial(Resumed, state), loss=loss)
    assert next(calls) == 0
    assert history.losses == first.losses
    assert same_weights(again, model)


@each("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number(value):
    model = gpt()
    with pytest.raises(FloatingPointError, match=f"became {value}: lower the learning rate"):
        train(model, loss=lambda model, window: next_token_loss(model, window) * value)
    assert same_weights(model, gpt())


def test_errors_of_fit():
    with pytest.raises(ValueError, match="'cosine' or 'constant', got 'linear'"):
        train(gpt(), schedule="linear")
    with pytest.raises(ValueError, match="at least 1, got 0"):
        train(gpt(), steps=0)


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


def test_shuffled_is_new_each_epoch_and_the_same_each_time():
    x = torch.arange(30)
    batch, again = shuffled((x,), 30, seed=1), shuffled((x,), 30, seed=1)
    assert not torch.equal(batch(0)[0], batch(1)[0])
    assert torch.equal(batch(5)[0], again(5)[0])
    assert not torch.equal(batch(0)[0], shuffled((x,), 30, seed=2)(0)[0])


def test_shuffled_errors():
    with pytest.raises(ValueError, match=r"one length ≥ 1, got \[3, 2\]"):
        shuffled((torch.arange(3), torch.arange(2)), 2)
    with pytest.raises(ValueError, match="one length"):
        shuffled((torch.empty(0),), 2)


def test_drawing_rows_leaves_the_callers_random_state_alone():
    before = torch.get_rng_state()
    shuffled((torch.arange(20),), 4)(3)
    assert torch.equal(before, torch.get_rng_state())
