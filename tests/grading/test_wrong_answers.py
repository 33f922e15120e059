"""The graders are graded: every wrong answer of the bank is rejected, every right one paid."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bank import ROOT, answered, banks, solutions, solved, write_hidden
from cells import run
from each import each

from attnlib import check as checking
from attnlib.check.comparison import difference
from attnlib.check.means import reached, refused
from attnlib.check.protocol import Case, to_json
from grading import judge
from grading.answers import Answers, answers
from grading.judge import Verdict, case, copied, draw, verdict
from grading.scan import scan
from grading.task import Args, Task
from grading.tasks import EXERCISES, exercise

SEEDS = ["course", pytest.param("an instructor's own", marks=pytest.mark.long)]
TASKS = [(name, task) for name in EXERCISES for task in exercise(name)]
FEWEST_WRONG, RIGHT = 5, 2


Outputs = dict[str, list[dict[str, Any]]]


def shown(sources: dict[str, str], path: Path) -> Outputs:
    """The outputs of the check cells of a submission with these answers to hidden inputs."""
    return {task: answered(task, source, path) for task, source in sources.items()}


def report(name: str, outputs: Outputs, seed: str) -> dict[str, Verdict]:
    """The verdicts on a whole exercise."""
    return {task: verdict(name, task, outputs[task], seed) for task in exercise(name)}


def without_mistakes(task: Task, args: Args) -> Case:
    """As `judge.case`, in a fraction of its time."""
    return Case(copied(args), copied(task.reference(*copied(args))))


def told_wrong(one: dict[str, Verdict], task: str, fragment: str) -> str:
    """What a wrong answer does that it should not do; empty if it is rejected as it should be."""
    costs = [other for other, found in one.items() if other != task and not found.right]
    if costs:
        return f"it costs the points of {costs}"
    if one[task].right:
        return "it is accepted"
    if fragment not in one[task].reason.lower():
        return f"it is told {one[task].reason!r}, not {fragment!r}"
    return ""


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", banks())
def test_the_bank(
    name: str, seed: str, tmp_path: Path, record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the course's own seed each is told its mistake; under another one it is rejected."""
    if seed != SEEDS[0]:
        monkeypatch.setattr(judge, "case", without_mistakes)
    path = write_hidden(name, seed, tmp_path)
    right = report(name, shown(solved(name), path), seed)
    assert [one.reason for one in right.values() if not one.right] == [], "the solution"

    def found(task: str, source: str) -> dict[str, Verdict]:
        """The report on a submission with this answer, the others being right."""
        one = verdict(name, task, shown({task: source}, path)[task], seed)
        used = refused(reached(source), exercise(name)[task].forbidden)
        return right | {task: Verdict(False, used) if one.right and used else one}

    bad, tally = judged(answers(name), found, named=seed == SEEDS[0])
    if seed == SEEDS[0]:
        record_property("bank", tally)
    assert not bad, "\n\n".join(bad)


def judged(
    asked: dict[str, Answers], found: Callable[[str, str], dict[str, Verdict]], named: bool
) -> tuple[list[str], list[int]]:
    """What is wrong with the verdicts on a bank, and its tally."""
    bad: list[str] = []
    tally = [0, 0, 0, 0]
    for task, one in ((t, one) for t, ones in asked.items() for one in ones.wrong):
        problem = told_wrong(found(task, one.source), task, one.fragment if named else "")
        tally[0], tally[1] = tally[0] + 1, tally[1] + (not problem)
        bad += [f"{task}, a wrong answer: {problem}\n{one.source}"] if problem else []
    for task, source in ((t, one) for t, ones in asked.items() for one in ones.right):
        told = found(task, source)
        problems: list[Any] = [(t, v.reason) for t, v in told.items() if v.reason]
        problems += scan([source])
        tally[2], tally[3] = tally[2] + 1, tally[3] + (not problems)
        bad += [f"{task}, a right answer: {problems}\n{source}"] if problems else []
    return bad, tally


@pytest.mark.long
@each("name", banks())
def test_the_visible_check_agrees_with_grading(name: str, monkeypatch: Any) -> None:
    """It passes every right answer, and no wrong one.

    Where many answers are right, it can only say what is taken away in grading, and that nothing
    came back.
    """
    monkeypatch.chdir(ROOT / "exercises" / name)
    monkeypatch.delenv("ATTNLIB_HIDDEN", raising=False)
    monkeypatch.setattr(checking, "note", lambda *told: None)
    for task, known in answers(name).items():
        for source in known.right:
            checking.check(task, run(source)[task])
        for one in known.wrong:
            nothing = one.source.endswith(": None")
            if exercise(name)[task].accepts is None or nothing or "would be" in one.fragment:
                with pytest.raises(checking.NotYet):
                    checking.check(task, run(one.source)[task])


@each("name", banks())
def test_the_bank_is_rich_enough(name: str) -> None:
    assert list(answers(name)) == list(exercise(name))
    for task, known in answers(name).items():
        assert len({one.source for one in known.wrong}) >= FEWEST_WRONG, task
        assert len(set(known.right)) >= RIGHT, task
        assert all(bool(one.mistake) != bool(one.told) for one in known.wrong), task
        named = [one.mistake for one in known.wrong if one.mistake]
        assert len(set(named)) == len(named), f"{task}: two records of one mistake"
        assert solved(name)[task] not in known.right, f"{task}: that is the solution"


def test_every_exercise_has_a_bank_and_a_solution() -> None:
    assert list(EXERCISES) == banks() == solutions()


@each("name, task", TASKS)
def test_a_task_is_well_made(name: str, task: str) -> None:
    one = exercise(name)[task]
    assert 2 <= len(one.visible) <= 6
    assert one.name.isidentifier()
    for sentence in one.mistakes:
        assert sentence == sentence.strip()
        assert not re.match("[A-Z][a-z]", sentence), "it follows a colon: begin with a small letter"
    for args in one.visible:
        assert to_json(copied(args)) == to_json(args)
    if one.accepts is None:
        told_apart(one)
    else:
        for args in one.visible:
            assert one.accepts(copied(args), copied(one.reference(*copied(args)))) is None


def told_apart(task: Task) -> None:
    """Every mistake differs from what is right in a visible case, and the cases from another."""
    cases = [case(task, args) for args in task.visible]
    for sentence in task.mistakes:
        assert any(sentence in one.mistakes for one in cases), f"{task.name}: {sentence}"
    values = [to_json(one.expected) for one in cases]
    assert any(value != values[0] for value in values), f"{task.name}: a constant answer passes"


@each("name, task", TASKS)
def test_hidden_cases_depend_on_the_seed_alone(name: str, task: str) -> None:
    one, state, bits = exercise(name)[task], random.getstate(), torch.get_rng_state()
    first, again, other = (draw(one, seed) for seed in ("a", "a", "b"))
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), bits)
    assert to_json(first) == to_json(again), "the same seed draws other inputs"
    assert to_json(first) != to_json(other), "another seed draws the same inputs"
    assert 5 <= len(first) <= 40
    if one.accepts is None:
        values = [to_json(copied(one.reference(*copied(args)))) for args in first]
        assert any(value != values[0] for value in values), "a constant answer passes"


@each("name, task", TASKS)
def test_a_reference_leaves_its_arguments_alone(name: str, task: str) -> None:
    one = exercise(name)[task]
    for args in [*one.visible, *draw(one, "a")]:
        before, given = to_json(args), copied(args)
        first = copied(one.reference(*given))
        assert to_json(given) == before
        again = copied(one.reference(*given))
        assert difference(first, again, 0.0) is None, "the reference answers in two ways"
