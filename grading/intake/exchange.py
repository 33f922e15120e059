"""Reads what came through nbgrader's exchange: whose it is and when, by the machine's own word.

Students write the folders of an exchange themselves, such as `ada+04_self_attention+2026-12-01
11:58:03.5 UTC+random`. So the name and the time in there are their words, and so are the times
that a file can be given. What only root can set is who owns a folder, and when it and the file in
it were last changed; these two count. Links are not followed, and a file in somebody else's folder
is not read. What is changed after it was handed in is handed in anew.
"""

import errno
import os
import pwd
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from grading.intake.files import LARGEST, File, Upload

FOLDER = re.compile(r"^[^+]+\+[^+]+\+\d{4}-\d\d-\d\d [^+]+(\+.*)?$")
MOST = 50  # hand-ins of one owner that are read, the latest
SECRET = "submission_secret.txt"  # by which nbgrader names a page that its student alone finds


def is_exchange(source: Path) -> bool:
    """Whether a folder is the one that nbgrader's Submit fills, by its own name or by all in it."""
    if not source.is_dir():
        return False
    names = os.listdir(source)
    return source.resolve().name == "inbound" or (bool(names) and all(map(FOLDER.match, names)))


def uploads(source: Path) -> Iterator[Upload]:
    """The latest submissions of each owner; their files are read under `owner/folder/file`."""
    everything = []
    for name in os.listdir(source):
        with suppress(FileNotFoundError):  # its student has just taken it back
            about = os.lstat(source / name)
            read = partial(files, source, name)
            everything.append(Upload(f"{owner(about)}/{name}", changed(about), read))
    count = Counter[str]()
    for upload in sorted(everything, key=lambda upload: upload.time, reverse=True):
        account = upload.path.partition("/")[0]
        count[account] += 1
        if count[account] <= MOST:
            yield upload


def files(source: Path, name: str) -> Iterator[File]:
    """The files of one submission, or why there are none."""
    with opened(str(source), None, os.O_DIRECTORY) as inbound, suppress(FileNotFoundError):
        about = os.stat(name, dir_fd=inbound, follow_symlinks=False)
        try:
            with opened(name, inbound, os.O_DIRECTORY) as folder:
                yield from in_folder(name, folder)
        except OSError as error:
            path, reason = f"{owner(about)}/{name}", f"cannot be read: {error.strerror}"
            yield File(path, changed(about), refused=reason)


def in_folder(name: str, folder: int) -> Iterator[File]:
    """The files of one submission, whose folder is open."""
    outer, names = os.fstat(folder), sorted(os.listdir(folder))
    note = read_file("", SECRET, folder, outer).content[:200] if SECRET in names else b""
    secret = note.decode(errors="replace")
    for file in names:
        yield read_file(f"{owner(outer)}/{name}/{file}", file, folder, outer, secret)


def read_file(path: str, name: str, folder: int, outer: os.stat_result, secret: str = "") -> File:
    """A file of a submission: read once it is open and known to be its student's own."""
    try:
        with opened(name, folder) as number:
            inner = os.fstat(number)
            time = max(changed(inner), changed(outer))
            if not stat.S_ISREG(inner.st_mode):
                return File(path, time, refused="a folder or a device, not a file")
            if inner.st_uid != outer.st_uid:
                return File(path, time, refused=f"it belongs to {owner(inner)}")
            if inner.st_size > LARGEST:
                return File(path, time, refused=f"larger than {LARGEST / 1e6:.0f} MB")
            with open(number, "rb", closefd=False) as file:
                return File(path, time, file.read(LARGEST), secret=secret)
    except OSError as error:
        link = error.errno == errno.ELOOP
        reason = "a link, not a file" if link else f"cannot be read: {error.strerror}"
        return File(path, changed(outer), refused=reason)


@contextmanager
def opened(name: str, folder: int | None, flags: int = 0) -> Iterator[int]:
    """A file or folder, opened without following a link and without waiting for a pipe."""
    safe = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if folder is None else os.O_NOFOLLOW)
    number = os.open(name, safe | flags, dir_fd=folder)
    try:
        yield number
    finally:
        os.close(number)


def changed(about: os.stat_result) -> datetime:
    """When content, name or rights were last changed: a time that no user can choose."""
    return datetime.fromtimestamp(about.st_ctime, UTC)


def owner(about: os.stat_result) -> str:
    """The account that something belongs to."""
    try:
        return pwd.getpwuid(about.st_uid).pw_name
    except KeyError:
        return f"the unknown user {about.st_uid}"
