"""Style, types and names: the checkers find nothing, and no old name has survived."""

import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from course_files import course_files
from each import each

ROOT = Path(__file__).parent.parent.parent
# What things were called before. These are nowhere, in code or in text;
OLD_WORDS = (
    r"telling_words|is_telling|read_off|_draw_back|first_state|unroll|read_all|read_embeddings",
    r"predict_from|WordVocabulary|load_classifier|histogram_recipes|classifier_recipes|bpe_merges",
    r"attnlib[./](bpe|words|transformer|ngram|recurrent|seq2seq|histogram|classifiers|classify)",
    r"attnlib[./](saliency|faithfulness|adversary|aggregation|debate|dyck|values|layouts)",
    r"check\.values|-m attnlib\.training|tests/chapter_(tools|rules)|tests/test_project",
)
# these are words of the language, but no names in code.
OLD_NAMES = (
    "Past|Cache|Reading|Examined|Agreement|Deletion|deletion|Memory|fuse|replay|layouts|bend"
)


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
    found = [
        f"{name}:{line}"
        for name in course_files()
        if name.endswith(".py")
        for text, line in comments((ROOT / name).read_text(encoding="utf-8"))
        if re.search(r"#\s*fmt:", text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.long
def test_the_strict_type_checker_finds_nothing() -> None:
    rooms = [room for room in ("attnlib", "recipes", "grading") if (ROOT / room).is_dir()]
    run_tool("mypy", "--strict", *rooms)


def code_of(name: str, text: str) -> str:
    """The code of a file: a module as it is, the code cells of a notebook, or nothing."""
    if name.endswith(".py"):
        return text
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    return ""


def identifiers(code: str) -> Iterator[tuple[str, int]]:
    """The names in a piece of code, each with its line; strings and comments are left out."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.NAME:
            yield token.string, token.start[0]


def old_names(name: str, text: str) -> list[str]:
    """Where a file uses a name that has been given up."""
    words = re.compile(rf"(?<!\w)({'|'.join(OLD_WORDS)})\b")
    found = [
        f"{name}:{number}: {match[0]}"
        for number, line in enumerate(text.splitlines(), 1)
        for match in words.finditer(line)
    ]
    names = re.compile(OLD_NAMES)
    code = code_of(name, text)
    return found + [f"{name}: {n} in code" for n, _ in identifiers(code) if names.fullmatch(n)]


def test_no_old_name_survives() -> None:
    found = []
    for name in course_files():
        path, text = ROOT / name, {".py", ".ipynb", ".md", ".json", ".js", ".css"}
        if path.suffix in text and path != Path(__file__):
            found += old_names(name, path.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


@each(
    "name, text, found",
    [
        ("a.md", "see `attnlib/layouts.py` and attnlib.words", 2),
        ("a.md", "after Reading, the Memory is full", 0),
        ("a.md", "unrolled, attnlib.wordsmith, attnlib.models.transformer", 0),
        ("a.md", "the model.unroll method, python -m attnlib.training NAME", 2),
        ("a.py", "class Past:\n    'Memory of the Cache'  # Reading", 1),
        ("a.py", "x.bend = replay(KVCache)", 2),
    ],
)
def test_an_old_name_is_found(name: str, text: str, found: int) -> None:
    assert len(old_names(name, text)) == found
