"""Faults that an engineer put into this room, each with the test that notices it."""

import os
import pwd
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from handed import NAME, NOON, OTHER, by_path, put, submitted, take, work, write_roster

from grading.intake import collect as collecting
from grading.intake import exchange
from grading.intake.collect import collect
from grading.intake.due import DueDates, lateness, read_extensions
from grading.intake.exchange import SECRET
from grading.intake.platforms import Sender
from grading.intake.recognise import which_exercise
from grading.intake.roster import Student, read_roster
from grading.intake.whose import owners
from grading.settings import Places

MOODLE = "_assignsubmission_file"
DAY = timedelta(days=1)


# --- due dates (test_collect.py) ------------------------------------------------------------------


def test_on_the_second_is_in_time() -> None:
    dates = DueDates({NAME: NOON})
    assert dates.late("ada", NAME, NOON) == ""
    assert dates.late("ada", NAME, NOON + timedelta(seconds=1)) != ""


def test_of_several_due_dates_the_latest_applies_however_an_id_is_written() -> None:
    more = {("ada", NAME): NOON + 2 * DAY, ("ada", ""): NOON + DAY, ("bob", ""): NOON - DAY}
    dates = DueDates({NAME: NOON}, more)
    assert [dates.due(student, NAME) for student in ("Ada", "ada", "bob", "cy")] == [
        *[NOON + 2 * DAY] * 2,
        *[NOON] * 2,
    ]


def test_an_extension_is_in_the_lecturers_own_time(places: Places) -> None:
    places.make()
    places.extensions.write_text("id,exercise,due\nada,,2026-12-08T12:00\nbob,,2026-12-08\n")
    noon, night = datetime(2026, 12, 8, 12).astimezone(), datetime(2026, 12, 8, 23, 59, 59)
    assert read_extensions(places) == {("ada", ""): noon, ("bob", ""): night.astimezone()}


# --- of several files (test_collect.py) -----------------------------------------------------------


def test_a_later_file_that_cannot_be_read_displaces_none_of_the_same_export(
    tmp_path: Path, places: Places
) -> None:
    put(tmp_path / "in", {f"bob_{NAME} (1).ipynb": b"{"}, NOON.replace(hour=13))
    rows = by_path(collect(put(tmp_path / "in", {f"bob_{NAME}.ipynb": work()}), places))
    assert rows[f"bob_{NAME} (1).ipynb"].status == "duplicate"
    assert submitted(places, "bob") == work()


def test_who_was_collected_before_is_not_missing(places: Places) -> None:
    write_roster(places, "id,name\nada,Ada\nbob,Bob\n")
    take(places, {f"ada_{NAME}.ipynb": work()})
    rows = take(places, {f"bob_{NAME}.ipynb": work()})
    assert [(row.student, row.status) for row in rows] == [("bob", "collected")]


def test_cells_of_two_exercises_do_not_tell_which(places: Places) -> None:
    both = {"cells": [{"source": "def merged_weights(W): 0"}, {"source": "def beam_trap(m): 0"}]}
    assert which_exercise("Untitled.ipynb", both) == ""
    assert which_exercise(f"bob_{OTHER}.ipynb", both) == OTHER


# --- whose (test_platforms.py) --------------------------------------------------------------------


def test_a_namesake_in_a_later_export_takes_nobodys_place(places: Places) -> None:
    take(places, {f"Ann Lee_3{MOODLE}/x.ipynb": work("3")})
    (row,) = take(places, {f"Ann Lee_4{MOODLE}/x.ipynb": work("4")}, NOON.replace(hour=15))
    assert row.status == "doubtful"
    assert submitted(places, "ann_lee") == work("3")


def test_an_account_before_another_name_means_nobody() -> None:
    roster = [Student("ada01", "Ada Lovelace")]
    assert owners(Sender("brightspace", name="ada01 Mary Somerville"), roster).students == ()


def test_an_id_is_surer_than_the_same_number_of_another() -> None:
    roster = [Student("ada", number="12"), Student("12", "Bob")]
    assert owners(Sender("folder", student_id="12"), roster).students == ("12",)


# --- what lies beside a hand-in (test_exchange.py) ------------------------------------------------


@pytest.fixture
def inbound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An exchange into which kim has handed in."""
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="kim"))
    folder = tmp_path / "inbound" / f"kim+{NAME}+2026-11-30 12:00:00 UTC+x"
    folder.mkdir(parents=True)
    (folder / f"{NAME}.ipynb").write_bytes(work())
    (folder / SECRET).write_text("kim's")
    return folder.parent


def test_nothing_of_an_earlier_hand_in_stays_beside_a_new_one(
    inbound: Path, places: Places
) -> None:
    collect(inbound, places)
    folder = places.submitted / "kim" / NAME
    assert {"timestamp.txt", SECRET} <= set(os.listdir(folder))
    much_later = NOON.replace(year=2100)  # than the exchange's own clock; Canvas tells no time
    take(places, {f"kim_4711_1_{NAME}.ipynb": work("new")}, much_later)
    assert submitted(places, "kim") == work("new")
    assert set(os.listdir(folder)) == {f"{NAME}.ipynb", "receipt.json"}


def test_a_secret_is_for_who_handed_in_and_not_for_the_group(inbound: Path, places: Places) -> None:
    write_roster(places, "id,name,group\nkim,Kim,T1\nbob,Bob,T1\n")
    collect(inbound, places)
    there = {s: (places.submitted / s / NAME / SECRET).exists() for s in ("kim", "bob")}
    assert there == {"kim": True, "bob": False}


def test_a_file_that_is_too_large_is_refused_in_an_exchange(
    inbound: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LARGEST", 1000)
    (row,) = collect(inbound, places)
    assert (row.status, row.reason[:11]) == ("refused", "larger than")


def test_of_a_hand_in_of_many_large_files_only_the_first_are_kept(
    inbound: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of zeros in test_safety.py keeps 38 MB of 60, so it could not fail."""
    (folder,) = inbound.iterdir()
    for word in "abc":
        (folder / f"{word}.ipynb").write_bytes(work(word))
    monkeypatch.setattr(collecting, "MOST_KEPT", 2 * len(work("a")) + 100)
    rows = collect(inbound, places)
    assert len([row for row in rows if "holds too much" in row.reason]) == 2


# --- the roster (test_roster.py) ------------------------------------------------------------------


def test_empty_rows_of_a_spreadsheet_are_nobody(places: Places) -> None:
    write_roster(places, "id,name\nada,Ada Lovelace\n,\n,\n")
    assert read_roster(places) == [Student("ada", "Ada Lovelace")]


# --- faults of the code as it is now: these fail until it is mended --------------------------


def test_what_a_student_calls_a_file_makes_it_not_late(places: Places) -> None:
    files = {"ada/x_LATE_1_2_y.ipynb": work("a"), "bob/x.ipynb": work(), "cy/x.ipynb": work("c")}
    assert {row.status for row in take(places, files)} == {"collected"}
    assert lateness("ada", NAME, places, DueDates()) == ""


def test_a_lecturers_own_pattern_can_say_late(places: Places) -> None:
    pattern = r"(?P<student_id>\w+)-(?P<late>late)-"
    (row,) = take(places, {"ada-late-x.ipynb": work()}, pattern=pattern)
    assert row.status == "late"
    assert lateness("ada", NAME, places, DueDates()) != "", "the marks say so, too"


def test_a_teams_file_for_which_a_members_counts_is_told(tmp_path: Path, places: Places) -> None:
    write_roster(places, "id,name,number,group\nada,Ada A,5,Team 7\nbob,Bob B,,Team 7\n")
    team = f"Team 7_31{MOODLE}/x.ipynb"
    source = put(tmp_path / "in", {team: work("team's")})
    put(source, {f"Ada A_5{MOODLE}/x.ipynb": work("own")}, NOON.replace(hour=15))
    assert by_path(collect(source, places))[team].status == "duplicate"


def test_a_teams_number_is_not_taken_for_a_members(tmp_path: Path, places: Places) -> None:
    write_roster(places, "id,name,group\nada,Ada A,Team 7\nbob,Bob B,Team 7\n")
    source = put(tmp_path / "in", {f"Team 7_31{MOODLE}/x.ipynb": work("team's")})
    put(source, {f"Ada A_5{MOODLE}/x.ipynb": work("own")}, NOON.replace(hour=15))
    assert {row.status for row in collect(source, places)} <= {"collected", "duplicate"}
    assert submitted(places, "ada") == work("own")


def test_a_placed_file_that_a_child_cannot_read_stops_nobody(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> bytes:
        raise MemoryError

    take(places, {f"bob_{NAME}.ipynb": work()})
    monkeypatch.setattr("grading.intake.placing.damage", fails)
    files = {f"bob_{NAME}.ipynb": b"{", f"cy_{NAME}.ipynb": work()}
    take(places, files, NOON.replace(hour=14))
    assert submitted(places, "cy") == work()
