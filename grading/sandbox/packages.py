"""Which installed packages a submission meets: those that an answer may use, and what they need.

Everything else stays outside of the sandbox: a library with finished models holds answers ready.
"""

import os
import re
import site
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

# what answers and notebooks of the course use, and what runs them
ROOTS = (
    "torch",
    "numpy",
    "matplotlib",
    "pandas",
    "tqdm",
    "ipywidgets",
    "ipykernel",
    "jupyter-client",
)
NO_MODULES = (".dist-info", ".egg-info", ".pth", ".data")


def folders() -> list[Path]:
    """The folders of installed packages."""
    return [Path(os.path.abspath(name)) for name in site.getsitepackages() if os.path.isdir(name)]


def normal(name: str) -> str:
    """A package's name as the index writes it.

    >>> normal("Jupyter_Client")
    'jupyter-client'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(package: Distribution) -> Iterator[str]:
    """The names of the packages that a package needs, extras left out."""
    for wanted in map(Requirement, package.requires or ()):
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield normal(wanted.name)


def parts(package: Distribution) -> set[Path]:
    """The files and folders of a package in the folder where it is installed."""
    files = [file for file in package.files or () if file.parts and ".." not in file.parts]
    names = {file.parts[0] for file in files} - {"__pycache__"}
    paths = [Path(str(package.locate_file(name))) for name in names if not name.endswith(".pth")]
    return {path for path in paths if path.exists()}


@cache
def visible() -> tuple[Path, ...]:
    """The files and folders that a submission meets in the folders of installed packages."""
    installed: dict[str, Distribution] = {}
    for package in distributions(path=[*map(str, folders())]):
        if package.name:
            installed.setdefault(normal(package.name), package)  # of two, Python takes the first
    queue, seen = [normal(name) for name in ROOTS], set[str]()
    paths: set[Path] = set()
    while queue:
        name = queue.pop()
        if name in installed and name not in seen:
            seen.add(name)
            queue += needs(installed[name])
            paths |= parts(installed[name])
    return tuple(sorted(paths))


@cache
def absent() -> tuple[str, ...]:
    """The modules that are installed here, and that a submission does not meet."""
    paths = {path for folder in folders() for path in folder.iterdir()} - set(visible())
    names = {path.name.partition(".")[0] for path in paths if path.suffix not in NO_MODULES}
    there = {path.name.partition(".")[0] for path in visible()}
    modules = {name for name in names - there if name.isidentifier() and name != "__pycache__"}
    return tuple(sorted(modules | {"attnlib"}))
