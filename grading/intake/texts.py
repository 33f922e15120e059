"""What of a student's text the person who grades may be shown.

Formgrader and the feedback pages show texts with the grader's rights. So a text keeps its words,
its formulas, its links to the web and its attached pictures, and nothing that a browser would run
or load from elsewhere.
"""

import re
from collections.abc import Mapping, Set
from typing import Any

PICTURES = {"image/png", "image/jpeg"}


def tame(text: str, pictures: Set[str] = frozenset()) -> str:
    """A text without what a browser would run or load.

    HTML is none any more; a link leads to the web or to a mail, a picture is an attached one. Of
    more than 100 blanks in a row 100 stay: for many of them, the page would take hours to make.

    >>> tame("if $s<t$ then <script>")
    'if $s< t$ then < script>'
    >>> tame("[a](https://b.org) [c](javascript:d)  ![g](https://h.org/i.png)")
    '[a](https://b.org) [c] (javascript:d)  ! [g](https://h.org/i.png)'
    >>> tame("![e](attachment:f.png) ![e](attachment:g.png)", {"f.png"})
    '![e](attachment:f.png) ! [e](attachment:g.png)'
    """
    text = re.sub(r"[^\S\n]{101,}", " " * 100, text)
    text = re.sub(r"<(?=\S)", "< ", text)
    known = "|".join(re.escape(name) for name in pictures if re.fullmatch(r"[\w. -]{1,200}", name))
    text = re.sub(
        rf"!(?=\[)(?!\[[^\[\]\n]{{0,500}}\]\(attachment:({known or '(?!)'})\))", "! ", text
    )
    text = re.sub(
        r"\](?=\()(?!\((https?://|mailto:|#|attachment:)[^\s()<>]{0,2000}[\s)])", "] ", text
    )
    return re.sub(r"\](?=:)", "] ", text)


def attached(attachments: Any) -> dict[str, dict[str, str]]:
    """The pictures among a text's attachments, by name and type; the rest is left out."""
    pictures: dict[str, dict[str, str]] = {}
    for name, parts in attachments.items() if isinstance(attachments, Mapping) else ():
        for mime, data in parts.items() if isinstance(parts, Mapping) else ():
            text = "".join(map(str, data)) if isinstance(data, list) else str(data)
            if mime in PICTURES and re.fullmatch(r"[A-Za-z0-9+/=\s]*", text):
                pictures.setdefault(name, {})[mime] = text
    return pictures
