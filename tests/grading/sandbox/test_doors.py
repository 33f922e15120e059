"""What a submission finds in its sandbox, and what is shut: all tried by one notebook.

The look around, the doors and the system calls are those of one run, each a row of a table.
"""

import errno
import json
import platform
import socket
from pathlib import Path
from typing import Any

import pytest
from classroom import needs_sandbox
from runs import printed, run, shown

from grading.sandbox.fence import COURSE
from grading.sandbox.watch import Limits

pytestmark = needs_sandbox
LIMITS = Limits(cell_seconds=60, disk=32 << 20, file=8 << 20, threads=150)
SECRETS = [str(COURSE / name) for name in ("solutions", "grading", "exercises", "tests", ".git")]
SECRETS += [str(Path.home() / ".ssh"), "/etc/passwd", "/var", "/run"]

# what a submission sees: an expression, and its value
SEEN: dict[str, tuple[str, Any]] = {
    "no file of the course or of the machine": (
        f"[path for path in {SECRETS!r} if os.path.exists(path)]",
        [],
    ),
    "of the library the folder check": ("os.listdir(attnlib.__path__[0])", ["check"]),
    "a folder like a student's own": (
        "[os.getcwd(), os.listdir()]",
        ["/home/student/04_self_attention", ["checks.json"]],
    ),
    "no variable of the person who grades": (
        "[name for name in os.environ if 'ATTNLIB' in name or 'PYTHONPATH' in name]",
        [],
    ),
    "no network but its own": ("[name for _, name in socket.if_nameindex()]", ["lo"]),
    "few processes": ("len([n for n in os.listdir('/proc') if n.isdigit()]) <= 3", True),
    "no rights": ("[line.split()[1] for line in status if line[:6] == 'CapEff']", ["0" * 16]),
    "never root": ("os.getuid() != 0", True),
    "limits": (
        "[resource.getrlimit(x)[1] for x in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)]",
        [LIMITS.threads, LIMITS.file],
    ),
    "torch": ("float((torch.ones(64, 64) @ torch.ones(64, 64)).sum())", 64.0**3),
    "packages of an answer": ("len(pandas.DataFrame({'x': [1, 2]}))", 2),
    "programs": ("subprocess.run(['echo', 'x'], capture_output=True).stdout.decode()", "x\n"),
    "processes of its own": ("multiprocessing.get_context('fork').Pool(1).map(abs, [-1])", [1]),
    "threads": ("list(concurrent.futures.ThreadPoolExecutor(4).map(abs, [-1]))", [1]),
    "files that it writes": ("open('own.txt', 'w').write('x')", 1),
}

# each must end in an exception
DOORS = {
    "a network": "socket.create_connection(('192.0.2.1', 80), 2)",
    "a name of a host": "socket.getaddrinfo('example.org', 80)",
    "a server of this machine": "socket.create_connection(('127.0.0.1', PORT), 2)",
    "the host of a virtual machine": "socket.socket(40)",
    "a socket that keeps more": "socket.socketpair()[0].setsockopt(1, socket.SO_SNDBUF, 1 << 20)",
    "root": "os.setuid(0)",
    "another group": "os.setgroups([0])",
    "another root": "os.chroot('/tmp')",
    "the machine's kernel": "open('/proc/sys/kernel/domainname', 'w').write('x')",
    "the memory of a process of the machine": "open('/proc/1/mem', 'rb').read(1)",
    "a file at the top": "open('/x', 'w')",
    "a program into /usr": "open('/usr/bin/x', 'w')",
    "a device": "open('/dev/x', 'w')",
    "torch, to change it": "open(torch.__file__, 'a')",
    "check, to change it": "open(attnlib.check.__file__, 'a')",
    "a higher limit": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "more memory than there is": "bytearray(9 << 30)",
    "memory that stays when it is unmapped": "mmap.mmap(-1, 4096)",
    "a large file": "open('/tmp/large', 'wb').write(bytes(9 << 20))",
    "a full disk": "[open(f'/tmp/{i}', 'wb').write(bytes(2 << 20)) for i in range(40)]",
    "full shared memory": "[open(f'/dev/shm/{i}', 'wb').write(bytes(2 << 20)) for i in range(40)]",
    "a package of the grader's": "import nbgrader.api; nbgrader.api.Gradebook('sqlite://')",
    "the same past its stand-in": "assert importlib.machinery.PathFinder.find_spec('nbgrader')",
    "the course's library": "import attnlib.attention as a; a.attention(1, 2, 3)",
}

# of x86-64: the number of a call, and arguments that would do nothing; refused with EPERM
CALLS = {
    "ptrace": (101, 0, 0, 0, 0),
    "process_vm_writev": (311, -1, 0, 0, 0),
    "unshare": (272, 0),
    "setns": (308, -1, 0),
    "clone, with new users": (56, 0x1000_0000, 0, 0, 0, 0),
    "clone, with a new network": (56, 0x4000_0011, 0, 0, 0, 0),
    "mount": (165, 0, 0, 0, 0),
    "fsopen": (430, 0, 0),
    "open_by_handle_at": (304, -1, 0, 0),
    "bpf": (321, -1, 0, 0),
    "perf_event_open": (298, 0, 0, 0, 0),
    "io_uring_setup": (425, 0, 0),
    "keyctl": (250, 0, -3, 0),
    "memfd_create": (319, 0, 0),
    "shmget": (29, 0, 4096, 0o1600),
    "vmsplice": (278, -1, 0, 0),
    "init_module": (175, 0, 0, 0),
    "a socket of packets": (41, 17, 3, 0),
    "a socket of packets, written oddly": (41, (1 << 32) + 17, 3, 0),
}

LOOK = """
import concurrent.futures, ctypes, importlib.machinery, json, mmap, multiprocessing, os, resource
import socket, subprocess
import attnlib.check, pandas, torch
status = open("/proc/self/status").read().split("\\n")
libc, came = ctypes.CDLL(None, use_errno=True), {"doors": {}}
libc.syscall.restype = ctypes.c_long

def number(*arguments):
    ctypes.set_errno(0)
    return 0 if libc.syscall(*map(ctypes.c_long, arguments)) >= 0 else ctypes.get_errno()

came["seen"] = {name: eval(source) for name, (source, _) in SEEN.items()}
came["calls"] = {name: number(*about) for name, about in CALLS.items()}
came["clone3"] = number(435, 0, 0)
for name, source in DOORS.items():
    try:
        exec(source)
    except Exception as error:
        came["doors"][name] = type(error).__name__
    else:
        came["doors"][name] = "open"
"""


@pytest.fixture(scope="module")
def came() -> dict[str, Any]:
    """What all of it came to."""
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_SEED", "secret")
        tables = f"SEEN, DOORS, CALLS = {SEEN!r}, {DOORS!r}, {CALLS!r}"
        look = f"PORT = {server.getsockname()[1]}\n{tables}\n{LOOK}"
        about = {"folder": "04_self_attention", "files": {"checks.json": "{}"}, "limits": LIMITS}
        told = run(look, "print(json.dumps(came))", "!echo $USER", **about)
    assert told.status == "finished", told
    assert not [output for output in shown(told) if output["output_type"] == "error"], told
    text, shell = printed(told).splitlines()[:2]
    assert shell == "student", "a line with ! starts a program"
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("fact", SEEN)
def test_a_look_around(came: dict[str, Any], fact: str) -> None:
    assert came["seen"][fact] == SEEN[fact][1]


@pytest.mark.parametrize("door", DOORS)
def test_a_door_is_shut(came: dict[str, Any], door: str) -> None:
    assert came["doors"][door] != "open"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls are x86-64's")
@pytest.mark.parametrize("call", CALLS)
def test_a_dangerous_call_is_refused(came: dict[str, Any], call: str) -> None:
    assert errno.errorcode[came["calls"][call]] == "EPERM"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls are x86-64's")
def test_the_c_library_is_told_to_take_another_call_than_clone3(came: dict[str, Any]) -> None:
    assert errno.errorcode[came["clone3"]] == "ENOSYS"
