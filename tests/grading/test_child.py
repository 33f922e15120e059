"""Whatever a stranger's bytes do to the process that reads them, it is trouble for them alone."""

import errno
import os
import signal
import sys

import pytest

from grading import child
from grading.child import Trouble

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")


def computes() -> bytes:
    while True:
        pass


def fills() -> bytes:
    return bytes(4 << 30)


def says_much() -> bytes:
    return bytes(2 << 20)


def dies() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def fails() -> bytes:
    raise ValueError("a\x1bb" * 900)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (computes, "it took more than 1 s of computing"),
        (fills, "of memory"),
        (says_much, "it gives more than 1,048,576 bytes"),
        (dies, "its process died"),
        (fails, "ValueError"),
    ],
)
def test_what_goes_wrong_in_a_child_is_told_in_a_line(work: object, reason: str) -> None:
    with pytest.raises(Trouble, match=reason) as error:
        child.run(work, seconds=1, most=1 << 20)  # type: ignore[arg-type]
    assert len(str(error.value)) <= 300


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EACCES, errno.ELOOP, errno.ENOSPC])
def test_only_a_disk_that_cannot_be_used_is_the_machines_fault(number: int) -> None:
    def work() -> bytes:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError if number == errno.ENOSPC else Trouble, match=os.strerror(number)):
        child.run(work)
