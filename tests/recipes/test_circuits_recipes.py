"""The recipes of chapter 09's models: what they read, what they measure, what they write."""

import json
from pathlib import Path

import pytest
import torch
from few import few_of, with_tokenizer

from attnlib import pretrained
from attnlib.models import Transformer, TransformerConfig
from recipes import circuits, language
from recipes.__main__ import main


@pytest.fixture
def small(monkeypatch, tmp_path):
    """40 reviews of 800 letters, few measured windows, and an empty folder with the tokenizer."""
    few = few_of("imdb", 800, 40, 40, 40)
    for module in (circuits, language):
        monkeypatch.setattr(module, "reviews", lambda source: few)
    monkeypatch.setattr(circuits, "ROWS", 3)
    monkeypatch.setattr(circuits, "REVIEWS", 4)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    with_tokenizer(monkeypatch, tmp_path)
    return tmp_path


def test_repeated_tokens():
    generator = torch.Generator().manual_seed(0)
    ids = circuits.repeated_tokens(5, 7, 17, 1000, generator)
    assert ids.shape == (5, 17)
    assert torch.equal(ids[:, 7:], ids[:, :-7])
    assert len(ids[:, :7].unique()) > 30
    assert 0 <= ids.min() <= ids.max() < 1000
    assert not torch.equal(ids, circuits.repeated_tokens(5, 7, 17, 1000, generator))


def test_moments_begin_with_the_start_and_end_with_the_end():
    assert circuits.moments(5) == [0, 5]
    found = circuits.moments(circuits.STEPS)
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, circuits.STEPS)
    assert 20 < len(found) < 35


@pytest.mark.parametrize("repeated", [0, 4, 16])
def test_so_many_windows_of_a_batch_repeat(repeated):
    stream = torch.arange(4000)  # a window of it never repeats
    batch = circuits.mixed(stream, repeated, seed=1)
    seen = set()
    for step in range(12):
        ids = batch(step)
        assert ids.shape == (16, 129)
        assert torch.equal(ids, batch(step))
        for row, tokens in enumerate(ids):
            periods = [p for p in circuits.PERIODS if torch.equal(tokens[p:], tokens[:-p])]
            assert bool(periods) == (row < repeated)
            seen |= set(periods[:1])
    assert seen == (set(circuits.PERIODS) if repeated else set())


@pytest.mark.ci
@pytest.mark.parametrize("name", ["attention-2", "attention-2-one-layer"])
def test_a_recipe_writes_weights_card_and_history(name, small):
    shipped = Path(__file__).parents[2] / "attnlib/checkpoints/attention-2.json"
    keys = json.loads(shipped.read_text(encoding="utf-8")).keys()
    main([name, "--steps", "2", "--folder", str(small)])
    card, found = pretrained.card(name), pretrained.history(name)
    layers = circuits.RUNS[name].layers
    assert card.keys() == keys
    assert pretrained.language_model(name).model.config.layers == layers
    assert found["step"].tolist() == [0, 2]
    for score in ("previous", "induction", "unrepeated"):
        assert found[score].shape == (2, layers, 4)
    assert found["maps"].shape == (2, layers, 4, 32, 32)
    assert ("composition" in found) == (layers == 2)
    assert torch.equal(found["display"][:16], found["display"][16:])
    assert (found["on_random"][0] - 8.3).abs().max() < 1  # ln 4,096, before it learned
    assert not (small / f"{name}.state").exists()
    assert not (small / f"{name}.moments").exists()


def test_what_is_measured_of_a_head_that_looks_one_back(small):
    """A planted head of the first layer; the second layer has learned nothing."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=4096, d_model=128, layers=2, heads=4, max_len=128, norm="none"
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        model.W_P.zero_()
        model.W_P[range(120), range(120)] = 1.0
        heads = model.blocks[0].attention
        for W in (heads.W_Q, heads.W_K):
            W[0] = 0
        wide = torch.nn.functional.one_hot(torch.arange(128) % 32, 32).float()
        heads.W_K[0] = 30 * wide
        heads.W_Q[0] = 30 * wide.roll(1, 0)  # asks for the place before, and every 32nd
    watch = circuits.Watch(pretrained.tokenizer(), small / "x.moments")
    watch.measure(0, model)
    previous = watch.history()["previous"][0]
    assert previous[0, 0] > 0.2 > 5 * previous[0, 1:].max() / 2
    assert watch.history()["composition"].shape == (1, 4, 4)


@pytest.mark.ci
def test_an_interrupted_run_goes_on(small, monkeypatch):
    real, calls = language.quick_loss, []

    def loss(model, batch):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(model, batch)

    monkeypatch.setattr(language, "quick_loss", loss)
    with pytest.raises(SystemExit, match=r"stopped at step 2.*goes on from there"):
        circuits.train("attention-2", 4, small)
    circuits.train("attention-2", 4, small)
    assert len(calls) == 5  # two steps, the interrupt, two steps
    assert pretrained.history("attention-2")["step"].tolist() == [0, 4]


def test_a_checkpoint_without_a_history_says_so():
    with pytest.raises(ValueError, match="'zero-layer' has no history"):
        pretrained.history("zero-layer")
