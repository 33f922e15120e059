"""What the recipe of chapter 15 measures with a cache, against patching without one."""

import pytest
import torch
from patched import activation_patching
from tiny import assert_near, config_of, ids_of, model_of

from attnlib.explain.patching import (
    direct_logit_attribution,
    logit_difference,
    logit_lens,
    path_patching,
)
from attnlib.models import KVCache
from recipes import causes as recipe

SIZE = {"layers": 3, "d_ff": 10, "norm_kind": "rms", "positions": "rotary", "kv_heads": 1}
RIGHT, WRONG = 3, 5


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(recipe, "FIRST", 0)
    monkeypatch.setattr(recipe, "STREAM", (0, 1, 2, 3))
    return model_of(config_of(tied=True, **SIZE))


def prompts(place=-1, count=3):
    """Prompts of seven tokens; in the corrupted ones the token at a place is another."""
    clean = ids_of(0, count, 7)
    corrupted = clean.clone()
    corrupted[:, place] = (clean[:, place] + 4) % 13
    ids = [torch.full((count,), i) for i in (RIGHT, WRONG)]
    return recipe.Prompts(clean, corrupted, *ids, torch.tensor([[1, 2, 3]]).expand(count, -1))


def both(model, asked):
    return recipe.read(model, asked.clean), recipe.read(model, asked.corrupted)


def gaps(model, asked):
    """By how much the logit difference of clean prompts is above that of corrupted ones."""
    metric = logit_difference(RIGHT, WRONG)
    return metric(model(asked.clean)[:, -1]) - metric(model(asked.corrupted)[:, -1])


def one_by_one(model, asked, patching):
    """What patching finds of each prompt, not normalised."""
    metric = logit_difference(RIGHT, WRONG)
    pairs = zip(asked.clean, asked.corrupted, gaps(model, asked), strict=True)
    return torch.stack([patching(model, a, b, metric) * gap for a, b, gap in pairs])


def test_heads_are_restored_as_by_activation_patching(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    expected = one_by_one(model, asked, lambda *given: activation_patching(*given, "z"))
    assert_near(recipe.exchanged(model, asked, corrupted, clean.z), expected.flatten(1))
    back = recipe.exchanged(model, asked, clean, clean.z)
    assert_near(back, torch.zeros_like(back))


def test_exchanging_all_heads_at_once_is_one_run(model, monkeypatch):
    monkeypatch.setattr(recipe, "FIRST", 1)
    asked = prompts()
    clean, corrupted = both(model, asked)
    some = recipe.early(model, asked, corrupted, clean.z)
    logits = []
    for a, b in zip(asked.clean, asked.corrupted, strict=True):
        given = next(model.run(model.embed(a[None]))).z
        logits.append(model(b[None], edits={("z", 0): lambda _, z=given: z})[0, -1])
    plain = recipe.difference(model, corrupted.streams[-1], asked)
    assert_near(some, logit_difference(RIGHT, WRONG)(torch.stack(logits)) - plain)


def test_the_stream_is_restored_as_by_activation_patching(model):
    asked = prompts(place=3)
    expected = one_by_one(model, asked, activation_patching)  # (B, L + 1, T)
    found = recipe.restored_stream(model, asked)
    assert_near(found[..., 0], expected[..., 3])
    assert_near(found[..., 2], expected[..., 6])
    assert not torch.allclose(found[..., 1], expected[..., 4])  # 4 and 5 together


@pytest.mark.parametrize("receiver", [(1, 0), (2, 1)])
def test_heads_are_heard_as_by_path_patching(model, receiver):
    asked = prompts()
    expected = one_by_one(model, asked, lambda *given: path_patching(*given, receiver))
    assert_near(recipe.heard(model, asked, *both(model, asked), receiver), expected.flatten(1))


def test_direct_effects_and_ranks_are_the_librarys(model):
    asked = prompts()
    clean, _ = both(model, asked)
    parts = [direct_logit_attribution(model, ids, RIGHT, WRONG).heads for ids in asked.clean]
    assert_near(recipe.direct(model, asked, clean), torch.stack(parts).flatten(1))
    tokens = torch.stack([asked.right, asked.wrong], 1)
    lenses = torch.stack([logit_lens(model, ids) for ids in asked.clean])
    expected = (lenses[:, :, None] > lenses[..., [RIGHT, WRONG]][..., None]).sum(-1)
    assert torch.equal(recipe.ranks(model, clean, tokens), expected)


def test_the_gradient_is_the_slope_of_the_exchange(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    slope = recipe.gradient(model, asked, clean, corrupted)
    pairs = zip(corrupted.z, clean.z, strict=True)
    step = recipe.exchanged(model, asked, corrupted, [b + 1e-5 * (a - b) for b, a in pairs])
    torch.testing.assert_close(step / 1e-5, slope, atol=1e-3, rtol=1e-3)


def test_reading_and_repeating_leave_the_cache_alone(model):
    run = recipe.read(model, prompts().clean)
    assert run.before.length == 6
    assert run.pattern.shape == (3, 3, 2, 7)
    assert_near(run.pattern.sum(-1), torch.ones(3, 3, 2).double())
    twice = recipe.copied(run.before, 2)
    assert isinstance(twice, KVCache)
    assert torch.equal(twice.keys[1], run.before.keys[1].repeat_interleave(2, 0))


def test_one_of_four_prompts_takes_each_form_in_turn():
    asked = prompts(count=20)
    assert torch.equal(recipe.some(asked, 4).clean, asked.clean[[0, 5, 10, 15, 16]])
    assert torch.equal(recipe.some(asked, 2).clean[:4], asked.clean[[0, 3, 4, 7]])
