"""The theses of chapter 01, with their controls, on reviews that the chapter does not use."""

from functools import cache
from itertools import pairwise

import intervals
import pytest
import torch
from chapter_code import definitions
from chapter_rules import CHAPTERS
from torch import Tensor
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models import CountModel
from attnlib.training import token_stream
from recipes import ngram_seeds

CHAPTER = definitions("01_ngram", "kneser_ney", "mixed")
BPE = pretrained.tokenizer()
D = BPE.vocab_size
TEXTS = reviews("imdb").validation.texts[:400]
WINDOWS = 160  # of 1,125, for what a network must read, too
NETWORKS = pretrained.card("results/ngram-seeds")["networks"]  # three trainings of each


@cache
def counted(texts: int = 20_000) -> CountModel:
    """All n-grams up to five of the training reviews."""
    return CountModel(5, D).fit(token_stream(reviews("imdb").train.texts[:texts], BPE))


@cache
def kneser_ney() -> dict[int, CountModel]:
    """The chapter's models, for every n."""
    return CHAPTER.kneser_ney(counted())


@cache
def rows() -> Tensor:
    return token_stream(TEXTS, BPE).unfold(0, 129, 128)


@cache
def loss(n: int, smoothing: str) -> Tensor:
    """Nats of every token, a row for each window."""
    known = smoothing == "kneser-ney"
    model = kneser_ney()[n] if known else counted().variant(n, smoothing)
    return model.losses(rows())[0]


@torch.no_grad()
def network_loss(name: str) -> Tensor:
    net, ids = pretrained.load(name), rows()[:WINDOWS]
    logits, right = net(ids[:, :-1]).flatten(0, 1), ids[:, 1:]
    return F.cross_entropy(logits, right.flatten(), reduction="none").double().view_as(right)


def interval(difference: Tensor) -> tuple[float, float]:
    """The ends of a 95 % interval of the mean, over windows."""
    return intervals.interval(difference.mean(1))


@pytest.mark.long
@pytest.mark.slow
def test_nearly_every_review_has_a_new_pair_and_smoothing_copes():
    shares = [counted().unseen(token_stream([text], BPE))[1] for text in TEXTS[:60]]
    assert sum(share > 0 for share in shares) > 0.95 * len(shares)
    assert loss(2, "witten-bell").isfinite().all()
    for model in (counted().variant(3, "witten-bell"), kneser_ney()[3]):
        for context in (rows()[0, :2], torch.tensor([7, 7])):
            p = model.probabilities(context)
            assert p.min() > 0
            assert p.sum().item() == pytest.approx(1)


@pytest.mark.long
def test_most_triples_are_known_and_most_stretches_of_four_are_new():
    for texts in (TEXTS, reviews("imdb").test.texts[500:560]):
        shares = counted().unseen(token_stream(texts, BPE))
        assert max(shares[:3]) < 0.45 < 0.6 < min(shares[3:])
    assert counted(2_000).unseen(token_stream(TEXTS, BPE))[2] > 0.5  # the control: less text


@pytest.mark.slow
def test_witten_bell_rises_after_three_and_kneser_ney_falls_to_five():
    for n in (3, 4, 5):
        assert interval(loss(n, "kneser-ney") - loss(n - 1, "kneser-ney"))[1] < 0
    assert interval(loss(3, "witten-bell") - loss(2, "witten-bell"))[1] < 0
    for n in (4, 5):
        assert interval(loss(n, "witten-bell") - loss(n - 1, "witten-bell"))[0] > 0.05


def test_a_zero_layer_model_is_one_table_of_low_rank():
    zero, ids = pretrained.load("zero-layer"), rows()[:50, :3]
    table = (zero.W_E @ zero.W_U).detach()
    torch.testing.assert_close(zero(ids), table[ids], atol=1e-4, rtol=1e-4)
    part = zero.W_E[:300].detach().double() @ zero.W_U[:, :300].detach().double()
    assert torch.linalg.matrix_rank(part) == zero.W_E.shape[1] == 128
    other = ids.roll(1, 0)
    other[:, -1] = ids[:, -1]  # other texts with the same last token
    assert torch.equal(zero(ids)[:, -1], zero(other)[:, -1])
    pairs = pretrained.load("ngram-3")
    differ = other[:, -2] != ids[:, -2]
    assert differ.any()
    assert (pairs(ids)[differ, -1] != pairs(other)[differ, -1]).any(-1).all()


@pytest.mark.parametrize("name", ["zero-layer", "ngram-3", "ngram-5", "reviews-gpt"])
def test_a_token_outside_the_window_changes_no_bit(name):
    net, ids = pretrained.load(name), rows()[:1, :30]
    width = {"zero-layer": 1, "ngram-3": 2, "ngram-5": 4, "reviews-gpt": 30}[name]
    for place in (0, 10, 25):
        other = ids.clone()
        other[0, place] = (ids[0, place] + 1) % D
        moved = (net(ids) != net(other)).any(-1)[0].nonzero()[:, 0].tolist()
        assert moved == list(range(place, min(place + width, 30)))


@pytest.mark.long
@pytest.mark.slow
def test_counts_beat_the_networks_and_mixing_beats_both():
    counts = loss(5, "kneser-ney")[:WINDOWS]
    for name in ("ngram-3", "ngram-5"):
        assert interval(network_loss(name) - counts)[0] > 0.3
    assert torch.allclose(CHAPTER.mixed(counts, counts), counts)
    both = CHAPTER.mixed(counts, network_loss("ngram-5"))
    counters = CHAPTER.mixed(counts, loss(3, "kneser-ney")[:WINDOWS])  # the control
    assert interval(both - counts)[1] < -0.02
    assert interval(both - counters)[1] < -0.02
    assert network_loss("reviews-gpt").mean() < counts.mean()


@pytest.mark.parametrize("name", NETWORKS)
def test_every_one_of_three_trainings_is_behind_the_counts_and_helps_them(name):
    """Of 200 reviews; the control is another counter in the network's place."""
    behind, mixed, counters = (
        torch.tensor(NETWORKS[name][key]).T for key in ("behind", "mixed", "counters")
    )
    least = 0.02 if name == "ngram-5" else 0.0
    assert behind.shape == (2, 3)
    assert (behind[0] - behind[1] > 0.3).all()
    assert (mixed.sum(0) < -least).all()
    assert (counters.sum(0) < -least).all()


@pytest.mark.long
@pytest.mark.slow
def test_the_first_training_is_measured_again():
    """With the stored weights, of the wider network; the chapter's table has the same windows."""
    rows = token_stream(reviews("imdb").test.texts[ngram_seeds.OTHERS], BPE).unfold(0, 129, 128)
    counters = {n: kneser_ney()[n].losses(rows)[0] for n in (3, 5)}
    lost = ngram_seeds.network_losses(pretrained.load("ngram-5"), rows)
    for key, told in ngram_seeds.compared(lost, counters).items():
        assert NETWORKS["ngram-5"][key][0] == pytest.approx(told, abs=0.001)


def test_the_table_of_three_trainings_is_that_of_the_card():
    text = (CHAPTERS / "01_ngram.ipynb").read_text(encoding="utf-8")
    for name, found in NETWORKS.items():
        row = f"| `{name}`, three training runs |"
        row += "".join(f" {mean:.3f}" for mean, _ in found["alone"]) + " |"
        for key in ("behind", "mixed"):
            means, halves = zip(*found[key], strict=True)
            cell = " ".join(f"{mean:+.3f}" for mean in means) + f" (± {max(halves):.3f})"
            row += f" {cell} |".replace("-", "−").replace("0.", ".")
        assert row in text


def test_kneser_ney_counts_places_and_not_times():
    """By hand: 2 occurs five times, after two different tokens; 3 three times, after three."""
    stream = torch.tensor([1, 2, 1, 2, 1, 2, 1, 2, 0, 3, 1, 3, 2, 3, 4])
    model = CHAPTER.kneser_ney(CountModel(2, 5).fit(stream))[2]
    before = [{int(a) for a, b in pairwise(stream) if b == w} for w in range(5)]
    assert model.counts[0].tolist() == [len(found) for found in before] == [1, 2, 2, 3, 1]
    for context in range(5):
        assert model.probabilities(torch.tensor([context])).sum().item() == pytest.approx(1)
