"""Docstrings for Sphinx: they are plain text with `code` and lists in it, not reStructuredText."""

import re
from typing import Any

CODE = re.compile(r"(`[^`]+`)")
SPECIAL = re.compile(r"([*|_\\])")


def text_as_rst(text: str) -> str:
    """Plain text in reStructuredText: `code` in double backticks, the rest as it stands.

    >>> print(text_as_rst("each `mask` and `mask`s of |x|, (*axes, T_q)"))
    each ``mask`` and ``mask``\\ s of \\|x\\|, (\\*axes, T\\_q)
    """
    parts = CODE.split(text)
    for number, part in enumerate(parts):
        if CODE.fullmatch(part):
            parts[number] = f"`{part}`" + ("\\ " if parts[number + 1][:1].isalnum() else "")
        else:
            parts[number] = SPECIAL.sub(r"\\\1", part)
    return "".join(parts)


def with_lists(lines: list[str]) -> list[str]:
    """The lines, with an empty one before every list.

    >>> with_lists(["Heads:", "- one", "  of two", "- two"])
    ['Heads:', '', '- one', '  of two', '- two']
    """
    result: list[str] = []
    listed = False
    for line in lines:
        item = line.lstrip().startswith("- ")
        if item and not listed and result and result[-1].strip():
            result.append("")
        listed = item or (listed and line.startswith("  "))
        result.append(line)
    return result


def as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Sphinx calls this for every docstring; its lines are changed where they stand."""
    paragraphs = "\n".join(with_lists(lines)).split("\n\n")
    told = [p if p.lstrip().startswith(">>>") else text_as_rst(p) for p in paragraphs]
    lines[:] = "\n\n".join(told).split("\n")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls: this comes before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", as_rst, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
