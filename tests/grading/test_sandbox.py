"""`grading.sandbox`: what a submission can see, reach and use up, tried from inside."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
import torch
from classroom import REQUIRED, alive, needs_sandbox, soon
from each import each

from grading import sandbox, warm
from grading.outputs import harmless, with_outputs
from grading.sandbox import Run, SandboxError, Scene, run
from grading.watch import Limits, parsed, program, tree, watch

ROOT = Path(__file__).parents[2]
SMALL = Limits(
    cell_seconds=8,
    total_seconds=90,
    memory=900 << 20,
    output=1 << 20,
    disk=32 << 20,
    file=8 << 20,
    processes=24,
    threads=150,
)
HIDDEN = {"double": [{"tuple": [1]}, {"tuple": [2]}]}
SCENE = Scene(HIDDEN, (), "04_self_attention", {"checks.json": "{}"})
SHOW = "print('later')"

# One look around from inside; every entry of `seen` is a fact that a test asserts.
LOOK = """
import glob, importlib.machinery, json, os, resource, socket, sys
import torch
import attnlib.check

def attempt(what):
    try:
        return str(what())
    except BaseException as error:
        return type(error).__name__

def write(path):
    with open(path, "w") as file:
        return file.write("x")

def connect(address):
    with socket.create_connection(address, timeout=2):
        return "connected"

def fill(folder):
    for i in range(40):
        with open(f"{folder}/{i}", "wb") as file:
            file.write(bytes(2 << 20))
    return "filled"

def write_large():
    for file in glob.glob("/tmp/[0-9]*"):
        os.remove(file)
    return open("/tmp/large", "wb").write(bytes(9 << 20))

def links():
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            pass

client = os.getppid()
seen = {
    "torch": float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()),
    "course": [path for path in COURSE if os.path.exists(path)],
    "attnlib": sorted(os.listdir(os.path.dirname(attnlib.__file__))),
    "root folder": sorted(set(os.listdir("/")) - set(PLACES)),
    "here": [os.getcwd(), os.listdir()],
    "library": attempt(lambda: __import__("attnlib.attention").attention.attention(1)),
    "packages": [name for name in ("scipy", "transformers", "nbgrader", "pyseccomp")
                 if importlib.machinery.PathFinder.find_spec(name)],
    "interfaces": [name for _, name in socket.if_nameindex()],
    "outside": attempt(lambda: connect(("192.0.2.1", 80))),
    "name": attempt(lambda: socket.getaddrinfo("example.org", 80)),
    "host": attempt(lambda: connect(("127.0.0.1", PORT))),
    "environment": dict(os.environ),
    "written": {path: attempt(lambda: write(path)) for path in (
        "/x", "/usr/x", "/dev/x", "/etc/x", "/home/x", attnlib.__file__,
        "/proc/sys/kernel/domainname", sys.prefix + "/x", torch.__file__,
        attnlib.check.__file__)},
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in (
        "RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_NPROC")},
    "uid": os.getuid(),
    "root": attempt(lambda: os.setuid(0)),
    "capabilities": [line for line in open("/proc/self/status") if line.startswith("CapEff")],
    "processes": [open(f"/proc/{pid}/cmdline").read().split("\\0")[0] for pid in os.listdir("/proc")
                  if pid.isdigit()],
    "pipe": attempt(lambda: os.listdir(f"/proc/{client}/fd")),
    "memory of the client": attempt(lambda: open(f"/proc/{client}/mem", "rb").read(1)),
    "program": bool(os.statvfs("/proc/self/exe").f_flag & os.ST_RDONLY),
    "shared memory": [
        line for line in open("/proc/self/maps") if line.split()[1][1:] in ("w-s", "wxs")],
    "open": sorted({link.partition(":")[0] for link in links()}),
    "init": attempt(lambda: (os.kill(1, 9), __import__("time").sleep(0.5), "alive")[2]),
    "raised": attempt(lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))),
    "big": attempt(lambda: bytearray(9 << 30)),
    "disk": attempt(lambda: fill("/tmp")),
    "shm": attempt(lambda: fill("/dev/shm")),
    "large file": attempt(write_large),
}
"""

# The same for an ordinary user, who owns the files of the sandbox, and whom the limit on threads
# holds in a user namespace.
LOOK_AS_USER = """
import json, os, socket, time
import torch

def attempt(what):
    try:
        return str(what())
    except BaseException as error:
        return type(error).__name__

def bomb():
    children = []
    try:
        for _ in range(500):
            child = os.fork()
            if not child:
                time.sleep(60)
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            attempt(lambda: os.kill(child, 9))

seen = {
    "torch": float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "user": os.getuid(),
    "written": {path: attempt(lambda: open(path, "a")) for path in
                ("/x", "/dev/x", torch.__file__)},
    "pipe": attempt(lambda: os.listdir(f"/proc/{os.getppid()}/fd")),
    "capabilities": [int(line.split()[1], 16) for line in open("/proc/self/status")
                     if line.startswith("CapEff")],
    "threads": attempt(bomb),
}
"""

CASES = {
    "loop": ["print('before')\nwhile True:\n    pass", SHOW],
    "stubborn": [
        "while True:\n    try:\n        while True:\n            pass\n"
        "    except KeyboardInterrupt:\n        pass",
        SHOW,
    ],
    "exit": ["print('before')", "import os\nos._exit(3)", SHOW],
    "memory": ["kept = [b'x' * (10 << 20) for _ in range(300)]", SHOW],
    "fork bomb": [
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        SHOW,
    ],
    "processes": [
        "import os, time\nfor _ in range(30):\n    os.fork() or time.sleep(60)\ntime.sleep(60)",
        SHOW,
    ],
    "output": ["for _ in range(300):\n    print('x' * 10_000)\n__import__('time').sleep(30)", SHOW],
    "one line": ["print('x' * 10**9)", SHOW],
    "client": ["print('before')", "import os\nos.kill(os.getppid(), 9)", SHOW],
    "stopped": ["import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)", SHOW],
    "error": ["1 / 0", SHOW],
    "rich": [
        "from IPython.display import HTML, Image, display\n"
        "display(HTML('<script>alert(1)</script>'))\n"
        "display({'image/png': 'aGVsbG8=', 'text/html': '<b>'}, raw=True)\n"
        "display({'image/png': '\"><script>'}, raw=True)\n40 + 2"
    ],
    "magic": ["!echo shell", "input()", "%%bash\necho cell"],
}


def notebook(*sources: str) -> nbformat.NotebookNode:
    """A notebook of code cells."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])


def text(done: Run) -> str:
    """All that a run printed."""
    return "".join(o.get("text", "") for cell in done.notebook.cells for o in cell.outputs)


def places() -> str:
    """What the look around is told: where the course lies, a server's port, what may be there."""
    names = ("solutions", "grading", "exercises", "attnlib", "tests", ".git")
    course = [str(ROOT / name) for name in names]
    secrets = [*course, str(Path.home() / ".ssh"), "/etc/passwd", "/var"]
    there = {path.parts[1] for path in sandbox.bound()} | {"dev", "proc", "tmp", "home", "etc"}
    return f"COURSE, PLACES = {secrets!r}, {there!r}"


WAYS = ["a warm interpreter's copies", pytest.param("new interpreters", marks=pytest.mark.long)]
BOTH = ("loop", "exit", "client")  # what is tried with a new interpreter, too


@pytest.fixture(scope="module", params=WAYS)
def runs(request: pytest.FixtureRequest) -> dict[str, "Future[Run]"]:
    """Every case under way, four at a time; a test waits for its own."""
    pool = ThreadPoolExecutor(4)  # most of them wait
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        patch.setenv("ATTNLIB_SEED", "secret")
        cold = request.param == "new interpreters"
        if cold:
            patch.setattr(warm, "cold", lambda: "a test wants it so")
        look = [f"{places()}\nPORT = {server.getsockname()[1]}", LOOK, "print(json.dumps(seen))"]
        cases = {name: CASES[name] for name in BOTH} if cold else CASES
        found = {
            name: pool.submit(run, notebook(*cells), SCENE, SMALL)
            for name, cells in ({"look": look} | cases).items()
        }
        pool.shutdown()  # what is exchanged for this fixture is exchanged for no other test
    return found


@pytest.fixture(scope="module")
def seen(runs: dict[str, "Future[Run]"]) -> dict:
    """What the look around saw."""
    done = runs["look"].result()
    assert done.status == "finished", done
    errors = [o for cell in done.notebook.cells for o in cell.outputs if o.output_type == "error"]
    assert not errors, errors
    return json.loads(text(done))


SEEN = {  # all that the look around must find; what may be one of several things: below
    "torch": 64.0**3,
    # nothing of the course, and of the environment only what an answer may use
    "course": [],
    "attnlib": ["__init__.py", "check"],
    "library": "RuntimeError",
    "packages": [],
    # a place like a student's own
    "root folder": [],
    "here": ["/home/student/04_self_attention", ["checks.json"]],
    "uid": 1000,
    # no network, and no server of this machine
    "interfaces": ["lo"],
    "outside": "OSError",
    "name": "gaierror",
    "host": "ConnectionRefusedError",
    # limits, for good
    "limits": {
        "RLIMIT_AS": [SMALL.address_space] * 2,
        "RLIMIT_FSIZE": [SMALL.file] * 2,
        "RLIMIT_CORE": [0] * 2,
        "RLIMIT_NOFILE": [256] * 2,
        "RLIMIT_NPROC": [SMALL.threads] * 2,
    },
    "raised": "ValueError",
    "big": "MemoryError",
    "disk": "OSError",
    "shm": "OSError",
    "large file": "OSError",
    # the client is closed, and nothing leads out that is open or mapped
    "pipe": "PermissionError",
    "memory of the client": "PermissionError",
    "program": True,
    "shared memory": [],
}


@needs_sandbox
@each("fact", SEEN)
def test_a_look_around_finds_nothing_else(seen: dict, fact: str) -> None:
    assert seen[fact] == SEEN[fact]


@needs_sandbox
def test_no_rights_and_no_way_out(seen: dict) -> None:
    assert len(seen["written"]) == 10
    assert set(seen["written"].values()) <= {"OSError", "PermissionError"}, seen["written"]
    assert seen["root"] in ("OSError", "PermissionError")  # no such user, or no right
    assert [int(line.split()[1], 16) for line in seen["capabilities"]] == [0]
    warm_one = "sleep" in seen["processes"]  # which keeps the place until the copy comes
    assert len(seen["processes"]) == 3 + warm_one, seen["processes"]
    assert seen["init"] in ("alive", "OSError")
    assert set(seen["open"]) <= {"/dev/null", "pipe", "socket", "anon_inode"}, seen["open"]
    variables = seen["environment"]
    assert not [name for name in variables if "ATTNLIB" in name or "PYTHONPATH" in name]
    assert str(ROOT) not in json.dumps({**variables, "PATH": ""})


# of those that show little: status, reason, and all that was shown; the cells after may have run
ENDS = {
    "loop": ("timed out", "timed out after 8 s in cell 1", "before\nlater\n"),
    "stubborn": (
        "timed out",
        "timed out after 8 s in cell 1, and did not react to an interrupt",
        "",
    ),
    "exit": ("crashed", "the kernel ended itself (status 3) in cell 2", "before\n"),
    "memory": ("crashed", "killed: memory above 0.879 GB", ""),
    "client": ("finished", "", "before\nlater\n"),
    "stopped": ("finished", "", "later\n"),
    "error": ("finished", "", "later\n"),
    "rich": ("finished", "", ""),
    "magic": ("finished", "", ""),
}


@needs_sandbox
def test_how_it_ends(runs: dict) -> None:
    for name, cells in CASES.items():
        if name not in runs:
            continue
        done = runs[name].result(timeout=300)
        if name in ENDS:
            assert (done.status, done.reason, text(done)) == ENDS[name], name
        else:  # whichever limit is met first ends it
            assert done.status == "crashed", name
            assert re.search("memory|output|processes", done.reason), (name, done.reason)
            assert len(text(done)) < 10_000_000, name
            assert name != "output" or done.reason == "output above 1,048,576 bytes in cell 1"
        assert [cell.source for cell in done.notebook.cells] == cells, "never taken from inside"
    assert runs.keys() - {"look"} in (CASES.keys(), set(BOTH))


@needs_sandbox
def test_outputs_that_would_run_in_a_browser_are_dropped(runs: dict) -> None:
    if "rich" in runs:
        (cell,) = runs["rich"].result().notebook.cells
        assert [dict(output.data) for output in cell.outputs] == [
            {"text/plain": "<IPython.core.display.HTML object>"},
            {"image/png": "aGVsbG8="},
            {"text/plain": "42"},
        ]


@needs_sandbox
def test_no_program_is_started_and_input_fails(runs: dict) -> None:
    if "magic" in runs:
        errors = [cell.outputs[-1].ename for cell in runs["magic"].result().notebook.cells]
        assert errors == ["OSError", "StdinNotImplementedError", "OSError"]


@pytest.mark.long
@needs_sandbox
def test_no_process_and_no_file_outlives_the_one_that_grades(tmp_path: Path) -> None:
    code = (
        "import nbformat\nfrom grading.sandbox import Scene, run\n"
        "cell = nbformat.v4.new_code_cell('import os\\nos.fork()\\nwhile True: pass')\n"
        "run(nbformat.v4.new_notebook(cells=[cell]), Scene({'x': ['a hidden input']}))"
    )
    here = {**os.environ, "TMPDIR": str(tmp_path)}
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=here)
    started: list[int] = []
    try:
        assert soon(lambda: len(tree(worker.pid)) >= 6), "the sandbox did not start"
        started = tree(worker.pid)[1:]
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert soon(lambda: not [pid for pid in started if alive(pid)])
    assert list(tmp_path.iterdir()) == [], "hidden inputs may have been left behind"


def as_an_ordinary_user(code: str) -> "subprocess.CompletedProcess[str]":
    """What a program does that is not root's, which the machine's own interpreter runs."""
    words = shlex.split("bwrap --dev-bind / / --tmpfs /root --chmod 0755 /root")
    ours = [folder for folder in sandbox.bound() if folder.is_relative_to("/root")]
    parents = [parent for folder in ours for parent in reversed(folder.parents[:-2])]
    for parent in [*parents, *(folder.parent for folder in ours)]:
        words += ["--perms", "0755", "--dir", str(parent)]
    for folder in ours:
        words += ["--ro-bind", str(folder), str(folder)]
    words += shlex.split("--cap-drop ALL --cap-add CAP_SETUID --cap-add CAP_SETGID")
    words += shlex.split("setpriv --reuid 1000 --regid 1000 --clear-groups")
    done = subprocess.run(
        [*words, sys.executable, "-B", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": "/tmp"},
    )
    if not REQUIRED and "bubblewrap does not work" in done.stderr:
        pytest.skip("an ordinary user may not make namespaces here")
    return done


# One takes nearly all threads that it may, the other a few.
GREEDY = """
import threading, time
for _ in range(THREADS):
    threading.Thread(target=time.sleep, args=(6,), daemon=True).start()
print(THREADS)
time.sleep(4)
"""
AS_USER = f"""
import json, nbformat, os, time
from concurrent.futures import ThreadPoolExecutor
from grading import warm
from grading.sandbox import Limits, Scene, run

def shown(*cells, limits=None):
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    done = run(nbformat.v4.new_notebook(cells=cells), Scene(), limits)
    return [o.get("text", str(o)) for cell in done.notebook.cells for o in cell.outputs]

limits = Limits(processes=10_000, threads=100, memory=64 << 30)
(seen,) = shown({LOOK_AS_USER!r}, "print(json.dumps(seen))", limits=limits)
with ThreadPoolExecutor(2) as pool:
    first = pool.submit(shown, {GREEDY!r}.replace("THREADS", "230"))
    time.sleep(1.5)
    second = shown({GREEDY!r}.replace("THREADS", "40").replace("sleep(4)", "sleep(0)"))
    both = [*first.result(), *second]
print(json.dumps([os.getuid(), warm.cold(), json.loads(seen), both]))
"""


@pytest.mark.long
@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests have run as an ordinary user")
def test_an_ordinary_user_can_grade_too_and_no_submission_takes_threads_from_another() -> None:
    done = as_an_ordinary_user(AS_USER)
    assert done.stdout, done.stderr
    user, cold, found, threads = json.loads(done.stdout)
    assert (user, cold, threads) == (1000, None, ["230\n", "40\n"])
    written = found.pop("written")
    assert set(written) == {"/x", "/dev/x", torch.__file__}
    assert set(written.values()) <= {"OSError", "PermissionError"}
    assert found == {
        "torch": 64.0**3,
        "interfaces": ["lo"],
        "user": 1000,
        "pipe": "PermissionError",
        "capabilities": [0],
        "threads": "BlockingIOError",
    }


def test_without_bubblewrap_it_refuses_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    with pytest.raises(SandboxError, match=r"apt install bubblewrap.*--unsafe"):
        run(notebook("1"), SCENE)
    assert warm.cold() == "there is no `bwrap` on this machine"


def test_an_environment_around_the_course_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: "/usr/bin/bwrap")
    monkeypatch.setattr(sandbox, "bound", lambda: [ROOT.parent])
    assert "would see the solutions" in (sandbox.unusable() or "")


def test_a_bubblewrap_that_fails_is_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "no namespaces here" in (sandbox.unusable() or "")
    monkeypatch.setattr(sandbox, "unusable", lambda: None)
    with pytest.raises(SandboxError, match="did not start.*no namespaces here"):
        run(notebook("1"), SCENE)


@pytest.mark.long
def test_unsafe_runs_with_the_limits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    cells = ["import os\nprint(os.getuid(), 'ATTNLIB_SEED' in os.environ)", "while True:\n    pass"]
    done = run(notebook(*cells), SCENE, Limits(cell_seconds=4), unsafe=True)
    assert (done.status, done.reason) == ("timed out", "timed out after 4 s in cell 2")
    assert text(done) == f"{os.getuid()} False\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user stays who it is")
def test_submissions_at_the_same_time_are_different_users() -> None:
    both = threading.Barrier(2, timeout=60)

    def user(_: int) -> int:
        both.wait()
        return int(sandbox.inner_job([], SCENE, SMALL, False)["uid"])

    with ThreadPoolExecutor(2) as threads:
        assert len(set(threads.map(user, range(2)))) == 2


def test_a_job_of_another_version_of_the_course_is_refused() -> None:
    asked = json.loads(sandbox.packed(notebook("1"), SCENE, SMALL, True))
    other = json.dumps(asked | {"course": "another"}).encode()
    with pytest.raises(SandboxError, match=f"on {socket.gethostname()}: .* version"):
        sandbox.execute(other)


def test_a_job_names_nobody_and_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIB_SEED", "secret")
    asked = json.loads(sandbox.packed(notebook("1"), SCENE, SMALL, False))
    assert set(asked) == {"cells", "scene", "limits", "unsafe", "course"}
    assert set(asked["scene"]) == {"hidden", "forbidden", "folder", "files"}
    assert "secret" not in json.dumps(asked)
    assert str(ROOT) not in json.dumps(asked)


@each("stream, most", [("stdout", 200_000), ("stderr", 100_000)])
def test_a_flood_from_inside_is_cut_off(stream: str, most: int) -> None:
    """What they tell may be twice the limit, for it is JSON; what they complain of, as much."""
    verdicts = []
    for size in (most, most + 1):
        code = f"import sys; sys.{stream}.write('x' * {size})"
        told, verdict = watch(program([sys.executable, "-c", code], {}), Limits(output=100_000))
        assert parsed(told) == []
        verdicts.append(verdict)
    assert verdicts[1] == ("crashed", "killed: output above 100,000 bytes")
    assert verdicts[0] != verdicts[1]


def test_no_submission_may_show_more_than_ten_megabytes() -> None:
    assert Limits().output == 10 * 2**20


@each(
    "line",
    [
        {"cell": 5, "outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]},
        {"cell": -1, "outputs": []},
        {"cell": True, "outputs": []},
        {"cell": 0, "outputs": "x"},
        {"cell": 0, "outputs": [1, None, {"output_type": "stream"}, {"output_type": []}]},
        {
            "cell": 0,
            "outputs": [{"output_type": "error", "ename": "E", "evalue": "", "traceback": 1}],
        },
    ],
)
def test_forged_lines_do_no_harm(line: dict) -> None:
    (cell,) = with_outputs(notebook("1"), [line]).cells
    assert cell.outputs == []


def test_two_lines_about_one_cell_show_both() -> None:
    output = {"output_type": "display_data", "data": {"application/vnd.attnlib.answers+json": {}}}
    lines = [{"cell": 0, "outputs": [output]}] * 2
    assert len(with_outputs(notebook("1"), lines).cells[0].outputs) == 2


def test_an_answer_too_deep_for_python_is_dropped() -> None:
    deep: list = []
    for _ in range(500):
        deep = [deep]
    data = {"application/vnd.attnlib.answers+json": deep}
    assert harmless({"output_type": "display_data", "data": data}) is None
