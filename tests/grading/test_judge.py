"""The judge: hidden inputs by seed, and a verdict that no output can talk him into."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from each import each
from torch import Tensor

from attnlib.check import MIME
from attnlib.check.protocol import ask, from_json
from grading import judge
from grading.judge import bundles, case, cases, hidden_file, hidden_inputs, seed_in_use, verdict
from grading.task import Task


def hidden(choose: random.Random, generator: torch.Generator) -> list[tuple[Any, ...]]:
    return [(torch.randn(choose.randint(2, 9), generator=generator),) for _ in range(4)]


def refuse(x: Tensor) -> Tensor:
    raise ValueError("this mistake cannot answer")


def spoil(x: Tensor) -> Tensor:
    return x.mul_(2)


TASKS = {
    "double": Task(
        "double",
        lambda x: 2 * x,
        ((torch.tensor([1.0, 3.0]),), (torch.tensor([5.0]),)),
        hidden,
        {
            "You square.": lambda x: x**2,
            "You raise.": refuse,
            "You spoil.": spoil,
            "You add one more.": lambda x: 2 * x + 1,
        },
    ),
    "halve": Task("halve", lambda x: x / 2, ((torch.ones(2),),), hidden),
    "even": Task(
        "even",
        lambda x: 2,
        ((1,), (2,)),
        lambda choose, generator: [(3,), (4,)],
        accepts=lambda args, answer: None if answer == 2 * args[0] else "not twice as much",
    ),
}


@pytest.fixture(autouse=True)
def exercise(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An exercise of three tasks in place of the real ones."""
    monkeypatch.setattr(judge, "exercise", lambda name: TASKS)
    judge._hidden.cache_clear()
    cases.cache_clear()
    yield
    judge._hidden.cache_clear()
    cases.cache_clear()


def shown(bundle: Any) -> list[dict[str, Any]]:
    """The outputs of a check cell that shows a bundle."""
    return [{"output_type": "display_data", "data": {MIME: bundle}, "metadata": {}}]


def outputs(task: str, function: Any, seed: str = "s") -> list[dict[str, Any]]:
    """What a check cell shows of a function."""
    inputs = json.loads(hidden_file("x", seed))[task]
    return shown(json.loads(json.dumps(ask(task, function, inputs), allow_nan=False)))


def test_inputs_are_fresh_copies_and_each_task_has_its_own() -> None:
    hidden_inputs("x", "s")["double"][0][0].zero_()
    assert hidden_inputs("x", "s")["double"][0][0].abs().sum() > 0
    assert cases("x", "s")["double"][0].args[0].abs().sum() > 0
    given = hidden_inputs("x", "s")
    assert not torch.equal(given["double"][0][0], given["halve"][0][0]), "each has its own"


def test_the_hidden_file_holds_inputs_and_nothing_else() -> None:
    told = json.loads(hidden_file("x", "s"))
    assert list(told) == list(TASKS)
    assert from_json(told["even"][0]) == (3,)
    inputs = [from_json(data) for data in told["double"]]
    assert list(inputs[-1]) == ["x"], "the last one's arguments have names"
    for given, data in zip(hidden_inputs("x", "s")["double"], inputs, strict=True):
        assert torch.equal(data["x"] if isinstance(data, dict) else data[0], given[0])
    text = json.dumps(told)
    assert "You" not in text
    assert "expected" not in text


def test_the_seed_is_the_instructors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNLIB_SEED", raising=False)
    assert seed_in_use() == "course"
    monkeypatch.setenv("ATTNLIB_SEED", "autumn")
    assert seed_in_use() == "autumn"


def test_a_case_knows_the_mistakes_that_it_tells_apart() -> None:
    one = case(TASKS["double"], (torch.tensor([1.0, 3.0]),))
    assert torch.equal(one.expected, torch.tensor([2.0, 6.0]))
    assert list(one.mistakes) == ["You square.", "You add one more."]
    assert torch.equal(one.args[0], torch.tensor([1.0, 3.0])), "a mistake changed the input"
    blind = case(TASKS["double"], (torch.tensor([2.0]),))
    assert list(blind.mistakes) == ["You add one more."]


def test_right_answers_are_right() -> None:
    assert verdict("x", "double", outputs("double", lambda x: x + x), "s").right
    assert verdict("x", "double", outputs("double", lambda x: x + x), "s").reason == ""
    assert verdict("x", "even", outputs("even", lambda x: x * 2), "s").right


@each(
    "function, told",
    [
        (lambda x: x * x, "You square"),
        (lambda x: 2 * x + 1, "You add one more"),
        (lambda x: x.mul_(2), "in place"),
        (lambda x: x[:, None], "has the shape"),
        (refuse, "it raised ValueError: this mistake cannot answer"),
        (lambda x: 2 * x.double(), "the dtype float64, expected float32"),
        (lambda y: 2 * y, "keep their names"),
    ],
)
def test_wrong_answers_are_told_why(function: Any, told: str) -> None:
    found = verdict("x", "double", outputs("double", function), "s")
    assert not found.right
    assert not found.forged
    assert told in found.reason


def test_an_answer_judged_by_a_function() -> None:
    found = verdict("x", "even", outputs("even", lambda x: 7), "s")
    assert (found.right, found.forged) == (False, False)
    assert "not twice as much (even(3))" in found.reason


def test_an_answer_that_cannot_be_judged_is_wrong() -> None:
    impatient = Task("even", lambda x: 2, ((1,),), hidden, accepts=lambda args, answer: answer[0])
    tasks = {**TASKS, "even": impatient}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "exercise", lambda name: tasks)
        judge._hidden.cache_clear()
        cases.cache_clear()
        found = verdict("x", "even", outputs("even", lambda x: 2), "s")
        nothing = verdict("x", "even", outputs("even", lambda x: None), "s")
    assert not found.right
    assert "which cannot be judged (TypeError" in found.reason
    assert not nothing.right
    assert "the answer is None: is a return missing?" in nothing.reason


def test_answers_to_another_seed_are_wrong() -> None:
    assert not verdict("x", "double", outputs("double", lambda x: 2 * x, "s"), "t").right


def test_a_function_that_fails_late_is_wrong() -> None:
    count = iter(range(9))

    def f(x: Tensor) -> Tensor:
        return 2 * x if next(count) < 3 else x

    assert not verdict("x", "double", outputs("double", f), "s").right


@each(
    "found, told",
    [
        ([], "no answer: the cell did not run to its end"),
        ([{"output_type": "stream", "text": "Passed"}], "no answer: the cell did not run"),
        ([{"output_type": "error", "ename": "NotImplementedError", "evalue": ""}], "not written"),
        (
            [{"output_type": "error", "ename": "NameError", "evalue": "name 'f'"}],
            "the check cell ended with NameError: name 'f'",
        ),
        ([{"output_type": "execute_result", "data": {"text/plain": "5"}}], "no answer"),
        (["no output", {"data": 3}, {}], "no answer"),
    ],
)
def test_no_answer_is_told_why(found: Any, told: str) -> None:
    one = verdict("x", "double", found, "s")
    assert not one.right
    assert told in one.reason


def test_an_answer_that_was_never_made_is_told_by_the_error_of_its_own_cell() -> None:
    check = [{"output_type": "error", "ename": "NameError", "evalue": "name 'f'"}]
    cell = [{"output_type": "error", "ename": "SyntaxError", "evalue": "invalid syntax"}]
    told = verdict("x", "double", check, "s", cell).reason
    assert told == "no answer: the cell above the check ended with SyntaxError: invalid syntax"
    wrong = [{"output_type": "error", "ename": "ValueError", "evalue": "no"}]
    assert "ended with ValueError: no" in verdict("x", "double", wrong, "s", cell).reason


def forgeries() -> list[tuple[str, Any]]:
    """Outputs that a submission may make up, each with what is wrong with it."""
    right = ask("double", lambda x: 2 * x, json.loads(hidden_file("x", "s"))["double"])
    two = shown(right) + shown(right)
    other = {**right, "task": "halve"}
    short = {**right, "answers": right["answers"][:-1]}
    long = {**right, "answers": right["answers"] * 2}
    broken = copy.deepcopy(right)
    broken["answers"][0]["output"] = {"tensor": {"dtype": "float32", "shape": [9], "data": []}}
    return [
        ("2 answers were shown", two),
        ("those of another task", shown(other)),
        ("4 answers to 5 questions", shown(short)),
        ("10 answers to 5 questions", shown(long)),
        ("cannot be read", shown(broken)),
        ("cannot be read", shown("all right")),
        ("cannot be read", shown({"answers": [1, 2, 3, 4]})),
        ("cannot be read", shown(None)),
    ]


def test_forged_outputs_earn_nothing_and_are_reported() -> None:
    for told, found in forgeries():
        one = verdict("x", "double", found, "s")
        assert not one.right, told
        assert one.forged, told
        assert told in one.reason


def test_an_empty_bundle_is_wrong() -> None:
    one = verdict("x", "double", shown({"task": "double", "answers": []}), "s")
    assert (one.right, one.forged) == (False, False)
    assert "0 answers to 5 questions" in one.reason


def test_bundles_are_found_among_other_outputs() -> None:
    found = [{"output_type": "stream", "text": "x"}, *shown(1), {"data": {"text/plain": "x"}}]
    assert bundles(found) == [1]
