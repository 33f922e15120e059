"""Which files belong to the course: all but those that .gitignore names, with or without git."""

import os
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def ignored(name: str, folder: bool, rules: list[str]) -> bool:
    """Whether a rule of .gitignore names a path: by its last part, or from the top if it has a /.

    Args:
        name: the path from the top of the course, with / between its parts.
        folder: whether it is a folder; a rule that ends in / names only folders.
        rules: the lines of .gitignore that are neither empty nor comments.

    >>> ignored("a/b/x.pyc", False, ["*.py[cod]"]), ignored("a/build", False, ["build/"])
    (True, False)
    >>> [ignored(name, False, ["dist/*.csv"]) for name in ("dist/marks.csv", "a.csv")]
    [True, False]
    """
    for rule in rules:
        if rule.endswith("/") and not folder:
            continue
        pattern = rule.strip("/").split("/")
        parts = name.split("/") if "/" in rule.rstrip("/") else [name.rpartition("/")[2]]
        if len(parts) == len(pattern) and all(map(fnmatch, parts, pattern)):
            return True
    return False


def course_files(root: Path = ROOT) -> list[str]:
    """The names of the course's files from its top, sorted, with / between their parts."""
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    rules = [".git", *(line for line in lines if line and not line.startswith("#"))]
    found = []
    for folder, inside, files in os.walk(root):
        place = Path(folder).relative_to(root)
        inside[:] = [d for d in inside if not ignored((place / d).as_posix(), True, rules)]
        names = [(place / file).as_posix() for file in files]
        found += [name for name in names if not ignored(name, False, rules)]
    return sorted(found)
