"""The filter of system calls under which a submission's kernel runs: `program() -> bytes`.

The namespaces of the sandbox keep a submission from files, networks and processes. This filter
keeps it from what is left: doors of the machine's kernel that an answer never needs, and means by
which two submissions on one machine could talk, such as key rings, locks and watches on files that
both can read. It is compiled by libseccomp, by way of its binding pyseccomp.

- No program is started.
- No signal reaches another process: the client that reads the answers cannot be stopped or killed.
- No memory without a name (memfd), so that what a submission uses is in its processes, which the
  watch counts, or in folders of limited size.

What it does not do: two submissions that run at the same time may still measure how busy the
machine is.
"""

import errno
import os
from functools import cache
from importlib import import_module
from typing import Any

BARRED = {
    "programs": "execve execveat",
    "signals": "kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal pidfd_open",
    "other processes": "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease"
    " pidfd_getfd kcmp",
    "keys": "keyctl add_key request_key",
    "watches and locks": "flock inotify_init inotify_init1 inotify_add_watch fanotify_init"
    " fanotify_mark mincore preadv2 pwritev2 lookup_dcookie",
    "memory without a name": "memfd_create memfd_secret shmget shmat shmctl shmdt semget semop"
    " semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink",
    "namespaces": "unshare setns mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick"
    " move_mount open_tree mount_setattr name_to_handle_at open_by_handle_at sethostname"
    " setdomainname",
    "the machine's kernel": "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter"
    " io_uring_register init_module finit_module delete_module kexec_load kexec_file_load reboot"
    " swapon swapoff acct quotactl quotactl_fd syslog vhangup modify_ldt iopl ioperm personality"
    " nfsservctl clock_settime settimeofday adjtimex clock_adjtime",
}
CACHESTAT = 451  # on every architecture; libseccomp 2.5 does not know its name
NEW_NAMESPACES = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
# the fcntl commands that lock, that lend, that watch, and that send signals
FCNTL = (5, 6, 7, 8, 10, 15, 36, 37, 38, 1024, 1026)
FAMILIES = (1, 2, 10, 16)  # Unix, IPv4 and 6 of an empty network, and what lists its devices
IOCTL = (0x5412, 0x541C, 0x5452, 0x8901, 0x8902)  # a terminal's input; a socket's signals, owner


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
    made = seccomp.SyscallFilter(seccomp.ALLOW)
    refused = seccomp.ERRNO(errno.EPERM)
    for name in " ".join(BARRED.values()).split():
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number >= 0:  # not all exist on every architecture
            made.add_rule(refused, number)
    made.add_rule(refused, CACHESTAT)
    made.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags lie in memory: clone instead
    arguments(made, seccomp, refused, ours)
    with os.fdopen(os.memfd_create("filter"), "r+b") as held:
        made.export_bpf(held)
        held.seek(0)
        return held.read()


def arguments(made: Any, seccomp: Any, refused: Any, ours: int) -> None:
    """Rules for calls that are needed, but not with every argument."""
    low = 0xFFFF_FFFF

    def equal(place: int, value: int) -> Any:
        return seccomp.Arg(place, seccomp.MASKED_EQ, low, value)

    for flag in NEW_NAMESPACES:
        made.add_rule(refused, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    for command in FCNTL:
        made.add_rule(refused, "fcntl", equal(1, command))
    for command in IOCTL:
        made.add_rule(refused, "ioctl", equal(1, command))
    for family in range(64):
        if family not in FAMILIES:
            made.add_rule(refused, "socket", equal(0, family))
            made.add_rule(refused, "socketpair", equal(0, family))
    for pid in range(1, ours + 1):
        made.add_rule(refused, "tgkill", equal(0, pid))
    made.add_rule(refused, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
