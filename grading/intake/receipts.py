"""From where a submission came: kept beside it, so that feedback and marks find the way back."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from grading.settings import Places
from grading.tables import written


@dataclass(frozen=True)
class Receipt:
    """What is known of the file that counts for a student and an exercise.

    Attributes:
        platform: the name of its shape in `grading.intake.platforms`, such as "moodle".
        path: its path in the export, as the platform wrote it.
        number: the platform's own id of the person or the attempt, if the name held one; or empty.
        digest: the SHA-256 of the file.
        time: of the file in the export, in ISO format; `timestamp.txt` lies beside it only where
            that is the time of handing in.
        by: the id of the student, or the name of the group, who handed it in.
        late: whether the platform marked it as late, and the student has no extension.
    """

    platform: str
    path: str
    number: str = ""
    digest: str = ""
    time: str = ""
    by: str = ""
    late: bool = False


def receipt_path(student: str, exercise: str, places: Places) -> Path:
    """Where a receipt lies: beside the submission."""
    return places.submitted / student / exercise / "receipt.json"


def write_receipt(receipt: Receipt, student: str, exercise: str, places: Places) -> None:
    """Keep a receipt."""
    written(receipt_path(student, exercise, places), json.dumps(asdict(receipt), indent=1))


def read_receipt(student: str, exercise: str, places: Places) -> Receipt | None:
    """The receipt of a submission, or None if there is none."""
    path = receipt_path(student, exercise, places)
    return Receipt(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
