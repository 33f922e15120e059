"""The conclusions of chapter 01, each with its control, on less text than in the chapter."""

from functools import cache

import pytest
import torch
from chapter_code import definitions
from torch import Tensor
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models.ngram import CountModel
from attnlib.training.language import token_stream

D = 4096


@cache
def counted(texts: int = 4_000) -> CountModel:
    """All n-grams up to five of some training reviews."""
    stream = token_stream(reviews("imdb").train.texts[:texts], pretrained.tokenizer())
    return CountModel(5, D).fit(stream)


@cache
def rows() -> Tensor:
    stream = token_stream(reviews("imdb").test.texts[:60], pretrained.tokenizer())
    return stream.unfold(0, 129, 128)


def loss(n: int, smoothing: str) -> tuple[Tensor, Tensor]:
    return counted().variant(n, smoothing).losses(rows())


@pytest.mark.slow
def test_contexts_seen_a_few_times_cost_the_counter_and_unseen_ones_nothing() -> None:
    by_times = definitions("01_ngram", "by_times").by_times
    for n in (4, 5):
        shorter, (longer, seen) = loss(n - 1, "witten-bell")[0], loss(n, "witten-bell")
        extra, groups = longer - shorter, by_times(seen)
        assert torch.stack(list(groups.values())).sum(0).eq(1).all()  # each token in one group
        assert (extra[groups["never"]] == 0).all()
        assert (extra * groups["1 to 9 times"]).mean() > 0.6 * extra.mean() > 0


@pytest.mark.slow
def test_where_the_counts_turn_depends_on_the_smoothing() -> None:
    """From n = 3 to 4 Witten–Bell loses, and absolute discounting hardly or not at all."""
    change = {
        smoothing: (loss(4, smoothing)[0] - loss(3, smoothing)[0]).mean()
        for smoothing in ("witten-bell", "absolute")
    }
    assert change["witten-bell"] > 0.05
    assert change["absolute"] < 0.2 * change["witten-bell"]
    for n in (3, 4, 5):
        assert loss(n, "absolute")[0].mean() < loss(n, "witten-bell")[0].mean()


@pytest.mark.slow
def test_most_pairs_are_known_and_most_stretches_of_five_are_new() -> None:
    """Less text than in the chapter knows fewer; other reviews give the same shares."""
    bpe, imdb = pretrained.tokenizer(), reviews("imdb")
    shares = [
        counted().unseen(token_stream(texts, bpe))
        for texts in (imdb.test.texts[:60], imdb.validation.texts[:60])
    ]
    for one in shares:
        assert one[1] < 0.2
        assert one[3] > 0.6
        assert one[4] > 0.85
    assert shares[0] == pytest.approx(shares[1], abs=0.03)


@pytest.mark.slow
def test_a_table_fitted_to_the_kl_needs_a_lower_rank_than_a_truncated_svd() -> None:
    """Bigrams among the 300 commonest tokens of fewer reviews."""
    chapter, bigram = definitions("01_ngram", "kl", "fitted"), counted().variant(2, "witten-bell")
    common = counted().counts[0].topk(300).indices
    tokens = counted().keys[0][common]
    p = torch.stack([bigram.probabilities(token[None])[tokens] for token in tokens])
    p /= p.sum(-1, keepdim=True)
    left, values, right = torch.linalg.svd(p.log())
    nothing = chapter.kl(p, p.mean(0).log()).mean().item()
    for rank in (8, 32):
        low = (left[:, :rank] * values[:rank]) @ right[:rank]
        by_svd = chapter.kl(p, low.log_softmax(-1)).mean().item()
        by_kl = chapter.fitted(p, rank)
        assert by_kl < 0.6 * by_svd
    assert by_kl < 0.1 * nothing < by_svd


def test_distances_two_to_four_resemble_each_other_and_the_first_does_not() -> None:
    """With the blocks themselves as a second measure, and other tokens as the control."""
    net = pretrained.load("ngram-5")
    writes = torch.einsum("td, idh -> ith", net.W_E[:2000], net.W_H).detach()
    unit = F.normalize(writes, dim=-1)
    same = torch.einsum("ith, jth -> ij", unit, unit) / 2000
    another = torch.einsum("ith, jth -> ij", unit, unit.roll(7, 1)) / 2000
    blocks = F.normalize(net.W_H.detach().flatten(1), dim=-1)
    for alike in (same, blocks @ blocks.T):
        far = torch.stack([alike[1, 2], alike[1, 3], alike[2, 3]])
        assert alike[0, 1:].max() < far.min() - 0.1
    pairs = torch.triu_indices(4, 4, 1)
    assert (same[*pairs] > another[*pairs] + 0.05).all()


def test_the_network_does_not_care_whether_its_context_was_seen() -> None:
    """Groups by the chapter's own cut; the counter's loss differs by far more than the network's.

    Seen in 4,000 reviews: fewer contexts than the network has seen in all of them.
    """
    by_times = definitions("01_ngram", "by_times").by_times
    net, part = pretrained.load("ngram-5"), rows()
    with torch.no_grad():
        nats = F.cross_entropy(net(part[:, :-1]).mT, part[:, 1:], reduction="none")
    counts, seen = loss(5, "witten-bell")
    groups = by_times(seen)
    new, few = groups["never"], groups["1 to 9 times"]
    assert abs(nats[new].mean() - nats[few].mean()) < 0.15
    assert (counts - nats)[few].mean() > (counts - nats)[new].mean() + 0.1
