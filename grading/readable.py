"""Whether a file that was handed in is a notebook: `unreadable(path)` says why it is none."""

import json
import warnings
from pathlib import Path
from typing import Any

import nbformat

LARGEST = 20 << 20  # bytes of a notebook
MOST_CELLS = 2_000


def unreadable(path: Path) -> str | None:
    """Why a file is no notebook, in one line, or None if it is one."""
    if path.is_symlink() or not path.is_file():
        return "not a notebook: not a plain file"
    if (size := path.stat().st_size) > LARGEST:
        return f"not a notebook: {size:,} bytes, at most {LARGEST:,} are taken"
    read: Any = nbformat.reads
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old notebook, cells without ids: all restored
            text = path.read_text(encoding="utf-8")
            if (count := cells(json.loads(text))) > MOST_CELLS:
                return f"not a notebook: {count:,} cells, at most {MOST_CELLS:,} are taken"
            notebook = read(text, as_version=4)
            nbformat.validate(notebook)
        json.dumps(notebook, ensure_ascii=False).encode()
    except (OSError, MemoryError):
        raise
    except Exception as error:  # whatever a stranger's file makes of a parser
        told = str(error).strip().split("\n")[0][:200] or type(error).__name__
        return f"not a notebook: {told}" if size else "not a notebook: the file is empty"
    return None


def cells(data: Any) -> int:
    """How many cells there are in what may be a notebook, of this format or an older one."""
    sheets = data.get("worksheets") if isinstance(data, dict) else None
    places = [data, *(sheets if isinstance(sheets, list) else [])]
    lists = (place.get("cells") for place in places if isinstance(place, dict))
    return sum(len(found) for found in lists if isinstance(found, list))
