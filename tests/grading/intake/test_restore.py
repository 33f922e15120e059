"""What is read of a file that was handed in, and how it is put back into released form."""

import json
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from grading.intake.restore import Restored, grade_id, prepare, read

STUB = "def f(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
CHECK = 'check("f", f)'


def cell(name: str, source: str, **about: Any) -> NotebookNode:
    """A released cell, code or text, with nbgrader's metadata."""
    kinds = {"grade": False, "solution": False, "locked": False, "task": False}
    metadata = {"nbgrader": {"grade_id": name, **kinds, **about}}
    new = new_markdown_cell if source.startswith(("#", "YOUR", "My")) else new_code_cell
    return new(source, metadata=metadata)


def exercise() -> NotebookNode:
    """An exercise of one function and one text, as it is released."""
    return nbformat.v4.new_notebook(
        cells=[
            cell("header", "# Exercise", locked=True),
            new_code_cell("from attnlib.check import check"),
            cell("f_task", "## 1 Build f", locked=True),
            cell("f_answer", STUB, solution=True),
            cell("f", CHECK, grade=True, locked=True, points=2),
            cell("why_task", "## 2 Why?", locked=True),
            cell("why", "YOUR ANSWER HERE", grade=True, solution=True, points=3),
            cell("hand_in", "## Hand in", locked=True),
        ]
    )


def handed_in(*sources: str) -> Restored:
    """What becomes of a notebook of these cells, which have lost their metadata."""
    texts = ("#", "YOUR", "My")
    cells = [(new_markdown_cell if s.startswith(texts) else new_code_cell)(s) for s in sources]
    return restored(nbformat.v4.new_notebook(cells=cells))


def restored(work: NotebookNode) -> Restored:
    return prepare(json.dumps(work).encode(), exercise(), ["f"])


def layout(made: Restored) -> list[str]:
    """The cells in their order, by name; those of the student's by their source."""
    return [grade_id(cell) or cell.source for cell in made.notebook.cells]


SETUP = "from attnlib.check import check"
MINE = "def f(x):\n    return x"
OTHER = "def f(x):\n    return x + 1"


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"import torch\nx = 1", "begins with 'import torch x = 1'; hand in the notebook"),
        (b"%PDF-1.7 \xff\xfe", "begins with '%PDF-1.7"),
        (b"\x00\x01", "no notebook (.ipynb, which is JSON)"),
        (b"[" * 100_000, "no notebook (.ipynb, which is JSON)"),
        (b"[1, 2]", "without a list of cells"),
        (b'{"cells": {}}', "no notebook: its cells are no list"),
        (b'{\n"cells": [\n{"cell_ty', "a damaged notebook: it cannot be read from line 3 of 3 on"),
        (b'{"nbformat": 3, "worksheets": 5}', "of an old format and damaged"),
        (
            b'{"nbformat": 3, "nbformat_minor": "x", "worksheets": []}',
            "of an old format and damaged",
        ),
        (b'{"nbformat": 1, "cells": [{"cell_type": "x"}]}', "of an old format and damaged"),
        (b'{"nbformat": 4, "cells": [{"source": "1"}, 5]}', "cell 2 of the notebook is damaged"),
        (b'{"nbformat": 4, "cells": [{"source": null}]}', "cell 1 of the notebook is damaged"),
    ],
)
def test_a_file_that_is_no_notebook_is_told_what_it_is(file: bytes, told: str) -> None:
    with pytest.raises(ValueError, match="notebook") as error:
        read(file)
    assert told in str(error.value)


def test_a_notebook_that_breaks_the_rules_of_the_format_is_read() -> None:
    """Of a version to come, with cells of unknown types, parts missing, and halves of signs."""
    cells = [
        {"cell_type": "code", "source": ["x = 1\r\n", "y = 2"]},
        {"cell_type": "future", "source": "a\ud800b", "metadata": None, "attachments": [1]},
    ]
    made = read(json.dumps({"nbformat": 4, "nbformat_minor": 9, "cells": cells}).encode())
    assert [(c.cell_type, c.source) for c in made.cells] == [
        ("code", "x = 1\ny = 2"),
        ("markdown", "a?b"),
    ]


# --- rebuilding -----------------------------------------------------------------------------------


def test_the_released_notebook_is_left_as_it_is() -> None:
    made = restored(exercise())
    assert [(c.source, c.metadata) for c in made.notebook.cells] == [
        (c.source, c.metadata) for c in exercise().cells
    ]
    assert (made.notes, dict(made.doubts)) == ((), {})
    nbformat.validate(made.notebook)


def test_what_is_locked_comes_from_the_release() -> None:
    work = exercise()
    work.cells[4].source = "print('passed')"
    work.cells[4].metadata.nbgrader.update(points=99, solution=True)
    work.cells[5].source = "## 2 Why? Give me all points"
    made = restored(work)
    by_name = {grade_id(cell): cell for cell in made.notebook.cells}
    assert by_name["f"] == exercise().cells[4] | {"id": by_name["f"].id}
    assert by_name["why_task"].source == "## 2 Why?"
    assert "edited, and put back; the student's stand beside them: f, why_task" in str(made.notes)


def test_what_a_student_wrote_into_a_locked_cell_is_not_lost() -> None:
    work = exercise()
    work.cells[4].source = f"{MINE}\n\n{CHECK}"
    assert [c.source for c in restored(work).notebook.cells][4:6] == [work.cells[4].source, CHECK]


@pytest.mark.parametrize(
    ("sources", "order"),
    [
        ((SETUP, MINE, CHECK), (SETUP, "f_answer", "f")),
        ((SETUP, CHECK, MINE), (SETUP, "f_answer", "f")),
        ((SETUP, MINE, "f(3)"), (SETUP, "f_answer", "f", "f(3)")),
        ((SETUP, MINE, "f(3)", CHECK), (SETUP, "f_answer", "f(3)", "f")),
        ((SETUP, STUB, MINE, CHECK), (SETUP, STUB, "f_answer", "f")),
        ((SETUP, CHECK, STUB, MINE), (SETUP, STUB, "f_answer", "f")),
        ((SETUP, STUB, CHECK, MINE), (SETUP, STUB, "f_answer", "f")),
        ((f"{SETUP}\n{MINE}\n{CHECK}", "f(3)"), ("f_answer", "f", "f(3)")),
        ((SETUP, MINE, "check('f',f)  # !", CHECK), (SETUP, "f_answer", "f", CHECK)),
        ((MINE, CHECK), (SETUP, "f_answer", "f")),
        (("%%time\n" + SETUP, "!ls\n" + MINE), ("%%time\n" + SETUP, "f_answer", "f")),
    ],
)
def test_a_check_comes_after_the_function(sources: tuple[str, ...], order: tuple[str, ...]) -> None:
    made = handed_in("# Exercise", *sources)
    texts = ("header", "f_task", "why_task", "why", "hand_in")
    assert tuple(name for name in layout(made) if name not in texts) == order
    assert "f" not in made.doubts


def test_of_several_functions_without_a_check_the_last_is_checked() -> None:
    assert layout(handed_in(SETUP, OTHER, MINE))[3:6] == [OTHER, "f_answer", "f"]


def test_an_answer_whose_cell_became_a_text_is_code() -> None:
    work = exercise()
    work.cells[3] = new_markdown_cell(MINE, metadata=work.cells[3].metadata)
    made = restored(work).notebook.cells[3]
    assert (made.cell_type, made.source) == ("code", MINE)


def test_a_students_text_runs_nothing_and_keeps_its_pictures() -> None:
    work = exercise()
    picture = {"a.png": {"image/png": "iVBORw0KGgo="}}
    work.cells[6].update(source="<script> ![a](attachment:a.png)", attachments=picture)
    work.cells.insert(1, new_markdown_cell("<img src=x>"))
    cells = restored(work).notebook.cells
    assert cells[1].source == "< img src=x>"
    assert cells[7].source == "< script> ![a](attachment:a.png)"
    assert cells[7].attachments == picture


def test_no_stub_is_put_back() -> None:
    assert STUB not in [cell.source for cell in handed_in(SETUP, MINE).notebook.cells]
    assert STUB not in [cell.source for cell in handed_in(SETUP).notebook.cells]


def test_what_is_missing_stands_where_it_was_released() -> None:
    assert layout(handed_in(SETUP, "# my notes", MINE)) == [
        *("header", "f_task", SETUP, "# my notes", "f_answer", "f", "why_task", "why", "hand_in")
    ]


# --- texts that a person reads --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "answer"),
    [
        (("## 2 Why?", "My reason.", "## Hand in"), "My reason."),
        (("## 2 Why?", "YOUR ANSWER HERE", "My reason."), "My reason."),
        (("## 2 Why?\n\nMore.", "1 + 1", "My reason."), "My reason."),
        (("## 2 Why?", "YOUR ANSWER HERE", "## Hand in", "My notes."), "YOUR ANSWER HERE"),
    ],
)
def test_a_text_is_found_after_its_question(sources: tuple[str, ...], answer: str) -> None:
    made = handed_in(SETUP, MINE, CHECK, *sources)
    (text,) = (cell.source for cell in made.notebook.cells if grade_id(cell) == "why")
    assert (text, "why" in made.doubts) == (answer, False)


@pytest.mark.parametrize(
    "sources",
    [
        ("My reason.",),
        ("## 2 Why?",),
        ("## 2 Why?\nMy reason.", "YOUR ANSWER HERE", "## Hand in"),
        ("## 2 Why?", "YOUR ANSWER HERE", "'''My reason, in a code cell.'''"),
    ],
)
def test_a_text_that_may_stand_elsewhere_is_a_doubt(sources: tuple[str, ...]) -> None:
    assert "why" in handed_in(SETUP, MINE, CHECK, *sources).doubts


def test_a_text_that_was_deleted_is_as_it_was_released() -> None:
    work = exercise()
    work.cells[6].source = " \n"
    assert restored(work).notebook.cells[6].source == "YOUR ANSWER HERE"


# --- doubts about a function ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "doubtful"),
    [
        ((SETUP, STUB, CHECK), False),
        ((SETUP, MINE, CHECK), False),
        ((SETUP, OTHER, MINE, CHECK), False),
        ((SETUP, MINE, CHECK, STUB), False),
        ((SETUP, MINE, CHECK, OTHER), True),
        ((SETUP, MINE, STUB, CHECK), True),
        ((SETUP, MINE, OTHER), True),
        ((SETUP, CHECK), True),
        ((SETUP, "def g(x):\n    return x", CHECK), True),
        ((SETUP, "def f(x):\n    return x +", CHECK), False),
        ((SETUP, "f = lambda x: x", CHECK), False),
        ((SETUP, MINE, CHECK, "y = " + "1 + " * 3000 + "1", "(" * 3000), False),
        ((SETUP, "if True:\n    def f(x): return x", CHECK), False),
        ((SETUP, "# " + MINE.replace("\n", "\n# "), CHECK), True),
    ],
)
def test_a_doubt_about_which_function_is_meant(sources: tuple[str, ...], doubtful: bool) -> None:
    assert ("f" in handed_in(*sources).doubts) == doubtful


# --- the code of an answer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        ((MINE, "y = 1"), MINE),
        (("def g(x):\n    return x", "def f(x):\n    return g(x)"), "g(x)\ndef g(x)"),
        (("from torch import nn", "def f(x):\n    return nn.Linear"), "from torch import nn"),
        (("def h(x):\n    return x.softmax\n\n" + MINE,), MINE),
        (("import torch\n" + MINE, OTHER), OTHER),
        (("@torch.compile\n" + MINE,), "@torch.compile"),
        (("def f(x):\n    '\\sqrt x'\n    return x",), "sqrt"),
        (("%matplotlib inline\n" + MINE,), MINE),
    ],
)
def test_the_code_of_an_answer_is_its_definition_and_what_it_rests_on(
    sources: tuple[str, ...], text: str
) -> None:
    answer = handed_in(*sources, CHECK).answers["f"]
    assert text in answer
    assert "softmax" not in answer
    assert len(answer.split("\n")) <= len(text.split("\n")) + 2
