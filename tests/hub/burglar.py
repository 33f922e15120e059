"""What somebody with an account can read of other people's; prints it as JSON.

    python burglar.py PLACE NEEDLE

Runs in a student's notebook, and as its own control in the lecturer's name.
"""

import json
import os
import sys
from pathlib import Path


def readable(place: str) -> list[str]:
    """The files of other users that can be read, those aside that everybody is meant to have."""
    found = []
    for folder, inside, names in os.walk(place):
        if folder == place:
            inside.remove("course")
        for path in (Path(folder, name) for name in names):
            try:
                if path.lstat().st_uid != os.getuid():
                    path.open("rb").close()
                    found.append(str(path.relative_to(place)))
            except OSError:
                pass
    return sorted(found)


def environments(needle: str) -> list[int]:
    """The processes in whose environment a text can be found."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if needle.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return [number for number in found if number != os.getpid()]


def writable(place: str) -> list[str]:
    """The folders of an exchange in which something can be put, renamed or removed."""
    found = [Path(place, "exchange")]
    for folder, names, _ in os.walk(found[0]):
        found += [Path(folder, name) for name in names]
    return sorted(str(path.relative_to(place)) for path in found if os.access(path, os.W_OK))


if __name__ == "__main__":
    place, needle = sys.argv[1:3]
    found = {"readable": readable(place), "writable": writable(place)}
    found |= {"processes": environments(needle), "user": os.getuid()}
    print(json.dumps(found))
