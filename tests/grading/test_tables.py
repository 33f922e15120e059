"""CSV files that a spreadsheet may open."""

from pathlib import Path
from typing import Any

import pytest

from grading import tables


@pytest.mark.parametrize(
    ("value", "written"),
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
