"""Formulas as MathML, which every current browser sets without a script and without a font."""

import html
from typing import Any
from xml.etree.ElementTree import tostring

from docutils import nodes
from latex2mathml.converter import Converter


def formula(tex: str, block: bool = False) -> str:
    """TeX as MathML; what cannot be read stays TeX.

    >>> "<msqrt>" in formula(r"\\sqrt{d_k}"), "<b>" in formula(r"\\unicode{<b>}")
    (True, False)
    """
    known = tex.strip().replace("{aligned}", "{split}")  # by the name that it knows
    made = Converter(display="block" if block else "inline").convert_to_element(known)
    made.set("alttext", tex.strip())
    for node in made.iter():  # whose texts hold signs by number; what is markup there stays a text
        node.text = html.unescape(node.text or "")
    return tostring(made, encoding="unicode")


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(f'<span class="math">{formula(node.astext())}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(
        f'<div class="math" tabindex="0" role="group">{formula(node.astext(), block=True)}</div>'
    )
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls: the pages' formulas are written by this file."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
