"""Reads what was handed in: every file of a folder or a zip, without trusting any of it.

Nothing is unpacked to disk by the names in an archive, links are not followed, and a file that is
too large, damaged or encrypted is not read: it comes with the reason in place of its content. Here
the names are listed; `Upload.read` is for a child (`grading.child`), which opens one file. What
lies in a student's zip has the time of that zip: the times inside are the student's own words.
"""

import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath

from grading.intake.recognise import NOTEBOOK
from grading.release.build import BuildError

LARGEST = 20 << 20  # bytes of a file
DEEPEST, LONGEST = 12, 400  # folders and letters of a path in a zip
FIRST, LAST = 315_532_800, 4_354_819_199  # the times from 1980 to 2107, in seconds


@dataclass(frozen=True)
class File:
    """A file that was handed in.

    Attributes:
        path: where it lay, with `/` between folders; a zip's name counts as a folder.
        time: when it was last changed.
        content: its bytes; none if it was refused.
        refused: why it was not read, or empty.
        secret: under which an exchange gives its feedback back, if it came through one.
    """

    path: str
    time: datetime
    content: bytes = b""
    refused: str = ""
    secret: str = ""


@dataclass(frozen=True)
class Upload:
    """What one student may have handed in: a file, or a zip of files, which only a child reads."""

    path: str
    time: datetime
    read: Callable[[], Iterable[File]]


def uploads(source: Path) -> Iterator[Upload]:
    """Every file in a folder or a zip; zips inside are opened when they are read, one floor deep.

    Raises:
        BuildError: there is no such folder or zip, or the zip itself is damaged.
    """
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.is_symlink() or not path.is_dir():
                name, time = _legible(path.relative_to(source)), _mtime(path.lstat().st_mtime)
                yield Upload(name, time, partial(_on_disk, path, name, time))
    elif zipfile.is_zipfile(source):
        try:
            with zipfile.ZipFile(source) as archive:
                entries = archive.infolist()
        except Exception as error:  # a damaged archive can raise anything
            raise BuildError(f"{source} is damaged: {error}; download it again") from None
        for entry in entries:
            if not entry.is_dir():
                time = _zip_time(entry)
                yield Upload(_name(entry), time, partial(_in_class_zip, source, entry, time))
    elif source.is_file() and source.suffix.casefold() == ".zip":
        raise BuildError(f"{source} is damaged: it ends before a zip file does; download it again")
    else:
        what = "neither" if source.exists() else "not there"
        raise BuildError(f"make collect FROM=… wants a folder or a zip file; {source} is {what}")


def _on_disk(path: Path, name: str, time: datetime) -> Iterator[File]:
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode):
        yield File(name, time, refused="a link or a device, not a file")
    elif about.st_size > LARGEST:
        yield File(name, time, refused=_too_large(about.st_size))
    else:
        yield from _opened(File(name, time, path.read_bytes()))


def _in_class_zip(source: Path, entry: zipfile.ZipInfo, time: datetime) -> Iterator[File]:
    with zipfile.ZipFile(source) as archive:
        file = _entry(archive, entry, "", time)
    yield from [file] if file.refused else _opened(file)


def _legible(path: Path) -> str:
    """A path as text, whatever its bytes are: UTF-8, or else Windows' letters."""
    name = os.fsencode(path.as_posix())
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("cp1252", errors="replace")


def _mtime(seconds: float) -> datetime:
    """A time within the range of a zip's times: whoever made the file may have chosen any."""
    return datetime.fromtimestamp(min(max(seconds, FIRST), LAST), UTC)


def _too_large(size: int) -> str:
    return f"{size / 1e6:,.1f} MB, at most {LARGEST / 1e6:.0f} MB are taken"


def _opened(file: File) -> Iterator[File]:
    """A file, or the files in it if it is a zip."""
    if not file.path.casefold().endswith(".zip"):
        yield file
        return
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.content))
    except MemoryError:
        raise
    except Exception:  # a file called .zip that is none is listed as it is
        yield file
        return
    with archive:
        yield from _in_zip(archive, file.path + "/", file.time)


def _in_zip(archive: zipfile.ZipFile, before: str, time: datetime) -> Iterator[File]:
    """The files of a zip that a student handed in, all with the time of that zip.

    Notebooks come first, since there is a limit to what is read.
    """
    total = 0
    for entry in sorted(archive.infolist(), key=lambda entry: not NOTEBOOK.search(entry.filename)):
        if not entry.is_dir():
            file = _entry(archive, entry, before, time)
            total += len(file.content)
            if total > 3 * LARGEST:  # a bomb
                reason = f"{before} holds too much: {_too_large(total)}"
                yield replace(file, content=b"", refused=reason)
                return
            yield file


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, before: str, time: datetime) -> File:
    """One file of an archive."""
    name = _name(entry)
    content, refused = b"", _unsafe(name, entry)
    if not refused:
        try:
            with archive.open(entry) as stream:
                content = stream.read(LARGEST)  # whatever size the entry claims
        except MemoryError:
            raise
        except Exception as error:  # a damaged archive can raise anything; the row says what
            refused = f"cannot be unpacked: {error}"
    return File(before + name, time, content, refused)


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
    """Why an entry is not read, or empty."""
    path = PurePosixPath(name)
    if len(path.parts) > DEEPEST or len(name) > LONGEST:
        return "its path is too long"
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
        return "its path leads out of the archive"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "a link, not a file"
    if entry.flag_bits & 1:
        return "encrypted"
    return _too_large(entry.file_size) if entry.file_size > LARGEST else ""
