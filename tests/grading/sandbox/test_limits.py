"""What a submission may use up, and how a run ends that uses more.

A sandbox takes a second or two to start, and a limit on time has to be waited for. So the cells
that are interrupted share a run, and a limit that one function decides is tested on that function.
"""

import os
from dataclasses import replace

import pytest
from classroom import needs_sandbox
from runs import cells, printed, run, shown, text

from attnlib.check import MIME
from grading.sandbox.inside import Deadline
from grading.sandbox.run import Told
from grading.sandbox.watch import Limits, excess

SMALL = Limits(
    cell_seconds=2, total_seconds=60, memory=900 << 20, output=16 << 20, files=5_000, threads=150
)
LATER = "print('later')"
LATE = "timed out after 1 s of computing"
STUBBORN = """
count = 0
while True:
    try:
        while True:
            count += 1
    except KeyboardInterrupt:
        pass
"""
FORK = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
BUNDLES = """
from attnlib.check import show
for _ in range(20):
    show({"task": "double", "answers": ["x" * 1_000_000]})
"""
SOCKETS = """
import socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/server")
server.listen(4_000)
for _ in range(3_000):
    with socket.socket(socket.AF_UNIX) as client:  # what it has sent waits to be read
        client.connect("/tmp/server")
        client.setblocking(False)
        client.send(bytes(200_000))
time.sleep(60)
"""
FILES = "import time\nfor i in range(6_000):\n    open(f'/tmp/{i}', 'w').close()\ntime.sleep(60)"
HIDDEN = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody is told how a child has ended
    while True:
        if os.fork() == 0:
            while time.process_time() < 0.5:
                pass
            os._exit(0)
        try:
            os.wait()
        except ChildProcessError:
            pass
time.sleep(60)
"""
PRINTS = """
from attnlib.check import check
def double(x):
    for i in range(2000):
        print("x" * 50, flush=True)
    return 2 * x
check("double", double)
"""


@pytest.fixture(scope="module")
def late() -> Told:
    """Cells that take too long, one after the other; the last of them cannot be interrupted."""
    sources = (
        "while True:\n    pass",
        "import time\ntime.sleep(1.5)\nprint('waited')",  # longer than it may compute
        "while True:\n    print('x' * 100)",
        LATER,
        STUBBORN,
        "print('never')",
    )
    return run(*sources, limits=replace(SMALL, cell_seconds=1))


@needs_sandbox
def test_a_cell_that_computes_too_long_is_interrupted_and_the_next_ones_run(late: Told) -> None:
    first, waits, loud, later, _ = cells(late)
    assert [line["ended"] for line in (first, waits, loud, later)] == [LATE, None, LATE, None]
    assert (text(waits), text(later)) == ("waited\n", "later\n")


@needs_sandbox
def test_what_a_cell_prints_without_end_is_cut(late: Told) -> None:
    loud = text(cells(late)[2])
    assert 100_000 < len(loud) < 101_000
    assert "the rest is left out" in loud


@needs_sandbox
def test_a_cell_that_goes_on_after_an_interrupt_ends_the_run(late: Told) -> None:
    reason = f"{LATE}, and did not react to an interrupt"
    assert (late.status, late.reason) == ("timed out", f"{reason} in cell 5")
    assert cells(late)[4]["ended"] == reason
    assert len(cells(late)) == 5, "nothing comes after"


def test_a_cell_that_waits_too_long_is_late_too() -> None:
    session = os.getsid(0)
    assert Deadline(session, seconds=60, patience=0).passed() == "timed out after 0 s"
    assert Deadline(session, seconds=60, patience=60).passed() == ""


@needs_sandbox
def test_answers_to_hidden_inputs_are_kept_whatever_was_printed_before() -> None:
    hidden = {"double": [{"tuple": [1]}, {"tuple": [2]}]}
    told = run(PRINTS, limits=Limits(), hidden=hidden)
    (bundle,) = [output["data"][MIME] for output in shown(told) if MIME in output.get("data", {})]
    assert [answer["output"] for answer in bundle["answers"]] == [2, 4]
    assert (told.status, told.reason) == ("finished", "")
    assert 100_000 < len(printed(told)) < 101_000


ENDS = {  # a cell, and of what the whole run ends
    "the client's end": ("import os\nos.kill(os.getppid(), 9)", "ended from inside"),
    "memory": ("kept = [b'x' * (10 << 20) for _ in range(300)]", "memory above"),
    "memory of sockets": (SOCKETS, "memory above"),
    "files": (FILES, "killed: more than 5,000 files"),
    "processes": (FORK, "killed: "),  # whichever limit is met first
    "output": (BUNDLES, "killed: output above 16,777,216 bytes"),
}


@needs_sandbox
@pytest.mark.parametrize("what", ENDS)
def test_a_run_ends(what: str) -> None:
    source, reason = ENDS[what]
    told = run("print('before')", source, LATER, limits=SMALL)
    assert told.status == "crashed", told
    assert reason in told.reason
    assert printed(told) == "before\n", "what came before is kept, and nothing comes after"


@needs_sandbox
def test_all_cells_together_may_not_compute_too_long_where_they_hide_it() -> None:
    told = run(HIDDEN, LATER, limits=Limits(total_seconds=1))
    reason = "timed out after 1 s of computing in total"
    assert (told.status, told.reason) == ("timed out", reason)


def test_all_cells_together_may_not_take_too_long() -> None:
    limits = Limits(total_seconds=2, total_patience=3)
    assert excess([], lasted=2.9, seconds=1.9, limits=limits) is None
    late = ("timed out", "timed out after 3 s in total")
    assert excess([], lasted=3.1, seconds=0, limits=limits) == late
    late = ("timed out", "timed out after 2 s of computing in total")
    assert excess([], lasted=0, seconds=2.1, limits=limits) == late
