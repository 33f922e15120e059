"""Control groups, on a folder that looks like the kernel's: few machines hand one over to us."""

import contextlib
import errno
import os
from pathlib import Path

import nbformat
import pytest

from grading import cgroup, sandbox, watch
from grading.sandbox import SandboxError, Scene, run
from grading.watch import Limits

LIMITS = Limits(memory=1 << 30, threads=77, total_seconds=60)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which groups are made; what was in them stays, as no kernel removes it."""
    monkeypatch.setattr(cgroup, "home", lambda: tmp_path)
    monkeypatch.setattr(cgroup, "remove", lambda folder: None)
    return tmp_path


def told(folder: Path, script: str) -> tuple[bytes, tuple[str, str]]:
    """What a shell has told, whose group is the only one in a folder."""
    group = f'cd "{folder}"/submission-*; {script}'
    return watch.watch(watch.program(["/bin/sh", "-c", group], {"PATH": "/usr/bin:/bin"}), LIMITS)


def test_a_group_has_the_limits_and_is_entered_before_anything_else(folder: Path) -> None:
    text, verdict = told(
        folder, "cat cgroup.procs memory.max memory.oom.group pids.max; echo; echo $$"
    )
    procs, limits, own = text.decode().split()
    assert limits == f"{1 << 30}177"
    assert procs == own, "the process in the group is not the one that was started"
    assert verdict == ("crashed", "ended from inside")


def test_who_met_the_limit_of_its_group_has_taken_too_much_memory(folder: Path) -> None:
    killed = "printf 'low 0\\nmax 9\\noom 1\\noom_kill 3\\n' > memory.events; kill -9 $$"
    assert told(folder, killed)[1] == ("crashed", "killed: memory above 1 GB")


def test_who_was_killed_below_the_limit_is_not_blamed(folder: Path) -> None:
    killed = "printf 'low 0\\nmax 0\\noom 0\\noom_kill 1\\n' > memory.events; kill -9 $$"
    with pytest.raises(SandboxError, match="the machine has run out of memory"):
        told(folder, killed)


@pytest.mark.long
def test_a_submission_runs_in_a_group(folder: Path) -> None:
    cell = nbformat.v4.new_code_cell("print(1 + 1)")
    unsafe = sandbox.unusable() is not None
    done = run(nbformat.v4.new_notebook(cells=[cell]), Scene(), LIMITS, unsafe)
    assert (done.status, done.notebook.cells[0].outputs[0].text) == ("finished", "2\n")
    (group,) = folder.iterdir()
    assert int((group / "cgroup.procs").read_text()) > 1
    assert (group / "pids.max").read_text() == "77"


def kernel(root: Path, where: str, offered: str) -> Path:
    """A tree of groups that offers controllers in one place."""
    place = root / where
    place.mkdir(parents=True, exist_ok=True)
    (place / "cgroup.controllers").write_text(offered)
    return place


@pytest.mark.parametrize(
    ("own", "where", "offered", "found"),
    [
        ("0::/class/grader", "class", "cpu memory pids", True),  # the folder above
        ("0::/class", "class", "memory pids", True),  # the folder itself
        ("0::/class/grader", "class", "cpu pids", False),
        ("0::/", "..", "memory pids", False),  # nothing outside of the kernel's tree
        ("4:memory:/class\n0::/", "class", "memory pids", False),  # the first version's
    ],
)
def test_a_folder_that_is_handed_over_is_found(
    tmp_path: Path, own: str, where: str, offered: str, found: bool
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    place = kernel(root, where, offered)
    (tmp_path / "own").write_text(own + "\n")
    assert cgroup.home.__wrapped__(root, tmp_path / "own") == (place if found else None)
    if found:
        assert (place / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_a_folder_with_processes_or_groups_of_others_is_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    place = kernel(root, "class", "memory pids")
    (tmp_path / "own").write_text("0::/class\n")

    def busy(path: Path, text: str) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", busy)
        assert cgroup.home.__wrapped__(root, tmp_path / "own") is None
    assert cgroup.home.__wrapped__(root, tmp_path / "own") == place
    (place / "submission-of-another-run").mkdir()
    assert cgroup.home.__wrapped__(root, tmp_path / "own") == place
    (place / "somebody-else").mkdir()
    assert cgroup.home.__wrapped__(root, tmp_path / "own") is None


def test_a_group_is_removed_with_whoever_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "home", lambda: tmp_path)
    removed: list[Path] = []
    monkeypatch.setattr(cgroup, "remove", removed.append)
    with contextlib.suppress(ValueError), cgroup.group(1, 1):
        raise ValueError
    assert removed == list(tmp_path.iterdir())
