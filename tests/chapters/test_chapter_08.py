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
    *("symbol_ids", "count_by_comparing", "count_by_positions", "right", "map_of", "pairs_of"),
    *("weights_on", "answers", "delete", "with_count", "Counter", "with_weights_of"),
)
VALLEYS = definitions(
    "more/08_valleys",
    *("two_teachers", "student_map", "products", "loss_of", "descend", "fixed_matrix", "error"),
    *("student_errors",),
)
NAMES = ("semantic", "positional")
D = 150


def sequences(n: int = 1000, seed: int = 8) -> tuple[Tensor, Tensor]:
    """Other sequences than the chapter's, and their counts."""
    ids = torch.randint(15, (n, 10), generator=torch.Generator().manual_seed(seed))
    return ids, histogram_labels(ids)


def model(name: str) -> HistogramModel:
    loaded = pretrained.load(f"histogram-{name}")
    assert isinstance(loaded, HistogramModel)
    return loaded


def seeds(name: str) -> list[dict[str, float]]:
    """What the card says of the eight short trainings."""
    return pretrained.card(f"histogram-{name}")["starts"]


# -- by hand -----------------------------------------------------------------------------------


def splits(n: int, most: int) -> Iterator[list[int]]:
    """All ways to split n positions into counts, largest first."""
    if n == 0:
        yield []
    for first in range(min(n, most), 0, -1):
        yield from ([first, *rest] for rest in splits(n - first, first))


def test_both_counters_by_hand_are_right_on_every_pattern() -> None:
    """Other orders and other symbols change neither counter, so that is every sequence there is."""
    in_order = [torch.arange(len(c)).repeat_interleave(torch.tensor(c)) for c in splits(10, 10)]
    patterns = torch.stack(in_order)
    assert len(patterns) == 42
    for ids in (patterns, sequences()[0]):
        truth = histogram_labels(ids)
        assert torch.equal(CHAPTER.count_by_comparing(ids), truth)
        for a in (0.55, 0.95):
            assert torch.equal(CHAPTER.count_by_positions(a, ids), truth)
        assert not torch.equal(CHAPTER.count_by_positions(0.25, ids), truth)  # the control
    truth = histogram_labels(patterns)
    assert not torch.equal(CHAPTER.count_by_positions(0.42, patterns), truth)


def test_uniform_weights_give_one_answer_for_a_whole_sequence() -> None:
    ids = sequences(20)[0]
    for name in (*NAMES, "free"):
        answered = CHAPTER.answers(model(name), ids, torch.full((10, 10), 0.1))
        torch.testing.assert_close(answered, answered[:, :1].expand_as(answered))


# -- trained -----------------------------------------------------------------------------------


def test_the_counter_on_the_page_is_the_library_s_model() -> None:
    ids = sequences(50)[0]
    for name in NAMES:
        trained = model(name)
        ours = CHAPTER.with_weights_of(trained)
        torch.testing.assert_close(ours(ids), trained(ids), atol=1e-3, rtol=1e-4)
        ours.seen = 1 - ours.seen  # the other half: another model
        assert not torch.allclose(ours(ids), trained(ids), atol=1e-3, rtol=1e-4)


@pytest.mark.claim(32)
def test_both_models_count_new_sequences_and_neither_answers_more_than_six() -> None:
    ids, truth = sequences(3000)
    always_one = (truth == 1).float().mean()
    (own, same, other), (diagonal, elsewhere, foreign) = (
        CHAPTER.weights_on(model(name), ids) for name in NAMES
    )
    assert own == pytest.approx(same, abs=1e-6)
    assert same > 4 * other
    assert diagonal > 4 * elsewhere
    assert elsewhere == pytest.approx(foreign, rel=0.02)
    for name in NAMES:
        assert CHAPTER.right(model(name)(ids), truth) > 0.999
        torch.manual_seed(1)
        untrained = HistogramModel(sees=name)
        assert CHAPTER.right(untrained(ids), truth) < always_one + 0.05
        own, same, other = CHAPTER.weights_on(untrained, ids)
        assert max(own, same) < 2 * other  # of the form there was nothing yet
        assert len(seeds(name)) == 8
        assert min(short["accuracy"] for short in seeds(name)) > 0.95
    for short in seeds("semantic"):
        assert short["oneself"] == pytest.approx(short["same"], abs=1e-4)
        assert short["same"] > 4 * short["other"]
    for short in seeds("positional"):
        assert short["oneself"] > 4 * short["same"]
        assert short["moves"] == 0
    for n in range(1, 11):
        ids, where = CHAPTER.with_count(n, 500)
        assert (where.sum(-1) == n).all()
        assert torch.equal(
            CHAPTER.count_by_positions(0.55, ids)[where], histogram_labels(ids)[where]
        )
        for name in NAMES:
            said = model(name)(ids).argmax(-1)[where]
            if n < 6:
                assert (said == n).float().mean() > 0.99
            else:
                assert set(said.tolist()) <= {5, 6}
                assert (said == 5).float().mean() > 0.7


@pytest.mark.claim(32)
def test_the_positional_map_is_one_for_all_and_the_semantic_follows_the_count() -> None:
    ids, truth = sequences(3000)
    positional, semantic = (CHAPTER.map_of(model(name), ids) for name in reversed(NAMES))
    assert torch.equal(positional, positional[:1].expand_as(positional))
    mine = semantic.diagonal(dim1=1, dim2=2)
    by_count = [mine[truth == count].mean() for count in range(1, 6)]
    assert all(more > less for more, less in itertools.pairwise(by_count))


@pytest.mark.claim(32)
def test_both_answer_the_lecture_s_example_and_fail_at_other_spellings_and_at_sixes() -> None:
    example = CHAPTER.symbol_ids("DATAIAIAIA")
    letters = itertools.islice(itertools.permutations(range(15), 4), 3, None, 11)
    spellings = torch.tensor(list(letters))[:, example]
    ids, labels = histogram(50_000)
    ids, truth = ids[35_000:], labels[35_000:]
    six = truth == 6
    assert (labels[:35_000] == 6).any(-1).sum() == 4
    assert labels[:35_000].flatten().bincount(minlength=11)[5:].tolist() == [720, 24, 0, 0, 0, 0]
    wrong = {}
    for name in NAMES:
        assert model(name)(ids[six.any(-1)]).argmax(-1)[six[six.any(-1)]].tolist() == [5] * 12
        assert model(name)(example[None])[0].argmax(-1).tolist() == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]
        hit = (model(name)(spellings).argmax(-1) == histogram_labels(spellings)).all(-1)
        wrong[name] = 1 - hit.float().mean().item()
    assert wrong["semantic"] == pytest.approx(0.28, abs=0.02)
    assert wrong["positional"] == pytest.approx(0.12, abs=0.02)


def test_training_made_the_scores_nearly_symmetric_and_did_not_tie_them() -> None:
    ten = torch.arange(10)[None]

    def asymmetry(trained: HistogramModel) -> float:
        x = (trained.embed(ten) * trained.qk_mask)[0]
        S = (x @ trained.W_Q) @ (x @ trained.W_K).T
        return ((S - S.T).norm() / S.norm()).item()

    assert [asymmetry(model(name)) for name in NAMES] == pytest.approx([0.20, 0.11], abs=0.01)
    for name in NAMES:
        torch.manual_seed(1)
        assert asymmetry(HistogramModel(sees=name)) > 1


# -- is the map what the model counts with? ----------------------------------------------------


@pytest.mark.claim(32)
def test_the_semantic_model_counts_with_the_pattern_of_its_map() -> None:
    ids, truth = sequences(2000)
    always_one = (truth == 1).float().mean()
    again = truth > 1
    for seed in (4, 5):  # two renamings
        renamed = torch.randperm(15, generator=torch.Generator().manual_seed(seed))
        hits: dict[str, list[Tensor]] = {}
        for name in (*NAMES, "free"):
            own, matched_map = (CHAPTER.map_of(model(name), s) for s in (ids, renamed[ids]))
            donors = (matched_map, own.roll(1, 0))
            said = (CHAPTER.answers(model(name), ids, A).argmax(-1) for A in donors)
            hits[name] = [answered == truth for answered in said]
        matched, another = (hit.float() for hit in hits["semantic"])
        assert 0.945 < matched.mean() < 0.98  # the positive control, which is not free
        assert another.mean() < always_one + 0.05
        assert another[again].mean() < 0.1 < 0.9 < matched[again].mean()
        assert min(hit.float().mean() for hit in hits["positional"]) > 0.998
        matched, another = (hit.float().mean() for hit in hits["free"])
        assert another < 0.5 < 0.95 < matched
    for short in seeds("semantic"):
        assert short["another"] < 0.58 < 0.75 < short["pattern"]
        assert 0.04 < short["accuracy"] - short["pattern"] < 0.2
    for short in seeds("positional"):
        assert short["another"] == short["pattern"] > 0.99


def share(name: str, test: Callable[[Tensor, Tensor], Tensor], which: str, k: int = 1) -> float:
    ids, truth = sequences()
    said, possible = CHAPTER.delete(model(name), ids, which, k)
    return test(said, truth)[possible & (truth > 1)].float().mean().item()


def test_deletions_push_both_the_same_way_but_for_the_own_position() -> None:
    for name, other in (("semantic", 0.98), ("positional", 0.6)):
        assert share(name, torch.lt, "same") > 0.9
        assert share(name, torch.gt, "other", k=5) > 0.95
        assert share(name, torch.eq, "other") > other  # the control: one position, another symbol
    assert share("semantic", lambda said, truth: said == truth - 1, "oneself") > 0.99
    assert share("positional", lambda said, truth: said == 1, "oneself") > 0.95
    assert share("positional", lambda said, truth: said == truth - 1, "oneself") < 0.8
    assert share("free", torch.eq, "oneself") > 0.95  # a third map: nothing was there


# -- left free ---------------------------------------------------------------------------------


def test_free_models_pass_over_themselves_and_answer_the_count_of_the_map() -> None:
    ids, truth = sequences(2000)
    own, same, _ = CHAPTER.weights_on(model("semantic"), ids)
    assert own == pytest.approx(same)  # the control, over the same positions
    assert len(seeds("free")) == 8
    own, same, other = CHAPTER.weights_on(model("free"), ids)
    longer = {"oneself": own, "same": same, "other": other}
    for trained in (*seeds("free"), longer):
        assert trained["oneself"] < trained["same"] / 5
        assert trained["oneself"] < 2 * trained["other"] < trained["same"] / 2
    assert own < min(short["oneself"] for short in seeds("free"))
    for short in seeds("free"):  # they compare: with another map they count no more
        assert short["another"] < 0.5 < 0.8 < short["pattern"]
    theirs = truth.roll(1, 0)
    differ = truth != theirs
    said = {}
    for name in (*NAMES, "free"):
        A = CHAPTER.map_of(model(name), ids).roll(1, 0)
        said[name] = CHAPTER.answers(model(name), ids, A).argmax(-1)
    assert (said["free"] == theirs)[differ].float().mean() > 0.83
    assert (said["positional"] == truth)[differ].float().mean() > 0.99
    assert (said["semantic"] == 1)[differ].float().mean() > 0.87
    both = differ & (truth > 1) & (theirs > 1)  # where 1 is neither count
    assert (said["semantic"] == theirs)[both].float().mean() < 0.2
    assert (said["free"] == theirs)[both].float().mean() > 0.5


def test_the_free_model_counts_the_others_and_adds_one() -> None:
    ids, truth = sequences(2000)
    for name, more in (("free", 0.85), ("semantic", 0.0)):
        A, (_, same, _) = CHAPTER.map_of(model(name), ids), CHAPTER.pairs_of(ids)
        partner = (A * same).sum(-1) / same.sum(-1).clamp(min=1)
        A = A.diagonal_scatter(partner, dim1=1, dim2=2)
        said = CHAPTER.answers(model(name), ids, A / A.sum(-1, keepdim=True)).argmax(-1)
        one_more = (said == truth + 1)[truth > 1].float().mean()
        assert one_more > more if more else one_more == 0  # the control: nothing has changed


# -- two valleys, the side road -----------------------------------------------------------------


def drawn(draws: int, pairs: int, seed: int) -> tuple[torch.Generator, Tensor, Tensor, Tensor]:
    """Other secrets than the chapter's, with their pairs X and targets Y."""
    generator = torch.Generator().manual_seed(seed)
    secret = torch.randn(draws, D, 1, generator=generator)
    return generator, secret, *VALLEYS.two_teachers(pairs, secret, generator)


def both_valleys(secret: Tensor) -> Tensor:
    """Where the two students begin, (draws, D, 2): position and content."""
    return torch.cat([torch.ones_like(secret) / math.sqrt(D), secret], -1)


def grown(
    draws: int, alphas: tuple[float, ...], seed: int, decay: float = 0.01
) -> dict[str, Tensor]:
    """Both students and the fixed matrix on nested data."""
    generator, secret, X, Y = drawn(draws, 2 * D, seed)
    new_X, new_Y = VALLEYS.two_teachers(400, secret, generator)
    facts_of: dict[str, list[Tensor]] = {}
    for n in (round(alpha * D) for alpha in alphas):
        Q, loss = VALLEYS.descend(X[:, :n], Y[:, :n], both_valleys(secret), decay=decay)
        these = VALLEYS.student_errors(Q, X[:, :n], Y[:, :n])
        penalty = decay / 2 * (Q * Q).sum(1)
        students = VALLEYS.student_errors(Q, new_X, new_Y)
        B = VALLEYS.fixed_matrix(X[:, :n], Y[:, :n])
        facts = {"gap": loss[:, 0] - loss[:, 1], "position": students[:, 0] - students[:, 1]}
        facts |= {"these": these[:, 0] - these[:, 1], "penalty": penalty[:, 0] - penalty[:, 1]}
        facts |= {"costs": penalty[:, 1] / loss[:, 1]}
        steady = VALLEYS.student_map(new_X, Q)[:, 0].mean(1, keepdim=True)  # one map for all
        facts["disturbed"] = students[:, 0] - VALLEYS.error(steady @ new_X, new_Y)
        facts |= {"fixed": VALLEYS.error(B[:, None] @ new_X, new_Y) - students[:, 1]}
        facts |= {"B": B}
        for name, value in facts.items():
            facts_of.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in facts_of.items()}


def off_zero(values: Tensor) -> float:
    """Mean over the draws, in halves of its 95 % interval."""
    return (values.mean() / (1.96 * values.std() / len(values) ** 0.5)).item()


@pytest.mark.slow
@pytest.mark.claim(86)
def test_a_draw_changes_sides_once_from_position_to_content() -> None:
    _, secret, X, Y = drawn(4, 2 * D, seed=7)
    content = []  # by number of pairs: whether the content valley is the deeper one
    for n in (D // 2, D, int(1.4 * D), 2 * D):
        Q, loss = VALLEYS.descend(X[:, :n], Y[:, :n], both_valleys(secret))
        content.append(loss[:, 1] < loss[:, 0])
        if D <= n < 2 * D:  # nobody in between: (draws, valleys)
            m, theta = Q.mean(1).abs(), (secret * Q).sum(1).abs() / D
            assert m[:, 0].min() > 1.2 * m[:, 1].max()
            assert theta[:, 0].max() < theta[:, 1].min()
    assert content[-1].all()
    turns = torch.stack(content).int().diff(dim=0).abs().sum(0)
    assert (turns == 1).float().mean() > 0.7  # 57 of 60 in longer runs


@pytest.mark.long
@pytest.mark.slow
def test_at_one_pair_a_dimension_only_the_penalty_speaks_for_position() -> None:
    grew = grown(20, (1.0, 2.0), seed=11)
    assert off_zero(grew["gap"][0]) < -1  # the position valley is deeper,
    assert off_zero(grew["penalty"][0]) < -1  # for its penalty is smaller:
    assert grew["costs"][0].mean() == pytest.approx(0.53, abs=0.04)
    assert (grew["these"][0] > 0).float().mean() > 0.9  # content errs less here,
    assert off_zero(grew["position"][0]) > 1  # and on new pairs,
    assert off_zero(grew["fixed"][0]) < -1  # where four numbers err least,
    assert off_zero(grew["fixed"][1]) > 1  # until there are more data
    assert off_zero(grew["disturbed"][0]) > 1  # what contents do to the position student
    assert grew["B"].min() > 0.3  # nobody asked for it: the best matrix is an attention map
    assert (grew["B"].sum(-1) - 1).abs().max() < 0.05
    tenth = grown(4, (1.0,), seed=11, decay=0.001)  # or until the penalty is a tenth
    assert all((tenth[name] > 0).all() for name in ("gap", "these", "position", "fixed"))


def test_hardly_another_start_has_a_lower_loss_than_both() -> None:
    generator, secret, X, Y = drawn(4, int(1.3 * D), seed=5)
    between = (torch.ones_like(secret) + secret) / 2
    others = [between, *torch.randn(2, *secret.shape, generator=generator)]
    Q = torch.cat([both_valleys(secret), *others], -1)
    loss = VALLEYS.descend(X, Y, Q)[1]
    better = loss[:, 2:] < loss[:, :2].amin(1, keepdim=True) - 0.001
    assert better.float().mean() < 0.1


@pytest.mark.long
def test_the_descent_has_nearly_ended_and_without_momentum_it_would_not_have() -> None:
    _, secret, X, Y = drawn(3, D, seed=3)
    gap, start = {}, both_valleys(secret)
    for steps, momentum in ((300, 0.9), (900, 0.9), (300, 0.0)):
        loss = VALLEYS.descend(X, Y, start, steps=steps, momentum=momentum)[1]
        gap[steps, momentum] = loss[:, 0] - loss[:, 1]
    longer, plain = (gap[setting] - gap[300, 0.9] for setting in ((900, 0.9), (300, 0.0)))
    assert longer.abs().mean() < 0.008 < 0.02 < plain.abs().mean()


def test_the_target_and_the_student_are_those_of_the_formulas() -> None:
    generator = torch.Generator().manual_seed(0)
    secret = torch.randn(2, 6, 1, generator=generator)
    X, Y = VALLEYS.two_teachers(3, secret, generator)
    arrow = torch.stack([torch.ones(6), -torch.ones(6)]) / math.sqrt(6)
    Z = X[1, 2] - arrow
    content = (Z @ secret[1] @ (Z @ secret[1]).T / 6).softmax(-1)
    position = torch.tensor([[0.6, 0.4], [0.4, 0.6]])
    torch.testing.assert_close(Y[1, 2], (0.3 * position + 0.7 * content) @ Z)
    Q = torch.randn(2, 6, 2, generator=generator)
    q = X[1, 2] @ Q[1, :, 1:]
    torch.testing.assert_close(VALLEYS.student_map(X, Q)[1, 1, 2], (q @ q.T / 6).softmax(-1))


# -- the exercise --------------------------------------------------------------------------------


def test_the_numbers_of_task_8_6_are_the_chapter_s() -> None:
    ids, _ = histogram(50_000)
    sample = ids[int(0.7 * len(ids)) :][:2000]
    path = Path(__file__).parents[2] / "solutions/08_histogram_task/08_histogram_task.ipynb"
    cells = {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}
    table = re.findall(r"^\| (\w+)(?:, seed (\d))? \| (.*) \|$", cells["explain-free-task"], re.M)
    assert len(table) == 6
    for name, seed, row in table:
        numbers = [None if text == "?" else float(text) for text in row.split(" | ")]
        accuracy, *weights = numbers
        card = seeds(name)[int(seed)] if seed else pretrained.card(f"histogram-{name}")
        measured = [card[pair] for pair in ("oneself", "same", "other")] if seed else None
        assert accuracy == pytest.approx(card["accuracy"], abs=6e-5)
        measured = measured or CHAPTER.weights_on(model(name), sample)
        shown = [pair for pair in zip(weights, measured, strict=True) if pair[0] is not None]
        assert shown, "a row of questions only"
        assert [printed for printed, _ in shown] == pytest.approx([m for _, m in shown], abs=6e-4)
    semantic = model("semantic")
    everywhere = semantic.attend(semantic.embed(sample))[1].diagonal(dim1=1, dim2=2).mean()
    assert f"{everywhere:.2f}" == "0.31"
    assert '"oneself" is 0.31' in cells["explain-free-task"]
