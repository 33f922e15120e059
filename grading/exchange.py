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
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from grading.intake import LARGEST, File, HandIn
from grading.settings import Places

FOLDER = re.compile(r"^[^+]+\+[^+]+\+\d{4}-\d\d-\d\d [^+]+(\+.*)?$")
MOST = 50  # hand-ins of one owner that are read, the latest
SECRET = "submission_secret.txt"  # by which nbgrader names a page that its student alone finds


def is_exchange(source: Path) -> bool:
    """Whether a folder is the one that nbgrader's Submit fills, by its own name or by all in it."""
    if not source.is_dir():
        return False
    there = os.listdir(source)
    return source.resolve().name == "inbound" or (bool(there) and all(map(FOLDER.match, there)))


def hand_ins(source: Path) -> Iterator[HandIn]:
    """The latest submissions of each owner; their files are read under `owner/folder/file`."""
    found = []
    for name in os.listdir(source):
        with suppress(FileNotFoundError):  # its student has just taken it back
            about = os.lstat(source / name)
            found.append((changed(about), f"{owner(about)}/{name}", partial(files, source, name)))
    count = Counter[str]()
    for time, path, read in sorted(found, key=lambda one: one[:2], reverse=True):
        count[path.partition("/")[0]] += 1
        if count[path.partition("/")[0]] <= MOST:
            yield HandIn(path, time, read)


def files(source: Path, name: str) -> Iterator[File]:
    """The files of one submission, or why there are none."""
    with opened(str(source), None, os.O_DIRECTORY) as inbound, suppress(FileNotFoundError):
        about = os.stat(name, dir_fd=inbound, follow_symlinks=False)
        try:
            with opened(name, inbound, os.O_DIRECTORY) as folder:
                yield from in_folder(name, folder)
        except OSError as error:
            path, why = f"{owner(about)}/{name}", f"cannot be read: {error.strerror}"
            yield File(path, changed(about), refused=why)


def in_folder(name: str, folder: int) -> Iterator[File]:
    """The files of one submission."""
    outer, names = os.fstat(folder), sorted(os.listdir(folder))
    held = one_file("", SECRET, folder, outer).content[:200] if SECRET in names else b""
    secret = held.decode(errors="replace")
    for file in names:
        yield one_file(f"{owner(outer)}/{name}/{file}", file, folder, outer, secret)


def one_file(path: str, name: str, folder: int, outer: os.stat_result, secret: str = "") -> File:
    """One file of a submission: read once it is open and known to be its student's own."""
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
        told = "a link, not a file" if link else f"cannot be read: {error.strerror}"
        return File(path, changed(outer), refused=told)


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


def keep_secrets(name: str, students: list[str], places: Places) -> None:
    """Lay beside each page of feedback by what name nbgrader's release_feedback gives it out.

    A page for a submission that came in another way, or that is not the one that lies in
    `submitted` now, gets a name that nobody knows.
    """
    from grading.submission import fingerprint, read_report, report_path

    if not any(places.submitted.glob(f"*/{name}/{SECRET}")):
        return
    for student in students:
        work, page = (room / student / name for room in (places.submitted, places.feedback))
        report = read_report(report_path(name, student, places)) or {}
        same = report.get("submission") == fingerprint(work / f"{name}.ipynb")
        if page.is_dir() and same and (work / SECRET).exists():
            shutil.copyfile(work / SECRET, page / SECRET)
        elif page.is_dir():
            (page / SECRET).write_text(secrets.token_hex(64))
        if page.is_dir():
            (page / "timestamp.txt").write_text("see the marks")
