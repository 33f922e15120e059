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


def loss(n: int, smoothing: str | float) -> tuple[Tensor, Tensor]:
    return counted().variant(n, smoothing).losses(rows())


@pytest.mark.slow
def test_contexts_seen_a_few_times_cost_the_counter_and_unseen_ones_nothing() -> None:
    by_times = definitions("01_ngram", "by_times").by_times
    for n in (4, 5):
        shorter, (longer, seen) = loss(n - 1, "witten-bell")[0], loss(n, "witten-bell")
        extra, groups = longer - shorter, by_times(seen)
        assert torch.stack(list(groups.values())).sum(0).eq(1).all()  # each token in one group
        assert (extra[groups["never"]] == 0).all()
        few, often = (extra[groups[name]] for name in ("1 to 9 times", "10 times or more"))
        assert few.sum() > 0.6 * extra.sum()
        assert few.mean() > often.mean() > 0  # and the others pay as well


@pytest.mark.slow
def test_where_the_counts_turn_depends_on_the_smoothing() -> None:
    """From n = 3 to 4 Witten–Bell loses, and absolute discounting hardly or not at all."""
    change = {
        smoothing: (loss(4, smoothing)[0] - loss(3, smoothing)[0]).mean()
        for smoothing in ("witten-bell", "absolute")
    }
    assert change["witten-bell"] > 0.05
    assert change["absolute"] < 0.2 * change["witten-bell"]
    for k in (1, 0.01, 0.001):  # no k turns later than at n = 2
        assert loss(3, k)[0].mean() > loss(2, k)[0].mean()
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
    """Without what all tokens share; with the blocks as a second measure, other tokens as null."""
    net = pretrained.load("ngram-5")
    writes = torch.einsum("td, idh -> ith", net.W_E[:2000], net.W_H).detach()
    unit = F.normalize(writes - writes.mean(1, keepdim=True), dim=-1)
    same = torch.einsum("ith, jth -> ij", unit, unit) / 2000
    another = torch.einsum("ith, jth -> ij", unit, unit.roll(7, 1)) / 2000
    blocks = F.normalize(net.W_H.detach().flatten(1), dim=-1)
    for alike in (same, blocks @ blocks.T):
        far = torch.stack([alike[1, 2], alike[1, 3], alike[2, 3]])
        assert alike[0, 1:].max() < far.min() - 0.05
    pairs = torch.triu_indices(4, 4, 1)
    assert another[*pairs].abs().max() < 0.03 < same[*pairs].min()


# -- with all of the training text, as in the chapter, whose own cells assert this of other reviews


@cache
def everything() -> Tensor:
    return token_stream(reviews("imdb").train.texts, pretrained.tokenizer())


@cache
def other_rows() -> Tensor:
    """Reviews that the chapter does not use."""
    stream = token_stream(reviews("imdb").validation.texts[:100], pretrained.tokenizer())
    return stream.unfold(0, 129, 128)


@cache
@torch.no_grad()
def network_nats(name: str) -> Tensor:
    net, ids = pretrained.load(name), other_rows()
    return F.cross_entropy(net(ids[:, :-1]).mT, ids[:, 1:], reduction="none")


def contexts(stream: Tensor, length: int) -> Tensor:
    """One number for every `length` tokens in a row of (..., T) that a token follows."""
    powers = D ** torch.arange(length)
    return (stream[..., :-1].unfold(-1, length, 1) * powers).sum(-1)


@pytest.mark.long
@pytest.mark.slow
def test_a_new_pair_makes_the_network_worse() -> None:
    gain = (network_nats("zero-layer") - network_nats("ngram-3"))[:, 1:]
    new = ~torch.isin(contexts(other_rows(), 2), contexts(everything(), 2))
    assert gain[new].mean() < -0.1
    assert gain[~new].mean() > 0.15  # the control: the same two models, known contexts


@pytest.mark.long
@pytest.mark.slow
def test_two_more_tokens_help_the_network_only_where_it_has_seen_all_four() -> None:
    gain = (network_nats("ngram-3") - network_nats("ngram-5"))[:, 3:]
    new = ~torch.isin(contexts(other_rows(), 4), contexts(everything(), 4))
    assert 0.6 < new.double().mean() < 0.8
    assert abs(gain[new].mean()) < 0.025
    assert gain[~new].mean() > 0.04


@pytest.mark.long
@pytest.mark.slow
def test_the_zero_layer_model_is_nearly_as_good_as_the_counts_on_new_reviews() -> None:
    """After the 500 commonest tokens; were the counts the truth, it would lose the whole KL."""
    zero, pairs, ids = (
        pretrained.load("zero-layer"),
        CountModel(2, D).fit(everything()),
        other_rows(),
    )
    common = pairs.counts[0].topk(500).indices  # places on the first level
    tokens = pairs.keys[0][common]
    log_q = (zero.W_E[tokens] @ zero.W_U).detach().double().log_softmax(-1)
    p = torch.stack([pairs.probabilities(token[None]) for token in tokens])
    distance = (p * (p.log() - log_q)).sum(-1).mean()
    more = (network_nats("zero-layer") - pairs.losses(ids)[0])[torch.isin(ids[:, :-1], tokens)]
    assert distance > 0.15
    assert abs(more.mean()) < 0.15 * distance
    overlap = p.sqrt() @ p.sqrt().T
    unit = F.normalize(zero.W_E[tokens].detach(), dim=-1)
    nearest = (unit @ unit.T - 2 * torch.eye(500)).argmax(-1)
    any_other = (overlap.sum() - overlap.trace()) / (500 * 499)
    assert overlap[torch.arange(500), nearest].mean() > any_other + 0.1
