"""What stands in place of `sandbox.execute` in a worker; light, as each worker imports it."""

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

WHERE = "CANNED"  # the variable that says where what was told before lies


def canned(job: bytes) -> bytes:
    """What a job has told before; one that has not run yet runs now."""
    told: dict[bytes, bytes] = pickle.loads(Path(os.environ[WHERE]).read_bytes())
    if job not in told:
        from grading import sandbox

        return sandbox.execute(job)
    time.sleep(0.05)
    return told[job]


def deadly(job: bytes) -> bytes:
    """A submission that kills the worker that runs it; the others as they were."""
    if b"kill it" in job:
        os.kill(os.getpid(), signal.SIGKILL)
    return canned(job)


def deadly_step(name: str, student: str, how: Any, answers: Any) -> dict[str, Any]:
    """In place of `submission.step`: a submission that kills the process that grades it."""
    if student == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    with (how.places.home / "log").open("a") as file:
        file.write(f"{student}\n")
    return {"student": student, "status": "graded", "reason": "", "notes": [], "tasks": {}}
