"""Where the course keeps what, for the instructor's commands: one source, nbgrader_config.py."""

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "grading"
GRADEBOOK = "ATTNLIB_GRADEBOOK"


@dataclass(frozen=True)
class Places:
    """The folders and files of one class.

    Attributes:
        home: where submissions and marks are kept; `grading/`, or another folder for another
            class.
        dist: where archives to hand out are written.
    """

    home: Path = HOME
    dist: Path = ROOT / "dist"

    @property
    def submitted(self) -> Path:
        return self.home / "submitted"

    @property
    def autograded(self) -> Path:
        return self.home / "autograded"

    @property
    def feedback(self) -> Path:
        return self.home / "feedback"

    @property
    def collected(self) -> Path:
        return self.home / "collected"

    @property
    def roster(self) -> Path:
        return self.home / "roster.csv"

    @property
    def gradebook(self) -> str:
        """The gradebook's address: ATTNLIB_GRADEBOOK, or a SQLite file at home."""
        told = os.environ.get(GRADEBOOK, "").replace("postgresql://", "postgresql+psycopg://")
        return told or f"sqlite:///{self.home.resolve() / 'gradebook.db'}"

    def has_gradebook(self) -> bool:
        """Whether there is a gradebook to read: none is made by reading."""
        kind, _, path = self.gradebook.partition(":///")
        return kind != "sqlite" or Path(path.partition("?")[0]).exists()


def configuration(places: Places) -> Config:
    """nbgrader's configuration for a class, as nbgrader_config.py tells it."""
    find_alembic()
    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    config.CourseDirectory.submitted_directory = str(places.submitted.resolve())
    config.CourseDirectory.autograded_directory = str(places.autograded.resolve())
    config.CourseDirectory.feedback_directory = str(places.feedback.resolve())
    config.CourseDirectory.db_url = places.gradebook
    return config


def find_alembic() -> None:
    """Put this Python's folder on PATH: nbgrader calls `alembic` by name to make a gradebook."""
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if here not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([here, path])


def timestamp(path: Path) -> datetime | None:
    """When a submission that lies in `submitted` was handed in, or None."""
    try:
        text = (path.parent / "timestamp.txt").read_text(encoding="utf-8").strip()
        return datetime.fromisoformat(text.removesuffix(" UTC")).replace(tzinfo=UTC)
    except (OSError, ValueError):
        return None
