"""JavaScript that tests run in a browser, kept in files of its own."""

import re
from pathlib import Path


def functions(path: Path) -> dict[str, str]:
    """A file's functions by name: each follows a line `//: name`, and ends at an empty line."""
    text = path.read_text(encoding="utf-8")
    return dict(re.findall(r"^//: (\w+)\n(.*?)(?=\n\n|\Z)", text, re.M | re.S))
