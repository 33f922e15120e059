"""Doors of a sandbox to the machine, to others and to the solutions: each is shut.

Every call of the kernel that the filter refuses is tried in `test_calls.py`.
"""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import needs_sandbox
from each import each

from grading.sandbox import Scene, run
from grading.watch import Limits

pytestmark = needs_sandbox
LIMITS = Limits(cell_seconds=30, total_seconds=240, output=60 << 20)
JUDGE = Path(__file__).parents[2] / "grading" / "judge.py"
assert JUDGE.exists(), "else this door would be shut by its absence"

# each must end in an exception
DOORS: dict[str, str] = {
    "ask for its locks": "import fcntl, struct; fcntl.fcntl(open(torch.__file__), 5, "
    "struct.pack('hhqqi', 1, 0, 0, 0, 0))",
    "lock the null device": "import fcntl; fcntl.flock(open('/dev/null'), 2)",
    "lend a file": "import fcntl; fcntl.fcntl(open('/dev/null'), 1024, 0)",
    "watch a folder": "import fcntl, os; fcntl.fcntl(os.open('/usr', os.O_RDONLY), 1026, 1)",
    "kill the client": "import os; os.kill(os.getppid(), 9)",
    "kill all": "import os; os.kill(-1, 9)",
    "signals by a file": "import fcntl; fcntl.fcntl(open('/dev/null'), 8, 2)",
    "the signal of a file": "import fcntl; fcntl.fcntl(open('/dev/null'), 10, 9)",
    "a signal by a socket": "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socketpair()[0], 0x8901, struct.pack('i', 2))",
    "the owner of a socket": "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socketpair()[0], 0x8902, struct.pack('i', 2))",
    "signals of a socket": "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socketpair()[0], 0x5452, struct.pack('i', 1))",
    "the command line of the fence": "assert '--ro-bind' in open('/proc/1/cmdline').read()",
    "a network": "import socket; socket.create_connection(('192.0.2.1', 80), 2)",
    "key rings": "open('/proc/keys').read() + open('/proc/key-users').read()",
    "memory of the client": "open('/proc/2/mem', 'rb')",
    "the pipe": "open('/proc/2/fd/1', 'w')",
    "the job": "open('/proc/2/fd/0').read()",
    "the command line's program": "import os; os.execv('/bin/true', ['true'])",
    "a program": "import subprocess; subprocess.run(['/bin/true'])",
    "a shell": "import os; assert os.system('true') == 0",
    "another root": "import os; os.chroot('/tmp')",
    "root": "import os; os.setuid(0)",
    "another group": "import os; os.setgroups([0])",
    "a name of the host": "import socket; socket.sethostname('x')",
    "the clock": "import time; time.clock_settime(0, 0)",
    "a file of the course": f"open({str(JUDGE)!r})",
    "write to the environment": "open(torch.__file__, 'a')",
    "write to check": "import attnlib.check as c; open(c.__file__, 'a')",
    "a program into /usr": "open('/usr/bin/x', 'w')",
    "more open files": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999))",
    "a large file": "open('/tmp/x', 'wb').write(bytes(200 << 20))",
    "fill the disk": "[open(f'/tmp/f{i}', 'wb').write(bytes(32 << 20)) for i in range(40)]",
    "a package with models": "import transformers; transformers.AutoModel()",
    "a package with statistics": "from scipy import stats; stats.kendalltau([1], [1])",
    "a package with tokenizers": "import tiktoken; tiktoken.get_encoding('gpt2')",
    "the course's package": "import attnlib.attention as a; a.attention(1, 2, 3)",
    "the course's models": "from attnlib.pretrained import gpt2; gpt2()",
    "a program, by the C library": "assert libc.execl(b'/bin/true', b'true', None) == 0",
    "a key ring, by the C library": "assert libc.syscall(250, 0, -3, 0) >= 0",
}


@pytest.fixture(scope="module")
def tried() -> dict[str, str]:
    """What trying each door came to, in one kernel."""
    lines = [
        f"try:\n    exec({source!r}, {{'torch': torch, 'libc': libc}})\n"
        f"except BaseException as error:\n    seen[{name!r}] = type(error).__name__\n"
        f"else:\n    seen[{name!r}] = 'open'"
        for name, source in DOORS.items()
    ]
    cells = [
        "import ctypes, torch\nlibc, seen = ctypes.CDLL(None), {}",
        *lines,
        "import json; print(json.dumps(seen))",
    ]
    work = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    done = run(work, Scene(), LIMITS)
    assert done.status == "finished", done.reason
    shown: Any = done.notebook.cells[-1].outputs
    found: dict[str, str] = json.loads(shown[0].text)
    return found


@each("door", DOORS)
def test_a_door_is_shut(tried: dict[str, str], door: str) -> None:
    by_library = "libc." in DOORS[door]
    assert tried[door] == "AssertionError" if by_library else tried[door] != "open"
