"""Right answers are paid, mistakes are rejected and named: by the check and by grading alike."""

import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from cells import ROOT, run

from attnlib import check as checking
from attnlib.check.comparison import complaint, difference
from attnlib.check.protocol import Case, ask, read_answers, to_json
from grading.tasks import EXERCISES, exercise
from grading.tasks.answers import answers
from grading.tasks.hidden import case, copied, hidden_inputs
from grading.tasks.solutions import answer_cells
from grading.tasks.task import Task

SEEDS = ("course", "another", "a third one")


@cache
def asked(name: str, seed: str) -> dict[str, tuple[list[Case], Any]]:
    """The hidden cases of an exercise by task, and their inputs as a submission gets them."""
    hidden = {}
    for task in exercise(name).values():
        known = [case(task, args, mistakes=False) for args in hidden_inputs(task, seed)]
        inputs = json.loads(json.dumps([to_json(case.args) for case in known]))
        hidden[task.name] = known, inputs
    return hidden


def judged(name: str, task: Task, source: str, seed: str) -> str | None:
    """What grading says of the text of an answer, or None if it is right."""
    known, inputs = asked(name, seed)[task.name]
    told = read_answers(ask(task.name, run(source)[task.name], inputs))
    return complaint(task.name, known, told, task.tolerance, task.accepts)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Task, str], str]:
    """What the visible check says of the text of an answer; empty if it passes."""
    monkeypatch.setattr(checking, "note", lambda *told: None)

    def says(name: str, task: Task, source: str) -> str:
        monkeypatch.chdir(ROOT / "exercises" / name)
        try:
            checking.check(task.name, run(source)[task.name])
        except checking.NotYet as error:
            return str(error)
        return ""

    return says


@pytest.mark.parametrize("name", EXERCISES)
def test_right_answers_are_paid(name: str, check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for task in exercise(name).values():
        known = [*answers(name)[task.name].right, answer_cells(name)[task.name]]
        assert len(set(known)) >= 2, f"{task.name} needs a right answer besides the solution"
        for source in known:
            assert not check(name, task, source), f"{task.name}, the visible check:\n{source}"
            for seed in SEEDS:
                wrong = judged(name, task, source, seed)
                assert wrong is None, f"{task.name}, seed {seed!r}: {wrong}\n{source}"


@pytest.mark.parametrize("name", EXERCISES)
def test_mistakes_are_rejected_and_named(
    name: str, check: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in exercise(name).values():
        assert answers(name)[task.name].wrong, f"{task.name} knows no mistake"
        for sentence, source in answers(name)[task.name].wrong.items():
            about = f"{task.name}: {sentence}\n{source}"
            assert judged(name, task, source, SEEDS[0]), f"paid: {about}"
            if task.accepts is None:
                said = check(name, task, source)
                assert sentence.rstrip(".") in said, f"{about}\nthe check says: {said!r}"


@pytest.mark.parametrize("name", EXERCISES)
def test_a_task_is_well_made(name: str) -> None:
    assert list(answers(name)) == list(exercise(name))
    for task in exercise(name).values():
        assert 1 <= len(task.visible) <= 6, task.name
        expected = [case(task, args, mistakes=False).expected for args in task.visible]
        if task.accepts is None and len(expected) > 1:
            assert any(to_json(value) != to_json(expected[0]) for value in expected), task.name
        for sentence in task.mistakes:
            assert sentence == sentence.strip(), sentence
            assert not re.match("[A-Z][a-z]", sentence), f"it follows a colon: {sentence}"


@pytest.mark.parametrize("name", EXERCISES)
def test_hidden_cases_depend_on_the_seed_alone(name: str) -> None:
    state, bits = random.getstate(), torch.get_rng_state()
    for task in exercise(name).values():
        known, _ = asked(name, SEEDS[0])[task.name]
        again, other = (to_json(hidden_inputs(task, seed)) for seed in SEEDS[:2])
        assert to_json([case.args for case in known]) == again, f"{task.name}: other inputs"
        assert other != again, f"{task.name}: another seed, the same inputs"
        visible = [to_json(copied(args)) for args in task.visible]
        fresh = [case for case in known if to_json(case.args) not in visible]
        assert len(fresh) >= 3, f"{task.name}: hidden cases repeat the visible ones"
        if task.accepts is None:
            values = [to_json(case.expected) for case in known]
            assert any(value != values[0] for value in values), f"{task.name}: a constant passes"
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), bits)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_solution_leaves_its_arguments_alone(name: str) -> None:
    for task in exercise(name).values():
        known, _ = asked(name, SEEDS[0])[task.name]
        visible = [case(task, args, mistakes=False) for args in task.visible]
        for first in [*known, *visible]:
            given = copied(first.args)
            again = copied(task.right(*given))
            assert to_json(given) == to_json(first.args), f"{task.name} changes its arguments"
            assert difference(first.expected, again, 0.0) is None, f"{task.name} has two answers"
