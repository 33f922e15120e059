"""What chapter 08 concludes, with the controls that could have refuted it."""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
import torch
from chapter_code import definitions
from torch import Tensor

from attnlib import pretrained
from attnlib.data import histogram, histogram_labels
from attnlib.models import HistogramModel

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "08_histogram_task",
    *("symbol_ids", "count_by_comparing", "count_by_places", "right", "weights_on", "answers"),
    *("cut_places", "two_teachers", "student_map", "descend", "fixed_matrix", "error"),
    *("student_errors",),
)
KINDS = ("semantic", "positional")
D = 150


def student_errors(Q: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    """Errors of both students, the penalty left out: (draws, 2)."""
    error: Tensor = CHAPTER.error(CHAPTER.student_map(X, Q) @ X[:, None], Y[:, None])
    return error


def rows(n: int = 1000, seed: int = 8) -> tuple[Tensor, Tensor]:
    """Other rows than the chapter's."""
    ids = torch.randint(15, (n, 10), generator=torch.Generator().manual_seed(seed))
    return ids, histogram_labels(ids)


def model(kind: str) -> HistogramModel:
    found = pretrained.load(f"histogram-{kind}")
    assert isinstance(found, HistogramModel)
    return found


def starts(kind: str) -> list[dict[str, float]]:
    return pretrained.card(f"histogram-{kind}")["starts"]


# -- by hand -----------------------------------------------------------------------------------


def splits(n: int, most: int) -> Iterator[list[int]]:
    """All ways to split n places into counts, largest first."""
    if n == 0:
        yield []
    for first in range(min(n, most), 0, -1):
        yield from ([first, *rest] for rest in splits(n - first, first))


def test_both_counters_by_hand_are_right_on_every_pattern() -> None:
    """Other orders and other symbols change neither counter, so that is every row there is."""
    found = [torch.arange(len(c)).repeat_interleave(torch.tensor(c)) for c in splits(10, 10)]
    patterns = torch.stack(found)
    assert len(patterns) == 42
    for ids in (patterns, rows()[0]):
        truth = histogram_labels(ids)
        assert torch.equal(CHAPTER.count_by_comparing(ids), truth)
        for a in (0.55, 0.95):
            assert torch.equal(CHAPTER.count_by_places(a, ids), truth)
        assert not torch.equal(CHAPTER.count_by_places(0.25, ids), truth)  # the control
    assert not torch.equal(CHAPTER.count_by_places(0.42, patterns), histogram_labels(patterns))


def test_an_even_map_gives_one_answer_for_a_whole_row() -> None:
    ids = rows(20)[0]
    for kind in (*KINDS, "free"):
        answered = CHAPTER.answers(model(kind), ids, torch.full((10, 10), 0.1))
        torch.testing.assert_close(answered, answered[:, :1].expand_as(answered))


# -- trained -----------------------------------------------------------------------------------


@pytest.mark.claim(32)
def test_both_kinds_count_new_rows_with_maps_that_have_nothing_in_common() -> None:
    ids, truth = rows(10_000)
    always_one = (truth == 1).float().mean()
    (own, same, other), (diagonal, elsewhere, foreign) = (
        CHAPTER.weights_on(model(kind), ids) for kind in KINDS
    )
    assert own == pytest.approx(same, abs=1e-6)
    assert same > 4 * other
    assert diagonal > 4 * elsewhere
    assert elsewhere == pytest.approx(foreign, rel=0.02)
    for kind in KINDS:
        assert CHAPTER.right(model(kind)(ids), truth) > 0.999
        torch.manual_seed(1)
        untrained = HistogramModel(sees=kind)
        assert CHAPTER.right(untrained(ids), truth) < always_one + 0.05
        own, same, other = CHAPTER.weights_on(untrained, ids)
        assert max(own, same) < 2 * other  # of the form there was nothing yet
        assert len(starts(kind)) == 8
        assert min(one["accuracy"] for one in starts(kind)) > 0.95
    for one in starts("semantic"):
        assert one["oneself"] == pytest.approx(one["same"], abs=1e-4)
        assert one["same"] > 4 * one["other"]
    for one in starts("positional"):
        assert one["oneself"] > 4 * one["same"]
        assert one["moves"] == 0


@pytest.mark.claim(32)
def test_the_positional_map_is_one_for_all_rows_and_the_semantic_follows_the_count() -> None:
    ids, truth = rows(3000)
    positional, semantic = (model(kind) for kind in reversed(KINDS))
    A = positional.attend(positional.embed(ids))[1]
    assert torch.equal(A, A[:1].expand_as(A))
    A = semantic.attend(semantic.embed(ids))[1]
    mine = A.diagonal(dim1=1, dim2=2)
    by_count = [mine[truth == count].mean() for count in range(1, 6)]
    assert all(more > less for more, less in itertools.pairwise(by_count))


@pytest.mark.claim(32)
def test_both_answer_the_lecture_s_example_and_fail_at_other_spellings_and_at_sixes() -> None:
    example = CHAPTER.symbol_ids("DATAIAIAIA")
    spellings = torch.tensor(list(itertools.permutations(range(15), 4)))[3::11, example]
    ids, truth = (part[35_000:] for part in histogram(50_000))
    six = truth == 6
    assert (histogram(50_000)[1][:35_000] == 6).any(-1).sum() == 4
    wrong = {}
    for kind in KINDS:
        assert model(kind)(ids[six.any(-1)]).argmax(-1)[six[six.any(-1)]].tolist() == [5] * 12
        assert model(kind)(example[None])[0].argmax(-1).tolist() == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]
        hit = (model(kind)(spellings).argmax(-1) == histogram_labels(spellings)).all(-1)
        wrong[kind] = 1 - hit.float().mean().item()
    assert wrong["semantic"] == pytest.approx(0.28, abs=0.02)
    assert wrong["positional"] == pytest.approx(0.12, abs=0.02)


def test_training_made_the_scores_nearly_symmetric_and_did_not_tie_them() -> None:
    ten = torch.arange(10)[None]

    def asymmetry(one: HistogramModel) -> float:
        x = (one.embed(ten) * one.qk_mask)[0]
        S = (x @ one.W_Q) @ (x @ one.W_K).T
        return ((S - S.T).norm() / S.norm()).item()

    assert [asymmetry(model(kind)) for kind in KINDS] == pytest.approx([0.20, 0.11], abs=0.01)
    for kind in KINDS:
        torch.manual_seed(1)
        assert asymmetry(HistogramModel(sees=kind)) > 1


# -- is the map what the model counts with? ----------------------------------------------------


@pytest.mark.claim(32)
def test_the_semantic_model_counts_with_the_pattern_of_its_map() -> None:
    ids, truth = rows(2000)
    always_one = (truth == 1).float().mean()
    again = truth > 1
    for seed in range(4, 8):  # four renamings
        anew = torch.randperm(15, generator=torch.Generator().manual_seed(seed))
        found: dict[str, list[Tensor]] = {}
        for kind in (*KINDS, "free"):
            own, alike = (model(kind).attend(model(kind).embed(r))[1] for r in (ids, anew[ids]))
            given = (CHAPTER.answers(model(kind), ids, A) for A in (alike, own.roll(1, 0)))
            found[kind] = [logits.argmax(-1) == truth for logits in given]
        matched, another = (hit.float() for hit in found["semantic"])
        assert 0.945 < matched.mean() < 0.98  # the positive control, which is not free
        assert another.mean() < always_one + 0.05
        assert another[again].mean() < 0.1 < 0.9 < matched[again].mean()
        assert min(hit.float().mean() for hit in found["positional"]) > 0.998
        matched, another = (hit.float().mean() for hit in found["free"])
        assert another < 0.5 < 0.95 < matched
    for one in starts("semantic"):
        assert one["another"] < 0.58 < 0.75 < one["pattern"]
        assert 0.04 < one["accuracy"] - one["pattern"] < 0.2
    for one in starts("positional"):
        assert one["another"] == one["pattern"] > 0.99


def share(kind: str, test: Callable[[Tensor, Tensor], Tensor], where: str, k: int = 1) -> float:
    ids, truth = rows()
    answered, possible = CHAPTER.cut_places(model(kind), ids, where, k)
    return test(answered, truth)[possible & (truth > 1)].float().mean().item()


def test_two_cuts_push_both_the_same_way_and_cutting_oneself_does_not() -> None:
    for kind, other in (("semantic", 0.98), ("positional", 0.6)):
        assert share(kind, torch.lt, "mine") > 0.9
        assert share(kind, torch.gt, "other", k=5) > 0.95
        assert share(kind, torch.eq, "other") > other  # the control: one place, another symbol
    assert share("semantic", lambda said, truth: said == truth - 1, "oneself") > 0.99
    assert share("positional", lambda said, truth: said == 1, "oneself") > 0.95
    assert share("positional", lambda said, truth: said == truth - 1, "oneself") < 0.8
    assert share("free", torch.eq, "oneself") > 0.95  # a third kind of map: nothing was there


# -- what decides ------------------------------------------------------------------------------


def test_free_models_look_for_their_symbol_everywhere_but_at_home() -> None:
    own, same, _ = CHAPTER.weights_on(model("semantic"), rows()[0])
    assert own == pytest.approx(same)  # the control, over the same places
    assert len(starts("free")) == 8
    own, same, other = CHAPTER.weights_on(model("free"), rows()[0])
    longer = {"oneself": own, "same": same, "other": other}
    for one in (*starts("free"), longer):
        assert one["oneself"] < one["same"] / 5
        assert one["oneself"] < 2 * one["other"] < one["same"] / 2
    assert own < min(one["oneself"] for one in starts("free"))
    for one in starts("free"):  # they compare: with another row's map they count no more
        assert one["another"] < 0.5 < 0.8 < one["pattern"]


def grown(
    draws: int, alphas: tuple[float, ...], seed: int, decay: float = 0.01
) -> dict[str, Tensor]:
    """Both students and the fixed matrix on nested data, other draws than the chapter's."""
    generator = torch.Generator().manual_seed(seed)
    secret = torch.randn(draws, D, 1, generator=generator)
    X, Y = CHAPTER.two_teachers(2 * D, secret, generator)
    start = torch.cat([torch.ones_like(secret) / math.sqrt(D), secret], -1)
    new_X, new_Y = CHAPTER.two_teachers(400, secret, generator)
    found: dict[str, list[Tensor]] = {}
    for n in (round(alpha * D) for alpha in alphas):
        Q, loss = CHAPTER.descend(X[:, :n], Y[:, :n], start, decay=decay)
        these = student_errors(Q, X[:, :n], Y[:, :n])
        penalty = decay / 2 * (Q * Q).sum(1)
        students = student_errors(Q, new_X, new_Y)
        B = CHAPTER.fixed_matrix(X[:, :n], Y[:, :n])
        facts = {"gap": loss[:, 0] - loss[:, 1], "place": students[:, 0] - students[:, 1]}
        facts |= {"these": these[:, 0] - these[:, 1], "penalty": penalty[:, 0] - penalty[:, 1]}
        facts |= {"costs": penalty[:, 1] / loss[:, 1]}
        steady = CHAPTER.student_map(new_X, Q)[:, 0].mean(1, keepdim=True)  # one map for all
        facts["disturbed"] = students[:, 0] - CHAPTER.error(steady @ new_X, new_Y)
        facts |= {"fixed": CHAPTER.error(B[:, None] @ new_X, new_Y) - students[:, 1]}
        facts |= {"m": Q.mean(1).abs(), "theta": (secret * Q).sum(1).abs() / D, "B": B}
        for name, value in facts.items():
            found.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in found.items()}


def off_zero(values: Tensor) -> float:
    """Mean over the draws, in halves of its 95 % interval."""
    return (values.mean() / (1.96 * values.std() / len(values) ** 0.5)).item()


@pytest.mark.slow
@pytest.mark.claim(86)
def test_a_draw_changes_sides_once_from_place_to_content() -> None:
    found = grown(6, (0.5, 1.0, 1.2, 1.4, 2.0), seed=7)
    content = found["gap"] > 0  # (alphas, draws)
    assert content[-1].all()
    turns = content.int().diff(dim=0).abs().sum(0)
    assert (turns == 1).float().mean() > 0.7  # 57 of 60 in longer runs
    m, theta = found["m"][1:4], found["theta"][1:4]  # (alphas, draws, valleys): nobody in between
    assert (m[..., 0].amin(1) > 1.2 * m[..., 1].amax(1)).all()
    assert (theta[..., 0].amax(1) < theta[..., 1].amin(1)).all()


@pytest.mark.long
@pytest.mark.slow
def test_at_one_pair_a_dimension_only_the_penalty_speaks_for_place() -> None:
    found = grown(20, (1.0, 2.0), seed=11)
    assert off_zero(found["gap"][0]) < -1  # place has the lower loss,
    assert off_zero(found["penalty"][0]) < -1  # for its penalty is smaller:
    assert found["costs"][0].mean() == pytest.approx(0.53, abs=0.04)
    assert (found["these"][0] > 0).float().mean() > 0.9  # content errs less here,
    assert off_zero(found["place"][0]) > 1  # and on new pairs,
    assert off_zero(found["fixed"][0]) < -1  # where four numbers err least,
    assert off_zero(found["fixed"][1]) > 1  # until there are more data
    assert off_zero(found["disturbed"][0]) > 1  # what contents do to the place student
    assert found["B"].min() > 0.3  # nobody asked for it: the best matrix is an attention map
    assert (found["B"].sum(-1) - 1).abs().max() < 0.05
    tenth = grown(4, (1.0,), seed=11, decay=0.001)  # or until the penalty is a tenth
    assert all((tenth[name] > 0).all() for name in ("gap", "these", "place", "fixed"))


def test_hardly_another_start_has_a_lower_loss_than_both() -> None:
    generator = torch.Generator().manual_seed(5)
    secret = torch.randn(6, D, 1, generator=generator)
    X, Y = CHAPTER.two_teachers(int(1.3 * D), secret, generator)
    place = torch.ones_like(secret)
    others = [(place + secret) / 2, *torch.randn(2, 6, D, 1, generator=generator)]
    Q = torch.cat([place / math.sqrt(D), secret, *others], -1)
    loss = CHAPTER.descend(X, Y, Q)[1]
    better = loss[:, 2:] < loss[:, :2].amin(1, keepdim=True) - 0.001
    assert better.float().mean() < 0.1


@pytest.mark.long
def test_the_descent_has_nearly_ended_and_without_momentum_it_would_not_have() -> None:
    generator = torch.Generator().manual_seed(3)
    secret = torch.randn(3, D, 1, generator=generator)
    X, Y = CHAPTER.two_teachers(D, secret, generator)
    start = torch.cat([torch.ones_like(secret) / math.sqrt(D), secret], -1)
    gap = {}
    for steps, momentum in ((300, 0.9), (900, 0.9), (300, 0.0)):
        loss = CHAPTER.descend(X, Y, start, steps=steps, momentum=momentum)[1]
        gap[steps, momentum] = loss[:, 0] - loss[:, 1]
    longer, plain = (gap[one] - gap[300, 0.9] for one in ((900, 0.9), (300, 0.0)))
    assert longer.abs().mean() < 0.008 < 0.02 < plain.abs().mean()


def test_the_target_and_the_student_are_those_of_the_formulas() -> None:
    generator = torch.Generator().manual_seed(0)
    secret = torch.randn(2, 6, 1, generator=generator)
    X, Y = CHAPTER.two_teachers(3, secret, generator)
    arrow = torch.stack([torch.ones(6), -torch.ones(6)]) / math.sqrt(6)
    Z = X[1, 2] - arrow
    content = (Z @ secret[1] @ (Z @ secret[1]).T / 6).softmax(-1)
    place = torch.tensor([[0.6, 0.4], [0.4, 0.6]])
    torch.testing.assert_close(Y[1, 2], (0.3 * place + 0.7 * content) @ Z)
    Q = torch.randn(2, 6, 2, generator=generator)
    q = X[1, 2] @ Q[1, :, 1:]
    torch.testing.assert_close(CHAPTER.student_map(X, Q)[1, 1, 2], (q @ q.T / 6).softmax(-1))


# -- the exercise --------------------------------------------------------------------------------


def test_the_numbers_of_task_8_6_are_the_chapter_s() -> None:
    ids, _ = histogram(50_000)
    sample = ids[int(0.7 * len(ids)) :][:2000]
    path = Path(__file__).parents[2] / "solutions/08_histogram_task/08_histogram_task.ipynb"
    cells = {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}
    table = re.findall(r"^\| (\w+)(?:, seed (\d))? \| (.*) \|$", cells["explain-free-task"], re.M)
    assert len(table) == 6
    for kind, seed, cells_of in table:
        numbers = [None if text == "?" else float(text) for text in cells_of.split(" | ")]
        accuracy, *weights = numbers
        one = starts(kind)[int(seed)] if seed else pretrained.card(f"histogram-{kind}")
        expected = [one[name] for name in ("oneself", "same", "other")] if seed else None
        assert accuracy == pytest.approx(one["accuracy"], abs=6e-5)
        expected = expected or CHAPTER.weights_on(model(kind), sample)
        shown = [
            (told, true) for told, true in zip(weights, expected, strict=True) if told is not None
        ]
        assert shown, "a row of questions only"
        assert [told for told, _ in shown] == pytest.approx([true for _, true in shown], abs=6e-4)
    semantic = model("semantic")
    everywhere = semantic.attend(semantic.embed(sample))[1].diagonal(dim1=1, dim2=2).mean()
    assert f"{everywhere:.2f}" == "0.31"
    assert '"oneself" is 0.31' in cells["explain-free-task"]
