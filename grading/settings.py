"""Where a class is kept, for the instructor's commands; `nbgrader_config.py` says the same."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

ROOT = Path(__file__).resolve().parent.parent
CLASS, GRADEBOOK = "CLASS", "ATTNLIB_GRADEBOOK"  # environment variables


def class_folder() -> Path:
    """The folder of the class: CLASS, or `class/` in the course's folder."""
    return Path(os.environ.get(CLASS) or ROOT / "class").expanduser().resolve()


@dataclass(frozen=True)
class Places:
    """The folders and files of one class.

    Attributes:
        home: where all of the lecturer's own data lie: roster, submissions, gradebook, marks.
        dist: where archives to hand out are written.
    """

    home: Path = field(default_factory=class_folder)
    dist: Path = ROOT / "dist"

    @property
    def roster(self) -> Path:
        return self.home / "roster.csv"

    @property
    def extensions(self) -> Path:
        return self.home / "extensions.csv"

    @property
    def collected(self) -> Path:
        return self.home / "collected"

    @property
    def submitted(self) -> Path:
        return self.home / "submitted"

    @property
    def autograded(self) -> Path:
        return self.home / "autograded"

    @property
    def feedback(self) -> Path:
        return self.home / "feedback"

    def submission(self, exercise: str, student: str) -> Path:
        """Where a student's notebook for an exercise lies, if there is one."""
        return self.submitted / student / exercise / f"{exercise}.ipynb"

    @property
    def gradebook(self) -> str:
        """The gradebook's address: ATTNLIB_GRADEBOOK, or a SQLite file at home."""
        told = os.environ.get(GRADEBOOK, "").replace("postgresql://", "postgresql+psycopg://")
        return told or f"sqlite:///{self.home.resolve() / 'gradebook.db'}"

    def has_gradebook(self) -> bool:
        """Whether there is a gradebook to read: none is made by reading."""
        kind, _, path = self.gradebook.partition(":///")
        return kind != "sqlite" or Path(path.partition("?")[0]).exists()

    def make(self) -> None:
        """Make the class's folder. It is a repository of its own, so that `git clean` spares it."""
        self.home.mkdir(parents=True, exist_ok=True)
        if not (self.home / ".git").exists():
            with suppress(FileNotFoundError):  # without git nobody calls git clean
                subprocess.run(["git", "init", "-q", str(self.home)], check=True)


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
