"""The theses of chapter 01, with their controls, on reviews that the chapter does not use."""

import html
import re
from functools import cache
from itertools import pairwise

import intervals
import nbformat
import pytest
import torch
from chapter_code import definitions
from chapter_rules import CHAPTERS
from torch import Tensor
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.decoding import generate
from attnlib.models import CountModel, NeuralNgram
from attnlib.training import token_stream
from recipes import ngram_seeds

CHAPTER = definitions("01_ngram", "kneser_ney", "write", "predictor", "NgramNetwork")
SIDE_ROAD = definitions("more/01_smoothing", "kneser_ney", "mixed")
BPE = pretrained.tokenizer()
D = BPE.vocab_size
ALL = 20_000  # training reviews
TEXTS = reviews("imdb").validation.texts[:400]
KNESER = "def kneser_ney(counted):"
WINDOWS = 160  # of 1,125, for what a network must read, too
NETWORKS = pretrained.card("results/ngram-seeds")["networks"]  # three trainings of each


@cache
def counted(texts: int) -> CountModel:
    """All n-grams up to five of the training reviews."""
    return CountModel(5, D).fit(token_stream(reviews("imdb").train.texts[:texts], BPE))


@cache
def kneser_ney(texts: int) -> dict[int, CountModel]:
    """The chapter's models, for every n."""
    return CHAPTER.kneser_ney(counted(texts))


@cache
def rows() -> Tensor:
    return token_stream(TEXTS, BPE).unfold(0, 129, 128)


@cache
def loss(n: int, smoothing: str, texts: int = ALL) -> Tensor:
    """Nats of every token, a row for each window."""
    known = smoothing == "kneser-ney"
    model = kneser_ney(texts)[n] if known else counted(texts).variant(n, smoothing)
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
    shares = [counted(ALL).unseen(token_stream([text], BPE))[1] for text in TEXTS[:60]]
    assert sum(share > 0 for share in shares) > 0.95 * len(shares)
    assert loss(2, "witten-bell").isfinite().all()
    for model in (counted(ALL).variant(3, "witten-bell"), kneser_ney(ALL)[3]):
        for context in (rows()[0, :2], torch.tensor([7, 7])):
            p = model.probabilities(context)
            assert p.min() > 0
            assert p.sum().item() == pytest.approx(1)


@pytest.mark.long
def test_most_triples_are_known_and_most_stretches_of_four_are_new():
    for texts in (TEXTS, reviews("imdb").test.texts[500:560]):
        shares = counted(ALL).unseen(token_stream(texts, BPE))
        assert max(shares[:3]) < 0.45 < 0.6 < min(shares[3:])
    assert counted(2_000).unseen(token_stream(TEXTS, BPE))[2] > 0.5  # the control: less text


@pytest.mark.ci
@pytest.mark.parametrize(
    "texts", [2_000, pytest.param(ALL, marks=[pytest.mark.long, pytest.mark.slow])]
)
def test_witten_bell_rises_after_three_and_kneser_ney_falls_to_five(texts):
    """Whether a tenth of the training reviews is counted, or all."""

    def change(n: int, smoothing: str) -> tuple[float, float]:
        return interval(loss(n, smoothing, texts) - loss(n - 1, smoothing, texts))

    for n in (3, 4, 5):
        assert change(n, "kneser-ney")[1] < 0
    assert change(3, "witten-bell")[1] < 0
    for n in (4, 5):
        assert change(n, "witten-bell")[0] > 0.05


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
    for position in (0, 10, 25):
        other = ids.clone()
        other[0, position] = (ids[0, position] + 1) % D
        moved = (net(ids) != net(other)).any(-1)[0].nonzero()[:, 0].tolist()
        assert moved == list(range(position, min(position + width, 30)))


@pytest.mark.long
@pytest.mark.slow
def test_the_best_counts_beat_the_networks_and_a_mixture_beats_both():
    counts = loss(5, "kneser-ney")[:WINDOWS]
    for name in ("ngram-3", "ngram-5"):
        assert interval(network_loss(name) - counts)[0] > 0.3
    assert torch.allclose(SIDE_ROAD.mixed(counts, counts), counts)
    both = SIDE_ROAD.mixed(counts, network_loss("ngram-5"))
    counters = SIDE_ROAD.mixed(counts, loss(3, "kneser-ney")[:WINDOWS])  # the control
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
    counters = {n: kneser_ney(ALL)[n].losses(rows)[0] for n in (3, 5)}
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


def test_kneser_ney_counts_different_tokens_and_not_times():
    """By hand: 2 occurs five times, after two different tokens; 3 three times, after three."""
    stream = torch.tensor([1, 2, 1, 2, 1, 2, 1, 2, 0, 3, 1, 3, 2, 3, 4])
    model = CHAPTER.kneser_ney(CountModel(2, 5).fit(stream))[2]
    before = [{int(a) for a, b in pairwise(stream) if b == w} for w in range(5)]
    assert model.counts[0].tolist() == [len(found) for found in before] == [1, 2, 2, 3, 1]
    for context in range(5):
        assert model.probabilities(torch.tensor([context])).sum().item() == pytest.approx(1)


def test_kneser_ney_counts_different_tokens_before_a_pair_too():
    """Those before the pairs when n is 3; the triples keep their counts."""
    tokens = torch.randint(5, (60,), generator=torch.Generator().manual_seed(0)).tolist()
    counted = CountModel(3, 5).fit(torch.tensor(tokens))
    model = CHAPTER.kneser_ney(counted)[3]
    triples = set(zip(tokens, tokens[1:], tokens[2:], strict=False))
    expected = [sum(t[1:] == pair for t in triples) for pair in sorted({*pairwise(tokens)})]
    assert model.counts[1].tolist() == expected != counted.counts[1].tolist()
    assert torch.equal(model.counts[2], counted.counts[2])


def test_the_side_road_explains_the_chapters_own_function():
    """The chapter folds `kneser_ney`, the side road shows it: the same text."""
    texts = []
    for name in ("01_ngram", "more/01_smoothing"):
        cells = nbformat.read(CHAPTERS / f"{name}.ipynb", as_version=4).cells
        texts += [c.source[c.source.index("from functools") :] for c in cells if KNESER in c.source]
    assert len(texts) == 2
    assert texts[0] == texts[1]


@pytest.mark.claim(110)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_class_on_the_page_is_the_librarys(n):
    """Shared weights, equal logits: at the start of a text, too."""
    torch.manual_seed(n)
    net = NeuralNgram(40, n, d_model=6, d_hidden=7)
    page = CHAPTER.NgramNetwork(n, 40, d_model=6, d_hidden=7)
    with torch.no_grad():
        page.embedding.weight.copy_(torch.cat([net.W_E, net.before[None]]))
        page.hidden.weight.copy_(net.W_H.flip(0).flatten(0, 1).T)
        page.hidden.bias.copy_(net.b.normal_())
        page.unembedding.weight.copy_(net.W_U.T)
    ids = torch.randint(40, (3, 9))
    torch.testing.assert_close(page(ids), net(ids))
    assert sum(w.numel() for w in page.parameters()) == sum(w.numel() for w in net.parameters())


@pytest.mark.claim(109)
def test_the_chapter_writes_what_the_library_would_write():
    """Darts at a line of probabilities are the draws of `generate`; counts are drawn likewise."""
    net, prompt = pretrained.load("ngram-5"), BPE.encode("This film is")
    text = CHAPTER.write(CHAPTER.predictor(net), prompt, 20, seed=3)
    assert text == generate(net, torch.tensor(prompt), 20, seed=3).tolist()
    shares = torch.tensor([0.0, 0.5, 0.2, 0.0, 0.3])
    drawn = CHAPTER.write(lambda ids: shares, [0], 4_000)[1:]
    found = torch.bincount(torch.tensor(drawn), minlength=5) / 4_000
    assert (found[shares == 0] == 0).all()
    assert torch.allclose(found, shares, atol=0.03)


@pytest.mark.claim(109)
def test_the_running_table_falls_and_every_model_writes():
    """Its numbers are those of the cards or of the figures, and sink from row to row."""
    cells = nbformat.read(CHAPTERS / "01_ngram.ipynb", as_version=4).cells
    (cell,) = (c for c in cells if c.id == "running-table")
    rows = re.findall(r"<td>(.*?)</td><td>(.*?)</td><td.*?>(.*?)</td>", table_of(cell), re.S)
    losses = [float(loss) for _, loss, _ in rows]
    assert [name for name, _, _ in rows][1:] == [
        "pairs, counted",
        "neural 5-gram",
        "best counts, n = 5",
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[2] == round(pretrained.card("ngram-5")["loss"]["nats_per_token"], 2)
    assert losses[-1] > pretrained.card("reviews-gpt")["loss"]["nats_per_token"]
    texts = [html.unescape(text) for _, _, text in rows]
    assert len(set(texts)) == 4
    assert all(text.startswith("This film is") and len(text) > 80 for text in texts)


def table_of(cell: nbformat.NotebookNode) -> str:
    (output,) = cell.outputs
    return output.data["text/html"]


@pytest.mark.claim(109)
@pytest.mark.long
def test_the_order_of_the_losses_holds_on_other_reviews():
    """Pairs, neural 5-gram, best counts: the validation split, which the chapter does not use."""
    pairs, best = loss(2, "witten-bell")[:WINDOWS], loss(5, "kneser-ney")[:WINDOWS]
    neural = network_loss("ngram-5")
    assert interval(pairs - neural)[0] > 0.1
    assert interval(neural - best)[0] > 0.3
