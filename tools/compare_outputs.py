"""Says what differs between the stored outputs of two sets of chapters, in a line for each.

A cell is matched by its id. What follows it without a partner (a part that was split off, a cell
that was renamed) belongs to it, so that the outputs of a step are compared in their order. Code
and prose are not compared, nor is the order in which cells were run.
"""

import argparse
import base64
import difflib
import io
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

import nbformat
import numpy as np
from nbformat import NotebookNode
from PIL import Image

NUMBER = re.compile(r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
HELP = """\
It prints for each chapter how many of its steps show the same, and then every difference:
a line of text before and after, with the distance of the numbers if only numbers changed;
of a picture how many pixels differ, and by how much. The exit status is 0 if nothing does."""


class Piece(NamedTuple):
    """A part of what a cell shows."""

    kind: str  # "printed", "view" (a result's text), "alt", "picture" or "error"
    content: str  # of a picture, its bytes in base64


def pieces(cells: Sequence[NotebookNode]) -> list[Piece]:
    """What some cells show, part by part; what they print in a row is one part."""
    found: list[Piece] = []
    for output in (output for cell in cells for output in cell.get("outputs", [])):
        if output.output_type == "stream":
            before = found.pop().content if found and found[-1].kind == "printed" else ""
            found.append(Piece("printed", before + output.text))
        elif output.output_type == "error":
            found.append(Piece("error", f"{output.ename}: {output.evalue}"))
        else:
            for mime, content in output.data.items():
                kind = "picture" if mime.startswith("image/") else "view"
                found.append(Piece(kind, content))
                found.append(Piece("alt", output.metadata.get(mime, {}).get("alt", "")))
    return found


def steps(
    before: NotebookNode, after: NotebookNode
) -> Iterator[tuple[str, list[Piece], list[Piece]]]:
    """Cells that belong together: the id of the first, and what they show before and after."""
    old, new = ([cell.id for cell in notebook.cells] for notebook in (before, after))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    matched = [(a + k, b + k) for a, b, size in blocks for k in range(size)]
    # what stands before the first match belongs to it
    for (a, b), (a_end, b_end) in pairwise([(0, 0), *matched[1:], (len(old), len(new))]):
        shown = pieces(before.cells[a:a_end]), pieces(after.cells[b:b_end])
        if any(shown):
            yield before.cells[a].id, *shown


def differences(before: list[Piece], after: list[Piece]) -> Iterator[str]:
    """Every difference between two steps, in a line."""
    for kind in dict.fromkeys(piece.kind for piece in [*before, *after]):
        compare = picture_differences if kind == "picture" else text_differences
        olds = [piece.content for piece in before if piece.kind == kind]
        news = [piece.content for piece in after if piece.kind == kind]
        for old, new in zip_longest(olds, news):
            if old is None or new is None:
                yield f"{kind}: only {'after' if old is None else 'before'}"
            elif old != new:
                yield from (f"{kind}: {told}" for told in compare(old, new))


def text_differences(before: str, after: str) -> Iterator[str]:
    """The lines that differ between two texts."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag != "equal":
            for left, right in zip_longest(old[a:a_end], new[b:b_end]):
                yield f"{left!r} → {right!r}{apart(left or '', right or '')}"


def apart(before: str, after: str) -> str:
    """How far apart the numbers of two lines are, if nothing else differs between them."""
    if NUMBER.sub("#", before) != NUMBER.sub("#", after):
        return ""
    values = [
        [float(n.replace(",", "").replace("−", "-")) for n in NUMBER.findall(text)]
        for text in (before, after)
    ]
    gaps = [abs(new - old) for old, new in zip(*values, strict=True)]
    return f" (numbers at most {max(gaps, default=0):.3g} apart)"


def picture_differences(before: str, after: str) -> Iterator[str]:
    """How many pixels differ between two pictures in base64, and by how much."""
    images = [Image.open(io.BytesIO(base64.b64decode(text))) for text in (before, after)]
    if images[0].size != images[1].size:
        yield f"{images[0].size} pixels before, {images[1].size} after"
        return
    old, new = (np.asarray(image.convert("RGBA"), dtype=int) for image in images)
    gaps = np.abs(old - new).max(-1)
    if not gaps.any():
        yield "the same pixels in other bytes"
    else:
        yield f"{(gaps > 0).mean():.2%} of the pixels differ, by at most {gaps.max()} of 255"


def chapter_report(before: Path, after: Path) -> tuple[bool, str]:
    """Whether two stored chapters show the same, and the report on them."""
    pair = [nbformat.read(path, as_version=4) for path in (before, after)]
    told = {name: list(differences(old, new)) for name, old, new in steps(*pair)}
    wrong = {name: lines for name, lines in told.items() if lines}
    head = f"{after.stem}: {len(told) - len(wrong)} steps show the same, {len(wrong)} differ"
    lines = [f"  {name}  {line}" for name, found in wrong.items() for line in found]
    return not wrong, "\n".join([head, *lines])


def main(words: Sequence[str]) -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="folder with the notebooks as they were")
    parser.add_argument("after", type=Path, help="folder with the notebooks as they are")
    options = parser.parse_args(words)
    folders = options.before, options.after
    same = True
    for name in sorted({path.name for folder in folders for path in folder.glob("*.ipynb")}):
        missing = [folder for folder in folders if not (folder / name).exists()]
        if missing:
            equal, report = False, f"{Path(name).stem}: not in {missing[0]}"
        else:
            equal, report = chapter_report(*(folder / name for folder in folders))
        print(report)
        same = same and equal
    return int(not same)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
