"""From a class's export to rows: nobody's work is lost, taken for another's, or overwritten."""

import csv
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from handed import NAME, NOON, OTHER, by_path, kept, pack, put, submitted, take, work, write_roster

from grading.intake.collect import collect, table
from grading.intake.due import read_due_dates
from grading.intake.placing import HandIn
from grading.intake.receipts import read_receipt
from grading.intake.recognise import read_notebook, which_exercise
from grading.release.build import BuildError, names
from grading.settings import ROOT, Places, timestamp

BOB, AGAIN = f"bob_{NAME}.ipynb", f"bob_{NAME} (1).ipynb"
TEAMS = "id,name,group\nada,Ada,T1\nbob,Bob,T1\ncy,Cy,T2\n"


def told(rows: list[HandIn]) -> set[tuple[str, str, str]]:
    """What became of whose work."""
    return {(row.student, row.exercise, row.status) for row in rows}


# which exercise


def bare(name: str, language: int = 4) -> bytes:
    """An exercise as a platform leaves it that drops metadata, or in the old format 3."""
    path = ROOT / "exercises" / name / f"{name}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    key = {"markdown": "source", "code": "source" if language == 4 else "input"}
    plain = [{"cell_type": c["cell_type"], key[c["cell_type"]]: c["source"]} for c in cells]
    return json.dumps(
        {"cells": plain} if language == 4 else {"worksheets": [{"cells": plain}]}
    ).encode()


def test_an_exercise_is_known_by_its_cells_whatever_it_is_called() -> None:
    for name in names():
        for content in (work(name=name), bare(name), bare(name, 3)):
            notebook, damage = read_notebook(content)
            assert (which_exercise(f"alice_{NAME}.ipynb", notebook), damage) == (name, "")
    split = {
        "cells": [{"source": "import torch\n"}, {"source": ["def merged_weights(W):\n", "    0"]}]
    }
    assert which_exercise("Untitled.ipynb", split) == NAME


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("04_Self-Attention (1).IPYNB", NAME),
        ("Jürgen Weiß/04-self-attention.ipynb", NAME),
        ("05_gpt2/alice.ipynb", OTHER),
        ("04_self_attention/bob_05_gpt2.ipynb", OTHER),
        ("alice.ipynb", ""),
        ("104_self_attentions.ipynb", ""),
    ],
)
def test_else_by_its_path(path: str, name: str) -> None:
    strange = ({"cells": [3, {"metadata": {"nbgrader": 3}}, {"source": 3}]}, {"worksheets": 3}, 3)
    for notebook in (None, *strange):
        assert which_exercise(path, notebook) == name


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" \n", "empty"),
        (b"<html>", "no notebook (.ipynb, which is JSON): it begins with '<html>'"),
        (b"\xff\xfe", "no notebook"),
        (b"[" * 100_000, "no notebook"),
        (b'{"cells": [', "a damaged notebook"),
        (b"[]", "without a list of cells"),
        (b"{}", "without a list of cells"),
    ],
)
def test_what_is_no_notebook_is_told(content: bytes, reason: str) -> None:
    assert reason in read_notebook(content)[1]


# a class


def test_a_class_with_everything_odd_in_it(tmp_path: Path, places: Places) -> None:
    write_roster(places, "id,name\nada,Ada Lovelace\nbob,Bob B\ncy,Cy\ndi,Di\n")
    inner = {f"{NAME}/{NAME}.ipynb": work("b"), f"{NAME}/checks.json": b"{}"}
    bob = "Bob B_2_assignsubmission_file/"
    files = {
        f"Ada Lovelace_1_assignsubmission_file/{NAME}.ipynb.txt": work("ada"),
        f"Ada Lovelace_1_assignsubmission_file/{OTHER} (2).ipynb (1).json": bare(OTHER),
        f"{bob}all.ZIP": pack(tmp_path / "inner.zip", inner).read_bytes(),
        f"__MACOSX/{bob}._{NAME}.ipynb": b"noise",
        f"{bob}.ipynb_checkpoints/x.ipynb": b"noise",
        "Cy_3_assignsubmission_file/x.ipynb": b'{"cells": []}',
        f"Cy_3_assignsubmission_file/{NAME}.ipynb": b"<html>",
        "Cy_3_assignsubmission_file/essay.pdf": b"%PDF",
        f"Mallory_9_assignsubmission_file/{NAME}.ipynb": work("m"),
    }
    rows = collect(pack(tmp_path / "all.zip", files), places)
    assert told(rows) == {
        ("ada", NAME, "collected"),
        ("ada", OTHER, "collected"),
        ("bob", NAME, "collected"),
        ("cy", NAME, "unreadable"),
        ("", "", "not recognised"),
        ("", NAME, "not recognised"),
        ("di", NAME, "missing"),
        *((student, OTHER, "missing") for student in ("bob", "cy", "di")),
    }
    assert [submitted(places, student) for student in ("ada", "bob")] == [work("ada"), work("b")]
    reasons = {row.path.partition("/")[2]: row.reason for row in rows if row.student == ""}
    assert reasons[""].startswith("1 other file is not read, such as essay.pdf")
    assert "neither its cells nor its name" in reasons["x.ipynb"]
    assert "nobody on the roster is Mallory" in reasons[f"{NAME}.ipynb"]
    assert kept(places) >= {work("m"), b'{"cells": []}', b"<html>", work("b")}
    listed = (places.home / "collected.csv").read_bytes()
    with (places.home / "collected.csv").open(encoding="utf-8", newline="") as file:
        assert {row["file"] for row in csv.DictReader(file)} == {row.path for row in rows}
    lines = table(rows).splitlines()
    assert lines[-1] == "3 collected, 4 missing, 3 not recognised, 1 unreadable"
    assert lines[-3:-1] == [f"missing for {NAME}: di", f"missing for {OTHER}: bob, cy, di"]
    assert len(lines) == 1 + (len(rows) - 4) + 3, "the columns, a row for each file, and these"
    assert any(line.endswith(reasons[""]) for line in lines), "reasons stand there in full"
    take(places, {})
    assert listed in kept(places), "the table before is kept"
    assert (places.home / ".git").exists()


def test_of_several_the_latest_counts_and_the_others_are_kept(
    tmp_path: Path, places: Places
) -> None:
    put(tmp_path / "in", {AGAIN: work("new")}, NOON.replace(hour=13))
    rows = by_path(collect(put(tmp_path / "in", {BOB: work("old")}), places))
    assert (rows[AGAIN].status, rows[BOB].status) == ("collected", "duplicate")
    assert AGAIN in rows[BOB].reason
    assert submitted(places, "bob") == work("new")
    assert kept(places) >= {work("old"), work("new")}
    (row,) = take(places, {BOB: b"{"}, NOON.replace(hour=14))
    assert row.status == "duplicate", "what cannot be read displaces nothing"
    assert submitted(places, "bob") == work("new")


def test_a_later_collection_replaces_and_keeps_and_an_earlier_one_does_not(places: Places) -> None:
    put(places.submitted / "bob" / NAME, {f"{NAME}.ipynb": work("by hand")})
    take(places, {BOB: work("first")})
    take(places, {BOB: work("second")}, NOON.replace(hour=13))
    before = {p: p.read_bytes() for p in places.submitted.rglob("*") if p.is_file()}
    (row,) = take(places, {BOB: work("second")}, NOON.replace(hour=15))
    assert row.reason == "was here already"
    assert {p: p.read_bytes() for p in places.submitted.rglob("*") if p.is_file()} == before
    (row,) = take(places, {BOB: work("stale")}, NOON.replace(hour=11))
    assert row.status == "duplicate"
    assert "a later one was collected before" in row.reason
    assert submitted(places, "bob") == work("second")
    assert kept(places) >= {work(word) for word in ("by hand", "first", "second", "stale")}


def test_what_a_student_keeps_beside_the_notebook_is_counted(places: Places) -> None:
    files = {f"{NAME}-ada01/venv/{i}.py": b"" for i in range(400)}
    files |= {f"{NAME}-bob/{name}": b"" for name in ("a.py", "b.pdf")}
    wrapped = {f"Course/{path}": content for path, content in files.items()}
    rows = take(places, wrapped | {f"Course/{NAME}-ada01/{NAME}.ipynb": work()})
    assert {row.path: (row.status, row.reason.partition(",")[0]) for row in rows} == {
        f"Course/{NAME}-ada01/{NAME}.ipynb": ("collected", ""),
        f"Course/{NAME}-ada01": ("not recognised", "400 other files are not read"),
        f"Course/{NAME}-bob": ("not recognised", "2 other files are not read"),
    }


def test_a_folder_of_the_whole_class_is_nobody(places: Places) -> None:
    files = {f"Course XY/{who}_04_self_attention.ipynb": work(who) for who in ("ann", "bob")}
    assert {row.student for row in take(places, files)} == {"ann", "bob"}


def test_the_outer_time_decides_when_and_nbgrader_reads_it(tmp_path: Path, places: Places) -> None:
    from nbgrader.coursedir import CourseDirectory

    files = {f"{NAME}.ipynb": work()}
    inner = pack(tmp_path / "i.zip", files, (2020, 1, 1, 0, 0, 0)).read_bytes()
    (row,) = collect(pack(tmp_path / "all.zip", {"bob/x.zip": inner}), places)
    assert row.time == datetime(2026, 11, 30, 13, 0, 0).astimezone(UTC)
    take(places, {"cy.zip": inner})
    when = CourseDirectory().get_existing_timestamp(str(places.submitted / "cy" / NAME))
    assert when == NOON.replace(tzinfo=None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_notebook_in_another_encoding_is_placed_as_nbgrader_reads_it(
    places: Places, encoding: str
) -> None:
    text = json.dumps(json.loads(work("für")), ensure_ascii=False)
    text = text.encode("cp1252", errors="ignore").decode("cp1252")
    (row,) = take(places, {BOB: text.encode(encoding)})
    assert row.status == "collected"
    assert "für" in submitted(places, "bob").decode()
    assert text.encode(encoding) in kept(places), "what came is kept as it came"


# groups, due dates


def test_a_group_hands_in_once_unless_a_member_hands_in_later(
    tmp_path: Path, places: Places
) -> None:
    write_roster(places, TEAMS)
    rows = take(places, {f"ada_{NAME}.ipynb": work("ada's"), f"cy_{NAME}.ipynb": work("cy's")})
    assert told(rows) == {(student, NAME, "collected") for student in ("ada", "bob", "cy")}
    assert submitted(places, "bob") == work("ada's")
    receipt = read_receipt("bob", NAME, places)
    assert receipt is not None
    assert (receipt.by, receipt.path) == ("ada", f"ada_{NAME}.ipynb")
    own = {BOB: work("bob's own")}
    put(tmp_path / "in", {f"ada_{NAME}.ipynb": work("ada's")})
    rows = collect(put(tmp_path / "in", own, NOON.replace(hour=14)), places)
    assert [submitted(places, student) for student in ("ada", "bob")] == [work("bob's own")] * 2
    assert ("ada", NAME, "duplicate") in told(rows)


def test_a_groups_file_has_a_row_where_a_members_own_counts(places: Places) -> None:
    write_roster(places, TEAMS)
    paths = [f"{who}_1_assignsubmission_file/x.ipynb" for who in ("Ada", "T1")]
    latest = {"Bob_1_assignsubmission_file/x.ipynb": work("own")}
    source = put(places.dist.parent / "in", {path: work(path) for path in paths})
    rows = collect(put(source, latest, NOON.replace(hour=14)), places)
    assert {row.path: row.status for row in rows if row.student in ("ada", "bob")} == {
        **dict.fromkeys(paths, "duplicate"),
        **dict.fromkeys(latest, "collected"),
    }


@pytest.mark.ci
def test_an_extension_is_one_students(tmp_path: Path, places: Places) -> None:
    from nbgrader.api import Gradebook

    from grading.settings import find_alembic

    find_alembic()
    places.make()
    with Gradebook(places.gradebook, "attention") as gradebook:
        gradebook.update_or_create_assignment(NAME, duedate=datetime(2026, 11, 30, 11, 30))
    extended = (NOON.replace(hour=18).astimezone().strftime("%Y-%m-%dT%H:%M"), "2026-11-30")
    places.extensions.write_text(
        f"id,exercise,due\nCy,{NAME},{extended[0]}\ndi,,{extended[1]}\ned,{OTHER},{extended[0]}\n"
    )
    who = ("bob", "cy", "di", "ed")
    rows = take(places, {f"{student}_{NAME}.ipynb": work(student) for student in who})
    late = {row.student: row.reason for row in rows if row.status == "late"}
    assert late.keys() == {"bob", "ed"}
    assert late["bob"].startswith("0 h 30 min after 2026-")
    at = timestamp(places.submitted / "bob" / NAME / f"{NAME}.ipynb")
    assert read_due_dates(places).late("bob", NAME, at).startswith("0 h 30 min")
    source = put(tmp_path / "in", {f"fay_{NAME}.ipynb": work()}, NOON.replace(hour=10))
    again = {f"fay_{NAME} (1).ipynb": work(), f"gus_{NAME}.ipynb": work()}
    put(source, again, NOON.replace(hour=20))
    late = {row.student for row in collect(source, places) if row.status == "late"}
    assert late == {"gus"}, "the same file again is not late"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,due\nbob,soon\n", "'soon' is not a date such as 2026-12-08"),
        ("id,exercise,due\nbob,04,2026-12-08\n", "no exercise is called '04'"),
        ("student,due\nbob,2026-12-08\n", "the columns are id, exercise and due"),
    ],
)
def test_a_bad_extension_is_told(places: Places, text: str, reason: str) -> None:
    places.make()
    places.extensions.write_text(text)
    with pytest.raises(BuildError, match=reason):
        take(places, {})


def test_the_classes_own_zip_damaged_or_not_there_is_told(tmp_path: Path, places: Places) -> None:
    content = pack(tmp_path / "x.zip", {BOB: work()}).read_bytes()
    (tmp_path / "all.zip").write_bytes(content[: len(content) // 2])
    (tmp_path / "x.pdf").write_bytes(b"%PDF")
    for name, reason in {"all.zip": "damaged", "x.pdf": "neither", "nothing": "not there"}.items():
        with pytest.raises(BuildError, match=reason):
            collect(tmp_path / name, places)
    assert zipfile.is_zipfile(tmp_path / "x.zip")
