"""Style and types: the checkers find nothing."""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from course_files import course_files

ROOT = Path(__file__).parent.parent.parent
FMT = re.compile(r"#\s*fmt:")


def run_tool(*words: str) -> None:
    """Run a checker on the project, and fail with what it says."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


def test_ruff_finds_nothing() -> None:
    run_tool("ruff", "check", ".")


def test_ruff_would_format_nothing() -> None:
    run_tool("ruff", "format", "--check", "--diff", ".")


def comments(code: str) -> Iterator[tuple[str, int]]:
    """The comments in a piece of code, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]


def test_nothing_is_kept_from_the_formatter() -> None:
    codes = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in course_files()
        if name.endswith(".py")
    }
    found = [
        f"{name}:{line}"
        for name, code in codes.items()
        if FMT.search(code)
        for text, line in comments(code)
        if FMT.search(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.long
def test_the_strict_type_checker_finds_nothing() -> None:
    rooms = [room for room in ("attnlib", "recipes", "grading") if (ROOT / room).is_dir()]
    run_tool("mypy", "--strict", *rooms)
