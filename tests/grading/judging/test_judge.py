"""What a task earns: never anything without the right answers, and never 0 by mere form."""

import copy
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import run_here
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from attnlib.check import MIME
from attnlib.check.protocol import Case, to_json
from grading.intake.restore import Restored, prepare
from grading.judging import judge as judging
from grading.judging.judge import judge
from grading.judging.report import CRASHED, GRADED, PERSON, STATUSES, TIMED_OUT, Line, Report
from grading.sandbox.run import Told
from grading.tasks.task import Task

NAME, SEED = "an exercise", "a seed"
INPUTS = [torch.tensor([1.0, 3.0]), torch.tensor([5.0]), torch.tensor([0.5, -2.0, 4.0])]
TASKS = {
    "double": Task("double", lambda draw: (INPUTS[0],), (), forbidden=("mul",)),
    "even": Task(
        "even",
        lambda draw: (INPUTS[0],),
        (),
        accepts=lambda args, answer: None if torch.equal(answer, 2 * args[0]) else "not even",
    ),
}
CASES = {
    "double": [Case((x,), 2 * x, {"You square.": x**2}) for x in INPUTS],
    "even": [Case((x,), 2 * x) for x in INPUTS],
}
HIDDEN = {task: [to_json(case.args) for case in asked] for task, asked in CASES.items()}


@pytest.fixture(autouse=True, scope="module")
def exercise() -> Iterator[None]:
    """An exercise of two tasks in place of the real ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "exercise", lambda name: TASKS)
        patch.setattr(judging, "cases", lambda name, seed: CASES)
        yield


def cell(name: str, source: str, points: float = 0.0, **about: Any) -> NotebookNode:
    """A released cell, code or text."""
    kinds = {"grade": points > 0, "points": points, "solution": False, "locked": False}
    new = new_markdown_cell if source.startswith(("#", "YOUR")) else new_code_cell
    made = new(source, metadata={"nbgrader": {"grade_id": name, **kinds, **about}})
    made.metadata.nbgrader["checksum"] = judging.utils.compute_checksum(made)
    return made


def released() -> NotebookNode:
    cells = [new_code_cell("import torch\nfrom attnlib.check import check")]
    for task in TASKS:
        stub = f"def {task}(x):\n    raise NotImplementedError()"
        cells.append(cell(f"{task}_answer", stub, solution=True))
        cells.append(cell(task, f'check("{task}", {task})', 2.0, locked=True))
    cells.append(cell("why_task", "## Why?", locked=True))
    cells.append(cell("why", "YOUR ANSWER HERE", 3.0, solution=True))
    return nbformat.v4.new_notebook(cells=cells)


RIGHT = {task: f"def {task}(x):\n    return x + x" for task in TASKS}
TOP, DOUBLE, BELOW = 0, 1, 5  # places of cells


def handed_in(double: str, above: str = "", below: str = "", why: str = "") -> Restored:
    """A submission: the answer to `double`, and code of the student's above and below."""
    work = released()
    sources = {"double_answer": double, "even_answer": RIGHT["even"]}
    for made in work.cells:
        made.source = sources.get(made.metadata.get("nbgrader", {}).get("grade_id"), made.source)
    work.cells[-1].source = why or work.cells[-1].source
    work.cells.append(new_code_cell(below))
    work.cells.insert(1, new_code_cell(above))
    return prepare(json.dumps(work).encode(), released(), list(TASKS))


def judged(restored: Restored, told: Told | None = None) -> Report:
    return judge(NAME, restored, told or run_here(restored.notebook, HIDDEN), SEED)[0]


# --- ordinary cases -------------------------------------------------------------------------------

CALLS_HELPER = "def double(x):\n    return helper(x)"
ORDINARY: dict[str, tuple[dict[str, str], str, str]] = {
    "right": ({"double": RIGHT["double"]}, GRADED, ""),
    "a mistake": ({"double": "def double(x):\n    return x**2"}, GRADED, "You square"),
    "wrong": ({"double": "def double(x):\n    return 3 * x"}, GRADED, "expected"),
    "an exception": ({"double": "def double(x):\n    return x[9]"}, GRADED, "it raised IndexError"),
    "not written": ({"double": released().cells[DOUBLE].source}, GRADED, "it is not written yet"),
    "no Python": ({"double": "def double(x):\n    return (x"}, GRADED, "cell 3, which defines dou"),
    "a forbidden name": ({"double": "def double(x):\n    return x.mul(2)"}, GRADED, "it uses mul"),
    "a forbidden name in a helper": (
        {"double": CALLS_HELPER, "above": "def helper(x):\n    return x.mul(2)"},
        PERSON,
        "a person has to look at what the function rests on: it uses mul",
    ),
    "a forbidden name in a helper, and a mistake": (
        {"double": CALLS_HELPER, "above": "def helper(x):\n    return x.mul(3)"},
        GRADED,
        "expected",
    ),
    "a forbidden name in a value, and a local name like the value's": (
        {
            "double": "def double(x):\n    y = x + x\n    return y",
            "above": "y = torch.ones(2).mul(2)",
        },
        GRADED,
        "",
    ),
    "a forbidden name elsewhere": (
        {"double": RIGHT["double"], "above": "torch.ones(2).mul(2)"},
        GRADED,
        "",
    ),
    "a package that is missing, far above": (
        {"double": CALLS_HELPER, "above": "import no_such\ndef helper(x):\n    return 2 * x"},
        PERSON,
        "cell 2 stopped at no_such, which is not there in grading",
    ),
    "a package that is missing in the function": (
        {"double": "def double(x):\n    import no_such"},
        PERSON,
        "stopped at no_such",
    ),
    "a package that stands for one that is missing": (
        {
            "double": CALLS_HELPER,
            "above": "raise RuntimeError('this uses a.b, which is not there in grading: write it')",
        },
        PERSON,
        "cell 2 stopped at a.b",
    ),
    "a package that is missing, and not needed": (
        {"double": RIGHT["double"], "above": "import no_such"},
        GRADED,
        "",
    ),
    "a helper below": (
        {"double": CALLS_HELPER, "below": "def helper(x):\n    return 2 * x"},
        PERSON,
        "the check needs helper, which only cell 9, below it, defines",
    ),
    "a helper nowhere": ({"double": CALLS_HELPER}, GRADED, "NameError"),
    "no function": ({"double": "x = 1"}, PERSON, "no cell defines double"),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_what_an_answer_earns_and_why(case: str) -> None:
    sources, status, reason = ORDINARY[case]
    report = judged(handed_in(**sources))
    line = report.tasks["double"]
    assert (line.status, line.points) == (status, 0.0 if reason else 2.0)
    assert reason in line.reason
    assert bool(reason) == bool(line.reason)
    assert report.tasks["even"] == Line(2.0, 2.0, GRADED)


def test_a_text_is_for_a_person_and_no_text_is_0() -> None:
    blank, written = judged(handed_in("")), judged(handed_in("", why="# My reason."))
    assert blank.tasks["why"] == Line(0.0, 3.0, GRADED, "no response")
    assert written.tasks["why"].status == PERSON
    assert ("why" in blank.blank, "why" in written.blank) == (True, False)


def test_an_error_of_syntax_tells_the_line_and_not_the_kernels_name_for_the_cell() -> None:
    restored = handed_in("def double(x):\n    return (x")
    told = run_here(restored.notebook, HIDDEN)
    lines = told.lines.replace(b"(<cell>, line 2)", b"(3042060454.py, line 2)")
    reason = judged(restored, replace(told, lines=lines)).tasks["double"].reason
    assert reason.endswith("was never closed (line 2)")


def test_a_package_that_is_missing_below_plays_no_part() -> None:
    report = judged(handed_in("def double(x):\n    return 3 * x", below="import no_such"))
    assert report.tasks["double"].status == GRADED


def cut(restored: Restored, cells: int, status: str, **last: Any) -> Told:
    """A run of which only the first cells are told; `last` is said of the last one."""
    told = run_here(restored.notebook, HIDDEN)
    lines = [json.loads(line) for line in told.lines.split(b"\n")][:cells]
    lines[-1] |= last
    return replace(
        told, lines="\n".join(map(json.dumps, lines)).encode(), status=status, reason="a reason"
    )


@pytest.mark.parametrize("status", [CRASHED, TIMED_OUT])
def test_a_run_that_ends_early_says_so_of_the_tasks_that_it_did_not_reach(status: str) -> None:
    restored = handed_in(RIGHT["double"])
    report = judged(restored, cut(restored, 5, status, last=True, outputs=[]))
    assert report.tasks["double"] == Line(2.0, 2.0, GRADED)
    assert report.tasks["even"] == Line(0.0, 2.0, status, "a reason")
    assert report.status == status


def test_a_cell_that_took_too_long_is_told_of_the_tasks_that_it_may_have_cost() -> None:
    restored = handed_in(CALLS_HELPER, above="def helper(x): ...")
    told = cut(restored, 2, TIMED_OUT, ended="timed out after 8 s")
    rest = run_here(restored.notebook, HIDDEN).lines.split(b"\n")[2:]
    report = judged(restored, replace(told, lines=b"\n".join([told.lines, *rest])))
    late = "timed out after 8 s in cell 2"
    assert report.tasks["double"] == Line(0.0, 2.0, TIMED_OUT, late)
    assert report.tasks["even"] == Line(2.0, 2.0, GRADED), "a right answer is right"


def test_the_stored_notebook_shows_verdicts_and_no_answers() -> None:
    restored = handed_in("def double(x):\n    return 3 * x", below='check("even", even)  # again')
    told = run_here(restored.notebook, HIDDEN)
    report, notebook = judge(NAME, restored, told, SEED)
    outputs = {
        c.source: [o.get("text") for o in c.outputs] for c in notebook.cells if "outputs" in c
    }
    assert outputs['check("even", even)'] == ["passed: 2 of 2 points"]
    assert outputs['check("double", double)'] == [f"Not yet: {report.tasks['double'].reason}"]
    assert MIME not in json.dumps(notebook)
    nbformat.validate(notebook)


def test_of_what_is_left_to_a_person_the_notebook_says_no_verdict() -> None:
    restored = handed_in("import no_such\n\ndef double(x):\n    return 3 * x")
    report, notebook = judge(NAME, restored, run_here(restored.notebook, HIDDEN), SEED)
    (output,) = next(c for c in notebook.cells if c.source == 'check("double", double)').outputs
    assert output.text == f"Left to a person: {report.tasks['double'].reason}"


# --- nothing that comes from inside is believed ---------------------------------------------------

WRONG = handed_in("def double(x):\n    return x")
CHECK = next(i for i, c in enumerate(WRONG.notebook.cells) if c.source.startswith('check("double'))
BUNDLE = {
    "task": "double",
    "answers": [{"output": to_json(x), "args": to_json((x,))} for x in INPUTS],
}
GOOD = BUNDLE | {"answers": [{"output": to_json(2 * x), "args": to_json((x,))} for x in INPUTS]}


def line_of(*bundles: Any, cell: Any = CHECK) -> bytes:
    """The line of a cell that shows these bundles."""
    outputs = [{"output_type": "display_data", "data": {MIME: bundle}} for bundle in bundles]
    return json.dumps({"cell": cell, "outputs": outputs, "ended": None, "last": False}).encode()


FORGED: dict[str, tuple[bytes, str]] = {
    "two bundles": (line_of(GOOD, GOOD), "forged: 2 answers were shown where one is due"),
    "two lines": (line_of(GOOD) + b"\n" + line_of(BUNDLE), "forged: 2 answers"),
    "another task's": (line_of(GOOD | {"task": "even"}), "forged: the answers are those of ano"),
    "too few": (line_of(GOOD | {"answers": GOOD["answers"][:2]}), "forged: 2 answers to 3 que"),
    "too many": (line_of(GOOD | {"answers": GOOD["answers"] * 2}), "forged: 6 answers to 3 que"),
    "unreadable": (line_of("all right"), "forged: the answers cannot be read"),
    "unreadable inside": (line_of({"task": "double", "answers": [1, 2, 3]}), "forged: the answ"),
    "no arguments": (
        line_of(GOOD | {"answers": [{"output": 1, "args": 5}] * len(INPUTS)}),
        "forged: an answer comes without its arguments",
    ),
    "none": (line_of({"task": "double", "answers": []}), "0 answers to 3 questions"),
    "nowhere": (line_of(GOOD, cell=99), "no answer"),
    "nowhere, by a truth": (line_of(GOOD, cell=True), "no answer"),
    "in another cell": (line_of(GOOD, cell=TOP), "no answer"),
    "too deep": (line_of(json.loads("[" * 300 + "]" * 300)), "no answer"),
    "points": (
        json.dumps(
            {
                "cell": CHECK,
                "outputs": [{"output_type": "execute_result", "data": {"text/plain": "2.0"}}],
            }
        ).encode(),
        "no answer",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_is_forged_earns_nothing(case: str) -> None:
    lines, reason = FORGED[case]
    line = judged(WRONG, Told(lines, "finished", "", 0.1)).tasks["double"]
    assert (line.points, line.status) == (0.0, GRADED)
    assert line.reason.startswith(reason)


def test_the_good_bundle_would_be_right() -> None:
    assert judged(WRONG, Told(line_of(GOOD), "finished", "", 0.1)).tasks["double"].points == 2.0


def test_answers_at_which_the_judge_fails_go_to_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "complaint", lambda *args: 1 // 0)
    line = judged(WRONG).tasks["double"]
    assert (line.points, line.status) == (0.0, PERSON)
    assert "the judge could not compare the answers: ZeroDivisionError" in line.reason


TEXT = st.text(st.characters(exclude_categories=()), max_size=9)  # halves of signs as well
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
TENSORS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float32", "int64", "bfloat16", "bool", "complex", ""]) | JSON,
        "shape": st.lists(st.integers(-2, 2**40), max_size=3) | JSON,
        "data": st.lists(st.floats() | st.integers() | st.just("nan"), max_size=4) | JSON,
    }
)
VALUES = JSON | st.sampled_from(["tensor", "array", "tuple", "dict", "float"]).flatmap(
    lambda sort: st.fixed_dictionaries({sort: TENSORS | JSON})
)
ANSWERS = st.fixed_dictionaries({"output": VALUES, "args": VALUES}) | st.fixed_dictionaries(
    {"error": JSON}
)
BUNDLES = JSON | st.fixed_dictionaries(
    {
        "task": st.just("double") | JSON,
        "answers": st.lists(ANSWERS, min_size=3, max_size=3) | st.lists(ANSWERS, max_size=4) | JSON,
    }
)
DATA = st.fixed_dictionaries(
    {}, optional={MIME: JSON, "text/plain": TEXT | JSON, "image/png": JSON}
)
OUTPUTS = JSON | st.fixed_dictionaries(
    {
        "output_type": st.sampled_from(["stream", "error", "display_data", "execute_result"]),
        "name": st.just("stdout") | JSON,
        "text": TEXT | JSON,
        "ename": TEXT | JSON,
        "evalue": TEXT | JSON,
        "traceback": st.lists(TEXT, max_size=2) | JSON,
        "data": DATA | JSON,
    }
)
FORGED_LINES = st.lists(
    st.builds(line_of, BUNDLES)
    | st.fixed_dictionaries(
        {
            "cell": st.integers(0, 8) | JSON,
            "outputs": st.lists(OUTPUTS, min_size=1, max_size=3) | JSON,
            "ended": JSON,
            "last": JSON,
            "end": JSON,
        }
    ).map(lambda line: json.dumps(line).encode()),
    max_size=4,
).map(b"\n".join)
HONEST = run_here(WRONG.notebook, {"double": HIDDEN["double"]}).lines


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The lines of an honest run with wrong answers, a few pieces of which are changed."""
    lines = HONEST
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(lines)))
        end = draw(st.integers(start, min(len(lines), start + 40)))
        piece = draw(
            st.binary(max_size=9) | st.just(lines[start:end] * 2) | st.text().map(str.encode)
        )
        lines = lines[:start] + piece + lines[end:]
    return lines


@pytest.mark.ci
@settings(max_examples=200)
@given(st.binary() | FORGED_LINES | mutated(), st.sampled_from(["finished", CRASHED, TIMED_OUT]))
def test_whatever_comes_from_inside_earns_nothing_without_the_right_answers(
    lines: bytes, status: str
) -> None:
    report, notebook = judge(NAME, copy.deepcopy(WRONG), Told(lines, status, "a reason", 0.1), SEED)
    assert report.points == 0
    assert {line.status for line in report.tasks.values()} <= set(STATUSES)
    assert all(line.reason for line in report.tasks.values())
    assert len(json.dumps(asdict(report), ensure_ascii=False).encode()) < 5_000
    json.dumps(notebook, ensure_ascii=False).encode()
    nbformat.validate(notebook)
    data = [o.get("data", {}) for c in notebook.cells for o in c.get("outputs", [])]
    assert {mime for parts in data for mime in parts} <= {"text/plain", "image/png"}
