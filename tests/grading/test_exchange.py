"""What came through nbgrader's exchange: owner and machine decide, not the names in it."""

import os
import pwd
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from bank import ROOT

from grading import exchange
from grading.collect import collect
from grading.settings import Places

NAME = "04_self_attention"
WORK = (ROOT / "exercises" / NAME / f"{NAME}.ipynb").read_bytes()
LONG_AGO = "2020-01-01 12:00:00.000000 UTC"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """An empty class; whoever runs the tests, be it `student` or `ada`, has a name of its own."""
    monkeypatch.delenv("ATTNLIB_GRADEBOOK", raising=False)
    real, ours = pwd.getpwuid, SimpleNamespace(pw_name="kim")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: ours if uid == os.getuid() else real(uid))
    return Places(tmp_path / "class", tmp_path / "dist")


@pytest.fixture
def inbound(tmp_path: Path) -> Path:
    """The folder into which students hand in."""
    folder = tmp_path / "exchange" / "attention" / "inbound"
    folder.mkdir(parents=True)
    return folder


def me() -> str:
    """The account that runs the tests."""
    return pwd.getpwuid(os.getuid()).pw_name


def submit(inbound: Path, who: str, content: bytes = WORK, when: str = LONG_AGO) -> Path:
    """What nbgrader's Submit leaves, or somebody who imitates it; files seem as old as its name."""
    folder = inbound / f"{who}+{NAME}+{when}+{os.urandom(4).hex()}"
    folder.mkdir()
    (folder / f"{NAME}.ipynb").write_bytes(content)
    (folder / exchange.SECRET).write_text("a secret")
    (folder / "timestamp.txt").write_text(when)
    past = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    for path in (*folder.iterdir(), folder):
        os.utime(path, (past, past))
    return folder


def test_the_owner_has_handed_it_in_whoever_is_named(inbound: Path, places: Places) -> None:
    submit(inbound, "ada")
    (row,) = collect(inbound, places)
    assert (row.student, row.exercise, row.status) == (me(), NAME, "collected")
    assert row.path.startswith(f"{me()}/ada+{NAME}+")


def test_who_is_not_in_the_class_cannot_hand_in_for_one_who_is(
    inbound: Path, places: Places
) -> None:
    places.home.mkdir()
    places.roster.write_text("id,name\nada,Ada Lovelace\n")
    submit(inbound, "ada")
    rows = {row.status: row for row in collect(inbound, places)}
    assert set(rows) == {"not recognised", "missing"}
    assert me() in rows["not recognised"].reason


def test_no_time_that_a_student_can_write_counts(inbound: Path, places: Places) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    folder = submit(inbound, me())
    (row,) = collect(inbound, places)
    assert row.time is not None
    assert before < row.time < datetime.now(UTC) + timedelta(seconds=5)
    (folder / f"{NAME}.ipynb").rename(inbound / "aside")
    time.sleep(0.05)
    (inbound / "aside").rename(folder / f"{NAME}.ipynb")  # old content, put there later
    (one,) = exchange.hand_ins(inbound)
    (file,) = (f for f in one.read() if f.path.endswith(".ipynb"))
    assert file.time > row.time
    time.sleep(0.05)
    (folder / f"{NAME}.ipynb").write_bytes(WORK)  # in place
    (one,) = exchange.hand_ins(inbound)
    (later,) = (f for f in one.read() if f.path.endswith(".ipynb"))
    assert later.time > file.time


def test_the_latest_counts_and_its_secret_lies_beside_it(inbound: Path, places: Places) -> None:
    submit(inbound, me(), when="2026-12-24 12:00:00.000000 UTC")  # a time that is yet to come
    time.sleep(0.05)
    latest = submit(inbound, me(), WORK.replace(b"\n}", b"\n }"))
    (latest / exchange.SECRET).write_text("the latest one's")
    rows = collect(inbound, places)
    assert sorted(row.status for row in rows) == ["collected", "duplicate"]
    there = places.submitted / me() / NAME
    assert (there / f"{NAME}.ipynb").read_bytes() == WORK.replace(b"\n}", b"\n }")
    assert (there / exchange.SECRET).read_text() == "the latest one's"


def test_links_are_not_followed(inbound: Path, places: Places, tmp_path: Path) -> None:
    solution = ROOT / "solutions" / NAME / f"{NAME}.ipynb"
    folder = submit(inbound, me())
    (folder / f"{NAME}.ipynb").unlink()
    (folder / f"{NAME}.ipynb").symlink_to(solution)
    (inbound / f"{me()}+{NAME}+{LONG_AGO}").symlink_to(solution.parent)
    os.mkfifo(folder / "pipe.ipynb")  # whoever opens it waits for ever
    rows = collect(inbound, places)
    assert {row.status for row in rows} == {"refused"}
    assert sorted(row.reason for row in rows) == [
        "a folder or a device, not a file",
        "a link, not a file",
        "cannot be read: Not a directory",
    ]
    assert not (places.submitted / me()).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_of_somebody_else_is_not_taken(inbound: Path, places: Places) -> None:
    os.chown(submit(inbound, "ada"), 12_345, 12_345)  # such as a hard link to another's answer
    (row,) = collect(inbound, places)
    assert (row.status, row.reason) == ("refused", f"it belongs to {me()}")
    assert row.path.startswith("the unknown user 12345/")


def test_what_cannot_be_read_costs_itself_only(
    inbound: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(inbound, "locked")
    submit(inbound, "open")
    listdir = os.listdir

    def locked(folder: "int | Path") -> list[str]:
        if isinstance(folder, int) and "/locked+" in os.readlink(f"/proc/self/fd/{folder}"):
            raise PermissionError(13, "Permission denied")
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", locked)
    rows = collect(inbound, places)
    assert {row.status: row.reason for row in rows} == {
        "collected": "",
        "refused": "cannot be read: Permission denied",
    }


def test_a_folder_of_another_kind_is_no_exchange(tmp_path: Path, places: Places) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / f"{NAME}.ipynb").write_bytes(WORK)
    (tmp_path / "C++ course").mkdir()
    assert not exchange.is_exchange(tmp_path)
    assert [row.student for row in collect(tmp_path, places)] == ["ada"]


@pytest.mark.parametrize("graded", ["this one", "another"])
def test_a_page_goes_to_whoever_handed_in_what_it_is_about(
    inbound: Path, places: Places, graded: str
) -> None:
    submit(inbound, me())
    collect(inbound, places)
    page = places.feedback / me() / NAME
    page.mkdir(parents=True)
    report = places.autograded / me() / NAME / "report.json"
    report.parent.mkdir(parents=True)
    from grading.submission import fingerprint

    work = places.submitted / me() / NAME / f"{NAME}.ipynb"
    digest = fingerprint(work) if graded == "this one" else "0"
    report.write_text(f'{{"tasks": {{}}, "submission": "{digest}"}}')
    exchange.keep_secrets(NAME, [me(), "without a page"], places)
    assert ((page / exchange.SECRET).read_text() == "a secret") == (graded == "this one")
    assert len((page / exchange.SECRET).read_text()) in (8, 128)
    assert (page / "timestamp.txt").exists()
