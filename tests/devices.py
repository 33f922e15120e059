"""The devices that this machine has, and how to notice a tensor that is made on the wrong one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

DEVICES = ["cpu"]
if torch.cuda.is_available():
    DEVICES.append("cuda")
if torch.backends.mps.is_available():
    DEVICES.append("mps")


@contextmanager
def nothing_made_elsewhere() -> Iterator[None]:
    """Inside, a tensor that is made without a device lies on "meta", where it has no numbers.

    Model and inputs on the CPU stand for model and inputs on any device: what is made without their
    device shows itself, as its numbers cannot be read or do not go together with theirs.
    """
    with torch.device("meta"):
        yield
