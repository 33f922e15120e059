"""A submission put back into the form of the exercise, before anything of it runs.

A student's notebook may look like anything: check cells edited, deleted or moved, cells split and
merged, and all of nbgrader's metadata gone, because a platform or an editor has dropped them. So
`prepare` takes two steps. It *matches*: which submitted cell stands for which released one, by its
metadata, else by its text, by `def name(` or by `check("name"`. Then it *rebuilds*: all cells of
the student's stay, in their order; what is locked comes from the release, and stands where the
student's copy stood; a check comes after the function that it checks.

Where the notebook alone shows that points may be lost by its form, `doubts` says why a person has
to look.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import nbformat
from nbformat import NotebookNode

from grading.intake.recognise import read_notebook
from grading.intake.sources import defines, definition, resting_on, same_code
from grading.intake.texts import attached, tame


@dataclass(frozen=True)
class Restored:
    """A submission in released form.

    Attributes:
        notebook: it, without outputs, and with the released metadata only.
        notes: what had to be repaired, a sentence each.
        answers: by task, the student's code that defines it, helpers included.
        doubts: by task, autograded or by hand, why a person has to look.
    """

    notebook: NotebookNode
    notes: tuple[str, ...]
    answers: Mapping[str, str]
    doubts: Mapping[str, str]


def prepare(file: bytes, released: NotebookNode, tasks: Sequence[str]) -> Restored:
    """Put a submission back into the form of its exercise.

    Args:
        file: what was handed in.
        released: the exercise's notebook.
        tasks: the names of its autograded tasks.

    Raises:
        ValueError: the file is no notebook; the text says what it is.
    """
    match = matched(read(file), released, tasks)
    notebook = rebuilt(match, released)
    answers = {task: resting_on(code_for(notebook, task), task) for task in tasks}
    return Restored(notebook, notes(match), answers, doubts(notebook, match, tasks))


# what cells are


def grade_id(cell: Mapping[str, Any]) -> str | None:
    """The name under which nbgrader knows a cell, or None."""
    about = cell["metadata"].get("nbgrader")
    name = about.get("grade_id") if isinstance(about, Mapping) else None
    return name if isinstance(name, str) else None


def locked(cell: NotebookNode) -> bool:
    """Whether a released cell is not the student's to write."""
    about = cell.metadata.get("nbgrader", {})
    return bool((about.get("locked") or about.get("grade")) and not about.get("solution"))


def by_hand(cell: NotebookNode) -> bool:
    """Whether a released cell is an answer that a person grades."""
    about = cell.metadata.get("nbgrader", {})
    return bool(about.get("grade") and about.get("solution"))


def same(source: str, original: NotebookNode) -> bool:
    """Whether a source is that of a released cell; spaces play no part, nor comments in code."""
    if original.cell_type == "code":
        return same_code(source, original.source)
    return source.split() == str(original.source).split()


# reading


def read(file: bytes) -> NotebookNode:
    """The notebook in a file of format 3 or 4, as far as grading needs it.

    Of a cell stay its type, source, metadata and attached pictures.

    Raises:
        ValueError: the file is no notebook; the text says what it is.
    """
    content, damage = read_notebook(file)
    if damage:
        raise ValueError(f"{damage}; hand in the notebook (.ipynb) that Jupyter saves")
    if content.get("nbformat") in (1, 2, 3):
        content = converted(content)
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise ValueError("no notebook: its cells are no list")
    return notebook_of([kept(cell, number) for number, cell in enumerate(cells, 1)], {})


def converted(content: Mapping[str, Any]) -> Any:
    """A notebook of an older format in that of today.

    Raises:
        ValueError: it cannot be converted.
    """
    try:
        return nbformat.convert(nbformat.from_dict(content), 4)  # type: ignore[no-untyped-call]
    except MemoryError:
        raise
    except Exception as error:  # of a damaged one nbformat may raise anything
        told = f"{type(error).__name__}: {error}"
        raise ValueError(f"the notebook is of an old format and damaged ({told})") from None


def kept(cell: Any, number: int) -> dict[str, Any]:
    """What is kept of a submitted cell.

    Raises:
        ValueError: it is no cell.
    """
    source = cell.get("source") if isinstance(cell, Mapping) else None
    if isinstance(source, list):
        source = "".join(map(str, source))
    if not isinstance(source, str):
        raise ValueError(f"cell {number} of the notebook is damaged: it has no source")
    metadata = cell.get("metadata")
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return {
        "cell_type": "code" if cell.get("cell_type") == "code" else "markdown",
        "metadata": metadata if isinstance(metadata, Mapping) else {},
        "source": text.encode(errors="replace").decode(),  # halves of signs become "?"
        "attachments": attached(cell.get("attachments")),
    }


def notebook_of(cells: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> NotebookNode:
    """A notebook of these cells, in format 4.5."""
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    notebook: NotebookNode = nbformat.from_dict(whole)  # type: ignore[no-untyped-call]
    return notebook


# matching


@dataclass
class Match:
    """Which submitted cells stand for which released ones; all are known by their index.

    Attributes:
        cells: the submitted ones.
        originals: the released ones that have a name, by name.
        places: by the name of a locked cell, the submitted cell where it belongs.
        copies: the submitted cells that are nothing but copies of locked ones.
        answers: by the name of an answer, the submitted cell that is it.
        moved: the tasks whose check was not found, or stood before the function.
    """

    cells: Sequence[NotebookNode]
    originals: Mapping[str, NotebookNode]
    places: dict[str, int] = field(default_factory=dict)
    copies: set[int] = field(default_factory=set)
    answers: dict[str, int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)

    def tagged(self, name: str) -> list[int]:
        """The submitted cells that have a name in nbgrader's metadata."""
        return [i for i, cell in enumerate(self.cells) if grade_id(cell) == name]

    def stub(self, task: str) -> str:
        """The definition of a task's function as it was released."""
        answer = self.originals.get(f"{task}_answer")
        return definition(answer.source, task) if answer else ""

    def find_locked(self, name: str) -> None:
        """Find the place of a locked cell: by its source, else by its name or its heading."""
        original, tagged = self.originals[name], self.tagged(name)
        alike = [i for i, cell in enumerate(self.cells) if same(cell.source, original)]
        heading = str(original.source).partition("\n")[0]
        headed = [
            i
            for i, cell in enumerate(self.cells)
            if cell.cell_type != "code" and heading.startswith("#") and heading in cell.source
        ]
        places = alike or tagged or headed
        if places:
            self.places[name] = places[0]
            self.copies |= set(alike[:1])

    def find_answer(self, task: str) -> None:
        """Find the answer of a task, by `def task(`, and see that its check comes after it."""
        sources = {i: c.source for i, c in enumerate(self.cells) if c.cell_type == "code"}
        defined = [i for i, source in sources.items() if defines(source, task)]
        written = [i for i in defined if definition(sources[i], task) != self.stub(task)]
        functions = written or defined
        answers = functions or self.tagged(f"{task}_answer")
        if answers and answers[-1] not in self.answers.values():
            self.answers[f"{task}_answer"] = answers[-1]
        if functions and self.places.get(task, -1) < functions[0]:
            self.places[task] = functions[-1]
            self.moved.add(task)

    def find_text(self, name: str, question: str) -> None:
        """Find an answer that a person grades: by its name, else after its question."""
        texts = self.tagged(name)
        if question in self.places and not texts:
            known = {*self.places.values(), *self.copies, *self.answers.values()}
            first = self.places[question] + 1
            end = min((i for i in known if i >= first), default=len(self.cells))
            texts = [i for i in range(first, end) if self.cells[i].cell_type == "markdown"]
        written = [i for i in texts if not same(self.cells[i].source, self.originals[name])]
        if texts:
            self.answers[name] = (written or texts)[0]


def matched(submission: NotebookNode, released: NotebookNode, tasks: Sequence[str]) -> Match:
    """Find the released cells in a submission."""
    match = Match(submission.cells, {n: cell for cell in released.cells if (n := grade_id(cell))})
    for cell in submission.cells:  # a cell that has its name has its type
        original = match.originals.get(grade_id(cell) or "")
        cell.cell_type = original.cell_type if original else cell.cell_type
    for name, cell in match.originals.items():
        if locked(cell):
            match.find_locked(name)
    for task in tasks:
        match.find_answer(task)
    before = ""
    for name, cell in match.originals.items():
        if by_hand(cell):
            match.find_text(name, before)
        before = name
    return match


# rebuilding


def rebuilt(match: Match, released: NotebookNode) -> NotebookNode:
    """The notebook of the student's cells and the released locked ones, in released form."""
    answers = {i: match.originals.get(name) for name, i in match.answers.items()}
    cells: list[dict[str, Any]] = []
    for i, submitted in enumerate(match.cells):
        names = [name for name in match.originals if match.places.get(name) == i]
        here = [copy.deepcopy(match.originals[name]) for name in names]
        cells += [cell for cell in here if cell.cell_type != "code"]
        if i not in match.copies:
            cells.append(students(submitted, answers.get(i)))
        cells += [cell for cell in here if cell.cell_type == "code"]
    add_missing(cells, match)
    add_setup(cells, released)
    for number, rebuilt_cell in enumerate(cells):
        rebuilt_cell["id"] = f"cell-{number}"
    return notebook_of(cells, copy.deepcopy(released.metadata))


def students(cell: NotebookNode, answer: NotebookNode | None) -> dict[str, Any]:
    """A cell of the student's, which may be that of a released answer; its text is made harmless.

    An answer in which nothing was written is as it was released; so is a text that was deleted.
    """
    if answer and (same(cell.source, answer) or (by_hand(answer) and not cell.source.strip())):
        return copy.deepcopy(answer)
    made: dict[str, Any] = {
        "cell_type": cell.cell_type,
        "metadata": copy.deepcopy(answer.metadata) if answer else {},
    }
    if cell.cell_type == "code":
        return made | {"source": cell.source, "outputs": [], "execution_count": None}
    pictures = cell.attachments
    made |= {"attachments": pictures} if pictures else {}
    return made | {"source": tame(cell.source, frozenset(pictures))}


def missing(match: Match) -> list[str]:
    """The released cells that have to be put back: all but the answers of autograded tasks.

    A stub that is put back would stand before or after the student's own function.
    """
    known = {*match.places, *match.answers}
    return [
        name
        for name, cell in match.originals.items()
        if name not in known and (locked(cell) or by_hand(cell))
    ]


def add_missing(cells: list[dict[str, Any]], match: Match) -> None:
    """Put what is missing into `cells`, each after the released cell before it."""
    absent, place = missing(match), 0
    for name in match.originals:
        if name in absent:
            cells.insert(place, copy.deepcopy(match.originals[name]))
        places = [i for i, cell in enumerate(cells, 1) if grade_id(cell) == name]
        place = places[0] if places else place


def add_setup(cells: list[dict[str, Any]], released: NotebookNode) -> None:
    """Put the cell that imports `check` first, if the student's notebook imports it nowhere."""
    if not any(cell["cell_type"] == "code" and defines(cell["source"], "check") for cell in cells):
        setup = [c for c in released.cells if c.cell_type == "code" and defines(c.source, "check")]
        cells[:0] = copy.deepcopy(setup[:1])


# what a person should know


def notes(match: Match) -> tuple[str, ...]:
    """What had to be repaired, a sentence each."""
    nameless = [n for n in [*match.places, *match.answers] if not match.tagged(n)]
    edited = [n for n, i in match.places.items() if i not in match.copies and n not in match.moved]
    lines = {
        "without nbgrader's metadata, found by their text": nameless,
        "edited, and put back; the student's stand beside them": edited,
        "missing, and put back": missing(match),
        "put behind the function that they check": sorted(match.moved),
    }
    return tuple(f"cells {told}: {first_few(names)}" for told, names in lines.items() if names)


def first_few(names: Sequence[str], most: int = 5) -> str:
    """A few names, and how many more there are.

    >>> first_few(["a", "b"]), first_few(["a", "b", "c"], most=1)
    ('a, b', 'a and 2 more')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def students_code(notebook: NotebookNode) -> dict[int, str]:
    """The sources of the code cells that are the student's to write, by their index."""
    return {
        i: cell.source
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and not locked(cell)
    }


def code_for(notebook: NotebookNode, task: str) -> list[str]:
    """The student's code cells that run before the check of a task; all, if none defines it."""
    sources, check = students_code(notebook), place_of(notebook, task)
    before = [source for i, source in sources.items() if i < check]
    return before if any(defines(source, task) for source in before) else list(sources.values())


def place_of(notebook: NotebookNode, name: str) -> int:
    """The index of the cell of a name in a notebook of released form."""
    return next(i for i, cell in enumerate(notebook.cells) if grade_id(cell) == name)


def doubts(notebook: NotebookNode, match: Match, tasks: Sequence[str]) -> dict[str, str]:
    """Why a person has to look, by task, where the notebook alone shows it."""
    reasons = {task: function_doubt(notebook, match, task) for task in tasks}
    for name, cell in match.originals.items():
        if by_hand(cell):
            reasons[name] = text_doubt(notebook, match, name)
    return {task: reason for task, reason in reasons.items() if reason}


def function_doubt(notebook: NotebookNode, match: Match, task: str) -> str:
    """Why it is not sure which function of the notebook is the answer; empty if it is."""
    sources = students_code(notebook)
    defined = [i for i, source in sources.items() if defines(source, task)]
    written = [i for i in defined if definition(sources[i], task) != match.stub(task)]
    if not defined:
        return f"no cell defines {task}"
    checked = max((i for i in defined if i < place_of(notebook, task)), default=-1)
    if written and (checked != written[-1] or (task in match.moved and len(written) > 1)):
        cells = " and ".join(str(i + 1) for i in defined)
        return f"the cells {cells} define {task}, and it is not sure which of them is the answer"
    return ""


def text_doubt(notebook: NotebookNode, match: Match, name: str) -> str:
    """Why a text that a person grades may stand elsewhere; empty if it stands in its cell."""
    if name not in match.answers:
        return "its cell is not in the notebook: the answer may stand elsewhere"
    if not same(notebook.cells[place_of(notebook, name)].source, match.originals[name]):
        return ""
    names, handed_in = list(match.originals), {*match.places, *match.answers} - {name}
    question = place_of(notebook, names[names.index(name) - 1])
    for cell in notebook.cells[question + 1 :]:
        if grade_id(cell) in handed_in:
            break
        if grade_id(cell) is None and cell.source.strip():
            return "nothing stands in its cell, but something stands beside it"
    return ""
