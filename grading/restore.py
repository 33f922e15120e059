"""A submission put back into the form of the exercise, before anything of it runs.

A student's notebook may be edited anywhere: check cells changed, deleted, moved, doubled, their
points raised, their nbgrader metadata removed. So of the submission only two things are kept: the
order of its cells, and the sources of those cells that are the student's to write. Whatever the
released notebook has under the same grade_id comes from there, and what is missing is put back
after the cell that it followed. Every repair is noted, for the report.

nbgrader's own steps for this (DeduplicateIds, OverwriteCells) trust part of the metadata; they
stumble over a check cell that says `"grade": false`, and over one whose neighbour is gone too.
"""

import copy
import re
from collections.abc import Mapping, Set
from typing import Any

import nbformat
from nbformat import NotebookNode

PICTURES = {"image/png", "image/jpeg"}


def grade_id(cell: Mapping[str, Any]) -> str | None:
    """The name under which nbgrader knows a cell, or None."""
    ours = cell["metadata"].get("nbgrader")
    name = ours.get("grade_id") if isinstance(ours, Mapping) else None
    return name if isinstance(name, str) else None


def locked(cell: NotebookNode) -> bool:
    """Whether a released cell is not the student's to write."""
    ours = cell.metadata.get("nbgrader", {})
    return bool((ours.get("locked") or ours.get("grade")) and not ours.get("solution"))


def restore(submission: NotebookNode, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The submission with everything that is not the student's as it was released.

    Args:
        submission: the student's notebook, any valid one; its line ends are made the usual ones.
        released: the exercise's.

    Returns:
        notebook: a new one, without outputs, and with the released metadata only.
        notes: what had to be repaired, a sentence each.
    """
    unify(submission)
    originals = {name: cell for cell in released.cells if (name := grade_id(cell))}
    last = {name: i for i, cell in enumerate(submission.cells) if (name := grade_id(cell))}
    cells, notes = [], list[str]()
    for i, cell in enumerate(submission.cells):
        name = grade_id(cell)
        made, told = kept(cell, originals.get(name or ""), last.get(name or "") == i)
        cells.append(made)
        notes += told
    notes += [
        f"the cell {name} was missing, and has been put back"
        for name in originals
        if name not in last
    ]
    add_missing(cells, originals, set(last))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    made = nbformat.from_dict(
        {  # type: ignore[no-untyped-call]
            "cells": cells,
            "metadata": copy.deepcopy(released.metadata),
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
    return made, notes


def kept(
    cell: NotebookNode, original: NotebookNode | None, counts: bool
) -> tuple[dict[str, Any], list[str]]:
    """What stays of a submitted cell, which `counts` if it is the last of its name; and notes."""
    if original is not None and counts:
        return repaired(cell, original), complaints(cell, original)
    name, notes = grade_id(cell), []
    if name:
        there = original is not None
        told = f"the cell {name} is there twice" if there else f"the exercise has no cell {name}"
        notes.append(told)
    return plain(cell, cell.cell_type, {}), notes


def unify(notebook: NotebookNode) -> None:
    """Make the line ends of Windows and of old Macs the usual ones."""
    for cell in notebook.cells:
        cell.source = re.sub(r"\r\n?", "\n", cell.source)


def add_missing(
    cells: list[dict[str, Any]], originals: Mapping[str, NotebookNode], there: set[str]
) -> None:
    """Put the released cells that are not `there` into `cells`, each after the one before it."""
    before = None
    for name, original in originals.items():
        if name not in there:
            places = [i for i, cell in enumerate(cells) if grade_id(cell) == before]
            cells.insert(places[0] + 1 if places else 0, repaired(original, original))
        before = name


def repaired(cell: NotebookNode, original: NotebookNode) -> dict[str, Any]:
    """A submitted cell with the released metadata, type and, where it is locked, source."""
    metadata = copy.deepcopy(original.metadata)
    if locked(original) or cell.source == original.source:
        return {**plain(original, original.cell_type, metadata), "source": original.source}
    return plain(cell, original.cell_type, metadata)


def complaints(cell: NotebookNode, original: NotebookNode) -> list[str]:
    """What a student changed about a cell that was not the student's to change."""
    name, notes = grade_id(original), []
    if locked(original) and cell.source != original.source:
        notes.append(f"the cell {name} was edited, and has been put back")
    submitted, ours = cell.metadata["nbgrader"], original.metadata["nbgrader"]
    changed = [
        key
        for key in ("grade", "solution", "locked", "points", "task")
        if submitted.get(key) != ours.get(key)
    ]
    if changed or cell.cell_type != original.cell_type:
        notes.append(f"the metadata of the cell {name} was changed: {', '.join(changed) or 'type'}")
    return notes


def plain(cell: NotebookNode, kind: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """A cell with this source, and nothing else that a student wrote but pictures in a text."""
    if kind == "code":
        return {
            "cell_type": kind,
            "metadata": metadata,
            "source": cell.source,
            "outputs": [],
            "execution_count": None,
        }
    text: dict[str, Any] = {"cell_type": "markdown", "metadata": metadata}
    if pictures := attached(cell.get("attachments")):
        text["attachments"] = pictures
    return {**text, "source": tame(cell.source, frozenset(pictures))}


def tame(text: str, pictures: Set[str] = frozenset()) -> str:
    """A text without what Formgrader would run, or load, with the grader's rights.

    HTML is none any more; a link leads to the web or to a mail, a picture is an attached one.

    >>> tame("if $s<t$ then <script>")
    'if $s< t$ then < script>'
    >>> tame("[a](https://b.org) [c](javascript:d)  ![g](https://h.org/i.png)")
    '[a](https://b.org) [c] (javascript:d)  ! [g](https://h.org/i.png)'
    >>> tame("![e](attachment:f.png) ![e](attachment:g.png)", {"f.png"})
    '![e](attachment:f.png) ! [e](attachment:g.png)'
    """
    text = re.sub(r"<(?=\S)", "< ", text)
    known = "|".join(re.escape(name) for name in pictures if re.fullmatch(r"[\w. -]{1,200}", name))
    text = re.sub(
        rf"!(?=\[)(?!\[[^\[\]\n]{{0,500}}\]\(attachment:({known or '(?!)'})\))", "! ", text
    )
    text = re.sub(
        r"\](?=\()(?!\((https?://|mailto:|#|attachment:)[^\s()<>]{0,2000}[\s)])", "] ", text
    )
    return re.sub(r"\](?=:)", "] ", text)


def attached(attachments: Any) -> dict[str, dict[str, str]]:
    """The pictures among a text's attachments."""
    found: dict[str, dict[str, str]] = {}
    for name, parts in (attachments or {}).items():
        for mime, data in parts.items():
            text = "".join(data) if isinstance(data, list) else str(data)
            if mime in PICTURES and re.fullmatch(r"[A-Za-z0-9+/=\s]*", text):
                found.setdefault(name, {})[mime] = text
    return found
