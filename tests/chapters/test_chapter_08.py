"""What chapter 08 concludes, with the controls that could have refuted it.

The two minima and their maps are tested in test_histogram.py, with the claims.
"""

import math

import pytest
import torch
from chapter_code import definitions
from torch import Tensor

from attnlib import pretrained
from attnlib.data import histogram, histogram_labels
from attnlib.models.histogram import HistogramModel, accuracy, count_loss, map_facts
from recipes.histogram import QUICK, SEED, STARTS, trained

CHAPTER = definitions(
    "08_histogram_task",
    *("count_by_places", "push", "distance", "A", "two_teachers", "student_map", "descend"),
    *("fixed_matrix", "error", "cut_places", "swap_maps", "slopes", "finds", "asymmetry"),
)


def rows(n: int = 1000, seed: int = 8) -> tuple[Tensor, Tensor]:
    ids = torch.randint(15, (n, 10), generator=torch.Generator().manual_seed(seed))
    return ids, histogram_labels(ids)


# -- one diagonal is as good as another -------------------------------------------------------


def test_a_diagonal_that_counts_right_confirms_no_particular_one() -> None:
    ids, labels = histogram(20_000)
    wrong = {a: (CHAPTER.count_by_places(a, ids) != labels).sum().item() for a in (0.25, 0.35)}
    assert wrong[0.25] > 10_000 > wrong[0.35] > 0  # too small a diagonal does fail
    for a in (0.42, 0.5, 0.55, 0.7, 0.95):
        assert torch.equal(CHAPTER.count_by_places(a, ids), labels)


# -- learning speed ----------------------------------------------------------------------------


def test_some_semantic_models_learn_faster_and_the_others_are_stuck() -> None:
    cards = {name: pretrained.card(f"histogram-{name}") for name in ("semantic", "positional")}
    runs = {name: card["speeds"] for name, card in cards.items()}
    assert [len(r) for r in runs.values()] == [STARTS, STARTS]
    semantic, positional = ([run["low_after"] for run in r] for r in runs.values())
    assert None not in positional
    fast = [step for step in semantic if step]
    assert max(fast) < min(positional)
    assert 0 < len(fast) < STARTS  # one seed would have told half of it
    stuck = [run["accuracy"] for run in runs["semantic"] if run["low_after"] is None]
    assert max(stuck) < 0.97 < min(run["accuracy"] for run in runs["positional"])


# -- do they stay? -----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.long
def test_a_hundred_small_steps_move_no_model_far_not_even_an_unfinished_one() -> None:
    for sees in ("semantic", "positional"):
        moved, fell = [], []
        for name in (f"histogram-{sees}", f"histogram-{sees}-unfinished"):
            start = pretrained.load(name).unfreeze()
            pushed = CHAPTER.push(start, torch.optim.SGD, 1e-3, steps=100, seed=5)
            moved.append(CHAPTER.distance(start, pushed))
            with torch.no_grad():
                fell.append((count_loss(start, rows()) - count_loss(pushed, rows())).item())
        assert max(moved) < 0.5  # training carries such a model a hundred units
        assert fell[1] > 0.003 > 0.001 > fell[0]  # though one of them has not arrived


@pytest.mark.long
@pytest.mark.long
@pytest.mark.slow
def test_pushed_with_adam_an_unfinished_positional_model_looks_at_tokens_a_finished_does_not():
    ids = rows()[0]

    def looks(model: HistogramModel) -> float:
        free = CHAPTER.push(model, torch.optim.Adam, 1e-3, steps=600, seed=5)
        assert CHAPTER.distance(model.unfreeze(), free) > 2  # both are carried away
        facts = map_facts(free, ids)
        return facts["same"] - facts["other"]

    stayed = looks(pretrained.load("histogram-positional"))
    left = looks(pretrained.load("histogram-positional-unfinished"))
    assert left > max(0.01, 3 * abs(stayed))


@pytest.mark.slow
def test_pushed_ten_times_as_hard_the_finished_positional_model_looks_at_tokens_too() -> None:
    finished = pretrained.load("histogram-positional")
    free = CHAPTER.push(finished, torch.optim.Adam, 1e-2, steps=600, seed=6)
    before, after = (map_facts(model, rows()[0]) for model in (finished, free))
    assert before["same"] < 1.1 * before["other"]
    assert after["same"] > 1.5 * after["other"]
    assert accuracy(free, *rows()) > 0.85  # another way to count, and no broken model


# -- the solvable model ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def branches() -> dict[float, dict[str, Tensor]]:
    """Both students and the fixed matrix, other draws than the chapter's."""
    found = {}
    for alpha in (0.8, 1.1, 2.0):
        generator = torch.Generator().manual_seed(7)
        secret = torch.randn(10, 150, 1, generator=generator)
        X, Y = CHAPTER.two_teachers(int(alpha * 150), secret, generator)
        start = torch.cat([torch.ones_like(secret) / math.sqrt(150), secret], -1)
        Q, loss = CHAPTER.descend(X, Y, start)
        X2, Y2 = CHAPTER.two_teachers(400, secret, generator)
        students = CHAPTER.error(CHAPTER.student_map(X2, Q) @ X2[:, None], Y2[:, None])
        fixed = CHAPTER.error(CHAPTER.fixed_matrix(X, Y)[:, None] @ X2, Y2)
        found[alpha] = {"gap": loss[:, 0] - loss[:, 1], "data": (X, Y, start, Q)}
        found[alpha] |= {"positional": students[:, 0] - students[:, 1]}
        found[alpha] |= {"fixed": fixed - students[:, 1], "B": CHAPTER.fixed_matrix(X, Y)}
        found[alpha] |= {"m": Q.mean(1).abs(), "theta": (secret * Q).sum(1).abs() / 150}
    return found


def in_errors(values: Tensor) -> float:
    """Mean over the draws, in standard errors."""
    return (values.mean() / (values.std() / len(values) ** 0.5)).item()


@pytest.mark.slow
@pytest.mark.claim(86)
def test_the_training_losses_cross_and_the_best_fit_jumps(branches) -> None:
    assert in_errors(branches[0.8]["gap"]) < -2
    assert in_errors(branches[2.0]["gap"]) > 2
    for one in branches.values():  # nobody is in between
        assert one["m"][:, 0].min() > 1.2 * one["m"][:, 1].max()
        assert one["theta"][:, 0].max() < one["theta"][:, 1].min()


@pytest.mark.slow
def test_new_pairs_have_another_order_and_four_numbers_are_hard_to_beat(branches) -> None:
    assert in_errors(branches[1.1]["positional"]) > 2  # semantic ahead on new pairs,
    assert in_errors(branches[1.1]["gap"]) < 2  # and not yet in training
    assert in_errors(branches[0.8]["fixed"]) < -2
    assert in_errors(branches[2.0]["fixed"]) > 2
    for one in branches.values():  # nobody asked for it: the best matrix is an attention map
        assert one["B"].min() > 0.3
        assert (one["B"].sum(-1) - 1).abs().max() < 0.03


@pytest.mark.slow
def test_the_descent_has_ended_and_without_momentum_it_would_not_have(branches) -> None:
    X, Y, start, _ = branches[1.1]["data"]
    gap = {}
    for steps, momentum in ((1200, 0.9), (700, 0.0)):
        loss = CHAPTER.descend(X, Y, start, steps=steps, momentum=momentum)[1]
        gap[momentum] = (loss[:, 0] - loss[:, 1]).mean().item()
    here = branches[1.1]["gap"].mean().item()
    assert abs(here - gap[0.9]) < 0.006 < abs(here - gap[0.0])


def test_the_target_and_the_student_are_those_of_the_formulas() -> None:
    generator = torch.Generator().manual_seed(0)
    secret = torch.randn(2, 6, 1, generator=generator)
    X, Y = CHAPTER.two_teachers(3, secret, generator)
    arrow = torch.stack([torch.ones(6), -torch.ones(6)]) / math.sqrt(6)
    Z = X[1, 2] - arrow
    content = (Z @ secret[1] @ (Z @ secret[1]).T / 6).softmax(-1)
    torch.testing.assert_close(Y[1, 2], (0.3 * CHAPTER.A + 0.7 * content) @ Z)
    Q = torch.randn(2, 6, 2, generator=generator)
    q = X[1, 2] @ Q[1, :, 1:]
    torch.testing.assert_close(CHAPTER.student_map(X, Q)[1, 1, 2], (q @ q.T / 6).softmax(-1))


# -- counting with one unit --------------------------------------------------------------------


def test_one_unit_counts_from_some_starts_and_under_a_softmax_from_none() -> None:
    card = pretrained.card("histogram-counting")
    assert len(card["one_unit"]) == STARTS
    assert max(card["one_unit"]) > 0.95
    assert min(card["one_unit"]) < 0.9  # and not from all
    always_one = (histogram(50_000)[1] == 1).float().mean().item()
    units = card["grid"]["d_hidden"]
    under_softmax = [row[units.index(1)] for row in card["grid"]["accuracy"]["dot + softmax"]]
    assert max(under_softmax) == pytest.approx(always_one, abs=0.01)  # four widths


@pytest.mark.slow
def test_the_border_at_one_unit_per_symbol_is_not_sharp() -> None:
    """Twelve units for fifteen symbols, behind a softmax; with four it hardly counts."""
    size = {"mixer": "dot + softmax", "d_model": 32, "d_hidden": 12}
    twelve = accuracy(trained(size, SEED, QUICK)[0], *rows(5000))
    grid = pretrained.card("histogram-counting")["grid"]
    four, sixteen = grid["accuracy"]["dot + softmax"][3][1:3]
    assert four + 0.1 < twelve < sixteen


def test_the_free_model_that_was_trained_longer_still_does_not_look_at_itself() -> None:
    facts = map_facts(pretrained.load("histogram-free"), rows()[0])
    assert facts["diagonal"] < 0.05 < facts["other"] < facts["same"] / 3


# -- is the map what the model counts with? ----------------------------------------------------


def share(model: HistogramModel, test, **cut) -> float:
    ids, truth = rows()
    answers, _, possible = CHAPTER.cut_places(model, ids, **cut)
    here = possible & (truth > 1)
    return test(answers, truth)[here].float().mean().item()


def test_with_another_rows_map_the_semantic_model_cannot_count_and_the_positional_does() -> None:
    ids, truth = rows()
    always_one = (truth == 1).float().mean()
    right = {}
    for name in ("semantic", "positional"):
        model = pretrained.load(f"histogram-{name}")
        assert accuracy(model, ids, truth) > 0.99  # with the map of its own row
        right[name] = (CHAPTER.swap_maps(model, ids) == truth).float().mean()
    assert right["semantic"] < always_one + 0.1
    assert right["positional"] > 0.99


def test_both_minima_read_the_share_of_the_weight_so_cutting_cannot_tell_them_apart() -> None:
    for name in ("semantic", "positional"):
        model = pretrained.load(f"histogram-{name}")
        assert share(model, torch.lt, mine=True) > 0.9
        assert share(model, torch.gt, mine=False, k=5) > 0.95


@pytest.mark.claim(32)
def test_the_gradient_finds_the_places_once_it_is_multiplied_by_the_token_vector() -> None:
    ids, truth = rows(150)

    def of_truth(p: Tensor, s: int) -> Tensor:
        return p.gather(-1, truth[:, s, None])[:, 0]

    def found(model: HistogramModel, whole: bool) -> float:
        return CHAPTER.finds(CHAPTER.slopes(model, ids, of_truth, whole).abs(), ids)

    positional = pretrained.load("histogram-positional")
    assert found(positional, whole=False) > 0.95
    assert found(positional, whole=True) < 0.8  # with the position vector in the product
    assert found(pretrained.load("histogram-semantic"), whole=False) > 0.95
    torch.manual_seed(1)
    assert abs(found(HistogramModel(sees="positional"), whole=False) - 0.5) < 0.1


def test_training_made_the_scores_nearly_symmetric_and_not_only_by_a_large_diagonal() -> None:
    ten = torch.arange(10)[None]
    for name in ("semantic", "positional"):
        torch.manual_seed(1)
        asymmetry = []
        for model in (pretrained.load(f"histogram-{name}"), HistogramModel(sees=name)):
            x = (model.embed(ten) * model.qk_mask)[0].detach()
            asymmetry.append(CHAPTER.asymmetry(model.W_Q, model.W_K, x))
            scores = ((x @ model.W_Q) @ (x @ model.W_K).T).detach().fill_diagonal_(0)
            asymmetry.append(((scores - scores.T).norm() / scores.norm()).item())
        assert max(asymmetry[:2]) < 0.6 < 1 < min(asymmetry[2:])


def test_the_semantic_model_counts_with_its_map() -> None:
    model = pretrained.load("histogram-semantic")
    assert accuracy(model, *rows()) > 0.99
    assert share(model, lambda a, t: a == t - 1, mine=True) > 0.95
    assert share(model, torch.eq, mine=False) > 0.95  # the control: another symbol
    assert share(model, torch.gt, mine=False, k=5) > 0.95  # the same weight, the other way
    _, lost, possible = CHAPTER.cut_places(model, rows()[0], mine=False, k=5)
    _, on_mine, _ = CHAPTER.cut_places(model, rows()[0], mine=True)
    here = possible & (rows()[1] > 1)
    assert lost[here].mean() == pytest.approx(on_mine[here].mean().item(), rel=0.1)


def test_a_flat_map_does_not_mean_that_nothing_is_used() -> None:
    model = pretrained.load("histogram-positional")
    assert share(model, lambda a, t: a == t - 1, mine=True) > 0.85
    assert share(model, torch.eq, mine=False) > 0.6
    ids = rows()[0]
    _, mine, possible = CHAPTER.cut_places(model, ids, mine=True)
    _, other, _ = CHAPTER.cut_places(model, ids, mine=False)
    assert mine[possible].mean() == pytest.approx(other[possible].mean().item(), rel=0.02)
