"""Reading a GGUF file, in which llama.cpp and what is built on it keep a model with packed weights.

The file is a header, metadata (sizes, the tokenizer, the chat template), a table of its tensors,
and their numbers. Most weights are packed: some numbers in a row make a block, share a scale, and
each is left with four to eight bits. A tensor is read and unpacked when it is asked for, so that no
more than one of them need be held in two forms. A file may come in pieces, which are read as one.

What it does not do: write; the other packings (there are some 30); files for big-endian machines,
or of a version other than 3. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md;
the packings: ggml-quants.c in the same repository.
"""

import io
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

# In the metadata: the code of a type of number, and the letter that `struct` has for it.
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9


# --- the packings: blocks of bytes to numbers ---------------------------------------------------


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
    d, m, packed = blocks.split([2, 2, 16], 1)
    q = halves(packed).float()
    return q.mul_(half_precision(d)).add_(half_precision(m))


def unpack_q5_0(blocks: Tensor) -> Tensor:
    """Five bits a number: x = d · (q − 16), q from 0 to 31.

    Args:
        blocks: uint8 (n, 22): d in half precision; 4 bytes, whose 32 bits are the fifth bits of
            the 32 numbers q, the lowest bit first; 16 bytes with their lower four bits, as in
            `unpack_q4_1`.

    Returns:
        float32 (n, 32), exact.
    """
    d, fifth, packed = blocks.split([2, 4, 16], 1)
    bits = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    high = (fifth[:, :, None] >> bits & 1).flatten(1)  # (n, 4, 8) to (n, 32)
    q = (halves(packed) | high << 4).float()
    x: Tensor = half_precision(d) * (q - 16)
    return x


def unpack_q8_0(blocks: Tensor) -> Tensor:
    """Eight bits a number: x = d · q, q from −128 to 127.

    Args:
        blocks: uint8 (n, 34): d in half precision, then the 32 numbers q.

    Returns:
        float32 (n, 32), exact.
    """
    d, q = blocks.split([2, 32], 1)
    x: Tensor = q.view(torch.int8).float()
    return x.mul_(half_precision(d))  # in place: an embedding can be most of a model


def unpack_q4_k(blocks: Tensor) -> Tensor:
    """Four bits a number in two levels: x = (d · s) q − (e · m), q from 0 to 15.

    A block of 256 numbers has eight rows of 32. A row has a scale s and an offset m of six bits
    each, the whole block d and e in half precision: together 4.5 bits a number.

    Args:
        blocks: uint8 (n, 144): d, e, 12 bytes with the scales and offsets, 128 bytes with the
            numbers q. Of each 32 bytes of these, the low four bits are a row, the high four the
            next. For the 12 bytes see `_scales_and_offsets`.

    Returns:
        float32 (n, 256), exact.
    """
    d, e, shared, packed = blocks.split([2, 2, 12, 128], 1)
    s, m = _scales_and_offsets(shared)
    scale = half_precision(d) * s  # (n, 8)
    offset = half_precision(e) * m
    q = halves(packed.unflatten(1, (4, 32))).view(-1, 8, 32).float()
    x: Tensor = scale[:, :, None] * q - offset[:, :, None]
    return x.flatten(1)


def _scales_and_offsets(shared: Tensor) -> tuple[Tensor, Tensor]:
    """Two times eight numbers of six bits, float32 (n, 8) each, from uint8 (n, 12).

    The lower six bits of bytes 0 to 3 are the first four scales, those of bytes 4 to 7 the first
    four offsets. The other four scales have their lower four bits in the low half of bytes 8 to 11
    and their upper two at the top of bytes 0 to 3; the offsets in the high half, and at the top of
    bytes 4 to 7.
    """
    first, second, rest = shared.split(4, 1)
    scales = torch.cat([first & 63, rest & 15 | first >> 6 << 4], 1)
    offsets = torch.cat([second & 63, rest >> 4 | second >> 6 << 4], 1)
    return scales.float(), offsets.float()


def unpack_q6_k(blocks: Tensor) -> Tensor:
    """Six bits a number in two levels: x = (d · s) (q − 32), q from 0 to 63.

    A block of 256 numbers has 16 rows of 16. A row has a scale s of eight bits, the whole block d
    in half precision: together 6.6 bits a number.

    Args:
        blocks: uint8 (n, 210): 128 bytes with the lower four bits of the numbers q, 64 bytes with
            their upper two, 16 scales s from −128 to 127, and d. Of each 64 bytes of the first
            kind, the low four bits belong to 64 numbers, the high four to the next 64. Of each 32
            bytes of the second kind, the lowest two bits belong to 32 numbers, the next two bits to
            the next 32, and so on.

    Returns:
        float32 (n, 256), exact.
    """
    lower, upper, s, d = blocks.split([128, 64, 16, 2], 1)
    low = halves(lower.unflatten(1, (2, 64))).flatten(1)
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=blocks.device)[:, None]
    high = (upper.unflatten(1, (2, 1, 32)) >> shifts & 3).flatten(1)  # (n, 2, 4, 32) to (n, 256)
    q = (low | high << 4).view(-1, 16, 16).float()
    scale = half_precision(d) * s.view(torch.int8).float()  # (n, 16)
    x: Tensor = scale[:, :, None] * (q - 32)
    return x.flatten(1)


def halves(packed: Tensor) -> Tensor:
    """The low four bits of each byte, then the high four: uint8 (…, m) to (…, 2m)."""
    return torch.cat([packed & 15, packed >> 4], -1)


def half_precision(two_bytes: Tensor) -> Tensor:
    """Two bytes as the number in half precision that they are: uint8 (n, 2) to float32 (n, 1)."""
    return two_bytes.view(torch.float16).float()


class Packing(NamedTuple):
    """How numbers are packed: its name, the numbers and the bytes of a block, and the way back."""

    name: str
    numbers: int
    size: int
    unpack: Callable[[Tensor], Tensor]


PACKINGS = {  # by their codes in the file
    0: Packing("F32", 1, 4, lambda blocks: blocks.view(torch.float32)),
    3: Packing("Q4_1", 32, 20, unpack_q4_1),
    6: Packing("Q5_0", 32, 22, unpack_q5_0),
    8: Packing("Q8_0", 32, 34, unpack_q8_0),
    12: Packing("Q4_K", 256, 144, unpack_q4_k),
    14: Packing("Q6_K", 256, 210, unpack_q6_k),
}


# --- the file -----------------------------------------------------------------------------------


class Pieces(io.RawIOBase):
    """Files that continue each other, read as one; nothing is joined on disk or in memory.

    Args:
        paths: of the pieces, in their order.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths
        self.ends = list(accumulate(path.stat().st_size for path in paths))
        self.position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position, counted as in any file, and return it."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.ends[-1]}[whence]
        self.position = origin + offset
        return self.position

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, such as a bytearray, from here, at most to the end of a piece.

        Returns:
            how many bytes it took; 0 at the end of the last piece.
        """
        number = bisect_right(self.ends, self.position)
        if number == len(self.paths):
            return 0
        start = self.ends[number - 1] if number else 0
        with self.paths[number].open("rb", buffering=0) as file:
            file.seek(self.position - start)
            count = file.readinto(buffer) or 0
        self.position += count
        return count


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
        paths: of the file; or of its pieces, in their order.

    Attributes:
        path: of the file, or of its first piece.
        metadata: what the file says of itself: numbers, texts, and lists of them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no GGUF file, ends too early, or holds what is not read here.
    """

    def __init__(self, *paths: str | Path) -> None:
        self.paths = tuple(map(Path, paths))
        self.path = self.paths[0]
        with self._open() as file:
            try:
                self.metadata, self._table = _read_head(file)
            except ValueError as error:
                raise ValueError(f"{self.path.name} cannot be read: {error}") from error
            length = file.seek(0, io.SEEK_END)
        needed = max((entry.start + entry.size for entry in self._table.values()), default=0)
        if length < needed:
            raise ValueError(
                f"{self.path.name} should have {needed:,} bytes by its own table, but has "
                f"{length:,}: it was not copied to the end"
            )

    def __getitem__(self, name: str) -> Tensor:
        entry = self._table[name]
        return entry.packing.unpack(self.blocks(name).flatten(0, -2)).view(entry.shape)

    def blocks(self, name: str) -> Tensor:
        """A tensor as it is packed: uint8 (…, blocks in a row, bytes of a block)."""
        entry = self._table[name]
        packed = np.empty(entry.size, np.uint8)
        with self._open() as file:
            file.seek(entry.start)
            file.readinto(packed.data)
        return torch.from_numpy(packed).view(*entry.shape[:-1], -1, entry.packing.size)

    def _open(self) -> "io.BufferedReader[Pieces]":
        """The file, its pieces one after the other."""
        return io.BufferedReader(Pieces(self.paths), 2**20)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


# --- the head of the file -----------------------------------------------------------------------


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
    """A value of the metadata: a number, a text, or a list of values of the same type."""
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
    layout = f"<{letters}"  # < for little-endian
    return struct.unpack(layout, _bytes(file, struct.calcsize(layout)))


def _bytes(file: BinaryIO, count: int) -> bytes:
    """So many bytes, not fewer."""
    content = file.read(count)
    if len(content) < count:
        raise ValueError("it ends within its own head: it was not copied to the end")
    return content
