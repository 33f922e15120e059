"""What becomes of an honest student's notebook on its way: named changes, for test_honest.py.

Each change takes the notebook with the model answers, and gives the notebook, or the bytes, that a
platform, an editor or the student makes of it. The metadata are what the tools really write, cut
from public notebooks.
"""

import ast
import copy
import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

Change = Callable[[NotebookNode], NotebookNode | bytes]


def saved(work: NotebookNode | bytes) -> bytes:
    """The bytes of the file."""
    return work if isinstance(work, bytes) else json.dumps(work).encode()


def tag(cell: NotebookNode) -> str:
    """The grade_id of a cell, or nothing."""
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def is_check(cell: NotebookNode) -> bool:
    about = cell.metadata.get("nbgrader", {})
    return bool(about.get("grade") and about.get("locked"))


def is_answer(cell: NotebookNode) -> bool:
    return tag(cell).endswith("_answer")


def then(*changes: Any) -> Change:
    """One change after the other."""
    return lambda work: functools.reduce(lambda made, change: change(made), changes, work)


# the file


def bare(work: NotebookNode) -> NotebookNode:
    """All metadata of the cells gone."""
    for cell in work.cells:
        cell.metadata = NotebookNode()
    return work


def without_ids(work: NotebookNode) -> NotebookNode:
    for cell in work.cells:
        cell.pop("id", None)
    work.nbformat_minor = 4
    return work


def format_4_0(work: NotebookNode) -> NotebookNode:
    work = without_ids(work)
    work.nbformat_minor = 0
    return work


def format_3(work: NotebookNode) -> bytes:
    return nbformat.writes(work, version=3).encode()


def lines_as_lists(work: NotebookNode) -> bytes:
    """As Jupyter itself writes sources."""
    return nbformat.writes(work).encode()


def windows(work: NotebookNode) -> bytes:
    """Line ends of Windows, and a byte-order mark."""
    for cell in work.cells:
        cell.source = cell.source.replace("\n", "\r\n")
    return json.dumps(work, ensure_ascii=False).encode("utf-8-sig")


def utf_16(work: NotebookNode) -> bytes:
    return json.dumps(work, ensure_ascii=False).encode("utf-16")


# one cell's metadata


def first_untagged(which: Callable[[NotebookNode], bool]) -> Change:
    """The metadata of the first such cell gone."""

    def change(work: NotebookNode) -> NotebookNode:
        next(cell for cell in work.cells if which(cell)).metadata = NotebookNode()
        return work

    return change


# cells cut and joined


def parts(source: str) -> Iterator[str]:
    """A cell cut between the statements at its top level."""
    lines, start = source.split("\n"), 0
    for node in ast.parse(source).body:
        yield "\n".join(lines[start : node.end_lineno])
        start = node.end_lineno or 0


def split(work: NotebookNode) -> NotebookNode:
    """Each answer and the first cell cut into their statements; each part keeps the metadata."""
    cells = []
    for cell in work.cells:
        cuts = cell.cell_type == "code" and not is_check(cell)
        for source in parts(cell.source) if cuts else [cell.source]:
            part = copy.deepcopy(cell)
            part.source = source
            cells.append(part)
    work.cells = cells
    return without_ids(work)


def joined(first: NotebookNode, *others: NotebookNode) -> NotebookNode:
    """Cells merged into the first."""
    made = copy.deepcopy(first)
    made.source = "\n\n".join(cell.source for cell in (first, *others))
    return made


def answer_with_check(keeps: int) -> Change:
    """Each answer and its check merged, with the metadata of the one (0) or the other (1)."""

    def change(work: NotebookNode) -> NotebookNode:
        cells: list[NotebookNode] = []
        for cell in work.cells:
            if is_check(cell):
                pair = cells.pop(), cell
                made = joined(*pair)
                made.metadata = copy.deepcopy(pair[keeps].metadata)
                cells.append(made)
            else:
                cells.append(cell)
        work.cells = cells
        return work

    return change


def code_in_one(work: NotebookNode) -> NotebookNode:
    """All code in one cell, at the end; the texts stay."""
    code = [cell for cell in work.cells if cell.cell_type == "code"]
    work.cells = [cell for cell in work.cells if cell.cell_type != "code"] + [joined(*code)]
    return bare(work)


def all_in_two(work: NotebookNode) -> NotebookNode:
    """All texts in one cell, and all code in another."""
    work = code_in_one(work)
    work.cells = [joined(*work.cells[:-1]), work.cells[-1]]
    return work


def code_only(work: NotebookNode) -> NotebookNode:
    """No texts."""
    work.cells = [cell for cell in work.cells if cell.cell_type == "code"]
    return bare(work)


# cells moved


def checks_first(work: NotebookNode) -> NotebookNode:
    """Each check above its answer."""
    for i, cell in enumerate(work.cells):
        if is_check(cell):
            work.cells[i - 1 : i + 1] = [cell, work.cells[i - 1]]
    return work


def tasks_reversed(work: NotebookNode) -> NotebookNode:
    """The tasks from the last to the first."""
    blocks: list[list[NotebookNode]] = [[]]
    for cell in work.cells[2:]:
        if tag(cell).endswith("_task") or tag(cell) == "hand_in":
            blocks.append([])
        blocks[-1].append(cell)
    work.cells = work.cells[:2] + [cell for block in reversed(blocks[:-1]) for cell in block]
    work.cells += blocks[-1]
    return work


def helpers_last(work: NotebookNode) -> NotebookNode:
    """What stands above the function in an answer's cell, at the end of the notebook."""
    helpers = []
    for cell in work.cells:
        if is_answer(cell):
            *above, cell.source = parts(cell.source)
            helpers += [new_code_cell(source) for source in above]
    work.cells += helpers
    return without_ids(work)


# checks


def checks_retyped(work: NotebookNode) -> NotebookNode:
    """Each check in a new cell, by hand."""
    for i, cell in enumerate(work.cells):
        if is_check(cell):
            work.cells[i] = new_code_cell(f"check( '{tag(cell)}',{tag(cell)} )  # again")
    return without_ids(work)


def checks_deleted(work: NotebookNode) -> NotebookNode:
    work.cells = [cell for cell in work.cells if not is_check(cell)]
    return work


def checks_edited(work: NotebookNode) -> NotebookNode:
    """Each check with lines of the student's below it."""
    for cell in work.cells:
        if is_check(cell):
            cell.source += "\nprint('all well')"
    return work


# cells of the student's own


def with_extras(work: NotebookNode) -> NotebookNode:
    """Trials, plots, failures, lines for IPython, empty cells and notes between all cells."""
    extras = [
        "%matplotlib inline\n!pip install torch",
        "1 / 0",
        "x = torch.ones(3)\nx",
        "",
        "def trial(:",
    ]
    cells = []
    for i, cell in enumerate(work.cells):
        cells += [cell, new_code_cell(extras[i % len(extras)])]
        if not tag(cell).startswith("explain"):
            cells.append(new_markdown_cell("A *note*."))
    work.cells = cells
    return without_ids(work)


def stubs_above(work: NotebookNode) -> NotebookNode:
    """Each answer in a new cell below the released one, in which nothing is written."""
    cells = []
    for cell in work.cells:
        if is_answer(cell):
            stub = copy.deepcopy(cell)
            stub.source = stub_of(cell)
            cells += [stub, new_code_cell(cell.source)]
        else:
            cells.append(cell)
    work.cells = cells
    return without_ids(work)


def stubs_below(work: NotebookNode) -> NotebookNode:
    """Each answer in a new cell above the released one."""
    work = stubs_above(work)
    for i in [i for i, cell in enumerate(work.cells) if is_answer(cell)]:
        work.cells[i : i + 2] = [work.cells[i + 1], work.cells[i]]
    return work


def stub_of(answer: NotebookNode) -> str:
    """The source of an answer's cell as nbgrader releases it."""
    stub = "# YOUR CODE HERE\n    raise NotImplementedError()"
    return re.sub("### BEGIN SOLUTION.*### END SOLUTION", stub, answer.source, flags=re.DOTALL)


def text_beside(work: NotebookNode) -> NotebookNode:
    """The text for a person in a new cell below the released one."""
    i = next(i for i, cell in enumerate(work.cells) if "**Model answer" in cell.source)
    work.cells.insert(i + 1, new_markdown_cell(work.cells[i].source))
    work.cells[i].source = "YOUR ANSWER HERE"
    return without_ids(work)


def text_in_question(work: NotebookNode) -> NotebookNode:
    """The text for a person written into the question's own cell."""
    i = next(i for i, cell in enumerate(work.cells) if "**Model answer" in cell.source)
    work.cells[i - 1].source += "\n\n" + work.cells[i].source
    work.cells[i].source = "YOUR ANSWER HERE"
    return work


def setup_lost(work: NotebookNode) -> NotebookNode:
    """The cell that imports `check` deleted; torch is imported elsewhere."""
    work.cells[1] = new_code_cell("import torch")
    return without_ids(work)


# tools

PYTHON_3_12 = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": "3.12.12",
}


def by_tool(
    about: dict[str, Any], cell_about: Callable[[int, NotebookNode], Any], minor: int
) -> Change:
    """A notebook as a tool saves it: its own metadata beside what was there, and no ids."""

    def change(work: NotebookNode) -> NotebookNode:
        for i, cell in enumerate(work.cells):
            cell.metadata.update(cell_about(i, cell))
            if cell.cell_type == "code":
                cell.execution_count = i
        work.metadata = nbformat.from_dict(about)
        work.nbformat_minor = minor
        for cell in work.cells:
            cell.pop("id", None)
        return work

    return change


def _colab_cell(i: int, cell: NotebookNode) -> dict[str, Any]:
    if cell.cell_type != "code":
        return {"id": f"NTCf7vHJPF{i:02}"}
    shown = {"colab": {"base_uri": "https://localhost:8080/"}, "outputId": f"40ffb086-{i:04}"}
    return {"id": f"zoW5J7P1gp{i:02}", **shown}


COLAB_LINK = (
    '<a href="https://colab.research.google.com/github/ada/course/blob/main/exercise.ipynb" '
    'target="_parent"><img src="https://colab.research.google.com/assets/colab-badge.svg" '
    'alt="Open In Colab"/></a>'
)


def colab(work: NotebookNode) -> NotebookNode:
    """Google Colab, with the badge that it puts above a notebook which it saves to GitHub."""
    about = {
        "colab": {"provenance": [], "include_colab_link": True},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
    }
    work = by_tool(about, _colab_cell, 0)(work)
    badge = {"id": "view-in-github", "colab_type": "text"}
    link = {"cell_type": "markdown", "metadata": badge, "source": COLAB_LINK}
    work.cells.insert(0, nbformat.from_dict(link))
    work.cells.append(new_code_cell("", metadata={"id": "9PK9J9sDhZ3x"}))
    work.cells[-1].pop("id")
    return work


def vscode(work: NotebookNode) -> NotebookNode:
    about = {
        "kernelspec": {"display_name": ".venv", "language": "python", "name": "python3"},
        "language_info": PYTHON_3_12,
        "orig_nbformat": 4,
    }
    return by_tool(about, lambda i, cell: {"vscode": {"languageId": "plaintext"}}, 2)(work)


def _kaggle_cell(i: int, cell: NotebookNode) -> dict[str, Any]:
    return {
        "_cell_guid": "b1076dfc-b9ad-4769-8c92-a6c4dae69d19",
        "_uuid": "8f2839f25d086af736a60e9eeb907d3b93b6e0e5",
        "execution": {
            "iopub.execute_input": "2026-02-25T21:10:53.868972Z",
            "iopub.status.busy": "2026-02-25T21:10:53.866540Z",
            "iopub.status.idle": "2026-02-25T21:11:08.960963Z",
            "shell.execute_reply": "2026-02-25T21:11:08.959003Z",
        },
        "trusted": True,
        "tags": [],
    }


def kaggle(work: NotebookNode) -> NotebookNode:
    about = {
        "kaggle": {
            "accelerator": "none",
            "dataSources": [],
            "dockerImageVersionId": 31328,
            "isGpuEnabled": False,
            "isInternetEnabled": False,
            "language": "python",
            "sourceType": "notebook",
        },
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": PYTHON_3_12,
    }
    return by_tool(about, _kaggle_cell, 4)(work)


def _deepnote_cell(i: int, cell: NotebookNode) -> dict[str, Any]:
    about = {"cell_id": f"{i:05}-ecf67c49-271d-4de3-b94d-6c7524881e40", "tags": []}
    if cell.cell_type != "code":
        return about | {"deepnote_cell_type": "markdown"}
    times = {"execution_start": 1620375813931 + i, "execution_millis": 3, "source_hash": "8ad57f32"}
    return about | times | {"deepnote_cell_type": "code", "deepnote_to_be_reexecuted": False}


DEEPNOTE_LINK = (
    "<a style='text-decoration:none;display:flex;color:#5B5B62;' "
    "href='https://deepnote.com?utm_source=created-in-deepnote-cell' target=\"_blank\">\n"
    "<img alt='Created in deepnote.com' src='data:image/svg+xml;base64,PD94' > </img>\n"
    "Created in <span style='font-weight:600;margin-left:4px;'>Deepnote</span></a>"
)


def deepnote(work: NotebookNode) -> NotebookNode:
    """Deepnote, with the mark that it puts below a notebook."""
    about = {
        "deepnote": {},
        "deepnote_execution_queue": [],
        "deepnote_notebook_id": "0d6e6f3c-6cf3-4bb8-8f0f-4f1c1e1a4f8e",
        "language_info": {"name": "python"},
        "orig_nbformat": 2,
    }
    work = by_tool(about, _deepnote_cell, 2)(work)
    mark = {"created_in_deepnote_cell": True, "deepnote_cell_type": "markdown"}
    link = {"cell_type": "markdown", "metadata": mark, "source": DEEPNOTE_LINK}
    work.cells.append(nbformat.from_dict(link))
    return work


def percent(metadata: bool) -> Change:
    """To a script by jupytext and back, with the cells' metadata in it or not."""

    def change(work: NotebookNode) -> NotebookNode:
        if not metadata:
            work.metadata["jupytext"] = {"cell_metadata_filter": "-all"}
        script = jupytext.writes(work, fmt="py:percent")
        made: NotebookNode = jupytext.reads(script, fmt="py:percent")
        return made

    return change


CHANGES: dict[str, Change] = {
    "nothing": lambda work: work,
    "metadata gone": bare,
    "ids gone": without_ids,
    "format 4.0": format_4_0,
    "format 3": format_3,
    "format 3, metadata gone": then(bare, format_3),
    "sources as lists": lines_as_lists,
    "Windows": windows,
    "UTF-16": utf_16,
    "an answer's metadata gone": first_untagged(is_answer),
    "a check's metadata gone": first_untagged(is_check),
    "split": split,
    "split, metadata gone": then(split, bare),
    "answer and check merged": answer_with_check(keeps=0),
    "check and answer merged": answer_with_check(keeps=1),
    "answer and check merged, metadata gone": then(answer_with_check(keeps=0), bare),
    "all code in one cell": code_in_one,
    "all in two cells": all_in_two,
    "no texts": code_only,
    "checks above answers": checks_first,
    "checks above answers, metadata gone": then(checks_first, bare),
    "tasks in another order": tasks_reversed,
    "tasks in another order, metadata gone": then(tasks_reversed, bare),
    "checks retyped": checks_retyped,
    "checks retyped, metadata gone": then(checks_retyped, bare),
    "checks deleted": checks_deleted,
    "checks deleted, metadata gone": then(checks_deleted, bare),
    "checks edited": checks_edited,
    "checks edited, metadata gone": then(checks_edited, bare),
    "cells of one's own": with_extras,
    "cells of one's own, metadata gone": then(with_extras, bare),
    "stubs above": stubs_above,
    "stubs above, metadata gone": then(stubs_above, bare),
    "import of check lost": setup_lost,
    "the text beside its cell": text_beside,
    "the text beside its cell, metadata gone": then(text_beside, bare),
    "the text in the question": text_in_question,
    "the text in the question, metadata gone": then(text_in_question, bare),
    "Colab": colab,
    "Colab, metadata gone": then(bare, colab),
    "VS Code": vscode,
    "VS Code, metadata gone": then(bare, vscode),
    "Kaggle": kaggle,
    "Kaggle, metadata gone": then(bare, kaggle),
    "Deepnote": deepnote,
    "Deepnote, metadata gone": then(bare, deepnote),
    "jupytext": percent(metadata=True),
    "jupytext, metadata gone": percent(metadata=False),
}


def with_helpers(work: NotebookNode) -> set[str]:
    """The tasks whose answer's cell holds more than the function."""
    cells = [cell for cell in work.cells if is_answer(cell)]
    return {tag(c).removesuffix("_answer") for c in cells if len(list(parts(c.source))) > 1}


def all_tasks(work: NotebookNode) -> set[str]:
    return {tag(cell) for cell in work.cells if is_check(cell)}


# what leaves tasks to a person, with the tasks that it leaves
DOUBTFUL: dict[str, tuple[Change, Callable[[NotebookNode], set[str]]]] = {
    "helpers below their use": (helpers_last, with_helpers),
    "helpers below their use, metadata gone": (then(helpers_last, bare), with_helpers),
    "stubs below": (stubs_below, all_tasks),
    "stubs below, metadata gone": (then(stubs_below, bare), all_tasks),
}
