"""What SmolLM2 was seen to do when it was first looked at, found again with the library.

The figures have room: they are of few texts, and chapters that print such figures measure them with
intervals. What a window costs, and where a name is restored, is tested with chapters 14 and 15.
"""

import pytest
import torch

from attnlib.data import reviews
from attnlib.explain.patching import direct_logit_attribution, logit_lens
from attnlib.pretrained import smollm2

pytestmark = pytest.mark.slow
STORE = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="module")
def lm():
    return smollm2()


@pytest.fixture(scope="module")
def long_reviews(lm):
    """Two reviews, cut to 200 tokens."""
    ids = (torch.tensor(lm.encode(text)) for text in reviews("imdb").test.texts[:40])
    return torch.stack([i[:200] for i in ids if len(i) >= 400][:2])


@pytest.mark.ci
@torch.no_grad()
def test_the_first_token_is_a_sink_and_its_state_is_huge(lm, long_reviews):
    """From layer 12 on it gets about half of all weight; token 9 gets next to nothing."""
    first, ninth, lengths = [], [], []
    for state in lm.model.run(lm.model.embed(long_reviews), need_weights=True):
        first.append(state.pattern[:, :, 20:, 0].mean().item())
        ninth.append(state.pattern[:, :, 20:, 9].mean().item())
        lengths.append(state.resid_post.norm(dim=-1).mean(0))
    assert min(first[12:]) > 0.25
    assert max(first[:3]) < 0.3
    assert max(ninth[12:]) < 0.03
    assert lengths[19][0] > 30 * lengths[19][1:].mean()


@torch.no_grad()
def test_random_tokens_are_told_once_they_repeat(lm):
    some = torch.randint(100, 49_000, (40,), generator=torch.Generator().manual_seed(0))
    twice = torch.cat([torch.tensor([0]), some, some])[None]
    nats = -lm.model(twice)[0, :-1].log_softmax(-1).gather(-1, twice[0, 1:, None])[:, 0]
    assert nats[:40].mean() > 10
    assert nats[40:].mean() < 5
    states = lm.model.run(lm.model.embed(twice), need_weights=True)
    maps = torch.cat([state.pattern for state in states])
    assert maps[18, 6].diagonal(-39)[1:].mean() > 0.7  # looks at what followed last time
    assert maps[16, 0].diagonal(-1).mean() > 0.7  # looks at the token before


def test_the_answer_comes_late(lm):
    """The rank of " Paris" by layer: far down for two thirds of the way, then first."""
    lens = logit_lens(lm.model, torch.tensor(lm.encode("The capital of France is")))
    rank = (lens > lens[:, lm.encode(" Paris")[0], None]).sum(-1)
    assert rank[:21].min() > 500
    assert rank[30] == 0


def test_who_gets_the_drink(lm):
    clean, mary, john = map(lm.encode, (STORE, " Mary", " John"))
    clean, mary, john = torch.tensor(clean), *mary, *john
    with torch.no_grad():
        assert lm.model(clean[None])[0, -1].softmax(-1)[mary] > 0.7
    found = direct_logit_attribution(lm.model, clean, mary, john)
    assert found.total > 3
    assert found.heads[23, 3] > 1
