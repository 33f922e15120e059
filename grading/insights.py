"""What a class got wrong: `make insights NAME=…` writes a page for the lecturer, no name in it.

It reads the reports that grading wrote, the graded notebooks (each in a child), and the lists of
what was collected; it runs nothing. Of each task it tells how many passed, which mistakes how
often, and shows two answers: the shortest with the commonest mistake, and the shortest right one.
At the end it counts the submissions in which a refused or a suspicious name was seen.

Nothing on the page was chosen by a student: of an answer stay the words that the exercise, Python,
torch and numpy know; others are numbered, texts are dots, and comments are left out. Mistakes are
told in the course's own sentences, with the names of no exceptions but Python's and torch's.
"""

import ast
import base64
import builtins
import html
import json
import keyword
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import torch

from attnlib import plots
from grading import child, tables
from grading.build import BuildError, known
from grading.child import Trouble
from grading.collect import due_dates
from grading.marks import Mark, marks_of, students
from grading.preprocess import GRADED, read, released
from grading.restore import grade_id
from grading.scan import SUSPICIOUS
from grading.settings import ROOT, Places, timestamp
from grading.submission import handed_in, points, read_report, report_path
from grading.task import Task
from grading.tasks import exercise

LONGEST, LARGEST = 25, 3_000  # lines and characters of an answer on the page
LONGEST_NUMBER = 8  # digits and signs
PLACES = (builtins, math, np, np.ndarray, torch, torch.Tensor, torch.nn.functional, str, list, dict)
ENDED = ("cell above the check", "check cell")
MISSING = "not written"
OTHER = "other values than the right ones, by no mistake that the task names"
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff;
  max-width: 60rem; margin: auto; padding: 1rem; }
pre { background: #f3f4f6; padding: .6rem; overflow-x: auto; }
td, th { text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top; }
td:first-child { text-align: right; white-space: nowrap; } img { max-width: 100%; }"""


@dataclass
class Work:
    """What one student did: marks by task, answers by task, how often and when handed in."""

    marks: dict[str, Mark]
    answers: dict[str, str]
    seconds: float
    attempts: int
    early: float | None  # hours before it was due
    seen: frozenset[str]  # of the course's lists of names


@dataclass
class Told:
    """A task as the page tells it."""

    name: str
    passed: int = 0
    judged: int = 0
    waiting: int = 0
    mistakes: Counter[str] = field(default_factory=Counter)
    right: list[str] = field(default_factory=list)
    wrong: dict[str, list[str]] = field(default_factory=dict)


def mistake(task: Task | None, reason: str) -> str:
    """The mistake in the reason of a mark: named by the task, or its kind.

    >>> mistake(None, "it raised TypeError: bad (f(float32 (2, 3)))")
    'it raised TypeError'
    >>> mistake(None, "no answer: it is not written yet")
    'not written'
    """
    sentences = sorted(task.mistakes if task else (), key=len, reverse=True)
    for sentence in sentences:
        if sentence[1:].rstrip(".") in reason:  # a reason may begin it small
            return sentence
    if "it is not written yet" in reason:
        return MISSING
    if reason.startswith("it changes its argument"):
        return "it changes its argument"
    for what in ("it raised", *(f"no answer: the {one} ended with" for one in ENDED)):
        if reason.startswith(what):
            return f"{what} {exception(reason.removeprefix(what).strip())}"
    if reason.startswith("no answer"):
        return "no answer: the cell did not run to its end"
    if reason.startswith("forged"):
        return "forged: what was shown is not what a check cell shows"
    if used := re.match(r"it uses (\w+), which would be the answer: write it yourself", reason):
        return used[0] if task and used[1] in task.forbidden else "it uses what the task forbids"
    shape = re.search(r"\bshape\b|\bdtype\b", reason)
    return f"another {shape[0]} than the right one" if shape else OTHER


def exception(text: str) -> str:
    """The name with which a text begins, if it is an exception of Python's or torch's.

    >>> exception("ValueError: x"), exception("AdaError")
    ('ValueError', 'an exception of its own')
    """
    name = re.split(r"\W", text)[0]
    known = getattr(builtins, name, None) or getattr(torch, name, None)
    return name if isinstance(known, type) else "an exception of its own"


@cache
def words(name: str) -> frozenset[str]:
    """The words that anybody's answer to an exercise may use."""
    cells = [*released(name).cells, *read(ROOT / "solutions" / name / f"{name}.ipynb").cells]
    ours = re.findall(r"\w+", " ".join(c.source for c in cells if c.cell_type == "code"))
    known = (word for place in PLACES for word in dir(place))
    return frozenset([*ours, *known, *keyword.kwlist, *["f", "dim", "keepdim", "axis", "keepdims"]])


def code(name: str, path: Path) -> bytes:
    """The answers of a graded notebook by task, as JSON, without what their author chose."""
    found = {}
    for cell in read(path).cells:
        task = (grade_id(cell) or "").removesuffix("_answer")
        if cell.cell_type == "code" and task != grade_id(cell):
            with suppress(SyntaxError, ValueError, RecursionError):
                found[task] = plain(cell.source, words(name))
    return json.dumps({task: text for task, text in found.items() if len(text) < LARGEST}).encode()


def plain(source: str, known: Set[str]) -> str:
    """Source with dots for texts, with numbers for its own names, and without comments.

    >>> print(plain("def f(ada):  # Ada\\n    return 'Ada' + ada", {"def", "f", "return"}))
    def f(name1):
        return '…' + name1
    """
    tree, own = ast.parse(source), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            node.value = "…"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, complex):
            longest = 4 if isinstance(node.value, int) else LONGEST_NUMBER
            node.value = node.value if len(repr(node.value)) <= longest else 0

    def word(found: re.Match[str]) -> str:
        text = found[0]
        return text if text in {*known, "…"} else own.setdefault(text, f"name{len(own) + 1}")

    # what is not ASCII is part of a name, marks above letters too, or it is a dot
    return re.sub(r"(?<![\w])(?!\d)[\w\u0080-\U0010ffff]+", word, ast.unparse(tree))


def hand_ins(name: str, places: Places) -> Counter[str]:
    """How many different times each student handed an exercise in, by all lists of `collect`."""
    lists = [places.home / "collected.csv", *places.collected.glob("collected_*.csv")]
    rows = [row for path in lists if path.exists() for row in tables.read(path)]
    times = {
        (row["student"], row["handed in"])
        for row in rows
        if row["exercise"] == name and row["student"] and row["handed in"]
    }
    return Counter(student for student, _ in times)


def work(name: str, places: Places) -> list[Work]:
    """What was graded of an exercise, of everybody who handed something in."""
    most, due, tried = points(name), due_dates(places).get(name), hand_ins(name, places)
    found = []
    words(name)  # which all children find there
    for student in students(places):
        report = read_report(report_path(name, student, places))
        if report is None or report["submission"] is None:
            continue
        lines = {mark.task: mark for mark in marks_of(student, name, most, places)}
        path = places.autograded / student / name / f"{name}.ipynb"
        answers = {}
        with suppress(Trouble):  # then nothing is shown of it
            if path.exists():
                answers = json.loads(child.run(code, name, path, most=1 << 20))
        at = timestamp(handed_in(name, student, places))
        early = _hours(at, due)
        said = [*report["notes"], *(mark.reason for mark in lines.values())]
        found.append(
            Work(lines, answers, report["seconds"], tried[student], early, seen(name, said))
        )
    return found


def seen(name: str, said: Sequence[str]) -> frozenset[str]:
    """The refused and the suspicious names of which a report speaks; no word of a student's own.

    >>> sorted(seen("05_gpt2", ["cell 3 uses ctypes", "next_token_loss: it uses ada, which"]))
    ['ctypes']
    """
    listed = SUSPICIOUS.union(*(task.forbidden for task in exercise(name).values()))
    return listed.intersection(word for text in said for word in re.findall(r"\buses (\w+)", text))


def _hours(at: datetime | None, due: datetime | None) -> float | None:
    """How long before it was due something came.

    >>> _hours(datetime(2026, 1, 1, 10), datetime(2026, 1, 1, 12))
    2.0
    """
    return (due - at).total_seconds() / 3600 if at and due else None


def told(name: str, works: Sequence[Work]) -> list[Told]:
    """Each task of an exercise, over all that was handed in."""
    tasks: Mapping[str, Task] = exercise(name)
    found = []
    for task in points(name):
        one = Told(task)
        for done in works:
            mark, show = done.marks[task], done.answers.get(task)
            one.waiting += mark.status != GRADED
            one.judged += mark.status == GRADED
            full = mark.points == mark.max_points
            one.passed += mark.status == GRADED and full
            if mark.status == GRADED and full:
                one.right += [show] if show else []
            elif mark.status == GRADED and task in tasks:
                kind = mistake(tasks[task], mark.reason)
                one.mistakes[kind] += 1
                one.wrong.setdefault(kind, []).extend([show] if show else [])
        found.append(one)
    return found


def names_seen(works: Sequence[Work]) -> str:
    """In how many submissions each refused or suspicious name was seen, as a part of the page."""
    counts = Counter(word for one in works for word in one.seen)
    rows = "".join(f"<tr><td>{n}</td><td>{word}</td></tr>" for word, n in counts.most_common())
    head = "<h2>Names that a task forbids, or that lead around it</h2>"
    if not rows:
        return f"{head}<p>Seen in no submission.</p>"
    return f"{head}<table><tr><th>submissions</th><th>name</th></tr>{rows}</table>"


def examples(one: Told) -> list[tuple[str, str]]:
    """Up to two answers with their headings: the commonest mistake's and a right one, the shortest
    of each that fits the page."""
    shown = []
    for kind, _ in one.mistakes.most_common():
        if kind != MISSING and (answer := _shortest(one.wrong[kind])):
            shown.append((f"Wrong: {kind}", answer))
            break
    if answer := _shortest(one.right):
        shown.append(("Right, and the shortest", answer))
    return shown


def _shortest(answers: Sequence[str]) -> str:
    fitting = [answer for answer in answers if answer.count("\n") < LONGEST]
    return min(fitting, key=lambda answer: (len(answer), answer), default="")


# the page


def figure(works: Sequence[Work]) -> plots.Figure:
    """Points of all students, and points by how often they handed in, where that is known."""
    import matplotlib.pyplot as plt

    total = [sum(mark.points for mark in one.marks.values()) for one in works]
    most = sum(mark.max_points for mark in works[0].marks.values())
    tried = sorted({one.attempts for one in works if one.attempts})
    picture, (left, right) = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    left.hist(total, bins=range(int(most) + 2), align="left", color=plots.COLOURS[0])
    left.set(xlabel="points", ylabel="students", xlim=(-0.7, most + 0.7))
    groups = [[t for t, o in zip(total, works, strict=True) if o.attempts == n] for n in tried]
    if groups:
        right.boxplot(groups, tick_labels=tried)
    right.set_visible(bool(groups))
    for axis in (left.xaxis, left.yaxis, right.yaxis):
        axis.get_major_locator().set_params(integer=True)
    right.set(xlabel="times handed in", ylabel="points", ylim=(-0.3, most + 0.3))
    pairs = zip(tried, groups, strict=True)
    medians = ", ".join(f"{n}: {median(g):g} (of {len(g)})" for n, g in pairs)
    alt = f"Left: points of {len(works)} students, median {median(total):g} of {most:g}. "
    return plots.show(picture, alt + f"Right: median points by times handed in: {medians or '–'}.")


def page(name: str, works: Sequence[Work], tasks: Sequence[Told]) -> str:
    """The page, as HTML."""
    shown, seconds = figure(works), [one.seconds for one in works]
    early = [one.early for one in works if one.early is not None]
    times = f"A submission ran {median(seconds):.1f} s (median; the longest {max(seconds):.1f} s). "
    if early:
        times += f"The median was handed in {median(early):.0f} h before it was due"
        times += f", {sum(hours < 0 for hours in early)} of {len(early)} late."
    picture = base64.b64encode(shown.png).decode()
    parts = [
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html.escape(name)}</title>',
        f"<style>{STYLE}</style><h1>{html.escape(name)}: what a class of {len(works)} did</h1>",
        f'<p>{times}</p><img alt="{html.escape(shown.alt)}" src="data:image/png;base64,{picture}">',
        *(section(one) for one in tasks),
        names_seen(works),
    ]
    return "\n".join(parts) + "\n</html>\n"


def section(one: Told) -> str:
    """A task on the page."""
    rows = "".join(
        f"<tr><td>{count}</td><td>{html.escape(kind)}</td></tr>"
        for kind, count in one.mistakes.most_common()
    )
    wait = "waits" if one.waiting == 1 else "wait"
    waits = f"; {one.waiting} {wait} for a person or did not run" if one.waiting else ""
    head = f"<h2>{html.escape(one.name)}</h2><p>{one.passed} of {one.judged} passed{waits}.</p>"
    table = f"<table><tr><th>students</th><th>mistake</th></tr>{rows}</table>" if rows else ""
    return (
        head
        + table
        + "".join(
            f"<h3>{html.escape(why)}</h3><pre>{html.escape(answer)}</pre>"
            for why, answer in examples(one)
        )
    )


def insights(wanted: str, places: Places) -> Path:
    """Write the page of an exercise to `insights/` at the class's home, and return its path.

    Raises:
        BuildError: if nothing of it has been graded.
    """
    name = known(wanted)
    works = work(name, places)
    if not works:
        raise BuildError(f"nothing of {name} has been graded; run make grade NAME={name} first")
    path = places.home / "insights" / f"{name}.html"
    tables.written(path, page(name, works, told(name, works)))
    return path
