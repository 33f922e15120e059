"""The marks of a class: roster, what is late, what waits, and what a person gave."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from semester import BY_HAND, NAME, NOON, TASKS, give, grade, hand_in, rows_of, semester

from grading.judging.report import ABSENT, CRASHED, GRADED, PERSON, Line
from grading.release.build import BuildError
from grading.reports.exports import write_marks
from grading.reports.marks import NOT_DUE, NOT_GRADED, UNCLEAR, Mark, marks, totals
from grading.settings import Places


def marks_of(places: Places, student: str) -> dict[str, Mark]:
    return {mark.task: mark for mark in marks(places) if mark.student == student}


def test_everybody_on_the_roster_has_a_row_for_each_task(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    grade(places, "guest")  # who is not on the roster
    table = marks(places)
    assert [mark.student for mark in table[:: len(TASKS)]] == ["ada", "emmy", "alan", "guest"]
    assert {mark.status for mark in table if mark.student == "alan"} == {ABSENT}
    sums = totals(table)
    assert sums["alan", NAME] == 0
    assert sums["ada", NAME] is None  # the explanation waits for a person


def test_whose_time_is_not_over_has_no_0_yet(tmp_path: Path) -> None:
    places = semester(tmp_path, due=NOON)
    (tmp_path / "extensions.csv").write_text(
        f"id,exercise,due\nalan,{NAME},{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M}\n"
    )
    grade(places, "ada")
    sums = totals(marks(places))
    assert marks_of(places, "alan")["attend"].status == NOT_DUE
    assert (sums["alan", NAME], sums["emmy", NAME]) == (None, 0)


def test_lateness_and_totals_stand_in_the_long_table(tmp_path: Path) -> None:
    places = semester(tmp_path, due=NOON - timedelta(hours=25))
    wrong = {"attend": Line(0, 3, GRADED, "=1+1 is no answer")}
    grade(places, "ada", wrong)
    give(places, "ada", BY_HAND, manual_score=2.5)
    write_marks(places)
    header, *rows = rows_of(tmp_path / "marks.csv")
    by_task = {row[3]: dict(zip(header, row, strict=True)) for row in rows if row[0] == "ada"}
    assert all(row["late"].startswith("1 d 1 h after") for row in by_task.values())
    assert {row["total"] for row in by_task.values()} == {"15.5"}
    assert by_task["attend"]["name"] == "Ada Lovelace"
    assert by_task["attend"]["reason"] == "'=1+1 is no answer"  # harmless in a spreadsheet


def test_points_by_hand_win_and_extra_credit_adds_to_what_counts(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada", {"attend": Line(0, 3, GRADED, "the softmax is over another axis")})
    give(places, "ada", "attend", manual_score=1.5)
    give(places, "ada", "causal_weights", extra_credit=0.5)
    give(places, "ada", BY_HAND, manual_score=3.0, extra_credit=1.0)
    found = marks_of(places, "ada")
    assert (found["attend"].points, found["attend"].status) == (1.5, GRADED)
    assert found["attend"].reason == "by hand; before: the softmax is over another axis"
    assert found["causal_weights"].points == 4.5
    assert (found[BY_HAND].points, found[BY_HAND].final) == (4.0, True)
    assert totals(marks(places))["ada", NAME] == 19.0


def test_extra_credit_alone_does_not_end_the_waiting(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    give(places, "ada", BY_HAND, extra_credit=1.0)
    assert marks_of(places, "ada")[BY_HAND].status == PERSON


def test_a_resubmission_is_shown_and_asked_about(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    give(places, "ada", BY_HAND, manual_score=4.0)
    hand_in(places, "ada", "another file")
    assert {mark.status for mark in marks_of(places, "ada").values()} == {NOT_GRADED}
    assert totals(marks(places))["ada", NAME] is None
    # graded again: the desk has cleared the points, and remembers them
    give(places, "ada", BY_HAND, manual_score=None)
    grade(places, "ada", before={BY_HAND: 4.0})
    found = marks_of(places, "ada")[BY_HAND]
    assert (found.points, found.status) == (0.0, PERSON)
    give(places, "ada", BY_HAND, manual_score=2.0)
    assert marks_of(places, "ada")[BY_HAND].points == 2.0
    assert totals(marks(places))["ada", NAME] == 18.0


def test_the_terminal_says_how_many_wait_and_why(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    died = Line(0, 3, CRASHED, "the kernel died")
    grade(places, "emmy", {"attend": died, "word_map": died})
    *_, last = write_marks(places)
    assert last == (
        f"{NAME}: 2 students have no mark yet (crashed: 1, needs a person: 2); "
        "an empty cell stands for it"
    )
    with pytest.raises(BuildError, match="make collect"):
        write_marks(Places(tmp_path / "empty", tmp_path))


def test_as_long_as_a_file_may_be_anybodys_nobody_has_a_final_nought(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    absent = {m.student for m in marks(places) if m.status == ABSENT}
    assert absent, "else this test shows nothing"
    rows = ["student,exercise,status,file", f",{NAME},not recognised,Dana Smith_4_x.ipynb"]
    (places.home / "collected.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    after = [mark for mark in marks(places) if mark.student in absent]
    assert {mark.status for mark in after} == {UNCLEAR}
    assert not any(mark.final for mark in after)
