"""Reads what was handed in: every file of a folder or a zip, without trusting any of it.

Nothing is unpacked to disk by the names in an archive, links are not followed, and a file that is
too large, damaged, or says so, is not read: it comes with the reason in place of its content. What
lies in a student's zip has the time of that zip: the times inside are the student's own words.
"""

import io
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from grading.build import BuildError

LARGEST = 20 << 20  # bytes of a file
MOST = 20_000  # files
NOISE = {
    "checks.json",
    ".ds_store",
    "thumbs.db",
    "desktop.ini",
    "timestamp.txt",
    "submission_secret.txt",
}
# what a damaged or malicious archive makes of the modules that read it
DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    RuntimeError,  # NotImplementedError and RecursionError as well
    OSError,
    EOFError,
    ValueError,  # UnicodeError as well
    LookupError,
    OverflowError,
    TypeError,
    AssertionError,
)


@dataclass(frozen=True)
class File:
    """A file that was handed in: its path there, its time, and its content or why it has none.

    With it the secret under which an exchange gives its feedback back, if it came through one.
    """

    path: str
    time: datetime
    content: bytes = b""
    refused: str = ""
    secret: bytes = b""


def files(source: Path) -> Iterator[File]:
    """Every file in a folder or a zip; zips inside are opened too, one floor deep.

    Raises:
        BuildError: if there is no such folder or zip, or if the zip itself is damaged.
    """
    if source.is_dir():
        yield from _in_folder(source)
    elif zipfile.is_zipfile(source):
        try:
            archive = zipfile.ZipFile(source)
        except DAMAGE as error:
            raise BuildError(f"{source} is damaged: {error}; download it again") from None
        with archive:
            yield from _in_zip(archive, "", None)
    else:
        raise BuildError(f"make collect FROM=… wants a folder or a zip file; {source} is neither")


def _in_folder(source: Path) -> Iterator[File]:
    for path in sorted(source.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = _legible(path.relative_to(source))
        about = path.lstat()
        time = _mtime(about.st_mtime)
        if not stat.S_ISREG(about.st_mode):
            yield File(name, time, refused="a link or a device, not a file")
        elif about.st_size > LARGEST:
            yield File(name, time, refused=_too_large(about.st_size))
        else:
            yield from _opened(File(name, time, path.read_bytes()))


def _legible(path: Path) -> str:
    """A path as text, whatever its bytes are: UTF-8, or else Windows' letters."""
    name = os.fsencode(path.as_posix())
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("cp1252", errors="replace")


def _mtime(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime(1980, 1, 1, tzinfo=UTC)


def _too_large(size: int) -> str:
    return f"{size / 1e6:,.1f} MB, at most {LARGEST / 1e6:.0f} MB are taken"


def _opened(file: File) -> Iterator[File]:
    """A file, or the files in it if it is a zip."""
    if not file.path.casefold().endswith(".zip"):
        yield file
        return
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.content))
    except DAMAGE:
        yield file
        return
    with archive:
        yield from _in_zip(archive, file.path + "/", file.time)


def _in_zip(archive: zipfile.ZipFile, before: str, outer: datetime | None) -> Iterator[File]:
    """The files of an archive; `outer` is the time of the zip that a student handed in."""
    total = 0
    for entry in archive.infolist()[:MOST]:
        if entry.is_dir():
            continue
        name, path = _name(entry), before + _name(entry)
        time = outer or _zip_time(entry)
        content, why = b"", _unsafe(name, entry)
        if not why:
            try:
                with archive.open(entry) as stream:
                    content = stream.read(LARGEST)  # and no more than it said it has
            except DAMAGE as error:
                why = f"cannot be unpacked: {error}"
        if why:
            yield File(path, time, refused=why)
            continue
        total += len(content)
        if outer and total > 3 * LARGEST:  # a bomb: the class's own zip may be this large
            yield File(path, time, refused=f"{before} holds too much: {_too_large(total)}")
            return
        yield from [File(path, time, content)] if outer else _opened(File(path, time, content))
    if len(archive.infolist()) > MOST:
        yield File(before or "the archive", datetime.now(UTC), refused=f"more than {MOST} files")


def _name(entry: zipfile.ZipInfo) -> str:
    """The name of an entry; old programs write UTF-8 without saying so."""
    name = entry.filename.replace("\\", "/")
    if entry.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name


def _zip_time(entry: zipfile.ZipInfo) -> datetime:
    try:
        return datetime(*entry.date_time).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime(1980, 1, 1, tzinfo=UTC)


def _unsafe(name: str, entry: zipfile.ZipInfo) -> str:
    """Why an entry is not read; empty if it is."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
        return "its path leads out of the archive"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "a link, not a file"
    if entry.flag_bits & 1:
        return "encrypted"
    return _too_large(entry.file_size) if entry.file_size > LARGEST else ""


def is_noise(path: str) -> bool:
    """Whether a file is nobody's work: what systems and Jupyter leave behind, the visible cases."""
    parts = PurePosixPath(path).parts or ("",)
    hidden = any(p == "__MACOSX" or (p.startswith(".") and p != "..") for p in parts)
    return hidden or parts[-1].casefold() in NOISE
