"""Which installed packages a submission meets: those that an answer may use, and what they need.

Everything else stays outside of the sandbox. A library that holds an answer ready, such as one with
finished models, cannot be used if it is not there.
"""

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


def normal(name: str) -> str:
    """A package's name as the index writes it.

    >>> normal("Jupyter_Client")
    'jupyter-client'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(one: Distribution) -> Iterator[str]:
    """The names of the packages that one needs, extras left out."""
    for wanted in map(Requirement, one.requires or ()):
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield normal(wanted.name)


def parts(one: Distribution) -> set[str]:
    """The files and folders of a package in the folder where it is installed."""
    tops = {file.parts[0] for file in one.files or () if len(file.parts) and ".." not in file.parts}
    return {top for top in tops if top != "__pycache__" and not top.endswith(".pth")}


@cache
def visible() -> tuple[Path, ...]:
    """The files and folders that a submission meets in the folders of installed packages."""
    there: dict[str, Distribution] = {}
    for one in distributions(path=site.getsitepackages()):
        if one.name:
            there.setdefault(normal(one.name), one)  # of two versions Python imports the first
    queue, found = [normal(name) for name in ROOTS], dict[str, Distribution]()
    while queue:
        name = queue.pop()
        if name in there and name not in found:
            found[name] = there[name]
            queue += needs(there[name])
    paths = {Path(str(one.locate_file(part))) for one in found.values() for part in parts(one)}
    return tuple(sorted(path for path in paths if path.exists()))


@cache
def absent() -> tuple[str, ...]:
    """The modules that are installed here, and that a submission does not meet."""
    known = {path.name.partition(".")[0] for path in visible()}
    tops = {
        path.name.partition(".")[0]
        for folder in map(Path, site.getsitepackages())
        if folder.is_dir()
        for path in folder.iterdir()
        if path.suffix not in (".dist-info", ".pth", ".egg-info", ".data")
    }
    modules = {top for top in tops | {"attnlib"} if top.isidentifier() and top != "__pycache__"}
    return tuple(sorted(modules - known))
