"""CSV files that a spreadsheet may open: written in one piece, and harmless."""

import codecs
import csv
import io
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# what starts a formula, as letters of full width too
SIGNS = "=+@|%\uff1d\uff0b\uff0d\uff20-"
WIDE, WIDEST = 60, 300  # characters of a column on a terminal, and of the last one


def visible(text: str) -> str:
    r"""A text in which what a terminal would obey, or nobody sees, stands as a sign of its own.

    >>> visible("\x1b[2J a\tb"), visible("a\u202eb"), visible("\udcff")
    ('�[2J a\tb', 'a�b', '�')
    """
    barred = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return "".join(
        "\ufffd" if unicodedata.category(c) in barred and c not in "\t\n\r" else c for c in text
    )


def harmless(value: Any) -> str:
    """A value that no spreadsheet takes for a formula: a text that starts like one gets a quote.

    So does a part of it after a sign that a spreadsheet in another language takes for a border.

    >>> harmless("=1+1"), harmless(-1.5), harmless("a=b"), harmless("a;=1+1")
    ("'=1+1", '-1.5', 'a=b', "a;'=1+1")
    """
    if isinstance(value, int | float):
        return f"{value:g}"
    text = "" if value is None else " ".join(visible(str(value)).split())
    # some programs look behind leading signs that are not seen, which stand as \ufffd here
    return re.sub(rf"(^|[;|])([\ufffd\"']*)([{re.escape(SIGNS)}])", r"\1\2'\3", text)


def written(path: Path, content: str | bytes) -> Path:
    """Write a file in one piece: there is the old one or the new one, even if the disk is full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV in one piece."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([harmless(value) for value in row] for row in rows)
    return written(path, text.getvalue())


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV as dictionaries, whatever the spreadsheet did to it.

    A byte-order mark, semicolons, tabs, UTF-16 and Windows' own letters are understood.
    """
    text = decoded(path.read_bytes())
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    return [
        {str(key).strip().casefold(): (value or "").strip() for key, value in row.items() if key}
        for row in rows
    ]


def decoded(content: bytes) -> str:
    r"""A text that some program has written: UTF-8, UTF-16 with its mark, or Windows' letters.

    >>> decoded("é".encode("utf-8-sig")), decoded("é".encode("utf-16")), decoded(b"\xe9")
    ('é', 'é', 'é')
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for the terminal; its last column, where reasons stand, may be wide."""
    most = [WIDE] * (len(columns) - 1) + [WIDEST]
    texts = [
        [clipped(flat(v), n) for v, n in zip(row, most, strict=True)] for row in (columns, *rows)
    ]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    )


def clipped(text: str, most: int) -> str:
    """A text, or its beginning.

    >>> clipped("abc", 3), clipped("abcd", 3)
    ('abc', 'ab…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def flat(value: Any) -> str:
    """A value in one line that a terminal can show."""
    return " ".join(visible("" if value is None else str(value)).split())
