"""What SmolLM2 was seen to do when it was first looked at, found again with the library.

The figures have room: they are of few texts, and chapters that print such figures measure them with
intervals.
"""

import pytest
import torch
from torch.nn import functional as F

from attnlib.data import reviews
from attnlib.explain.patching import (
    activation_patching,
    direct_logit_attribution,
    logit_difference,
    logit_lens,
)
from attnlib.pretrained import smollm2

pytestmark = pytest.mark.slow
STORE = "When Mary and John went to the store, {} gave a drink to"


@pytest.fixture(scope="module")
def lm():
    return smollm2()


@pytest.fixture(scope="module")
def long_reviews(lm):
    """Two reviews, cut to 400 tokens."""
    ids = (torch.tensor(lm.encode(text)) for text in reviews("imdb").test.texts[:40])
    return torch.stack([i[:400] for i in ids if len(i) >= 400][:2])


@pytest.fixture(scope="module")
def drinks(lm):
    """The prompt, the same with the second name exchanged, and what is asked."""
    clean, corrupted = (torch.tensor(lm.encode(STORE.format(name))) for name in ("John", "Mary"))
    mary, john = (lm.encode(f" {name}") for name in ("Mary", "John"))
    return clean, corrupted, *mary, *john


@torch.no_grad()
def test_the_first_token_is_a_sink_and_its_state_is_huge(lm, long_reviews):
    """From layer 12 on it gets about half of all weight; token 9 gets next to nothing."""
    first, ninth, lengths = [], [], []
    for state in lm.model.run(lm.model.embed(long_reviews[:, :200]), need_weights=True):
        first.append(state.attention[:, :, 20:, 0].mean().item())
        ninth.append(state.attention[:, :, 20:, 9].mean().item())
        lengths.append(state.residual.norm(dim=-1).mean(0))
    assert min(first[12:]) > 0.25
    assert max(first[:3]) < 0.3
    assert max(ninth[12:]) < 0.03
    assert lengths[19][0] > 30 * lengths[19][1:].mean()


@pytest.mark.long
@torch.no_grad()
def test_a_window_costs_a_nat_and_one_token_repairs_most_of_it(lm, long_reviews):
    t = torch.arange(400)
    back = t[:, None] - t
    causal = back >= 0

    def loss(seen):
        """Of the last 200 tokens, by who may look at whom."""

        def cut(pattern):
            kept = pattern * seen
            return kept / kept.sum(-1, keepdim=True)

        edits = {("pattern", layer): cut for layer in range(30)}
        logits = lm.model(long_reviews, edits=edits)[:, 199:-1]
        return F.cross_entropy(logits.flatten(0, 1), long_reviews[:, 200:].flatten()).item()

    whole = loss(causal)
    window = loss(causal & (back < 128)) - whole
    first = loss(causal & ((back < 127) | (t == 0))) - whole
    others = loss(causal & ((back < 124) | ((t >= 8) & (t < 12)))) - whole
    assert window > 0.6
    assert first < 0.4 * window
    assert others > 0.8 * window


@torch.no_grad()
def test_random_tokens_are_told_once_they_repeat(lm):
    some = torch.randint(100, 49_000, (40,), generator=torch.Generator().manual_seed(0))
    twice = torch.cat([torch.tensor([0]), some, some])[None]
    nats = -lm.model(twice)[0, :-1].log_softmax(-1).gather(-1, twice[0, 1:, None])[:, 0]
    assert nats[:40].mean() > 10
    assert nats[40:].mean() < 5
    states = lm.model.run(lm.model.embed(twice), need_weights=True)
    maps = torch.cat([state.attention for state in states])
    assert maps[18, 6].diagonal(-39)[1:].mean() > 0.7  # looks at what followed last time
    assert maps[16, 0].diagonal(-1).mean() > 0.7  # looks at the token before


def test_the_answer_comes_late(lm):
    """The rank of " Paris" by layer: far down for two thirds of the way, then first."""
    lens = logit_lens(lm.model, torch.tensor(lm.encode("The capital of France is")))
    rank = (lens > lens[:, lm.encode(" Paris")[0], None]).sum(-1)
    assert rank[:21].min() > 500
    assert rank[30] == 0


def test_who_gets_the_drink(lm, drinks):
    clean, _, mary, john = drinks
    with torch.no_grad():
        assert lm.model(clean[None])[0, -1].softmax(-1)[mary] > 0.7
    found = direct_logit_attribution(lm.model, clean, mary, john)
    assert found.total > 3
    assert found.heads[23, 3] > 1


@pytest.mark.long
def test_the_name_moves_from_its_place_to_the_last_token(lm, drinks):
    clean, corrupted, mary, john = drinks
    asked = logit_difference(mary, john)
    found = activation_patching(lm.model, clean, corrupted, asked)
    name = int((clean != corrupted).nonzero())
    assert found[:18, name].min() > 0.8
    assert found[24:, -1].min() > 0.8
    assert found[24:, name].abs().max() < 0.3
    others = [i for i in range(len(clean)) if i not in (name, len(clean) - 1)]
    assert found[:, others].abs().max() < 0.3


@pytest.mark.long
def test_the_head_that_matters_most_looks_at_the_other_name(lm, drinks):
    """And one that looks at the answer works against it."""
    clean, corrupted, mary, john = drinks
    found = activation_patching(lm.model, clean, corrupted, logit_difference(mary, john), "mixed")
    assert found.argmax() == 23 * 9 + 3
    trace = lm.model.trace(clean)
    answer, other = lm.encode(STORE.format("John")).index(mary), len(clean) - 5
    assert clean[other] == john
    assert trace.attention[23, 3, -1, other] > 0.4 > 0.2 > trace.attention[23, 3, -1, answer]
    assert found[24, 4] < -0.1
    assert trace.attention[24, 4, -1, answer] > 0.4
