"""Files as students hand them in, and classes that take them in."""

import json
import os
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from grading.intake.collect import collect
from grading.intake.placing import HandIn
from grading.settings import ROOT, Places

NAME, OTHER = "04_self_attention", "05_gpt2"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def work(word: str = "", name: str = NAME) -> bytes:
    """A student's notebook, with a word of their own in it."""
    data = json.loads((ROOT / "exercises" / name / f"{name}.ipynb").read_text(encoding="utf-8"))
    data["cells"].append({"cell_type": "markdown", "id": "own", "metadata": {}, "source": word})
    return json.dumps(data).encode()


def put(folder: Path, files: dict[str, bytes], time: datetime = NOON) -> Path:
    """Write files into a folder, with a time."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time.timestamp(), time.timestamp()))
    return folder


def pack(
    path: Path, files: dict[str, bytes], date: tuple[int, ...] = (2026, 11, 30, 13, 0, 0)
) -> Path:
    """Write files into a zip, with a local time."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, date), content)  # type: ignore[arg-type]
    return path


def take(
    places: Places, files: dict[str, bytes], time: datetime = NOON, pattern: str = ""
) -> list[HandIn]:
    """Collect a new folder of files."""
    folder = Path(tempfile.mkdtemp(dir=places.dist.parent))
    return collect(put(folder, files, time), places, pattern)


def write_roster(places: Places, text: str) -> None:
    """Write the roster of a class."""
    places.home.mkdir(parents=True, exist_ok=True)
    places.roster.write_text(text, encoding="utf-8")


def by_path(rows: list[HandIn]) -> dict[str, HandIn]:
    """The rows of files, by their paths."""
    return {row.path: row for row in rows if row.path}


def submitted(places: Places, student: str, name: str = NAME) -> bytes:
    """What counts for a student."""
    return (places.submitted / student / name / f"{name}.ipynb").read_bytes()


def kept(places: Places) -> set[bytes]:
    """The contents of everything in collected/."""
    return {path.read_bytes() for path in places.collected.rglob("*") if path.is_file()}
