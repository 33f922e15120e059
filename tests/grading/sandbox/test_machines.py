"""The sandbox on machines of all sorts: without bubblewrap, as root or not, wherever it lies."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from classroom import REQUIRED, alive, needs_sandbox, soon
from runs import cells, printed, run

from grading.sandbox import fence
from grading.sandbox.fence import COURSE, environments
from grading.sandbox.run import unusable
from grading.sandbox.watch import Doubt, Limits, SandboxError, tree


def test_without_bubblewrap_it_refuses_and_says_how(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install bubblewrap" in (unusable() or "")
    with pytest.raises(SandboxError, match=r"^on .*apt install bubblewrap.*--unsafe"):
        run("1")


def test_a_bubblewrap_that_fails_is_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "no namespaces here" in (unusable() or "")
    with pytest.raises(Doubt, match="did not start.*no namespaces here"):
        run("1")


def test_an_environment_around_the_course_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence.sys, "prefix", str(COURSE.parent))
    with pytest.raises(SandboxError, match="would see the solutions"):
        environments()


def test_unsafe_runs_with_the_limits_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no bubblewrap
    monkeypatch.setenv("ATTNLIB_SEED", "secret")
    look = "import os\nprint(os.getuid(), 'ATTNLIB_SEED' in os.environ, os.listdir())"
    absent = "import attnlib.attention as a\na.attention(1, 2, 3)"
    limits, files = Limits(cell_seconds=1), {"checks.json": "{}"}
    told = run(look, absent, "while True:\n    pass", limits=limits, files=files, unsafe=True)
    assert (told.status, told.reason) == ("timed out", "timed out after 1 s of computing in cell 3")
    assert printed(told) == f"{os.getuid()} False ['checks.json']\n"
    (error,) = cells(told)[1]["outputs"]
    assert "attnlib.attention.attention, which is not there in grading" in error["evalue"]


@needs_sandbox
@pytest.mark.long
def test_no_process_and_no_file_outlives_the_one_that_grades(tmp_path: Path) -> None:
    code = (
        "from grading.sandbox.run import Job, execute\n"
        "execute(Job(((0, 'import os\\nos.fork()\\nwhile True: pass'),), {'x': ['hidden']}))"
    )
    here = {**os.environ, "TMPDIR": str(tmp_path)}
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=COURSE, env=here)
    started: list[int] = []
    try:
        assert soon(lambda: len(tree(worker.pid)) >= 6), "the sandbox did not start"
        started = tree(worker.pid)[1:]
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert soon(lambda: not [pid for pid in started if alive(pid)])
    assert list(tmp_path.iterdir()) == [], "hidden inputs may have been left behind"


RUN = """
import json, os
from grading.sandbox.fence import COURSE
from grading.sandbox.run import Job, execute
from grading.sandbox.watch import Limits
LOOK = '''
import json, os, resource
from attnlib.check import check

def forked():
    for count in range(500):
        try:
            child = os.fork()
        except OSError:
            return count
        if not child:
            os.execv("/bin/sleep", ["sleep", "60"])

print(json.dumps([os.getuid(), os.path.exists(COURSE + "/solutions"), os.access("/", os.W_OK),
    open("/proc/self/status").read().split("CapEff:\\\\t")[1][:16], forked()]))
'''
limits = Limits(processes=10_000, threads=100)
print(execute(Job(((0, f"COURSE = {str(COURSE)!r}" + LOOK),), limits=limits)).lines.decode())
"""


def outcome(done: "subprocess.CompletedProcess[str]") -> list[object]:
    """What the look around of `RUN` has printed."""
    assert done.stdout, done.stderr
    found: list[object] = json.loads(json.loads(done.stdout.splitlines()[1])["outputs"][0]["text"])
    return found


@needs_sandbox
def test_the_course_may_lie_under_tmp_and_its_path_hold_spaces(tmp_path: Path) -> None:
    course = tmp_path / "the course"
    for part in ("grading/sandbox", "attnlib/check"):
        shutil.copytree(COURSE / part, course / part)
        (course / part).with_name("__init__.py").touch()
    (course / "solutions").mkdir()
    done = subprocess.run(
        [sys.executable, "-B", "-c", RUN], cwd=course, capture_output=True, text=True
    )
    user, solutions, writable, rights, forked = outcome(done)
    assert (user != 0, solutions, writable, rights) == (True, False, False, "0" * 16)
    assert isinstance(forked, int)
    assert 50 < forked < 100, "the limit on processes and threads holds"


@pytest.mark.long
@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests have run as an ordinary user")
def test_an_ordinary_user_can_grade_too() -> None:
    """Who finds Python where root keeps it, although root's home is closed to others."""
    words = shlex.split("bwrap --dev-bind / / --tmpfs /root --chmod 0755 /root")
    ours = [folder for folder in environments() if folder.is_relative_to("/root")]
    for parent in [parent for folder in ours for parent in reversed(folder.parents[:-2])]:
        words += ["--perms", "0755", "--dir", str(parent)]
    for folder in ours:
        words += ["--ro-bind", str(folder), str(folder)]
    words += shlex.split("--cap-drop ALL --cap-add CAP_SETUID --cap-add CAP_SETGID")
    words += shlex.split("setpriv --reuid 1000 --regid 1000 --clear-groups")
    argv, here = [*words, sys.executable, "-B", "-c", RUN], {**os.environ, "HOME": "/tmp"}
    done = subprocess.run(argv, cwd=COURSE, capture_output=True, text=True, env=here)
    if not REQUIRED and "bubblewrap does not work" in done.stderr:
        pytest.skip("an ordinary user may not make namespaces here")
    user, solutions, writable, rights, forked = outcome(done)
    assert (user, solutions, writable, rights) == (1000, False, False, "0" * 16)
    assert isinstance(forked, int)
    assert 50 < forked < 100, "the limit on processes and threads holds"
