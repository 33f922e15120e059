"""CSV files that a spreadsheet may open: written in one piece, and harmless."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def harmless(value: Any) -> str:
    """A value that no spreadsheet takes for a formula: a text that starts like one gets a quote.

    >>> harmless("=1+1"), harmless(-1.5), harmless("a=b")
    ("'=1+1", '-1.5', 'a=b')
    """
    if isinstance(value, int | float):
        return f"{value:g}"
    text = "" if value is None else " ".join(str(value).split())
    # some programs look behind leading signs that are not seen
    start = text.lstrip("\ufeff\u200b\u00a0\x00")[:1]
    return "'" + text if start and start in "=+-@\uff1d\uff0b\uff0d\uff20|%" else text


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV in one piece: there is the old file or the new one, never half of one."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([harmless(value) for value in row] for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text.getvalue(), encoding="utf-8", newline="")
    part.replace(path)
    return path


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV as dictionaries, whatever the spreadsheet did to it.

    A byte-order mark and semicolons in place of commas are understood.
    """
    text = path.read_text(encoding="utf-8-sig")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    return [
        {str(key).strip().casefold(): (value or "").strip() for key, value in row.items() if key}
        for row in rows
    ]


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]], widest: int = 60) -> str:
    """A table for the terminal."""
    texts = [list(columns), *([str(v if v is not None else "") for v in row] for row in rows)]
    texts = [[t if len(t) <= widest else t[: widest - 1] + "…" for t in row] for row in texts]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    )
