"""What the reader has done so far: tasks passed and chapters read, for nobody but the reader.

`check` notes a task that is passed, and the table in chapter 00 shows what is noted. It is kept in
one file beside the exercises, exercises/progress.jsonl, which git ignores and nothing ever sends.
An exercise that lies elsewhere (a solution, a copy that is graded or tested) leaves no note.
"""

import json
from pathlib import Path

FILE = "progress.jsonl"
READ = "read to the end"


def note(name: str, what: str) -> None:
    """Add a line to the file, once. Two notebooks may do so at once: no line is ever rewritten.

    A file that cannot be read or written is told in one sentence, and stops nothing.

    Args:
        name: of a chapter and its exercise, such as "04_self_attention".
        what: the task that is passed, or `READ`.
    """
    folder = exercises()
    if folder is None or (name, what) in noted():
        return
    try:
        with (folder / FILE).open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps([name, what])}")  # a half-written line before stays alone
    except OSError as error:
        print(f"This could not be noted in exercises/{FILE} ({error.strerror}).")


def noted() -> set[tuple[str, str]]:
    """Everything noted, as (name, what). Damaged lines are left out, and one sentence says so."""
    folder, found, damaged = exercises(), set(), 0
    try:
        text = (folder / FILE).read_text("utf-8", errors="replace") if folder else ""
    except OSError:  # not there yet; what else it may be, `note` will tell
        text = ""
    for line in filter(None, text.splitlines()):
        try:
            name, what = json.loads(line)
            found.add((str(name), str(what)))
        except (ValueError, TypeError, RecursionError):
            damaged += 1
    if damaged:
        print(f"{damaged} damaged lines of exercises/{FILE} do not count; you may delete the file.")
    return found


def exercises() -> Path | None:
    """The folder exercises/ of the course, from one of the exercises or from the chapters."""
    above = Path.cwd().parent
    folder = above if above.name == "exercises" else above / "exercises"
    return folder if folder.is_dir() else None
