"""The filter of system calls, put on a process of its own: what it refuses, and what it lets be."""

import ctypes
import errno
import json
import multiprocessing
import os
import platform
from typing import Any

import pytest

from grading import away, calls

pytestmark = pytest.mark.skipif(
    calls.unusable() is not None or platform.machine() != "x86_64",
    reason="the numbers below are those of this machine's kernel, and libseccomp is needed",
)
# the numbers of x86-64, read from the kernel's own table and not from libseccomp's
NUMBERS = {
    "execve": 59,
    "kill": 62,
    "ptrace": 101,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "flock": 73,
    "inotify_init1": 294,
    "inotify_add_watch": 254,
    "mincore": 27,
    "preadv2": 327,
    "memfd_create": 319,
    "shmget": 29,
    "msgget": 68,
    "semget": 64,
    "mq_open": 240,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "pivot_root": 155,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "process_vm_writev": 311,
    "pidfd_open": 434,
    "tkill": 200,
    "cachestat": 451,
    "fanotify_init": 300,
    "open_by_handle_at": 304,
    "init_module": 175,
    "kexec_load": 246,
    "personality": 135,
    "vmsplice": 278,
    "splice": 275,
    "tee": 276,
    "io_setup": 206,
    "sync": 162,
    "setpriority": 141,
    "sched_setattr": 314,
    "ioprio_set": 251,
    "mknod": 133,
    "setuid": 105,
    "setxattr": 188,
    "a call of a year to come": 600,
}


def tried() -> dict[str, Any]:
    """The error number of each call under the filter, with arguments that do nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long

    def number(*arguments: int) -> int:
        ctypes.set_errno(0)
        return 0 if libc.syscall(*map(ctypes.c_long, arguments)) >= 0 else ctypes.get_errno()

    away.confine(calls.program())
    found: dict[str, Any] = {name: number(value, -1, 0, 0, 0) for name, value in NUMBERS.items()}
    found["clone3"] = number(435, 0, 0)
    found["a namespace by clone"] = number(56, 0x1000_0000, 0, 0, 0, 0)
    found["a lock by fcntl"] = number(72, 1, 6, 0)
    found["a signal by fcntl"] = number(72, 1, 10, 9)
    found["the client's signals"] = number(234, 2, 2, 9)
    found["the client's limits"] = number(302, 2, 0, 0, 0)
    found["the client's signals, written oddly"] = number(234, (1 << 32) + 2, 2, 9)
    found["the client's rank"] = number(144, 2, 0, 0)
    found["a terminal's input"] = number(16, 0, 0x5412, 0)
    found["memory of no file and of nobody"] = number(9, 0, 4096, 3, 0x21, -1, 0)
    for family, name in {40: "vsock", 17: "packets", 10: "IPv6", 38: "ciphers"}.items():
        found[name] = number(41, family, 1, 0)
    allowed = [(39,), (41, 1, 1, 0), (302, 0, 7, 0, 0), (24,), (9, 0, 4096, 3, 0x22, -1, 0)]
    found["allowed"] = [number(*one) for one in allowed]
    threads = [number(234, os.getpid(), 1 << 22, 0), number(203, os.getpid(), 0, 0)]
    found["of one's own"] = [errno.ENOSYS not in threads]
    found["files"] = len(os.listdir("/"))
    return found


def test_the_filter_refuses_what_no_answer_needs() -> None:
    reader, writer = multiprocessing.Pipe(duplex=False)
    if not (child := os.fork()):
        try:
            writer.send_bytes(json.dumps(tried()).encode())
        finally:
            os._exit(0)
    writer.close()
    assert reader.poll(60), "nothing came back"
    found = json.loads(reader.recv_bytes())
    os.waitpid(child, 0)
    assert found.pop("allowed") == [0] * 5
    assert found.pop("of one's own") == [True]
    assert found.pop("files") > 5
    assert {name: code for name, code in found.items() if code != errno.ENOSYS} == {}


def test_every_name_that_is_allowed_is_one() -> None:
    """A name that is misspelt would be refused on all machines, and nobody would see why."""
    import pyseccomp

    names = " ".join([*calls.ALLOWED.values(), calls.RANKS]).split()
    known = [pyseccomp.resolve_syscall(pyseccomp.Arch.X86_64, name) for name in names]
    assert [n for n, number in zip(names, known, strict=True) if number < 0] == []
    assert len(set(names)) == len(names)


def test_without_the_library_the_sandbox_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from grading import sandbox

    def missing() -> bytes:
        raise ImportError("no pyseccomp")

    monkeypatch.setattr(sandbox.shutil, "which", lambda name: "/usr/bin/bwrap")
    monkeypatch.setattr(calls, "program", missing)
    assert "pip install pyseccomp" in (sandbox.unusable() or "")


def test_the_filter_is_made_of_whole_instructions() -> None:
    program = calls.program()
    assert len(program) % 8 == 0
    assert 100 < len(program) // 8 < 4096  # the kernel's own limit
