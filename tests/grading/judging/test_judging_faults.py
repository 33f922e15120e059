"""Faults that an engineer put into this room, each with the test that notices it."""

import json
from dataclasses import replace

from inprocess import run_here
from test_judge import (  # the fixture stands in for the real exercises
    HIDDEN,
    RIGHT,
    exercise,
    handed_in,
    judged,
    released,
)

from grading.judging.judge import by_hand
from grading.judging.report import CRASHED, GRADED, PERSON, TIMED_OUT, Line

__all__ = ["exercise"]


def test_a_forbidden_name_in_another_try_below_the_check_plays_no_part() -> None:
    below = "def double(x):\n    return x.mul(2)"
    assert judged(handed_in(RIGHT["double"], below=below)).tasks["double"] == Line(2.0, 2.0, GRADED)


def test_a_cell_below_the_check_that_took_too_long_plays_no_part() -> None:
    restored = handed_in("def double(x):\n    return 3 * x", below="1")
    told = run_here(restored.notebook, HIDDEN)
    *lines, last = told.lines.split(b"\n")
    late = json.dumps(json.loads(last) | {"ended": "timed out after 8 s"}).encode()
    lines.append(late)
    report = judged(restored, replace(told, lines=b"\n".join(lines), status=TIMED_OUT))
    assert report.tasks["double"].status == GRADED
    assert "expected" in report.tasks["double"].reason


def test_an_unwritten_text_that_may_stand_elsewhere_is_for_a_person() -> None:
    cell = next(c for c in released().cells if c.metadata.get("nbgrader", {}).get("points") == 3)
    assert by_hand(cell, "it may stand elsewhere") == Line(
        0.0, 3.0, PERSON, "it may stand elsewhere"
    )


def test_the_reason_of_a_run_is_made_harmless() -> None:
    restored = handed_in(RIGHT["double"])
    told = run_here(restored.notebook, HIDDEN)
    report = judged(restored, replace(told, reason="\x1b[2J" + "x" * 9_000))
    assert "\x1b" not in report.reason
    assert len(report.reason) == 500


def test_a_kernel_that_ends_in_the_check_itself_is_a_crash() -> None:
    restored = handed_in("def double(x):\n    return 3 * x")
    told = run_here(restored.notebook, HIDDEN)
    at = next(i for i, c in enumerate(restored.notebook.cells) if c.source.startswith("check("))
    lines = [json.loads(line) for line in told.lines.split(b"\n")]
    lines = [line for line in lines if line["cell"] <= at]
    lines[-1] |= {"outputs": [], "last": True}
    ended = b"\n".join(json.dumps(line).encode() for line in lines)
    report = judged(restored, replace(told, lines=ended, status=CRASHED, reason="a reason"))
    assert report.tasks["double"] == Line(0.0, 2.0, CRASHED, "a reason")
