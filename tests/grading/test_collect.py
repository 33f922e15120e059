"""From odd file names to rows: nobody's work is lost, taken for another's, or overwritten."""

import csv
import json
import os
import re
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bank import ROOT
from classroom import WITHOUT
from each import each

from grading import intake, tables
from grading.__main__ import main
from grading.build import BuildError, names
from grading.collect import Row, collect, table
from grading.marks import marks, students, write_marks
from grading.preprocess import read
from grading.recognise import (
    Student,
    candidates,
    on_roster,
    read_notebook,
    student_id,
    which_exercise,
)
from grading.settings import Places
from grading.submission import How, fingerprint, grade_one, points

NAME = "04_self_attention"
OTHER = "05_gpt2"
BOB, AGAIN = f"bob_{NAME}.ipynb", f"bob_{NAME} (1).ipynb"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """An empty class."""
    monkeypatch.delenv("ATTNLIB_GRADEBOOK", raising=False)
    return Places(tmp_path / "class", tmp_path / "dist")


def work(word: str = "", name: str = NAME) -> bytes:
    """A student's notebook, with a word of their own in it."""
    data = json.loads((ROOT / "exercises" / name / f"{name}.ipynb").read_text(encoding="utf-8"))
    data["cells"].append({"cell_type": "markdown", "id": "own", "metadata": {}, "source": word})
    return json.dumps(data).encode()


def put(folder: Path, files: dict[str, bytes], time: datetime = NOON) -> Path:
    """Write files into a folder, with a time."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time.timestamp(), time.timestamp()))
    return folder


def pack(
    path: Path, files: dict[str, bytes], date: tuple[int, ...] = (2026, 11, 30, 13, 0, 0)
) -> Path:
    """Write files into a zip, with a local time."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, date), content)  # type: ignore[arg-type]
    return path


def take(places: Places, files: dict[str, bytes], time: datetime = NOON) -> list[Row]:
    """Collect a new folder of files."""
    return collect(put(Path(tempfile.mkdtemp(dir=places.dist.parent)), files, time), places)


def roster(places: Places, text: str) -> None:
    places.home.mkdir(parents=True, exist_ok=True)
    places.roster.write_text(text, encoding="utf-8")


def by_path(rows: list[Row]) -> dict[str, Row]:
    return {row.path: row for row in rows if row.path}


def submitted(places: Places, student: str, name: str = NAME) -> bytes:
    return (places.submitted / student / name / f"{name}.ipynb").read_bytes()


def kept(places: Places) -> set[bytes]:
    """The contents of everything in collected/."""
    return {p.read_bytes() for p in places.collected.rglob("*") if p.is_file()}


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV, read by other code than wrote it."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# whose, and which


@each(
    "path, name",
    [
        ("04_self_attention.ipynb", NAME),
        ("04_Self_Attention (1).IPYNB", NAME),
        ("Jürgen Weiß/04-self-attention.ipynb", NAME),
        ("alice_selfattention.ipynb", NAME),
        ("04 Self Attention - Kopie.ipynb", NAME),
        ("05_gpt2/alice.ipynb", OTHER),
        ("04_self_attention/bob_05_gpt2.ipynb", OTHER),
        ("alice.ipynb", None),
        ("104_self_attentions.ipynb", None),
    ],
)
def test_an_exercise_is_known_by_its_name(path: str, name: str | None) -> None:
    assert which_exercise(path, None) == name


def test_what_is_in_a_notebook_counts_more_than_its_name() -> None:
    notebook, damage = read_notebook(work(name=OTHER))
    assert damage == ""
    assert which_exercise("alice_04_self_attention.ipynb", notebook) == OTHER
    for name in names():
        assert which_exercise("Untitled.ipynb", read_notebook(work(name=name))[0]) == name


@each(
    "notebook",
    [
        3,
        [],
        {"cells": 3},
        {
            "cells": [
                3,
                {"metadata": 3},
                {"metadata": {"nbgrader": 3}},
                {"metadata": {"nbgrader": {"grade_id": ["x"]}}},
            ]
        },
        None,
    ],
)
def test_a_strange_notebook_is_recognised_by_its_name_at_most(notebook: Any) -> None:
    assert which_exercise("04_self_attention.ipynb", notebook) == NAME
    assert which_exercise("x.ipynb", notebook) is None


@each(
    "content, told",
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no cells"),
        (b"{}", "no cells"),
        (b'{"cells": 3}', "no cells"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_notebook_is_told(content: bytes, told: str) -> None:
    assert told in read_notebook(content)[1]


@each(
    "path, first",
    [
        ("Ada Lovelace_4711_assignsubmission_file_/04_self_attention.ipynb", "Ada Lovelace"),
        ("Ada Lovelace_4711_assignsubmission_file_04_self_attention.ipynb", "Ada Lovelace"),
        ("all/Ada Lovelace_4711_assignsubmission_file_/x/Untitled.ipynb", "Ada Lovelace"),
        ("alice_04_self_attention (1).ipynb", "alice"),
        ("ALICE 04-Self-Attention.ipynb", "ALICE"),
        ("04_self_attention_alice_final.ipynb", "alice"),
        ("alice/04_self_attention/04_self_attention.ipynb", "alice"),
        ("04_self_attention/alice.ipynb", "alice"),
        ("alice/Untitled3.ipynb", "alice"),
        ("alice/week 4/Untitled.ipynb", "alice"),
        ("submissions/alice/solution.ipynb", "alice"),
        ("Jürgen Weiß/04_self_attention.ipynb", "Jürgen Weiß"),
        ("alice.zip/04_self_attention/04_self_attention.ipynb", "alice"),
    ],
)
def test_the_student_is_found_in_a_path(path: str, first: str) -> None:
    assert candidates(path)[0] == first


def test_a_path_may_name_nobody() -> None:
    assert candidates("04_self_attention.ipynb") == []


@each(
    "name, made",
    [
        ("Jürgen Weiß", "jurgen_weiss"),
        ("José Ñandú-Łoś", "jose_nandu_los"),
        ("ALICE", "alice"),
        ("../../etc", "etc"),
        ("a/b", "a_b"),
        ("李雷", ""),
        ("=1+1", "1_1"),
    ],
)
def test_an_id_is_a_plain_word(name: str, made: str) -> None:
    assert student_id(name) == made


ROSTER = [
    Student("ada01", "Ada Lovelace"),
    Student("s2", "Jürgen Weiß"),
    Student("s21", "Anna Weiß"),
    Student("ann", "Ann Lee"),
    Student("lee7", "Lee Ann"),
]


@each(
    "text, found",
    [
        ("ada01", "ada01"),
        ("ADA01", "ada01"),
        ("Lovelace, Ada", "ada01"),
        ("ada lovelace 7", "ada01"),
        ("my work ada01", "ada01"),
        ("Juergen Weiss", None),
        ("jurgen weiss", "s2"),
        ("Weiß Jürgen", "s2"),
        ("S2", "s2"),
        ("s21", "s21"),
        ("s2 1", "s2"),
        ("Weiß", None),
        ("", None),
        ("ann", "ann"),
        ("ada", None),
        ("ann lee", None),
        ("李雷", None),
    ],
)
def test_a_name_means_one_student_of_the_roster_or_none(text: str, found: str | None) -> None:
    student, why = on_roster([text], ROSTER)
    assert (student.id if student else None) == found
    assert bool(why) == (found is None)


def test_two_who_are_meant_are_both_told() -> None:
    assert on_roster(["Ann Lee"], ROSTER)[1] == "'Ann Lee' may be ann or lee7"
    assert on_roster(["Kim Lee"], [Student("s1", "Kim")])[0] is None


# taking in


def test_a_folder_with_odd_names(places: Places) -> None:
    from nbgrader.coursedir import CourseDirectory

    files = {
        f"Ada Lovelace_4711_assignsubmission_file_/{NAME}.ipynb": work("ada"),
        "Jürgen Weiß_4712_assignsubmission_file_/Selbst ÜBUNG 04 self-attention.ipynb": work("j"),
        AGAIN: work("bob"),
        "CARLA 04_SELF_ATTENTION.IPYNB": work("carla"),
        "dora/week 4/Untitled1.ipynb": work("dora"),
        "dora/05_gpt2.ipynb": work("dora too", OTHER),
    }
    found = {(row.student, row.exercise, row.status) for row in take(places, files)}
    everybody = ("ada_lovelace", "jurgen_weiss", "bob", "carla", "dora")
    assert found == {(s, NAME, "collected") for s in everybody} | {("dora", OTHER, "collected")}
    assert submitted(places, "carla") == work("carla")
    when = CourseDirectory().get_existing_timestamp(str(places.submitted / "bob" / NAME))
    assert when == NOON.replace(tzinfo=None), "nbgrader reads another time"
    assert kept(places) >= set(files.values())


def test_a_zip_with_zips_in_it(tmp_path: Path, places: Places) -> None:
    inner = {f"{NAME}/{NAME}.ipynb": work("b"), f"{NAME}/checks.json": b"{}"}
    bob = "Bob B_2_assignsubmission_file_/"
    files = {
        f"Jürgen Weiß_1_assignsubmission_file_/{NAME}.ipynb": work("j"),
        f"{bob}{NAME}.ZIP": pack(tmp_path / "inner.zip", inner).read_bytes(),
        f"__MACOSX/{bob}._{NAME}.ipynb": b"noise",
        f"{bob}.ipynb_checkpoints/x.ipynb": b"noise",
    }
    rows = collect(pack(tmp_path / "all.zip", files), places)
    found = {(row.student, row.status) for row in rows}
    assert found == {("jurgen_weiss", "collected"), ("bob_b", "collected")}
    assert submitted(places, "bob_b") == work("b")
    assert rows[0].time == datetime(2026, 11, 30, 13, 0, 0).astimezone(UTC)


def test_a_name_in_utf8_that_does_not_say_so(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("x.ipynb")
    entry.filename = "Jürgen.ipynb".encode().decode("cp437")
    assert intake._name(entry) == "Jürgen.ipynb"
    entry.filename = "plain.ipynb"
    assert intake._name(entry) == "plain.ipynb"


def test_of_several_the_latest_counts_and_the_others_are_kept(
    tmp_path: Path, places: Places
) -> None:
    put(tmp_path / "in", {AGAIN: work("new")}, NOON.replace(hour=13))
    rows = by_path(collect(put(tmp_path / "in", {BOB: work("old")}), places))
    assert rows[AGAIN].status == "collected"
    assert rows[BOB].status == "duplicate"
    assert AGAIN in rows[BOB].reason
    assert submitted(places, "bob") == work("new")
    assert kept(places) >= {work("old"), work("new")}


def test_an_unreadable_file_counts_where_there_is_none_that_can_be_read(
    tmp_path: Path, places: Places
) -> None:
    put(tmp_path / "in", {"cy/04_self_attention.ipynb": b"<html>", BOB: work("good")})
    later = put(tmp_path / "in", {AGAIN: b"broken"}, NOON.replace(hour=13))
    rows = by_path(collect(later, places))
    assert rows[AGAIN].status == "duplicate"
    (row,) = take(places, {BOB: b"{"}, NOON.replace(hour=14))
    assert (row.status, "in its place" in row.reason) == ("duplicate", True)
    assert submitted(places, "bob") == work("good")
    row = rows["cy/04_self_attention.ipynb"]
    assert (row.student, row.exercise, row.status) == ("cy", NAME, "unreadable")
    assert row.reason.startswith("no JSON")
    assert submitted(places, "cy") == b"<html>"


def test_collecting_again_changes_nothing(tmp_path: Path, places: Places) -> None:
    files = {BOB: work("x"), "cy_04_self_attention.ipynb": work("y")}
    collect(put(tmp_path / "in", files), places)
    before = {p: p.read_bytes() for p in places.submitted.rglob("*") if p.is_file()}
    touched = put(tmp_path / "in", {BOB: work("x")}, NOON.replace(hour=15))
    assert {row.reason for row in collect(touched, places)} == {"was here already"}
    assert {p: p.read_bytes() for p in places.submitted.rglob("*") if p.is_file()} == before


def test_a_later_collection_replaces_and_keeps_and_an_earlier_one_does_not(places: Places) -> None:
    put(places.submitted / "bob" / NAME, {f"{NAME}.ipynb": work("by hand")})
    take(places, {BOB: work("first")})
    take(places, {BOB: work("second")}, NOON.replace(hour=13))
    assert submitted(places, "bob") == work("second")
    (row,) = take(places, {BOB: work("stale")}, NOON.replace(hour=11))
    assert row.status == "duplicate"
    assert "a later one was collected before" in row.reason
    assert submitted(places, "bob") == work("second")
    assert kept(places) >= {work(one) for one in ("by hand", "first", "second", "stale")}


def test_a_roster_decides_and_who_is_missing_is_told(places: Places) -> None:
    roster(places, "\ufeffID;Name\nada01;Ada Lovelace\ns2;Jürgen Weiß\ns3;Zoë\n")
    files = {
        "Lovelace Ada_9_assignsubmission_file_/04_self_attention.ipynb": work("a"),
        "04_self_attention_s2.ipynb": work("j"),
        "mallory_04_self_attention.ipynb": work("m"),
    }
    rows = take(places, files)
    told = [("", "not recognised"), ("ada01", "collected"), ("s2", "collected"), ("s3", "missing")]
    assert [(r.student, r.status) for r in rows] == told
    assert "nobody on the roster is called 'mallory'" in rows[0].reason
    assert rows[3].reason == "nothing from Zoë"
    assert work("m") in kept(places), "nothing is lost"
    assert not (places.submitted / "mallory").exists()


@each(
    "text, told",
    [
        ("id,name\n../x,A\n", "'../x' is no id"),
        ("id,name\na,A\nA,B\n", "stand there twice"),
        ("name\nA\n", "the columns are id and name"),
        ("id,name\n,A\n", "'' is no id"),
    ],
)
def test_a_bad_roster_is_told(places: Places, text: str, told: str) -> None:
    roster(places, text)
    with pytest.raises(BuildError, match=f"roster.csv.*{re.escape(told)}"):
        take(places, {})


def test_two_people_of_one_name_are_not_taken_for_one(places: Places) -> None:
    names = ("Jorg Muller_1", "Jörg Müller_2", "Ann Lee_3", "Ann Lee_4")
    rows = take(places, {f"{n}_assignsubmission_file_/{NAME}.ipynb": work(n) for n in names})
    assert [(row.student, row.status) for row in rows] == [
        ("ann_lee", "collected"),
        ("ann_lee", "doubtful"),
        ("jorg_muller", "collected"),
        ("jorg_muller", "doubtful"),
    ]
    assert all("Not taken in" in row.reason for row in rows if row.reason)
    assert kept(places) >= {work(name) for name in names}
    assert submitted(places, "ann_lee") == work("Ann Lee_3")


def test_late_work_is_taken_and_told(tmp_path: Path, places: Places) -> None:
    from nbgrader.api import Gradebook

    from grading.settings import find_alembic

    find_alembic()
    places.home.mkdir(parents=True)
    with Gradebook(places.gradebook, "attention") as gradebook:
        gradebook.update_or_create_assignment(NAME, duedate=datetime(2026, 11, 30, 11, 30))
    source = put(tmp_path / "in", {BOB: work("late")})
    put(source, {"cy_04_self_attention.ipynb": work("in time")}, NOON.replace(hour=11))
    put(source, {"di_04_self_attention.ipynb": b"broken"}, datetime(2026, 12, 3, tzinfo=UTC))
    put(source, {"ed_04_self_attention.ipynb": work("twice")}, NOON.replace(hour=10))
    put(source, {"ed_04_self_attention (1).ipynb": work("twice")}, NOON.replace(hour=20))
    rows = {row.student: row for row in collect(source, places) if row.status != "duplicate"}
    assert (rows["bob"].status, rows["cy"].status) == ("late", "collected")
    assert rows["bob"].reason.startswith("0 h 30 min after 2026-")
    assert rows["di"].status == "unreadable"
    assert "2 d 12 h after" in rows["di"].reason
    assert rows["ed"].status == "collected", "the same file handed in again is not late"
    assert submitted(places, "bob") == work("late")
    late = {row["student"]: row["late"] for row in rows_of(write_marks(places))}
    assert late == {"bob": "0 h 30 min", "cy": "", "di": "2 d 12 h", "ed": ""}


def test_what_must_not_be_read_is_refused_with_a_reason(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LARGEST", 300_000)
    link = zipfile.ZipInfo("eve_04_self_attention.ipynb")
    link.external_attr = 0o120777 << 16
    bomb = pack(tmp_path / "bomb.zip", {"fay_04_self_attention.ipynb": b"0" * 400_000})
    outside = [f"{way}ann_{NAME}.ipynb" for way in ("../../", "/etc/", "C:/")]
    files = dict.fromkeys(outside, work()) | {
        "dan_04_self_attention.ipynb": b"0" * 300_001,
        "bomb.zip": bomb.read_bytes()[:299_000],
        "ok_04_self_attention.ipynb": work(),
    }
    source = pack(tmp_path / "in.zip", files)
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    rows = by_path(collect(source, places))
    told = {path: row.reason for path, row in rows.items() if row.status == "refused"}
    assert told == dict.fromkeys(outside, "its path leads out of the archive") | {
        "dan_04_self_attention.ipynb": "0.3 MB, at most 0 MB are taken",
        "eve_04_self_attention.ipynb": "a link, not a file",
    }
    assert {p.name for p in places.submitted.iterdir()} == {"ok"}
    assert not (tmp_path / "ann_04_self_attention.ipynb").exists()


def test_a_zip_that_lies_about_sizes_is_not_unpacked_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LARGEST", 1000)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.ipynb", b"0" * 100_000)
    asked = []
    real = zipfile.ZipExtFile.read

    def read(self: Any, n: int = -1) -> bytes:
        asked.append(n)
        return real(self, n)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", read)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        archive.infolist()[0].file_size = 10  # as a forged header would say
        (found,) = intake._in_zip(archive, "", NOON)
    assert found.refused
    assert asked in ([1000], [])
    assert found.content == b""


def test_a_bomb_within_a_zip_is_not_unpacked_whole(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LARGEST", 200_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(50):
            archive.writestr(f"{i}.ipynb", b"0" * 190_000)
    bomb = (tmp_path / "bomb.zip").read_bytes()
    files = {"bob.zip": bomb, "cy_04_self_attention.ipynb": work()}
    rows = collect(pack(tmp_path / "in.zip", files), places)
    assert len([row for row in rows if row.path.startswith("bob.zip/")]) == 4
    assert [row.reason for row in rows if row.status == "refused"] == [
        "bob.zip/ holds too much: 0.8 MB, at most 0 MB are taken"
    ]
    assert [row.student for row in rows if row.status == "collected"] == ["cy"]


def test_links_in_a_folder_are_not_followed(tmp_path: Path, places: Places) -> None:
    secret = put(tmp_path / "secret", {"x.ipynb": work("secret")})
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / BOB).symlink_to(secret / "x.ipynb")
    (folder / "cy").symlink_to(secret)
    found = {(row.path, row.status) for row in collect(folder, places)}
    assert found == {(BOB, "refused"), ("cy", "refused")}
    assert not places.submitted.exists()


def test_other_files_are_told_and_kept(places: Places) -> None:
    files = {"bob/essay.pdf": b"%PDF", "bob/notes.ipynb": b'{"cells": []}', f"{NAME}.ipynb": work()}
    rows = by_path(take(places, files))
    assert {row.status for row in rows.values()} == {"not recognised"}
    assert "does not end in .ipynb" in rows["bob/essay.pdf"].reason
    assert "neither its cells nor its name" in rows["bob/notes.ipynb"].reason
    assert "names a student" in rows["04_self_attention.ipynb"].reason
    assert kept(places) >= set(files.values())


def test_the_table_and_the_csv_tell_the_same_and_a_terminal_obeys_nothing(
    tmp_path: Path, places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {BOB: work(), "=cmd()/x.pdf": b"x", "\x1b[2J\x1b]0;x\x07_04.ipynb": b"y"}
    words = ["--home", str(places.home), "collect", str(put(tmp_path / "in", files))]
    assert main(words) == 0
    out, written = capsys.readouterr().out, (places.home / "collected.csv").read_bytes()
    assert "1 collected, 2 not recognised" in out
    assert not {"\x1b", "\x07"} & set(out + written.decode())
    rows = rows_of(places.home / "collected.csv")
    assert {row["file"] for row in rows} > {BOB, "'=cmd()/x.pdf"}
    assert all(row["student"] in out and row["reason"][:40] in out for row in rows)
    take(places, {"cy_04_self_attention.ipynb": work()})
    assert written in kept(places), "the table before is kept"
    assert table([]) == "nothing was found there"


# tables


@each(
    "value, written",
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@x", "'@x"),
        ("\t=1", "'=1"),
        ("\u00a0=1", "'=1"),
        ("\ufeff=1", "\ufffd'=1"),
        ("a;=1", "a;'=1"),
        ("tensor([1, -2])", "tensor([1, -2])"),
        ("\x1b[31m=1", "\ufffd[31m=1"),
        ("a\nb", "a b"),
        ("", ""),
        (None, ""),
        (-1.5, "-1.5"),
        (2.0, "2"),
        ("a=b", "a=b"),
        ("|x", "'|x"),
        ("\uff1d1", "'\uff1d1"),
        ("\r\n+x", "'+x"),
    ],
)
def test_nothing_that_a_spreadsheet_would_run_is_written(value: Any, written: str) -> None:
    assert tables.harmless(value) == written


def test_a_table_is_written_in_one_piece_and_read_again(tmp_path: Path) -> None:
    path = tables.write(tmp_path / "x" / "t.csv", ("a", "b"), [("ü, x", 1), ('say "hi"', None)])
    assert tables.read(path) == [{"a": "ü, x", "b": "1"}, {"a": 'say "hi"', "b": ""}]
    assert [p.name for p in path.parent.iterdir()] == ["t.csv"]


# marks


def report(places: Places, student: str, tasks: dict[str, Any], **about: Any) -> None:
    """Write a report, as grading does."""
    digest = fingerprint(places.submitted / student / NAME / f"{NAME}.ipynb")
    whole = {"student": student, "submission": digest, "status": "graded", "tasks": tasks}
    put(places.autograded / student / NAME, {"report.json": json.dumps(whole | about).encode()})


def line(points: float, status: str = "graded", reason: str = "") -> dict[str, Any]:
    return {"points": points, "max": 3.0, "status": status, "reason": reason}


def test_marks_join_roster_reports_and_submissions(places: Places) -> None:
    roster(places, "id,name\nann,Ann\nbob,Bob\ncy,Cy\ndi,Di\n")
    take(places, {f"{s}_04_self_attention.ipynb": work(s) for s in ("ann", "bob", "di")})
    report(places, "ann", {"attend": line(3.0), "explain": line(0.0, "needs manual grading", "=x")})
    report(places, "di", {"attend": line(3.0)}, submission="another file")
    report(places, "eve", {"attend": line(0.0, "crashed", "killed: memory")})
    found = {(m.student, m.task): m for m in marks(places)}
    assert found["ann", "attend"].points == 3.0
    assert found["ann", "explain"].status == "needs manual grading"
    assert found["di", "attend"].status == "not graded yet"
    assert found["eve", "attend"].status == "crashed", "not on the roster, and not lost"
    for student, status in (("bob", "not graded yet"), ("cy", "not submitted")):
        mine = {m.task: m for m in found.values() if m.student == student}
        assert {task: m.max_points for task, m in mine.items()} == points(NAME)
        assert {(m.status, m.points) for m in mine.values()} == {(status, 0.0)}
    assert students(places) == ["ann", "bob", "cy", "di", "eve"]
    rows = rows_of(write_marks(places))
    told = "student,name,exercise,task,points,max_points,status,reason,late,total"
    assert list(rows[0]) == told.split(",")
    assert len(rows) == len(found)
    anns = {(row["task"], row["name"], row["total"], row["reason"]) for row in rows[:2]}
    assert anns == {("attend", "Ann", "3", ""), ("explain", "Ann", "3", "'=x")}


def test_without_anything_there_are_no_marks(places: Places, capsys: Any) -> None:
    assert main(["--home", str(places.home), "marks"]) == 1
    assert "nothing was handed in yet" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's way with SQLAlchemy
def test_points_that_a_person_gave_win_and_feedback_is_written(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    from nbgrader.api import Gradebook

    words = ["--home", str(places.home), "--dist", str(places.dist)]
    assert main([*words, "release", NAME]) == 0
    bobs = work("hello").replace(b"YOUR ANSWER HERE", b"a text that waits")
    take(places, {BOB: bobs, "cy_04_self_attention.ipynb": b"<b>"})
    for student in ("bob", "cy"):
        grade_one(NAME, student, How(places, unsafe=WITHOUT is not None))
    task = next(name for name in points(NAME) if name.startswith("explain_"))
    assert main([*words, "feedback", NAME]) == 0
    assert "; 1 of them with 0 points for a task that waits for you" in capsys.readouterr().out
    with Gradebook(places.gradebook, "attention") as gradebook:
        grade = gradebook.find_grade(task, NAME, NAME, "bob")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        grade.extra_credit = 0.25
        gradebook.db.commit()
    mark = next(m for m in marks(places) if (m.student, m.task) == ("bob", task))
    assert (mark.points, mark.status) == (1.75, "graded")
    assert "by hand" in mark.reason
    others = [m for m in marks(places) if m.student == "bob" and m.task != task]
    assert {m.points for m in others} == {0.0}
    assert main([*words, "feedback", NAME]) == 0
    assert f"{NAME}: 2 pages in {places.feedback}\n" in capsys.readouterr().out
    for student, told in (("bob", "not written yet.*hello"), ("cy", "crashed.*not a notebook")):
        (page,) = (places.feedback / student / NAME).iterdir()  # alone it goes to the student
        assert page.name == f"{NAME}.html"
        assert re.search(told, page.read_text(encoding="utf-8"), re.S), student


# one hand-in costs itself alone


def spoiled(path: Path, how: str) -> bytes:
    """A zip that a program cannot read, or not to its end."""
    data = bytearray(pack(path, {"x_04_self_attention.ipynb": work() * 3}).read_bytes())
    if how == "directory":
        data[-40:-30] = b"\xff" * 10
    elif how == "end":
        del data[len(data) // 2 :]
    elif how == "method":
        at = data.rindex(b"PK\x01\x02")
        data[at + 10 : at + 12] = b"\x63\x00"
    elif how == "offset":
        at = data.rindex(b"PK\x01\x02")
        data[at + 42 : at + 46] = b"\xff\xff\xff\x7f"
    elif how in ("deflated", "lzma"):
        kind, noise = {"deflated": (8, b"\xff"), "lzma": (14, b"\x11")}[how]
        with zipfile.ZipFile(path, "w", kind) as archive:
            archive.writestr("x_04_self_attention.ipynb", work() * 3)
        data = bytearray(path.read_bytes())
        data[200:300] = noise * 100
    return bytes(data)


@each("how", ["directory", "end", "method", "offset", "deflated", "lzma"])
def test_a_damaged_zip_stops_nobody_else(tmp_path: Path, places: Places, how: str) -> None:
    bad = spoiled(tmp_path / "bad.zip", how)
    files = {"bob/all.zip": bad, f"cy-{how}/04_self_attention.ipynb": work("cy")}
    for source in (put(tmp_path / how, files), pack(tmp_path / f"{how}.zip", files)):
        rows = collect(source, places)
        told = {row.status for row in rows if row.path.startswith("bob")}
        assert told <= {"refused", "not recognised"}
        assert submitted(places, f"cy_{how}") == work("cy")


def test_the_class_s_own_zip_damaged_or_not_there_is_told(tmp_path: Path, places: Places) -> None:
    bad = tmp_path / "all.zip"
    bad.write_bytes(spoiled(tmp_path / "x.zip", "end"))
    for source in (bad, tmp_path / "nothing"):
        with pytest.raises(BuildError, match=r"damaged|wants a folder"):
            collect(source, places)


def test_a_name_that_is_no_utf8_is_read_as_windows_writes_it(
    tmp_path: Path, places: Places
) -> None:
    folder = os.fsencode(tmp_path / "in") + b"/J\xfcrgen Wei\xdf"
    os.makedirs(folder)
    with open(folder + b"/04_self_attention.ipynb", "wb") as file:
        file.write(work("j"))
    (row,) = collect(tmp_path / "in", places)
    assert (row.student, row.status) == ("jurgen_weiss", "collected")
    assert "Jürgen Weiß" in (places.home / "collected.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_notebook_in_another_encoding_is_placed_as_nbgrader_reads_it(
    tmp_path: Path, places: Places, encoding: str
) -> None:
    text = json.dumps(json.loads(work("für")), ensure_ascii=False)
    text = text.encode("cp1252", errors="ignore").decode("cp1252")
    name = "bob_04_self_attention.ipynb"
    (row,) = collect(put(tmp_path / "in", {name: text.encode(encoding)}), places)
    assert row.status == "collected"
    path = places.submitted / "bob" / NAME / f"{NAME}.ipynb"
    assert "für" in path.read_text(encoding="utf-8")
    assert read(path).cells
    assert text.encode(encoding) in kept(places), "what came is kept as it came"


@pytest.mark.parametrize("with_roster", [True, False])
@pytest.mark.parametrize(
    "path",
    [
        "bob/anna_04_self_attention.ipynb",
        "bob/anna/04_self_attention.ipynb",
        "bob/Anna_12_assignsubmission_file_/04_self_attention.ipynb",
        "Bob_7_assignsubmission_file_/anna_04_self_attention.ipynb",
        "Bob_7_assignsubmission_file_/Anna_1_assignsubmission_file_04_self_attention.ipynb",
    ],
)
def test_the_outer_folder_decides_whose_it_is(
    tmp_path: Path, places: Places, path: str, with_roster: bool
) -> None:
    if with_roster:
        roster(places, "id,name\nanna,\nbob,\n")
    outer, _, inner = path.partition("/")
    files = {f"{outer}.zip": pack(tmp_path / "x.zip", {inner: work("bob's")}).read_bytes()}
    if not inner.startswith("Anna_"):  # a platform's own mark, which only a zip can hide
        files = {path: work("bob's")}
    source = put(tmp_path / "in", {"anna/04_self_attention.ipynb": work("anna's")})
    rows = by_path(collect(put(source, files, NOON.replace(hour=14)), places))
    assert submitted(places, "anna") == work("anna's")
    assert submitted(places, "bob") == work("bob's")
    told = [row.reason for row in rows.values() if row.student == "bob"]
    assert any("it names anna too: its outer folder decides" in one for one in told), told


def test_a_folder_of_the_whole_class_is_nobody(places: Places) -> None:
    files = {f"Course XY/{who}_04_self_attention.ipynb": work(who) for who in ("ann", "bob")}
    assert {row.student for row in take(places, files)} == {"ann", "bob"}


def test_the_outer_time_decides_when(tmp_path: Path, places: Places) -> None:
    files = {f"{NAME}.ipynb": work()}
    inner = pack(tmp_path / "i.zip", files, (2020, 1, 1, 0, 0, 0)).read_bytes()
    (row,) = collect(pack(tmp_path / "all.zip", {"bob/x.zip": inner}), places)
    assert row.time == datetime(2026, 11, 30, 13, 0, 0).astimezone(UTC)
    (row,) = collect(put(tmp_path / "in", {"cy/x.zip": inner}), places)
    assert row.time == NOON


def test_ids_that_look_like_nobody_s_are_found(places: Places) -> None:
    roster(places, "id,name\nstudent07,\nstudent7,\nweek2,\n")
    paths = (f"student07_{NAME}.ipynb", f"student7/{NAME}.ipynb", f"week 4/week2/{NAME}.ipynb")
    found = {(row.student, row.status) for row in take(places, {one: work(one) for one in paths})}
    assert found == {(student, "collected") for student in ("student07", "student7", "week2")}


@each("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_roster_in_another_encoding(places: Places, encoding: str) -> None:
    places.home.mkdir(parents=True, exist_ok=True)
    places.roster.write_bytes("id;name\r\ns1;Jürgen Weiß\r\n".encode(encoding))
    assert take(places, {"Weiß Jürgen/04_self_attention.ipynb": work()})[0].student == "s1"


def test_memory_holds_one_file_at_a_time(tmp_path: Path, places: Places) -> None:
    import tracemalloc

    with zipfile.ZipFile(tmp_path / "one.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(20):
            archive.writestr(f"{i}.bin", bytes([i]) * 1_000_000)
    one = (tmp_path / "one.zip").read_bytes()
    source = put(tmp_path / "in", {f"bob/{i}.zip": one for i in range(4)})
    tracemalloc.start()
    rows = collect(source, places)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rows) == 80
    assert peak < 12_000_000, f"{peak:,} bytes for 80 files of 1 MB"


def test_a_gradebook_that_is_locked_or_broken_and_a_full_disk_end_in_a_sentence(
    tmp_path: Path,
    places: Places,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = put(tmp_path / "in", {"bob_04_self_attention.ipynb": work()})
    places.home.mkdir(parents=True)
    (places.home / "gradebook.db").write_bytes(b"no database" * 999)
    words = ["--home", str(places.home), "collect", str(source)]
    assert main(words) == 1
    assert "The gradebook cannot be used: file is not a database" in capsys.readouterr().err
    (places.home / "gradebook.db").unlink()

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        assert main(words) == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "Traceback" not in said
    assert main(words) == 0
    assert submitted(places, "bob") == work()
