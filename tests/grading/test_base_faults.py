"""Faults that an engineer put into what all rooms use, each with the test that notices it."""

import errno
import os
import time
from pathlib import Path

import pytest

from grading import child, tables
from grading.child import Trouble


def test_of_a_table_that_could_not_be_written_to_its_end_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = tables.write(tmp_path / "t.csv", ("a",), [("old",)]), Path.write_bytes

    def half(self: Path, content: bytes) -> int:
        whole(self, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space"):
        tables.write(path, ("a",), [("new",)])
    monkeypatch.undo()
    assert tables.read(path) == [{"a": "old"}]
    assert os.listdir(tmp_path) == ["t.csv"]


def test_a_percent_sign_starts_a_formula_too() -> None:
    assert tables.harmless("%1") == "'%1"  # a row of the table in test_tables.py


def test_a_child_writes_no_file_larger_than_it_may(tmp_path: Path) -> None:
    def writes() -> bytes:
        (tmp_path / "x").write_bytes(bytes(1 << 16))
        return b"done"

    with pytest.raises(Trouble):
        child.run(writes)
    assert (tmp_path / "x").stat().st_size == 0
    assert child.run(writes, writes=1 << 20) == b"done"


def test_a_child_that_waits_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "WAIT", 1)

    def sleeps() -> bytes:
        time.sleep(20)
        return b""

    begun = time.monotonic()
    with pytest.raises(Trouble, match="it took more than 1 s"):
        child.run(sleeps, seconds=1)
    assert time.monotonic() - begun < 10


# a fault of the code as it is now: this one fails until it is mended


def test_a_child_that_cannot_take_its_limits_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: int) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "/proc/self/status")

    monkeypatch.setattr(child, "_confine", fails)
    with pytest.raises(Exception, match="/proc/self/status"):
        child.run(lambda: b"")
