"""What a submission may use up, and how a run ends that uses more."""

import pytest
from classroom import needs_sandbox
from runs import cells, printed, run, shown

from attnlib.check import MIME
from grading.sandbox.watch import Limits, excess

SMALL = Limits(
    cell_seconds=2, total_seconds=60, memory=900 << 20, output=16 << 20, files=5_000, threads=150
)
LATER = "print('later')"
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
while True:
    show({"task": "double", "answers": ["x" * 10_000]})
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
time.sleep(9)
"""
FILES = "import time\nfor i in range(6_000):\n    open(f'/tmp/{i}', 'w').close()\ntime.sleep(9)"
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
time.sleep(9)
"""
PRINTS = """
from attnlib.check import check
def double(x):
    for i in range(4000):
        print("x" * 20, flush=True)
    return 2 * x
check("double", double)
"""


@needs_sandbox
def test_a_cell_that_computes_too_long_is_interrupted_and_the_next_ones_run() -> None:
    waits = "import time\ntime.sleep(3)\nprint('waited')"  # longer than it may compute
    told = run("while True:\n    pass", waits, LATER, limits=SMALL)
    ended = [line["ended"] for line in cells(told)]
    assert ended == ["timed out after 2 s of computing", None, None]
    assert printed(told) == "waited\nlater\n"
    reason = "timed out after 2 s of computing in cell 1"
    assert (told.status, told.reason) == ("timed out", reason)


@needs_sandbox
def test_a_cell_that_waits_too_long_is_interrupted_too() -> None:
    told = run("import time\ntime.sleep(600)", LATER, limits=Limits(cell_patience=3))
    assert printed(told) == "later\n"
    assert (told.status, told.reason) == ("timed out", "timed out after 3 s in cell 1")


@needs_sandbox
def test_what_a_cell_prints_without_end_is_cut_and_the_next_ones_run() -> None:
    told = run("while True:\n    print('x' * 100)", LATER, limits=SMALL)
    assert 100_000 < len(printed(told)) < 101_000
    assert "the rest is left out" in printed(told)
    assert printed(told).endswith("later\n")
    assert cells(told)[0]["ended"] == "timed out after 2 s of computing"


@needs_sandbox
def test_answers_to_hidden_inputs_are_kept_whatever_was_printed_before() -> None:
    hidden = {"double": [{"tuple": [1]}, {"tuple": [2]}]}
    told = run(PRINTS, limits=Limits(), hidden=hidden)
    (bundle,) = [output["data"][MIME] for output in shown(told) if MIME in output.get("data", {})]
    assert [answer["output"] for answer in bundle["answers"]] == [2, 4]
    assert (told.status, told.reason) == ("finished", "")
    assert 100_000 < len(printed(told)) < 101_000


ENDS = {  # the cells, and of what the whole run ends
    "a cell that goes on": (STUBBORN, "timed out", "and did not react to an interrupt in cell 1"),
    "the kernel's end": ("import os\nos._exit(3)", "crashed", "ended itself (status 3) in cell 1"),
    "the client's end": ("import os\nos.kill(os.getppid(), 9)", "crashed", "ended from inside"),
    "memory": ("kept = [b'x' * (10 << 20) for _ in range(300)]", "crashed", "memory above"),
    "memory of sockets": (SOCKETS, "crashed", "memory above"),
    "files": (FILES, "crashed", "killed: more than 5,000 files"),
    "processes": (FORK, "crashed", "killed: "),  # whichever limit is met first
    "output": (BUNDLES, "crashed", "killed: output above 16,777,216 bytes"),
}


@needs_sandbox
@pytest.mark.parametrize("what", ENDS)
def test_a_run_ends(what: str) -> None:
    source, status, reason = ENDS[what]
    told = run("print('before')", source, LATER, limits=SMALL)
    assert told.status == status, told
    assert reason.replace("cell 1", "cell 2") in told.reason
    assert printed(told) == "before\n", "what came before is kept, and nothing comes after"


@needs_sandbox
@pytest.mark.parametrize("source", ["while True:\n    pass", HIDDEN])
def test_all_cells_together_may_not_compute_too_long(source: str) -> None:
    told = run(source, LATER, limits=Limits(total_seconds=2))
    reason = "timed out after 2 s of computing in total"
    assert (told.status, told.reason) == ("timed out", reason)


def test_all_cells_together_may_not_wait_too_long() -> None:
    limits = Limits(total_patience=3)
    assert excess([], lasted=3.1, seconds=0, limits=limits) == (
        "timed out",
        "timed out after 3 s in total",
    )
    assert excess([], lasted=2.9, seconds=0, limits=limits) is None
