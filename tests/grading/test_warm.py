"""`grading.warm`: what a copy of the warm interpreter finds of others, and when there is none."""

import gc
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import REQUIRED, needs_sandbox

from grading import warm
from grading.sandbox import SandboxError, Scene, run
from grading.watch import Limits, end

pytestmark = needs_sandbox


@pytest.fixture
def begins_warm() -> None:
    """Skip where each submission gets an interpreter of its own."""
    if not REQUIRED and warm.cold():
        pytest.skip(f"there is no warm interpreter on this machine: {warm.cold()}")


def shown(source: str) -> str:
    """What a cell prints."""
    done = run(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), Scene())
    (output,) = done.notebook.cells[0].outputs
    return str(output.get("text", output))


def test_a_submission_finds_nothing_of_the_one_before() -> None:
    cell = (
        "import random, sys, numpy, torch, os\n"
        "print('before' in vars(torch), 'before' in sys.modules, os.path.exists('/tmp/before'),\n"
        "      os.path.exists('/dev/shm/before'), hasattr(__builtins__, 'before'))\n"
        "print(random.random(), numpy.random.rand(), float(torch.rand(1)))\n"
        "torch.before = sys.modules['before'] = torch\n"
        "__builtins__.before = torch.nn.functional.relu.__code__\n"
        "for name in ('/tmp/before', '/dev/shm/before'): open(name, 'w').close()"
    )
    first, second = (shown(cell).split("\n") for _ in range(2))
    assert first[0] == second[0] == "False False False False False"
    assert not set(first[1].split()) & set(second[1].split()), "both have drawn the same"


def test_no_pipe_of_a_kernel_is_the_one_on_which_results_are_told() -> None:
    forge = (
        "import json, os\n"
        "output = {'output_type': 'stream', 'name': 'stdout', 'text': 'forged'}\n"
        "line = json.dumps({'cell': 1, 'outputs': [output]}) + chr(10)\n"
        "for number in map(int, os.listdir('/proc/self/fd')):\n"
        "    path = f'/proc/self/fd/{number}'\n"
        "    if os.path.lexists(path) and os.readlink(path).startswith('pipe:'):\n"
        "        try:\n"
        "            os.write(number, line.encode())\n"
        "        except OSError:\n"
        "            pass"
    )
    cells = [nbformat.v4.new_code_cell(source) for source in (forge, "print('later')")]
    done = run(nbformat.v4.new_notebook(cells=cells), Scene())
    # the kernel's own pipes show the line as text; one that is believed shows what it says
    shown_there = [output.text for output in done.notebook.cells[1].outputs]
    assert "forged" not in shown_there
    assert "later" in "".join(shown_there)


@pytest.mark.usefixtures("begins_warm")
def test_here_submissions_begin_warm() -> None:
    assert warm.cold() is None


@pytest.mark.usefixtures("begins_warm")
def test_a_warm_interpreter_that_has_ended_is_replaced() -> None:
    before = warm.serving()
    before.process.kill()
    before.process.wait()
    assert shown("print(1 + 1)") == "2\n"
    assert warm.serving() is not before


def test_where_no_fence_can_be_entered_each_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise SandboxError("a fence cannot be entered (not here)")

    monkeypatch.setattr(warm.Server, "copy", refuse)
    monkeypatch.setattr(warm, "tried", warm.tried.__wrapped__)
    assert warm.cold() == "a fence cannot be entered (not here)"
    assert shown("print(1 + 1)") == "2\n"


def dying(monkeypatch: pytest.MonkeyPatch, how: Callable[[Path], None]) -> None:
    """Let something happen to the next fence's namespaces after they have been opened."""
    send, copy = socket.send_fds, warm.Server.copy

    def once(self: warm.Server, spaces: Path, files: Sequence[int]) -> int:
        monkeypatch.setattr(warm.Server, "copy", copy)

        def late(*about: Any) -> int:
            monkeypatch.setattr(socket, "send_fds", send)
            how(spaces)
            return send(*about)

        monkeypatch.setattr(socket, "send_fds", late)
        return copy(self, spaces, files)

    monkeypatch.setattr(warm.Server, "copy", once)


@pytest.mark.usefixtures("begins_warm")
def test_a_fence_that_dies_early_is_the_machine_s_fault_and_nobody_s_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kill(spaces: Path) -> None:
        os.kill(int(spaces.parts[2]), signal.SIGKILL)
        while spaces.joinpath("pid").exists():
            time.sleep(0.01)

    monkeypatch.setattr(warm, "PATIENCE", 20.0)
    dying(monkeypatch, kill)
    with pytest.raises(SandboxError, match="cannot be entered"):
        shown("print(1 + 1)")
    assert shown("print(1 + 1)") == "2\n"


@pytest.mark.usefixtures("begins_warm")
def test_an_interpreter_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its late answer is nobody's: another submission would be watched in its place."""
    before = warm.serving()
    pid = int(before.spaces.parts[2])
    monkeypatch.setattr(warm, "PATIENCE", 1.0)
    dying(monkeypatch, lambda spaces: os.kill(pid, signal.SIGSTOP))
    with pytest.raises(SandboxError, match="does not answer"):
        shown("print(1 + 1)")
    monkeypatch.undo()
    assert shown("print(1 + 1)") == "2\n"
    assert warm.serving() is not before
    assert not Path("/proc", str(pid), "exe").exists(), "it lives on, stopped"


@pytest.mark.usefixtures("begins_warm")
def test_a_request_that_was_broken_off_leaves_no_answer_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by Ctrl-C: the next one would watch, and hold to its limits, a process that is not its."""
    send, told, copy = socket.send_fds, [], warm.Server.copy

    def broken(*about: Any) -> int:
        send(*about)
        time.sleep(0.5)
        raise KeyboardInterrupt

    def remembered(self: warm.Server, *about: Any) -> int:
        told.append(copy(self, *about))
        space = os.readlink(f"/proc/{told[-1]}/ns/pid")
        told.append(space == os.readlink(about[0] / "pid"))
        return int(told[-2])

    monkeypatch.setattr(socket, "send_fds", broken)
    with pytest.raises(KeyboardInterrupt):
        shown("print(1 + 1)")
    monkeypatch.setattr(socket, "send_fds", send)
    monkeypatch.setattr(warm.Server, "copy", remembered)
    assert shown("print(1 + 1)") == "2\n"
    assert told[1], "the copy is in another fence"


@pytest.mark.usefixtures("begins_warm")
def test_a_fence_that_is_none_is_not_entered() -> None:
    """The number of a process that has ended may be another's: a copy would run in the open."""
    with pytest.raises(SandboxError, match="has no .* namespace of its own"):
        warm.serving().copy(Path("/proc/self/ns"), (0, 0, 1, 2))


@pytest.mark.usefixtures("begins_warm")
def test_where_descriptors_run_out_none_is_kept() -> None:
    """Whichever of them is the first that is missing."""
    warm.serving()
    limits, before = resource.getrlimit(resource.RLIMIT_NOFILE), len(os.listdir("/proc/self/fd"))
    for free in range(1, 20):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + free, limits[1]))
        with suppress(OSError):
            end(warm.start("", Limits())(None))
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
