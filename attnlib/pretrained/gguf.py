"""Reading a GGUF file, in which llama.cpp and what is built on it keep a model with packed weights.

The file is a header, metadata (sizes, the tokenizer, the chat template), a table of its tensors,
and their numbers. Most weights are packed: 32 numbers in a row share a scale, and each is left with
four or eight bits. A tensor is read and unpacked when it is asked for, so that no more than one of
them need be held in two forms.

What it does not do: write; the other 30 packings; files for big-endian machines, or of a version
other than 3. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

# In the metadata: the code of a kind of number, and the letter that `struct` has for it.
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9


def unpack_q4_1(blocks: Tensor) -> Tensor:
    """Four bits a number, and five with what a block shares: x = d · q + m, q from 0 to 15.

    Args:
        blocks: uint8 (n, 20): d and m in half precision, then 16 bytes. The low four bits of these
            are the first 16 numbers q, the high four the other 16.

    Returns:
        float32 (n, 32), exact.

    >>> d_and_m = torch.tensor([[0.5, -1.0]], dtype=torch.float16).view(torch.uint8)
    >>> nines_and_twos = torch.full((1, 16), 0x92, dtype=torch.uint8)
    >>> unpack_q4_1(torch.cat([d_and_m, nines_and_twos], 1))[0, 14:18]  # the 15th to the 18th
    tensor([0.0000, 0.0000, 3.5000, 3.5000])
    """
    d, m = blocks[:, :4].view(torch.float16).float().split(1, 1)
    packed = blocks[:, 4:]
    q = torch.cat([packed & 15, packed >> 4], 1).float()
    return q.mul_(d).add_(m)


def unpack_q8_0(blocks: Tensor) -> Tensor:
    """Eight bits a number: x = d · q, q from −128 to 127.

    Args:
        blocks: uint8 (n, 34): d in half precision, then the 32 numbers q.

    Returns:
        float32 (n, 32), exact.
    """
    d, q = blocks[:, :2].view(torch.float16), blocks[:, 2:].view(torch.int8).float()
    return q.mul_(d.float())


class Packing(NamedTuple):
    """How numbers are packed: its name, the numbers and the bytes of a block, and the way back."""

    name: str
    numbers: int
    size: int
    unpack: Callable[[Tensor], Tensor]


PACKINGS = {  # by their codes in the file
    0: Packing("F32", 1, 4, lambda blocks: blocks.view(torch.float32)),
    3: Packing("Q4_1", 32, 20, unpack_q4_1),
    8: Packing("Q8_0", 32, 34, unpack_q8_0),
}


class _Entry(NamedTuple):
    """A line of the table: where a tensor lies in the file, and what it is."""

    shape: tuple[int, ...]
    packing: Packing
    start: int

    @property
    def size(self) -> int:
        """Its bytes in the file."""
        return prod(self.shape) // self.packing.numbers * self.packing.size


class GGUF(Mapping[str, Tensor]):
    """The tensors of a GGUF file by name, float32, each read and unpacked when it is asked for.

    Args:
        path: of the file.

    Attributes:
        metadata: what the file says of itself: numbers, texts, and lists of them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no GGUF file, ends too early, or holds what is not read here.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            try:
                self.metadata, self._table = _read_head(file)
            except ValueError as error:
                raise ValueError(f"{self.path.name} cannot be read: {error}") from error
        ends = max((entry.start + entry.size for entry in self._table.values()), default=0)
        found = self.path.stat().st_size
        if found < ends:
            raise ValueError(
                f"{self.path.name} should have {ends:,} bytes by its own table, but has {found:,}: "
                "it was not copied to the end"
            )

    def __getitem__(self, name: str) -> Tensor:
        entry = self._table[name]
        return entry.packing.unpack(self.blocks(name).flatten(0, -2)).view(entry.shape)

    def blocks(self, name: str) -> Tensor:
        """A tensor as it is packed: uint8 (…, blocks in a row, bytes of a block)."""
        entry = self._table[name]
        packed = np.fromfile(self.path, np.uint8, entry.size, offset=entry.start)
        return torch.from_numpy(packed).view(*entry.shape[:-1], -1, entry.packing.size)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


# -- the head of the file ---------------------------------------------------------------------


def _read_head(file: BinaryIO) -> tuple[dict[str, Any], dict[str, _Entry]]:
    """The metadata, and the table of tensors."""
    magic = file.read(4)
    if magic != b"GGUF":
        raise ValueError(f"it begins with {magic!r}, and a GGUF file with b'GGUF'")
    version, tensors, pairs = _number(file, "I"), _number(file, "Q"), _number(file, "Q")
    if version != 3:
        raise ValueError(f"it is of version {version}, and only version 3 is read here")
    metadata = {_text(file): _value(file, _number(file, "I")) for _ in range(pairs)}
    lines = {_text(file): _entry(file) for _ in range(tensors)}
    step = metadata.get("general.alignment", 32)
    start = -(-file.tell() // step) * step  # the first multiple of the step after the head
    table = {name: entry._replace(start=start + entry.start) for name, entry in lines.items()}
    return metadata, table


def _entry(file: BinaryIO) -> _Entry:
    """Shape, packing, and where the tensor begins, counted from the first of them."""
    sizes = [_number(file, "Q") for _ in range(_number(file, "I"))]  # the innermost first
    code = _number(file, "I")
    if code not in PACKINGS:
        known = ", ".join(f"{code} ({packing.name})" for code, packing in PACKINGS.items())
        raise ValueError(f"a tensor is packed as type {code}, and read here are {known}")
    return _Entry(tuple(reversed(sizes)), PACKINGS[code], _number(file, "Q"))


def _value(file: BinaryIO, code: int) -> Any:
    """A value of the metadata: a number, a text, or a list of one kind."""
    if code == _TEXT:
        return _text(file)
    if code == _ARRAY:
        inner, length = _number(file, "I"), _number(file, "Q")
        if inner in _NUMBERS:
            return list(_numbers(file, f"{length}{_NUMBERS[inner]}"))
        return [_value(file, inner) for _ in range(length)]
    if code not in _NUMBERS:
        raise ValueError(f"its metadata have a value of the unknown type {code}")
    return _number(file, _NUMBERS[code])


def _text(file: BinaryIO) -> str:
    return _bytes(file, _number(file, "Q")).decode("utf-8")


def _number(file: BinaryIO, letter: str) -> Any:
    return _numbers(file, letter)[0]


def _numbers(file: BinaryIO, letters: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{letters}", _bytes(file, struct.calcsize(f"<{letters}")))


def _bytes(file: BinaryIO, count: int) -> bytes:
    """So many bytes, not fewer."""
    found = file.read(count)
    if len(found) < count:
        raise ValueError("it ends within its own head: it was not copied to the end")
    return found
