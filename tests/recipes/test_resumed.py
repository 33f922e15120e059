"""What is kept in a file: a run and a sweep go on bit for bit where they were stopped."""

from itertools import count
from types import SimpleNamespace

import pytest
import torch
from tiny import gpt, same, stream_of

from attnlib.training import fit, next_token_loss, windows
from recipes import resumed
from recipes.cards import sweep
from recipes.resumed import Resumed


def train(model, state=None, loss=next_token_loss, **options):
    data = windows(stream_of(200), length=6, batch_size=3)
    options = {"steps": 8, "lr": 0.01, "progress": False} | options
    checkpoint = None if state is None else Resumed(state)
    return fit(model, data, loss, checkpoint=checkpoint, **options)


def interrupted_at(step):
    """A loss during which the reader presses the stop button."""
    calls = count()

    def loss(model, window):
        if next(calls) == step:
            raise KeyboardInterrupt
        return next_token_loss(model, window)

    return loss


@pytest.mark.parametrize("stopped_at", [0, 1, 5])
def test_resumed_run_equals_an_uninterrupted_one(tmp_path, stopped_at):
    state = tmp_path / "new" / "run.state"
    whole, model, again = gpt(), gpt(), gpt(seed=99)  # whose weights those of the file replace
    expected = train(whole)
    first = train(model, state, interrupted_at(stopped_at))
    assert (first.steps, first.interrupted) == (stopped_at, True)
    history = train(again, state)
    assert history.losses == expected.losses
    assert history.tokens == expected.tokens
    assert history.seconds > first.seconds
    assert not history.interrupted
    assert same(again.state_dict(), whole.state_dict())


def test_state_is_saved_about_once_a_minute(monkeypatch, tmp_path):
    """A process that is killed can save nothing at its end, and still goes on from there."""
    times = count(0, 20)  # a look at the clock finds it 20 seconds later
    monkeypatch.setattr(resumed, "time", SimpleNamespace(monotonic=lambda: next(times)))
    state, saved, real = tmp_path / "run.state", [], Resumed.save

    def save(self, model, optimizer, history):
        saved.append(history.steps)
        real(self, model, optimizer, history)

    monkeypatch.setattr(Resumed, "save", save)

    def killed(step, model):
        if step == 6:
            raise MemoryError

    with pytest.raises(MemoryError):
        train(gpt(), state, on_step=killed)
    assert saved == [3]  # what came after is lost
    saved.clear()
    model, whole = gpt(), gpt()
    history = train(model, state)
    assert saved == [7, 8]
    assert history.losses == train(whole).losses
    assert same(model.state_dict(), whole.state_dict())


def test_a_stop_while_writing_keeps_the_last_good_state(monkeypatch, tmp_path):
    state = tmp_path / "run.state"
    train(gpt(), state, interrupted_at(4))
    good = state.read_bytes()

    def half(thing, path):
        path.write_bytes(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="no space"):
        train(gpt(), state, interrupted_at(1))
    assert state.read_bytes() == good


def test_a_run_does_not_go_on_with_other_settings(tmp_path):
    state = tmp_path / "run.state"
    train(gpt(), state, interrupted_at(2))
    good = state.read_bytes()
    with pytest.raises(ValueError, match=r"is the state of a run with .*delete the file"):
        train(gpt(), state, lr=0.5)
    assert state.read_bytes() == good


def test_a_finished_run_is_not_run_again(tmp_path):
    state = tmp_path / "run.state"
    model, again = gpt(), gpt(seed=1)
    first = train(model, state)
    history = train(again, state, interrupted_at(0))
    assert not history.interrupted
    assert history.losses == first.losses
    assert same(again.state_dict(), model.state_dict())


def test_a_sweep_goes_on_behind_the_last_whole_line(tmp_path):
    asked = []

    def square(run):
        asked.append(run)
        return run**2

    (tmp_path / "squares.lines").write_text("1\n4\n9")  # killed while it wrote the third
    assert sweep("squares", tmp_path, [1, 2, 3, 4], square) == [1, 4, 9, 16]
    assert asked == [3, 4]
    assert (tmp_path / "squares.lines").read_text() == "1\n4\n9\n16\n"
