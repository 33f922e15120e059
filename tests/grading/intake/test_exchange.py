"""What came through nbgrader's exchange: owner and machine decide, not the names in it."""

import os
import pwd
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from handed import NAME, work, write_roster

from grading.intake import exchange
from grading.intake.collect import collect
from grading.settings import ROOT, Places

WORK = work()
LONG_AGO = "2020-01-01 12:00:00.000000 UTC"


@pytest.fixture(autouse=True)
def kim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, be it `student` or `ada`, has a name of its own."""
    real, ours = pwd.getpwuid, SimpleNamespace(pw_name="kim")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: ours if uid == os.getuid() else real(uid))


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


@pytest.mark.parametrize("listed", [False, True])
def test_the_owner_has_handed_it_in_whoever_is_named(
    inbound: Path, places: Places, listed: bool
) -> None:
    if listed:
        write_roster(places, "id,name\nada,Ada Lovelace\n")
    submit(inbound, "ada")
    row = collect(inbound, places)[0]
    assert (row.student, row.status) == (("", "not recognised") if listed else (me(), "collected"))
    assert row.path.startswith(f"{me()}/ada+{NAME}+")


def test_no_time_that_a_student_can_write_counts(inbound: Path, places: Places) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    folder = submit(inbound, me())
    (row,) = collect(inbound, places)
    assert row.time is not None
    assert before < row.time < datetime.now(UTC) + timedelta(seconds=5)
    (folder / f"{NAME}.ipynb").rename(inbound / "aside")
    time.sleep(0.05)
    (inbound / "aside").rename(folder / f"{NAME}.ipynb")  # old content, put there later
    (upload,) = exchange.uploads(inbound)
    (file,) = (f for f in upload.read() if f.path.endswith(".ipynb"))
    assert file.time > row.time
    time.sleep(0.05)
    (folder / f"{NAME}.ipynb").write_bytes(WORK)  # in place
    (upload,) = exchange.uploads(inbound)
    (later,) = (f for f in upload.read() if f.path.endswith(".ipynb"))
    assert later.time > file.time


def test_the_latest_counts_and_its_secret_lies_beside_it(
    inbound: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST", 2)
    for word in ("old", "older than it says", "new"):
        folder = submit(inbound, "ada", work(word), when="2026-12-24 12:00:00.000000 UTC")
        time.sleep(0.02)
    (folder / exchange.SECRET).write_text("the latest one's")
    statuses = [row.status for row in collect(inbound, places)]
    assert sorted(statuses) == ["collected", "duplicate"], "of a flood the latest two are read"
    there = places.submitted / me() / NAME
    assert (there / f"{NAME}.ipynb").read_bytes() == work("new")
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


def test_a_folder_of_another_kind_is_no_exchange(tmp_path: Path, places: Places) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / f"{NAME}.ipynb").write_bytes(WORK)
    (tmp_path / "C++ course").mkdir()
    assert not exchange.is_exchange(tmp_path)
    assert [row.student for row in collect(tmp_path, places)] == ["ada"]
