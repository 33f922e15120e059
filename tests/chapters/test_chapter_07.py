"""What chapter 07 claims, with the controls that could have refuted it."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from chapter_code import definitions
from erasing import falls as falls_by_order
from scipy.spatial.distance import jensenshannon
from torch.nn.functional import one_hot

from attnlib import pretrained
from attnlib.explain.faithfulness import kendall, permute, random_scores
from attnlib.explain.heads import interval
from attnlib.explain.saliency import leave_one_out
from attnlib.pretrained import classifier
from attnlib.training.classification import (
    Examples,
    classify_all,
    impermissible_mask,
    predict,
    read,
)
from recipes.classification import accuracy, uniform

CHAPTER = definitions(
    "07_is_attention_explanation",
    *("Reader", "with_interval", "right", "without", "audit", "adversary", "most_extreme"),
    *("word_list", "falls", "signed", "SingleWords"),
)
SEEDS = [  # the chapter shows the first
    pytest.param(name, marks=[] if name == "rt-lstm-5" else pytest.mark.long)
    for name in ("rt-lstm", "rt-lstm-2", "rt-lstm-3", "rt-lstm-4", "rt-lstm-5")
]


def low(values):
    """The lower end of the 95 % interval of a mean over texts."""
    return interval(values[~values.isnan()])[0]


def high(values):
    """The upper end."""
    return interval(values[~values.isnan()])[1]


@pytest.fixture(scope="module")
def rt():
    return read("rotten_tomatoes")


@pytest.fixture(scope="module")
def sentences(rt):
    return rt[1]["test"]


@pytest.fixture(scope="module")
def few(sentences):
    return sentences.take(slice(300, 400))


@pytest.fixture(scope="module")
def forty():
    """Reviews, and the texts from which their lists are made."""
    words, parts = read("imdb", 200, 1_500)
    return words, parts["test"].take(slice(0, 40)), parts["train"]


@pytest.fixture(scope="module")
def lists(rt, forty):
    """The list of each classifier, from the texts that it was trained on; made once."""

    @cache
    def of(name):
        words, train = (rt[0], rt[1]["train"]) if name.startswith("rt") else forty[::2]
        return CHAPTER.word_list(classifier(name).model, train, len(words))

    return of


def one_text(data, row):
    return data.ids[row : row + 1, : int(data.mask[row].sum())]


# --- the chapter's tools ----------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 7, 19])
def test_the_reader_on_the_page_is_the_librarys(row, rt, sentences):
    """With its own weights, and with weights that it is given."""
    lstm, ids = classifier("rt-lstm").model, one_text(sentences, row)
    reader = CHAPTER.Reader(len(rt[0]))
    names = {f"lstm.{name}": weight for name, weight in lstm.encoder.state_dict().items()}
    names |= {"embedding.weight": lstm.W_E, "score.weight": lstm.v[None]}
    names |= {f"hidden.{name}": weight for name, weight in lstm.align.state_dict().items()}
    names |= {f"vote.{name}": weight for name, weight in lstm.output.state_dict().items()}
    reader.load_state_dict(names)
    for weights in (None, uniform(ids > 0)):
        answer, alpha = reader(ids, weights)
        expected = lstm.classify(ids, weights=weights)
        torch.testing.assert_close(answer, expected.probability)
        torch.testing.assert_close(alpha, expected.attention)


def test_an_interval_leaves_out_the_texts_that_have_no_value():
    assert CHAPTER.with_interval(torch.tensor([1.0, 1.0, torch.nan])) == "1.00 (1.00 to 1.00)"
    values = torch.randn(400, generator=torch.Generator().manual_seed(0))
    line = CHAPTER.with_interval(values, 3).replace("(", "").replace(")", "")
    mean, below, _, above = line.split()
    assert float(mean) == pytest.approx(values.mean().item(), abs=1e-3)
    assert float(above) - float(below) == pytest.approx(4 * values.std().item() / 20, rel=0.15)


def test_rightness_is_accuracy(few):
    lstm, flat = classifier("rt-lstm").model, uniform(few.mask)
    assert CHAPTER.right(lstm, few).mean().item() == pytest.approx(accuracy(lstm, few))
    assert CHAPTER.right(lstm, few, flat).mean().item() == pytest.approx(accuracy(lstm, few, flat))


def test_a_list_is_the_mean_share_of_each_word():
    class Fixed:
        def classify(self, ids, mask, weights):
            alpha = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
            return pretrained.text.AttentionClassifier(9, 2, 2).classify(ids, mask, alpha)

    ids = torch.tensor([[3, 4, 0], [3, 3, 5]])
    data = Examples(ids, ids > 0, torch.zeros(2))
    found = CHAPTER.word_list(Fixed(), data, 7)
    assert found[3].item() == pytest.approx((2 * 0.5 + 3 * 0.2 + 3 * 0.3) / 3)
    assert found[[4, 5, 6]].tolist() == pytest.approx([1.0, 1.5, 1.0])  # 6 never occurs


def test_the_most_extreme_vote_is_on_the_side_of_the_answer(few):
    lstm = classifier("rt-lstm").model
    chosen = CHAPTER.most_extreme(lstm, few)
    for row in (0, 3, 50):
        ids = one_text(few, row)
        reading = lstm.classify(ids)
        votes = lstm.output(reading.states)[0, :, 0]
        wanted = votes.argmax() if reading.logits > 0 else votes.argmin()
        assert chosen[row] == wanted


def test_single_words_know_no_order():
    torch.manual_seed(0)
    net, ids = CHAPTER.SingleWords(50), torch.tensor([[4, 9, 30]])
    alpha = torch.tensor([[0.2, 0.3, 0.5]])
    turned = net(ids.flip(1), alpha.flip(1))
    torch.testing.assert_close(net(ids, alpha), turned)
    assert (net(ids, alpha.flip(1)) - turned).abs() > 1e-4


def test_falls_are_those_of_the_words_that_are_left(few):
    lstm, scores = classifier("rt-lstm").model, random_scores(few.mask, 3)
    for share in (0.1, 0.5):
        found = CHAPTER.falls(lstm, few, scores, share)
        by_order = falls_by_order(predict(lstm), few.ids, few.mask, scores, share)
        torch.testing.assert_close(found, by_order, atol=1e-5, rtol=0)
    assert found.std() > 0.02


def test_signed_scores_add_up_to_the_way_of_the_predicted_class(few):
    lstm, few = classifier("rt-lstm").model, few.take(slice(0, 20))
    zero = lstm.scorer(few.mask)(torch.zeros_like(lstm.embed(few.ids)))
    answer = predict(lstm)(few.ids, few.mask)
    way = torch.where(answer >= 0.5, answer - zero, zero - answer)
    assert (CHAPTER.signed(lstm, few, 15).sum(1) - way).abs().median() < 0.01


# --- uniform weights, and a model that hides --------------------------------------------------


@pytest.mark.claim(31)
def test_uniform_weights_cost_about_a_point(sentences):
    """Three seeds; the control is a network of single words, to which choosing is worth more."""
    ends = ("", "-2", "-3")
    assert {classifier(f"rt-lstm-uniform{end}").model.attention_kind for end in ends} == {"uniform"}
    pairs = [[classifier(f"rt-lstm{kind}{end}").model for kind in ("", "-uniform")] for end in ends]
    lost = torch.stack([torch.sub(*(CHAPTER.right(m, sentences) for m in p)) for p in pairs])
    assert -0.01 < low(lost.mean(0)) < high(lost.mean(0)) < 0.025
    accuracies = [pretrained.card(f"imdb-lstm{kind}")["accuracy"] for kind in ("", "-uniform")]
    assert abs(accuracies[0] - accuracies[1]) < 0.02
    guided = pretrained.card("guided")["accuracy"]["imdb"]
    assert np.mean(guided["BiLSTM"]) - np.mean(guided["uniform"]) > 0.04


@pytest.mark.claim(31)
def test_a_hiding_model_uses_what_it_does_not_seem_to_see(rt, sentences):
    """More than as many other words; and an encoder of single words cannot do it."""
    marked = impermissible_mask(sentences, rt[1]["train"], 300)
    held = marked.any(1) & (marked.sum(1) * 2 <= sentences.mask.sum(1))
    touched = Examples(sentences.ids[held], sentences.mask[held], sentences.labels[held])
    kinds = ("lstm", "lstm-hiding", "average", "average-hiding")
    found = {k: CHAPTER.audit(classifier(f"rt-{k}").model, touched, marked[held]) for k in kinds}
    weight, whole, lost, control = found["lstm-hiding"]
    assert high(weight) < 0.01 < 0.1 < low(found["lstm"][0])
    assert low(lost - control) > 0.05
    assert abs((lost - found["lstm"][2]).mean()) < 0.04
    assert abs((whole - found["lstm"][1]).mean()) < 0.03
    assert abs(control.mean()) < 0.02
    paid = found["average"][1] - found["average-hiding"][1]
    assert low(paid) > 0.04
    assert high(found["average-hiding"][2]) < 0.02


# --- other weights ----------------------------------------------------------------------------


def share_with_a_far_map(model, data, epsilon, own=None):
    """1 for each text with other weights farther than .5; they keep the answer, by two words."""
    reading = classify_all(model, data)
    start = reading.attention if own is None else own
    other = CHAPTER.adversary(model, data, epsilon, own)
    before = model.logits_from(start, reading.states).sigmoid()
    moved = classify_all(model, data, other.weights.float()).probability
    assert (moved - before).abs().max() <= epsilon + 1e-5
    jsd = jensenshannon(other.weights.numpy(), start.numpy(), axis=1) ** 2
    assert other.jsd.numpy() == pytest.approx(jsd, abs=1e-5)
    assert ((other.weights > 1e-9).sum(1) <= 2).all()
    return (other.jsd > 0.5).float()


@pytest.mark.claim(31)
@torch.no_grad()
def test_other_weights_give_the_same_answer_and_only_a_pointer_at_the_extreme_vote_resists(few):
    """Through the whole model, and for an ε fifty times as small too."""
    for name in ("rt-lstm", "rt-average", "rt-cnn"):
        model = classifier(name).model
        assert share_with_a_far_map(model, few, 0.05).mean() > 0.9
        assert 0.8 < share_with_a_far_map(model, few, 0.001).mean() < 1, "most sentences, not all"
    model = classifier("rt-lstm").model
    distances = [CHAPTER.adversary(model, few, epsilon).jsd.mean() for epsilon in (0.2, 0.001)]
    assert distances == pytest.approx([0.65, 0.59], abs=0.02), "it does not come back"
    for name in ("rt-lstm-hiding", "rt-lstm-decoy"):
        model = classifier(name).model
        points = classify_all(model, few).attention.argmax(1) == CHAPTER.most_extreme(model, few)
        assert 0.4 < points.float().mean() < 0.8
        far = share_with_a_far_map(model, few, 0.001)
        assert far[points].mean() < 0.1, "it resists where it points at the most extreme vote"
        assert far[~points].mean() > 0.9, "and nowhere else"


@pytest.mark.claim(31)
@torch.no_grad()
@pytest.mark.parametrize("name", SEEDS)
def test_an_honest_model_resists_if_it_is_made_to_point_at_its_most_extreme_vote(name, few):
    model, width = classifier(name).model, few.mask.shape[1]
    pointer = one_hot(CHAPTER.most_extreme(model, few), width).float()
    at_random = one_hot(random_scores(few.mask, seed=1).argmax(1), width).float()
    assert share_with_a_far_map(model, few, 0.001, pointer).mean() < 0.35
    assert share_with_a_far_map(model, few, 0.001, at_random).mean() > 0.8


@pytest.mark.claim(31)
def test_honest_maps_are_worth_more_than_shuffled_ones_and_differ_among_themselves():
    """Words of a network that knows no context: five maps on sentences, two on reviews."""
    accuracies = pretrained.card("guided")["accuracy"]
    for source, networks, maps in (("rotten_tomatoes", 8, 5), ("imdb", 3, 2)):
        found = {row: np.array(values) for row, values in accuracies[source].items()}
        assert {len(values) for values in found.values()} == {networks}
        honest = [values for row, values in found.items() if row.startswith("BiLSTM")]
        assert len(honest) == maps
        assert min((one - found["shuffled"]).min() for one in honest) > 0.01
        assert found["decoy"].max() < 0.55, "a coin"
        over_even = [(one - found["uniform"]).mean() for one in honest]
        assert (min(over_even) < 0) == (source == "rotten_tomatoes"), "not every map beats even"


# --- agreement --------------------------------------------------------------------------------


def rarity(train, size):
    """1 / (count in training + 5) of each word, (size,)."""
    return 1 / (torch.bincount(train.ids[train.mask], minlength=size) + 5)


def map_and_list(name, data, lists):
    found = classify_all(classifier(name).model, data).attention
    return found, lists(name)[data.ids] * data.mask


@pytest.mark.long
@pytest.mark.claim(30)
@pytest.mark.parametrize("name", SEEDS)
def test_rarity_and_a_word_list_agree_better_in_order_than_the_map(name, rt, sentences, lists):
    data, train = sentences.take(slice(0, 300)), rt[1]["train"]
    own, of_words = map_and_list(name, data, lists)
    rare = rarity(train, len(rt[0]))[data.ids] * data.mask
    left_out = leave_one_out(predict(classifier(name).model), data.ids, data.mask).abs()
    by_map, by_rarity, by_list = (
        kendall(scores, left_out, data.mask) for scores in (own, rare, of_words)
    )
    assert low(by_rarity - by_map) > 0
    assert low(by_list - by_rarity) > 0.03
    assert low(by_map) > 0.2, "and the map is far above chance"
    frequent = torch.bincount(train.ids[train.mask]).topk(8).indices
    rest = data.mask & ~torch.isin(data.ids, frequent)
    ahead = kendall(own, left_out, rest) - kendall(rare, left_out, rest)
    assert low(ahead) > 0.02, "rarity owes its lead to the eight most frequent tokens"
    first = [scores.masked_fill(~data.mask, -1).argmax(1) for scores in (own, rare, left_out)]
    same = [(first[k] == first[2]).float() for k in (0, 1)]
    assert low(same[0] - same[1]) > 0.1, "at the first word the map is ahead of rarity"
    shuffled = permute(of_words, data.mask, torch.Generator().manual_seed(0))
    assert abs(kendall(shuffled, left_out, data.mask).nanmean()) < 0.06


@pytest.mark.long
@pytest.mark.claim(30)
def test_the_word_list_is_ahead_on_reviews_and_is_the_map_of_single_words(few, forty, lists):
    data = forty[1]
    own, of_words = map_and_list("imdb-lstm", data, lists)
    left_out = leave_one_out(predict(classifier("imdb-lstm").model), data.ids, data.mask).abs()
    rare = rarity(forty[2], len(forty[0]))[data.ids] * data.mask
    by_map, by_rarity, by_list = (
        kendall(scores, left_out, data.mask) for scores in (own, rare, of_words)
    )
    assert low(by_rarity - by_map) > 0
    assert low(by_list - by_map) > 0.04
    pair = map_and_list("rt-average", few, lists)
    assert low(kendall(*pair, few.mask)) > 0.9


# --- deletion ---------------------------------------------------------------------------------


def deleted(name, data, lists):
    """The falls of map, list, integrated gradients and random sizes, some with a sign, by share."""
    model = classifier(name).model
    own, of_words = map_and_list(name, data, lists)
    along, blind = CHAPTER.signed(model, data, 8), random_scores(data.mask)
    sign = along.sign()
    scores = {"map": own, "list": of_words, "signed": along, "random": blind * sign}
    scores |= {"size": along.abs(), "map, sign": own * sign, "list, sign": of_words * sign}
    return {
        (kind, share): CHAPTER.falls(model, data, values, share)
        for (kind, values), share in itertools.product(scores.items(), (0.1, 0.3, 0.5))
    }


@pytest.mark.long
@pytest.mark.claim(31)
@pytest.mark.parametrize("name", SEEDS)
def test_integrated_gradients_are_ahead_of_the_map_by_their_sign(name, sentences, lists):
    fell = deleted(name, sentences.take(slice(0, 300)), lists)
    for share in (0.1, 0.3, 0.5):
        for other in ("map", "list", "random"):
            assert low(fell["signed", share] - fell[other, share]) > 0.05
        assert high(fell["map, sign", share] - fell["list, sign", share]) < 0.02
        assert (fell["size", share] - fell["map", share]).mean() < 0.03, "the measure asks for it"
    assert low(fell["map", 0.3] - fell["list", 0.3]) > 0.01
    assert low(fell["map", 0.5] - fell["list", 0.5]) > 0.05
    assert (fell["random", 0.1] - fell["map", 0.1]).mean() < 0.02, "few words: the sizes count"
    assert low(fell["random", 0.5] - fell["map", 0.5]) > 0.1, "many: the side counts"


@pytest.mark.long
@pytest.mark.claim(31)
def test_deletion_says_the_same_on_reviews_and_map_and_list_are_one_for_single_words(
    few, forty, lists
):
    fell = deleted("imdb-lstm", forty[1], lists)
    for share in (0.1, 0.3, 0.5):
        assert low(fell["signed", share] - fell["map", share]) > 0.03
    assert low(fell["map", 0.3] - fell["list", 0.3]) > 0.1
    same = deleted("rt-average", few, lists)
    assert abs((same["map", 0.3] - same["list", 0.3]).mean()) < 0.02
