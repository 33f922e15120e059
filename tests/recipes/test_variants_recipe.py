"""The sweep over cheaper ways to look back: its models, its recipe, and the stored result."""

from functools import partial

import pytest
import torch
from chapter_code import definitions

from attnlib.attention import attention, causal_mask
from attnlib.data import Split
from attnlib.models import KVCache
from attnlib.models.evaluation import evaluating
from attnlib.positions import rotate
from attnlib.pretrained import card as card_of
from recipes import variants
from recipes.__main__ import main

CHAPTER = definitions("14_today", "features", "linear")


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


@pytest.fixture
def small(monkeypatch):
    """Few bytes to read, and two kinds of one seed."""
    texts = [f"Film {i} was as good as film {i % 7}, but longer. " * 9 for i in range(30)]
    split = Split(texts, [1] * len(texts))
    given = type("Splits", (), {"train": split, "test": split})
    monkeypatch.setattr(variants, "reviews", lambda _: given)
    monkeypatch.setattr(variants, "HELD_OUT", 2_000)
    monkeypatch.setattr(variants, "SEEDS", (0,))
    kept = {kind: variants.VARIANTS[kind] for kind in ("multi-query", "linear")}
    monkeypatch.setattr(variants, "VARIANTS", kept)


# --- the ways to look back --------------------------------------------------------------------


def test_a_window_is_attention_among_the_last_tokens():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 100, 16)
    place = torch.arange(100)
    near = causal_mask(100) & (place[:, None] - place < variants.WINDOW)
    assert near[-1].sum() == variants.WINDOW
    assert (variants.windowed(q, k, v) - attention(q, k, v, near)[0]).abs().max() < 1e-5


def recurrent(q, k, v):
    """One token after the other: a matrix of turned keys times values, and a sum of keys."""
    turned_q, turned_k = (rotate(x, torch.arange(len(x))) for x in (q, k))
    S, z, outputs = torch.zeros(16, 16), torch.zeros(16), []
    for t in range(len(q)):
        S, z = S + torch.outer(turned_k[t], v[t]), z + k[t]
        outputs.append(turned_q[t] @ S / (q[t] @ z))
    return torch.stack(outputs)


@pytest.mark.claim(99)
def test_linear_attention_is_a_recurrence_and_the_chapters_but_for_the_turning(monkeypatch):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 100, 16)
    found = variants.linear(q, k, v)
    monkeypatch.setattr(variants, "rotate", lambda x, _: x)
    plain = variants.linear(q, k, v)
    for b in range(2):
        for h in range(4):
            seen = CHAPTER.features(q[b, h]), CHAPTER.features(k[b, h]), v[b, h]
            assert (found[b, h] - recurrent(*seen)).abs().max() < 1e-4
            one = q[b, h], k[b, h], v[b, h]
            assert (plain[b, h] - CHAPTER.linear(*one)).abs().max() < 1e-5
    assert (found - plain).abs().max() > 0.1


@pytest.mark.claim(99)
@pytest.mark.parametrize("kind", variants.VARIANTS)
@torch.no_grad()
def test_how_far_a_model_looks_back(kind):
    """Never ahead; through two windows 62 tokens and no further; else to the first token."""
    model, changed = variants.built(kind, 0).eval(), 20
    ids = torch.randint(256, (1, 128), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[0, changed] = (ids[0, changed] + 1) % 256
    moved = (model.hidden(ids) - model.hidden(other))[0].abs().amax(-1)
    reach = 2 * (variants.WINDOW - 1) if kind == "windowed" else 127 - changed
    assert (moved[:changed] == 0).all()
    assert (moved[changed : changed + reach + 1] > 0).all()
    assert (moved[changed + reach + 1 :] == 0).all()


@pytest.mark.claim(99)
def test_kinds_differ_in_how_they_look_back_and_in_nothing_else():
    plain, x = variants.built("multi-head", 0), torch.arange(100)[None]
    for kind in ("windowed", "linear"):
        other = variants.built(kind, 0)
        assert all(map(torch.equal, plain.parameters(), other.parameters()))
        assert not torch.allclose(plain.hidden(x), other.hidden(x), atol=1e-3)
        short = torch.arange(variants.WINDOW)[None]
        same = torch.allclose(plain.hidden(short), other.hidden(short), atol=1e-5)
        assert same == (kind == "windowed")
    for kind, heads in (("multi-head", 4), ("grouped", 2), ("multi-query", 1)):
        model = variants.built(kind, 0)
        assert {len(b.attention.W_K) for b in model.blocks} == {heads}
        assert {len(b.attention.W_Q) for b in model.blocks} == {4}


@pytest.mark.claim(99)
@torch.no_grad()
def test_the_bytes_are_those_of_the_tensors_that_are_held():
    for kind in ("multi-head", "grouped", "multi-query"):
        for T in (1, 50, 128):
            cache = KVCache(2)
            variants.built(kind, 0).hidden(torch.zeros(1, T, dtype=torch.long), cache=cache)
            held = sum(x.half().nbytes for x in (*cache.keys, *cache.values))
            assert variants.cache_bytes(kind, T) == held
    for T in (20, 128):  # a window holds what multi-head attention holds of its tokens
        seen = min(T, variants.WINDOW)
        assert variants.cache_bytes("windowed", T) == variants.cache_bytes("multi-head", seen)
        state = torch.zeros(2, 4, 16, 16 + 1).half()  # S, and z beside it
        assert variants.cache_bytes("linear", T) == state.nbytes


# --- the recipe -------------------------------------------------------------------------------


def test_a_run_is_made_again_and_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    """The same seed the same loss, with an interrupt or without; another seed another."""
    run = partial(variants.run, steps=4, folder=tmp_path)
    plain = run((0, "linear"))
    assert run((0, "linear")) == plain
    assert run((1, "linear")) != plain
    loss, calls = variants.next_token_loss, []

    def stopped(model, window):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return loss(model, window)

    monkeypatch.setattr(variants, "next_token_loss", stopped)
    with pytest.raises(SystemExit, match="stopped at step 2"):
        run((0, "linear"))
    assert [path.name for path in tmp_path.iterdir()] == ["variants-linear-0.state"]
    assert run((0, "linear")) == plain
    assert len(calls) == 3 + 2
    assert not list(tmp_path.iterdir())


def test_kinds_of_one_seed_read_the_same_windows(small, tmp_path, monkeypatch):
    drawn, windows = [], variants.windows

    def noted(*arguments):
        drawn.append(windows(*arguments)(1))
        return windows(*arguments)

    monkeypatch.setattr(variants, "windows", noted)
    for made in ((0, "linear"), (0, "multi-query"), (1, "linear")):
        variants.run(made, 1, tmp_path)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].shape == (variants.BATCH, variants.LENGTH + 1)


def test_the_recipe_writes_one_card(small, tmp_path):
    main(["variants", "--steps", "2", "--folder", str(tmp_path)])
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert path.relative_to(tmp_path).as_posix() == "results/variants.json"


def test_the_loss_is_of_bytes_that_were_not_trained_on(small):
    """A model that knows nothing has log 256 nats a byte; texts are apart by an empty line."""
    assert bytes(variants.as_bytes(["é", "b"]).tolist()).decode() == "é\n\nb\n\n"
    model = variants.built("linear", 0)
    with torch.no_grad(), evaluating(model):
        model.W_U.zero_()
        found = variants.evaluate(model, variants.as_bytes(["ab" * 99]), variants.LENGTH)
    assert found == pytest.approx(8 * torch.tensor(2.0).log().item(), abs=1e-4)


def test_the_stored_card_is_that_of_the_recipe():
    card = card_of("results/variants")
    found = [card["loss"][kind][i] for i in range(len(variants.SEEDS)) for kind in card["loss"]]
    assert card == card | variants.about(variants.STEPS, found)
    assert card["command"] == "python -m recipes variants"
    assert list(card["loss"]) == list(variants.VARIANTS)
