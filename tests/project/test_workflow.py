"""The workflow of a hosted CI tests every system and Python that it should."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def jobs() -> dict[str, Any]:
    """The jobs of the workflow."""
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return found


def test_every_system_is_tested_with_every_python() -> None:
    found = jobs()
    assert [job["strategy"]["matrix"]["python"] for job in found.values()] == [PYTHONS] * len(found)
    systems = set(found["others"]["strategy"]["matrix"]["system"])
    assert systems == {"macos-latest", "windows-latest"}
    assert found["linux"]["runs-on"].startswith("ubuntu")
    assert all(job["strategy"]["fail-fast"] is False for job in found.values())


def test_it_runs_what_a_user_runs_and_everything_at_night() -> None:
    last = {name: job["steps"][-1]["run"] for name, job in jobs().items()}
    night = "${{ github.event_name == 'schedule' && '--long' || '' }}"
    assert last == {"linux": f".ci/run {night}", "others": "python course.py test"}
    assert "\n  schedule:\n" in WORKFLOW.read_text(encoding="utf-8")
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith('make test ARGS="--ci $*"\n')


def test_the_readme_promises_no_system_that_nothing_has_tested() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for told in ("Debian 12 with Python 3.11", "Debian 13 with Python 3.13", "with Python 3.14"):
        assert told in " ".join(readme.split())
    assert "but has not been tested there yet" in " ".join(readme.split())
