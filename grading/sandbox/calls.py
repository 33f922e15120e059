"""The filter of system calls under which a submission runs: `program() -> bytes`.

The namespaces of the sandbox keep a submission from files, networks and the machine's processes.
Calls go by them to the machine's kernel, which all submissions share. Those that no answer needs
and that have been doors out of a sandbox are refused (EPERM). Everything else is allowed, so that
a new version of Python or torch runs without a change here.

A submission may start programs, and may signal and kill its own processes, the client included:
that harms nobody else, for nothing that comes from inside is believed.
"""

import errno
import os
from functools import cache
from importlib import import_module
from typing import Any

from grading.sandbox.watch import SandboxError

REFUSED = {
    "look into another process, or change it": "ptrace process_vm_readv process_vm_writev"
    " process_madvise pidfd_getfd kcmp",
    # In a namespace of its own a process may use parts of the kernel that only root else reaches.
    "make or enter a namespace": "unshare setns",
    "change what is seen of the file system": "mount umount umount2 pivot_root chroot move_mount"
    " open_tree fsopen fsconfig fsmount fspick mount_setattr",
    "open a file by its number, wherever it lies": "open_by_handle_at name_to_handle_at",
    # `watch` adds up what processes map, for the sandbox has no other account of memory. A process
    # could fill the machine with memory that it has unmapped, and that a descriptor, a key or a
    # pipe keeps. The namespace of IPC keeps others from it, and limits nothing.
    "keep memory that no process maps": "memfd_create memfd_secret shmget shmat shmctl shmdt"
    " msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open vmsplice",
    # Large, seldom used, and again and again the way by which a process became root.
    "use the parts of the kernel where most holes were": "bpf perf_event_open userfaultfd"
    " io_uring_setup io_uring_enter io_uring_register io_setup io_submit keyctl add_key request_key"
    " fanotify_init fanotify_mark personality modify_ldt uselib",
    # All of these want rights that a submission does not have; a second lock.
    "change the machine": "kexec_load kexec_file_load init_module finit_module delete_module"
    " reboot swapon swapoff acct quotactl quotactl_fd syslog settimeofday clock_settime"
    " clock_adjtime adjtimex sethostname setdomainname iopl ioperm vhangup",
}
NEW_NAMESPACES = {  # the flags of clone
    "mounts": 0x0002_0000,
    "cgroups": 0x0200_0000,
    "host name": 0x0400_0000,
    "IPC": 0x0800_0000,
    "users": 0x1000_0000,
    "processes": 0x2000_0000,
    "network": 0x4000_0000,
}
SHARED_ANONYMOUS = 0x21  # the flags of mmap, for memory that stays when no process maps it
# Sockets of Unix, and what lists the devices of a network. Others do not end at a namespace of
# networks, as vsock, which leads from a virtual machine to its host, or are seldom used parts.
FAMILIES = (1, 16)
# Of IPv4 and IPv6: they lead nowhere, and each would keep megabytes.
INTERNET = (2, 10)
# The options of a socket by which it keeps more than it does by itself: SO_SNDBUF, SO_RCVBUF, and
# those that force them. `watch` counts sockets, and takes each for one that was left as it is.
SOL_SOCKET, BUFFERS = 1, (7, 8, 32, 33)
WHOLE = 0xFFFF_FFFF  # an argument that is an int: the machine's kernel reads no more bits of it


@cache
def program() -> bytes:
    """The filter as the machine's kernel takes it: instructions of 8 bytes each.

    Raises:
        SandboxError: no filter can be made here; the text says what to install.
    """
    try:
        return compiled(import_module("pyseccomp"))
    except (ImportError, OSError, RuntimeError) as error:
        raise SandboxError(
            "Submissions run under a filter of system calls, and none can be made here "
            f"({error}): pip install pyseccomp; apt install libseccomp2"
        ) from error


def compiled(seccomp: Any) -> bytes:
    """The filter, made by the module `seccomp`, which has no types."""
    rules = seccomp.SyscallFilter(seccomp.ALLOW)

    def refuse(name: str, *where: tuple[int, int, int], code: int = errno.EPERM) -> None:
        """Refuse a call: always, or where an argument has a value under a mask."""
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number >= 0:  # not every architecture has every call, nor every libseccomp knows it
            conditions = [seccomp.Arg(place, seccomp.MASKED_EQ, *rest) for place, *rest in where]
            rules.add_rule(seccomp.ERRNO(code), number, *conditions)

    for name in " ".join(REFUSED.values()).split():
        refuse(name)
    for flag in NEW_NAMESPACES.values():
        refuse("clone", (0, flag, flag))
    refuse("clone3", code=errno.ENOSYS)  # its flags lie in memory; the C library then takes clone
    refuse("mmap", (3, SHARED_ANONYMOUS, SHARED_ANONYMOUS))
    for family in set(range(64)) - {*FAMILIES, *INTERNET}:
        refuse("socket", (0, WHOLE, family))
    for family in INTERNET:
        refuse("socket", (0, WHOLE, family), code=errno.ENETUNREACH)
    for option in BUFFERS:
        refuse("setsockopt", (1, WHOLE, SOL_SOCKET), (2, WHOLE, option))
    with os.fdopen(os.memfd_create("filter"), "r+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
