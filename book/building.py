"""Sphinx at work, and how far it is."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from book import ROOT

Told = Callable[[int, str], None]
CONFIGURATION = Path(__file__).parent


def silent(percent: int, step: str) -> None:
    """Tell nobody how much is done."""


def sphinx(target: Path, told: Told) -> None:
    """Have Sphinx make the site of its sources, in two passes over them."""
    source, after = str(target / "source"), {"reading sources": 35, "writing output": 65}
    command = [sys.executable, "-m", "sphinx", "--no-color", "-j", "auto", "-b", "html"]
    command += ["-c", str(CONFIGURATION), "-D", f"html_static_path={source}/_static"]
    command += ["-d", str(target / "doctrees"), source, str(target / "html")]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        with subprocess.Popen(command, cwd=ROOT, **pipes) as running:
            for line in running.stdout or ():
                found = re.match(r"(.+)\.\.\. \[ *(\d+)%\]", line)
                if found and found[1] in after:
                    told(after[found[1]] + 30 * int(found[2]) // 100, found[1])
        errors.seek(0)
        complaints = errors.read().strip()
    if running.returncode or complaints:
        raise RuntimeError(f"Sphinx complains:\n{complaints[-4000:]}")
