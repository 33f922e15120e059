"""Formulas as MathML, which every current browser sets without a script and without a font."""

import html
import re
from typing import Any
from xml.etree.ElementTree import tostring

from docutils import nodes
from latex2mathml.converter import Converter
from sphinx.transforms.post_transforms import SphinxPostTransform

CLOSING = re.compile(r"[.,;:?!)\]”]+")


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


class Closed(SphinxPostTransform):
    """Puts a formula and the punctuation behind it into one box: a line may end between the two."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Change the document."""
        for node in list(self.document.findall(nodes.math)):
            after = node.next_node(descend=False, siblings=True)
            if isinstance(after, nodes.Text) and (signs := CLOSING.match(after)):
                both = node.deepcopy(), nodes.Text(signs[0])
                box = nodes.inline("", "", *both, classes=["closed"])
                node.parent.replace(after, nodes.Text(after[signs.end() :]))
                node.parent.replace(node, box)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls: the pages' formulas are written by this file."""
    app.add_post_transform(Closed)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
