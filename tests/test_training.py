"""The loop that trains, the loss it trains on, and the recipes of the checkpoints."""

import json
import math
import subprocess
import sys
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnlib import pretrained, recipes, training
from attnlib.bpe import BPE
from attnlib.data import Reviews, Split, reviews
from attnlib.ngram import NeuralNgram, ZeroLayer
from attnlib.training import (
    bits_per_byte,
    evaluate,
    fit,
    next_token_loss,
    shuffled,
    token_stream,
    windows,
)
from attnlib.transformer import Transformer, TransformerConfig

D = 11


def stream_of(n, seed=0):
    return torch.randint(D, (n,), generator=torch.Generator().manual_seed(seed))


def gpt(dropout=0.1, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(
            TransformerConfig(D, d_model=8, layers=1, heads=2, d_ff=8, dropout=dropout, max_len=6)
        )


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
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: next(times)))


class Point(torch.nn.Module):
    """One number, whose loss falls by its gradient per unit moved."""

    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(1))


def rates_of(steps, **options):
    """The learning rate of every step: a constant gradient moves AdamW by just that."""
    places = []
    fit(
        Point(), lambda step: step, lambda model, _: model.x.sum(), steps=steps, progress=False,
        on_step=lambda step, model: places.append(model.x.item()), **options,
    )  # fmt: skip
    return [before - after for before, after in pairwise(places)]


# --- the loss ---------------------------------------------------------------------------------


class Given(torch.nn.Module):
    """A "language model" whose hidden states are given, so that their gradient can be read."""

    def __init__(self, hidden, W_U):
        super().__init__()
        self.states = torch.nn.Parameter(hidden)
        self.W_U = torch.nn.Parameter(W_U)

    def hidden(self, ids):
        assert ids.shape == self.states.shape[:2]
        return self.states


def given_model(seed, batch, length, width=5, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    hidden = torch.randn(batch, length, width, generator=g) * scale
    window = torch.randint(D, (batch, length + 1), generator=g)
    return Given(hidden, torch.randn(width, D, generator=g)), window


def both_losses(model, window, dtype=torch.float32, factor=1.0):
    """(loss, gradients) of ours and of the framework."""
    found = []
    for loss in (
        next_token_loss(model, window, dtype),
        F.cross_entropy((model.states @ model.W_U).flatten(0, 1), window[:, 1:].flatten()),
    ):
        model.zero_grad()
        (factor * loss).backward()
        found.append((loss.detach(), model.states.grad.clone(), model.W_U.grad.clone()))
    return found


@pytest.mark.claim(18)
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999),
    batch=st.integers(1, 5),
    length=st.sampled_from([1, 3, 64, 200]),  # several blocks of 256 rows, and a last small one
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    factor=st.sampled_from([1.0, -2.5]),
)
def test_loss_equals_the_frameworks(seed, batch, length, scale, factor):
    model, window = given_model(seed, batch, length, scale=scale)
    ours, theirs = both_losses(model, window, factor=factor)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_loss_in_bfloat16_is_near():
    model, window = given_model(0, 8, 100, width=32, scale=0.5)
    ours, theirs = both_losses(model, window, torch.bfloat16)
    assert ours[0].dtype == torch.float32
    assert abs(ours[0] - theirs[0]) < 0.02
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() < 0.02 * b.norm()


@pytest.mark.claim(18)
def test_loss_by_hand():
    """Two states, three tokens: −log of the softmax at the token that comes next."""
    hidden, W_U = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[3.0, 1, 0], [0, 1, 2]])
    first = math.exp(1) / (math.exp(3) + math.exp(1) + math.exp(0))
    second = math.exp(4) / (math.exp(0) + math.exp(2) + math.exp(4))
    loss = next_token_loss(Given(hidden, W_U), torch.tensor([[0, 1, 2]]))
    assert loss.item() == pytest.approx(-(math.log(first) + math.log(second)) / 2, abs=1e-6)


def test_gradient_against_finite_differences():
    model, window = given_model(4, 2, 3)
    next_token_loss(model, window).backward()
    for parameter in (model.states, model.W_U):
        numbers = parameter.data.view(-1)
        for place in range(0, len(numbers), 7):
            losses = []
            for move in (1e-2, -1e-2):
                numbers[place] += move
                losses.append(next_token_loss(model, window).item())
                numbers[place] -= move
            slope = (losses[0] - losses[1]) / 2e-2
            assert parameter.grad.view(-1)[place].item() == pytest.approx(slope, abs=2e-3)


def test_loss_survives_huge_logits():
    model, window = given_model(5, 2, 4, scale=1e5)
    loss = next_token_loss(model, window)
    loss.backward()
    assert loss.isfinite()
    assert model.states.grad.isfinite().all()


@pytest.mark.parametrize("tied", [True, False])
def test_loss_of_a_whole_model(tied):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(D, d_model=8, layers=2, heads=2, tied=tied))
    window = stream_of(4 * 9).view(4, 9)
    grads = []
    for loss in (
        lambda: next_token_loss(model, window),
        lambda: F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten()),
    ):
        model.zero_grad()
        loss().backward()
        grads.append({name: p.grad.clone() for name, p in model.named_parameters()})
    torch.testing.assert_close(grads[0], grads[1], atol=1e-6, rtol=1e-4)


def test_loss_without_gradients():
    """Under no_grad the value is the same, and nothing is kept."""
    model, window = given_model(6, 3, 7)
    with torch.no_grad():
        value = next_token_loss(model, window)
    assert not value.requires_grad
    assert value.item() == pytest.approx(next_token_loss(model, window).item(), abs=1e-6)


# --- the loop ---------------------------------------------------------------------------------


def test_training_lowers_the_loss():
    """A stream that counts 0, 1, 2, … 10, 0, 1, … leaves nothing to be unsure of."""
    stream = torch.arange(500) % D
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

        fit(Point(), lambda step: step, loss, steps=6, seed=seed, progress=False)
        return drawn

    assert draws(1) == draws(1)
    assert len({*draws(1), *draws(2)}) == 12


def test_model_is_trained_in_training_mode_and_left_in_evaluation_mode():
    modes = []
    model = gpt().eval()
    train(model, steps=2, on_step=lambda step, model: modes.append(model.training))
    assert modes[:2] == [True, True]
    assert not model.training


def test_the_callers_random_state_is_untouched():
    model = gpt()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(model)
    assert torch.equal(before, torch.get_rng_state())


def test_on_step_is_called_before_each_step_and_after_the_last():
    calls = []
    train(gpt(), steps=3, on_step=lambda step, model: calls.append((step, model.W_E[0, 0].item())))
    assert [step for step, _ in calls] == [0, 1, 2, 3]
    assert calls[0][1] == gpt().W_E[0, 0].item()
    assert len({weight for _, weight in calls}) == 4


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
    first = train(gpt(), steps=100, seconds=5.5, resume=state)
    second = train(gpt(), steps=100, seconds=5.5, resume=state)
    assert second.steps > first.steps
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
    norms = []

    def run(clip, scale):
        model = Point()
        step = torch.optim.AdamW.step
        with pytest.MonkeyPatch.context() as patch:

            def watched(self, *args):
                norms.append(model.x.grad.norm().item())
                return step(self, *args)

            patch.setattr(torch.optim.AdamW, "step", watched)
            fit(
                model, lambda _: 0, lambda m, _: scale * m.x.sum(), steps=1, clip=clip,
                progress=False,
            )  # fmt: skip
        return norms[-1]

    assert run(clip=0.5, scale=100.0) == pytest.approx(0.5, rel=1e-4)
    assert run(clip=math.inf, scale=100.0) == pytest.approx(100.0)
    assert run(clip=0.5, scale=0.2) == pytest.approx(0.2)  # a short one stays


def test_weight_decay_shrinks_what_has_no_gradient():
    model = Point()
    torch.nn.init.ones_(model.x)
    still = fit(
        model, lambda _: 0, lambda m, _: 0 * m.x.sum(), steps=1, lr=0.1, weight_decay=0.5,
        progress=False,
    )  # fmt: skip
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
    first = train(model, loss=interrupted_at(stopped_at), resume=state)
    assert (first.steps, first.interrupted) == (stopped_at, True)
    again = gpt(seed=99)  # its own weights are replaced by those of the file
    history = train(again, resume=state)
    assert history.losses == expected.losses
    assert history.tokens == expected.tokens
    assert not history.interrupted
    assert same_weights(again, whole)


def test_state_is_saved_about_once_a_minute(monkeypatch, tmp_path):
    """A process that is killed can save nothing at its end, and still goes on from there."""
    clock(monkeypatch, tick=20.0)  # two looks a step: a save every other step
    state, saves, real = tmp_path / "run.state", [], training._save_state

    def save(path, model, optimizer, history):
        saves.append(history.steps)
        real(path, model, optimizer, history)

    monkeypatch.setattr(training, "_save_state", save)

    def killed(step, model):
        if step == 7:
            raise MemoryError

    with pytest.raises(MemoryError):
        train(gpt(), resume=state, on_step=killed)
    assert 2 <= len(saves) <= 4
    assert 0 < saves[-1] < 7  # something is lost, not much
    model, whole = gpt(), gpt()
    history = train(model, resume=state)
    assert history.losses == train(whole).losses
    assert same_weights(model, whole)


def test_a_stop_while_writing_keeps_the_last_good_state(monkeypatch, tmp_path):
    state = tmp_path / "run.state"
    train(gpt(), loss=interrupted_at(4), resume=state)
    good = state.read_bytes()

    def half(thing, path):
        path.write_bytes(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="no space"):
        train(gpt(), loss=interrupted_at(1), resume=state)
    assert state.read_bytes() == good


def test_a_run_does_not_go_on_with_other_settings(tmp_path):
    state = tmp_path / "run.state"
    train(gpt(), loss=interrupted_at(2), resume=state)
    good = state.read_bytes()
    with pytest.raises(ValueError, match=r"is the state of a run with .*delete the file"):
        train(gpt(), lr=0.5, resume=state)
    assert state.read_bytes() == good


def test_a_finished_run_is_not_run_again(tmp_path):
    state, calls = tmp_path / "run.state", count()
    model = gpt()
    first = train(model, resume=state)
    again = gpt(seed=1)

    def loss(model, window):
        next(calls)
        return next_token_loss(model, window)

    history = train(again, resume=state, loss=loss)
    assert next(calls) == 0
    assert history.losses == first.losses
    assert same_weights(again, model)


@pytest.mark.parametrize("value", [math.nan, math.inf])
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


# --- data -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    n=st.integers(2, 60), length=st.integers(1, 59), batch_size=st.integers(1, 5),
    seed=st.integers(0, 99), step=st.integers(0, 9999),
)  # fmt: skip
def test_windows_are_stretches_of_the_stream(n, length, batch_size, seed, step):
    stream = torch.arange(n)
    if length >= n:
        with pytest.raises(ValueError, match=f"{n} tokens has no window of {length}"):
            windows(stream, length, batch_size)
        return
    batch = windows(stream, length, batch_size, seed)
    found = batch(step)
    assert found.shape == (batch_size, length + 1)
    assert (found.diff() == 1).all()
    assert torch.equal(found, windows(stream, length, batch_size, seed)(step))


def test_windows_cover_the_stream_from_end_to_end():
    batch = windows(torch.arange(20), length=4, batch_size=8, seed=1)
    starts = torch.cat([batch(step)[:, 0] for step in range(50)])
    assert set(starts.tolist()) == set(range(16))
    assert not torch.equal(batch(0), batch(1))
    assert not torch.equal(batch(0), windows(torch.arange(20), 4, 8, seed=2)(0))


def test_drawing_leaves_the_callers_random_state_alone():
    before = torch.get_rng_state()
    windows(torch.arange(20), 4, 8)(3)
    shuffled((torch.arange(20),), 4)(3)
    assert torch.equal(before, torch.get_rng_state())


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


def test_token_stream_ends_every_text():
    bpe = BPE.train(["low login low"], vocab_size=259, progress=False)
    end = bpe.special_tokens["<|endoftext|>"]
    stream = token_stream(["low", "", "login"], bpe)
    assert stream.tolist() == [*bpe.encode("low"), end, end, *bpe.encode("login"), end]
    assert stream.dtype == token_stream([], bpe).dtype == torch.int64
    assert token_stream(["<|endoftext|>"], bpe).tolist().count(end) == 1  # a text cannot end itself


# --- evaluation -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(n=st.integers(7, 90), batch_size=st.integers(1, 5), seed=st.integers(0, 99))
def test_evaluate_equals_a_plain_loop(n, batch_size, seed):
    model, stream = gpt(seed=seed).train(), stream_of(n, seed)
    found = evaluate(model, stream, length=6, batch_size=batch_size)
    assert model.training
    model.eval()
    losses = []
    for start in range(0, n - 6, 6):
        log_p = model(stream[None, start : start + 6]).log_softmax(-1)[0]
        losses += [-log_p[t, stream[start + t + 1]].item() for t in range(6)]
    assert found == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_evaluate_restores_the_mode_and_learns_nothing():
    model = gpt().eval()
    evaluate(model, stream_of(50), length=6)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(ValueError, match="6 tokens has no window of 6"):
        evaluate(model, stream_of(6), length=6)


@pytest.mark.parametrize("training_mode", [True, False])
def test_evaluate_restores_the_mode_after_an_error(training_mode):
    model = gpt().train(training_mode)
    with pytest.raises(ValueError, match="positions"):
        evaluate(model, stream_of(50), length=7)
    assert model.training is training_mode


def test_bits_per_byte():
    assert bits_per_byte(math.log(256), tokens=10, n_bytes=10) == pytest.approx(8)
    assert bits_per_byte(2 * math.log(2), tokens=100, n_bytes=400) == pytest.approx(0.5)
    uniform = math.log(4096)  # halving the tokens of a text halves its bits
    assert bits_per_byte(uniform, 50, 400) == pytest.approx(bits_per_byte(uniform, 100, 400) / 2)


# --- recipes ----------------------------------------------------------------------------------

TRAINED = recipes.LANGUAGE_MODELS | recipes.POSITIONS


@pytest.fixture
def few_reviews(monkeypatch):
    """The recipes on 30 training texts and 6 test texts, cut short."""
    whole = reviews("imdb")

    def cut(part, n):
        return Split(tuple(text[:400] for text in part.texts[:n]), part.labels[:n])

    few = Reviews(cut(whole.train, 30), cut(whole.validation, 6), cut(whole.test, 6))
    monkeypatch.setattr(recipes, "reviews", lambda source: few)
    monkeypatch.setattr(recipes, "BATCH", 2)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    return few


def with_tokenizer(monkeypatch, folder):
    """`pretrained` looks into `folder`, where the course's tokenizer is already."""
    for name in ("reviews-bpe.bpe", "reviews-bpe.json"):
        (folder / name).write_bytes((pretrained.FOLDER / name).read_bytes())
    monkeypatch.setattr(pretrained, "FOLDER", folder)


@pytest.mark.parametrize("name", TRAINED)
def test_recipe_writes_a_checkpoint_that_loads(name, few_reviews, monkeypatch, tmp_path):
    with_tokenizer(monkeypatch, tmp_path)
    recipes.main([name, "--steps", "2", "--folder", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.glob(f"{name}.*")) == [
        f"{name}.json",
        f"{name}.safetensors",
    ]
    card, model = pretrained.card(name), pretrained.load(name)
    assert card["steps"] == 2
    assert card["tokens"] == 2 * 2 * recipes.LENGTH
    assert card["command"] == f"python -m attnlib.training {name}"
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    assert card["config"]["vocab_size"] == pretrained.load("reviews-bpe").vocab_size
    assert len(card["curve"]["train_loss"]) * card["curve"]["every"] == 2
    bpe = pretrained.load("reviews-bpe")
    again = recipes.held_out(model, few_reviews.test, bpe, card["window"])
    assert again["nats_per_token"] == pytest.approx(card["loss"]["nats_per_token"], abs=2e-3)
    assert 7 < again["nats_per_token"] < 9.5  # two steps from log 4,096 = 8.3


def test_recipe_resumes_after_an_interrupt(few_reviews, monkeypatch, tmp_path):
    with_tokenizer(monkeypatch, tmp_path)
    command = ["zero-layer", "--steps", "4", "--folder"]
    recipes.main([*command, str(tmp_path / "whole")])
    real, calls = recipes.next_token_loss, count()

    def loss(*arguments):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    stopped = tmp_path / "stopped"
    monkeypatch.setattr(recipes, "next_token_loss", loss)
    with pytest.raises(SystemExit, match="stopped at step 2; the same command goes on"):
        recipes.main([*command, str(stopped)])
    assert [path.name for path in stopped.iterdir()] == ["zero-layer.state"]
    recipes.main([*command, str(stopped)])
    assert next(calls) == 5  # two steps, the interrupt, and the two that were left
    for name in ("zero-layer.safetensors", "zero-layer.json"):
        assert (stopped / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (stopped / "zero-layer.state").exists()


def test_recipe_of_the_tokenizer(few_reviews, monkeypatch, tmp_path):
    monkeypatch.setattr(recipes, "VOCABULARY", 300)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    recipes.main(["reviews-bpe", "--folder", str(tmp_path)])
    bpe = pretrained.load("reviews-bpe")
    assert bpe.vocab_size == 300
    parts = (few_reviews.train, few_reviews.validation, few_reviews.test)
    texts = [text for part in parts for text in part.texts]
    assert bpe == BPE.train(texts, 300, progress=False)
    assert pretrained.card("reviews-bpe")["data"]["texts"] == 42


def test_unknown_recipe_lists_the_known(capsys):
    for arguments in (["zero-layr"], []):
        with pytest.raises(SystemExit) as stopped:
            recipes.main(arguments)
        assert stopped.value.code == 2
        message = capsys.readouterr().err
        assert all(name in message for name in recipes.RECIPES)


def test_command_line_of_the_module():
    command = [sys.executable, "-W", "error", "-m", "attnlib.training", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "zero-layer, ngram-3" in done.stderr
    assert "Traceback" not in done.stderr


def test_table_measures_every_model(few_reviews, monkeypatch, tmp_path, capsys):
    with_tokenizer(monkeypatch, tmp_path)
    small = {
        "zero-layer": recipes.ModelRecipe("ZeroLayer", {"d_model": 4}, 1e-3),
        "ngram-3": recipes.ModelRecipe("NeuralNgram", {"n": 3, "d_model": 4, "d_hidden": 4}, 1e-3),
    }
    monkeypatch.setattr(recipes, "LANGUAGE_MODELS", small)
    for name, kind in (("zero-layer", ZeroLayer), ("ngram-3", NeuralNgram)):
        config = {"vocab_size": 4096, **small[name].config}
        about = {"config": config, "parameters": 1234, "tokens": 5678, "command": "make it"}
        pretrained.save(name, kind(**config), about, tmp_path)
    recipes.main(["--table"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "model parameters training tokens nats/token bits/byte"
    bpe, test = pretrained.load("reviews-bpe"), few_reviews.test
    for row, name in zip(rows, small, strict=True):
        loss = recipes.held_out(pretrained.load(name), test, bpe)
        expected = [loss["nats_per_token"], loss["bits_per_byte"]]
        assert row.split()[:3] == [name, "1,234", "5,678"]
        assert [float(x) for x in row.split()[3:]] == pytest.approx(expected, abs=6e-4)


def test_held_out_by_hand(few_reviews):
    bpe = pretrained.load("reviews-bpe")
    model = ZeroLayer(bpe.vocab_size, 4)
    with torch.no_grad():
        model.W_U.zero_()  # knows nothing: log D nats for every token
    found = recipes.held_out(model, few_reviews.test, bpe)
    assert found["nats_per_token"] == pytest.approx(math.log(4096), abs=1e-4)
    tokens = sum(len(bpe.encode(text)) + 1 for text in few_reviews.test.texts)
    n_bytes = sum(len(text.encode()) for text in few_reviews.test.texts)
    assert found["bits_per_byte"] == pytest.approx(12 * tokens / n_bytes, abs=1e-3)


# --- the checkpoints that are shipped ---------------------------------------------------------


def shipped():
    return {name: pretrained.card(name) for name in recipes.LANGUAGE_MODELS}


@pytest.mark.claim(35)
def test_more_context_a_lower_held_out_loss():
    """The steps of the table are larger than what another seed or processor would move."""
    loss = {name: card["loss"]["nats_per_token"] for name, card in shipped().items()}
    assert loss["ngram-5"] < loss["ngram-3"] - 0.015
    assert loss["ngram-3"] < loss["zero-layer"] - 0.1
    for name in ("elman", "attention-1"):  # which reach further than one token
        assert loss[name] < loss["zero-layer"] - 0.1


def test_models_of_the_table_saw_the_same_tokens():
    """All but one read 20.5 million tokens; `reviews-gpt` reads them first, then goes on."""
    cards = shipped()
    tokens = {card["tokens"] for name, card in cards.items() if name != "reviews-gpt"}
    assert len(tokens) == 1
    assert 20_000_000 < tokens.pop() < cards["reviews-gpt"]["tokens"]
    data = {json.dumps([card["data"], card["tokenizer"], card["seed"]]) for card in cards.values()}
    assert len(data) == 1


def test_depth_pays():
    """The small GPT against the best of the others, by a margin that no seed would close."""
    loss = {name: card["loss"]["nats_per_token"] for name, card in shipped().items()}
    gpt = loss.pop("reviews-gpt")
    assert gpt < min(loss.values()) - 0.2


@pytest.mark.parametrize("name", TRAINED)
def test_card_says_what_the_recipe_would_do(name):
    card, recipe = pretrained.card(name), TRAINED[name]
    assert card["kind"] == recipe.kind
    assert card["config"] == {"vocab_size": recipes.VOCABULARY, **recipe.config}
    assert card["optimizer"]["lr"] == recipe.lr
    assert card["steps"] == recipe.steps
    assert card["tokens"] == recipe.steps * recipes.BATCH * recipes.LENGTH
    assert card["window"] == recipe.length
    assert card["command"] == f"python -m attnlib.training {name}"
    curve = card["curve"]["train_loss"]
    assert len(curve) == 50
    assert curve[-1] < curve[0] - 1
    assert abs(curve[-1] - card["loss"]["nats_per_token"]) < 0.3


@pytest.mark.slow
def test_loss_on_the_card_is_the_loss_of_the_weights():
    """All 2,500 test reviews again, with the half-precision weights that are shipped."""
    bpe, test = pretrained.load("reviews-bpe"), reviews("imdb").test
    found = recipes.held_out(pretrained.load("zero-layer"), test, bpe)
    assert found == pytest.approx(pretrained.card("zero-layer")["loss"], abs=1e-3)
