"""The filter of system calls under which a submission's kernel runs: `program() -> bytes`.

The namespaces of the sandbox keep a submission from files, networks and processes. This filter
keeps it from the doors of the machine's kernel that an answer never needs: what is not listed here
is answered as if the machine did not have it, so that libraries take another way, or an exception
says so. The list is what Python, torch, numpy, OpenMP, matplotlib and ipykernel were seen to call
while they ran the solutions, and what other versions of the C library call in its place.

- No program is started, and no signal, no rank and no limit reaches another process: the client
  that reads the answers cannot be stopped, killed or put last.
- No memory that no process maps and no folder counts: none without a name (memfd), none shared
  without a file, no pages lent to a pipe (vmsplice), no queues of the machine's disks (io_setup).
- No means by which two submissions on one machine could talk, such as key rings and locks on files
  that both can read.

What it does not do: two submissions that run at the same time may still measure how busy the
machine is, and one that runs later whether a file of Python's was read before.
"""

import errno
import os
from functools import cache
from importlib import import_module
from typing import Any

ALLOWED = {
    "files": "read write readv writev pread64 pwrite64 preadv pwritev lseek open openat creat"
    " close close_range dup dup2 dup3 pipe pipe2 stat fstat lstat newfstatat statx statfs fstatfs"
    " access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir"
    " mkdir mkdirat rmdir rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat"
    " chmod fchmod fchmodat umask utime utimes utimensat futimesat truncate ftruncate fallocate"
    " fadvise64 fsync fdatasync sendfile copy_file_range getxattr lgetxattr fgetxattr listxattr"
    " llistxattr flistxattr",
    "memory": "brk munmap mremap mprotect madvise msync mbind get_mempolicy set_mempolicy",
    "processes and threads": "fork vfork exit exit_group wait4 waitid futex futex_waitv rseq"
    " set_robust_list set_tid_address membarrier arch_prctl prctl restart_syscall getcpu"
    " sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max"
    " sched_get_priority_min getpriority getrlimit setrlimit getrusage",
    "who one is": "getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid"
    " getgroups getpgrp getpgid getsid setsid setpgid capget uname sysinfo getrandom",
    "signals to oneself": "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend"
    " rt_sigtimedwait sigaltstack pause alarm getitimer setitimer timer_create timer_settime"
    " timer_gettime timer_getoverrun timer_delete",
    "time": "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times",
    "waiting": "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait"
    " epoll_pwait epoll_pwait2 eventfd eventfd2 timerfd_create timerfd_settime timerfd_gettime"
    " signalfd signalfd4",
    "sockets": "bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt"
    " sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg shutdown",
}
NEW_NAMESPACES = 0x7E02_0000  # the flags of clone that make one
SHARED, ANONYMOUS = 0x01, 0x20  # the flags of mmap
FAMILIES = (1, 2, 16)  # Unix; of an empty network IPv4 and what lists its devices, for zmq
FCNTL = (0, 1, 2, 3, 4, 1030, 1031, 1032)  # copies and flags of a file, the size of a pipe
# whether it is a terminal and how wide, how much can be read, flags of a file, a copy of a file
IOCTL = (0x5401, 0x802C_542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409)
RANKS = "sched_setaffinity sched_setscheduler sched_setparam"  # libraries rank their own threads


def unusable() -> str | None:
    """Why there is no filter on this machine, or None if there is one."""
    try:
        program()
    except (ImportError, OSError, RuntimeError) as error:
        return (
            "Submissions run under a filter of system calls, and none can be made here "
            f"({error}): pip install pyseccomp; apt install libseccomp2"
        )
    return None


@cache
def program(ours: int = 2) -> bytes:
    """The filter as the machine's kernel takes it: instructions of 8 bytes each.

    Args:
        ours: how many of the first processes inside are not the student's: bubblewrap's own, the
            client, and where the client is a copy, what kept its place before.

    Raises:
        ImportError: there is no pyseccomp.
        RuntimeError, OSError: there is no libseccomp, or it cannot make the filter.
    """
    seccomp: Any = import_module("pyseccomp")  # which says nothing of types
    made = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    for name in " ".join(ALLOWED.values()).split():
        allow(made, seccomp, name)
    arguments(made, seccomp, ours)
    with os.fdopen(os.memfd_create("filter"), "r+b") as held:
        made.export_bpf(held)
        held.seek(0)
        return held.read()


def allow(made: Any, seccomp: Any, name: str, *where: tuple[int, int, int]) -> None:
    """Allow a call: always, or where an argument has a value under a mask; (place, mask, value)."""
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    if number >= 0:  # not all exist on every architecture
        conditions = [seccomp.Arg(place, seccomp.MASKED_EQ, *rest) for place, *rest in where]
        made.add_rule(seccomp.ALLOW, number, *conditions)


def arguments(made: Any, seccomp: Any, ours: int) -> None:
    """Rules for calls that are needed, but not with every argument. clone3 has its in memory."""
    low = 0xFFFF_FFFF
    allow(made, seccomp, "clone", (0, NEW_NAMESPACES, 0))
    for flag in (SHARED, ANONYMOUS):
        allow(made, seccomp, "mmap", (3, flag, 0))
    for command in FCNTL:
        allow(made, seccomp, "fcntl", (1, low, command))
    for command in IOCTL:
        allow(made, seccomp, "ioctl", (1, low, command))
    for family in FAMILIES:
        allow(made, seccomp, "socket", (0, low, family))
    allow(made, seccomp, "socketpair", (0, low, FAMILIES[0]))
    for name in ("prlimit64", *RANKS.split()):  # its own
        allow(made, seccomp, name, (0, low, 0))
    for name in ("tgkill", *RANKS.split()):  # any process but the first three, or two of them
        for pid in range(ours + 1, 4):
            allow(made, seccomp, name, (0, low, pid))
        for bit in range(2, 32):
            allow(made, seccomp, name, (0, 1 << bit, 1 << bit))
