"""How Sphinx writes the pages; `book.pages` makes the sources and says where their files are."""

from pathlib import Path
from typing import Any

from book import ROOT

project = "Attention"
author = "The authors of the attention course"
copyright = "the authors of the attention course; text CC BY 4.0, code MIT"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.bibtex",
    "book.docstrings",
    "book.icons",
    "book.mathml",
]
html_theme = "sphinx_book_theme"
html_math_renderer = "mathml"
html_css_files = ["book.css", "widgets.css"]
html_js_files = [("live.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_title = "Attention"
html_context = {"default_mode": "auto"}
html_use_index = False
html_domain_indices = False
html_theme_options = {
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # the search stands above the contents
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
templates_path = ["templates"]
html_sidebars = {"**": ["home.html", "search-button-field.html", "sbt-sidebar-nav.html"]}
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True
myst_dmath_allow_labels = False
myst_heading_anchors = 3
bibtex_bibfiles = [str(ROOT / "references.bib")]
bibtex_default_style = "plain"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True  # as written; a folder of this machine is nobody's default
autodoc_typehints_format = "short"
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # names such as `ids` are many things

MENDED = {  # what a screen reader stumbles over in what docutils writes
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    'role="doc-biblioentry"': 'role="listitem"',
}


def mend(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Sphinx calls this before a page is written."""
    for old, new in MENDED.items():
        context["body"] = context.get("body", "").replace(old, new)


def label(app: Any, error: Exception | None) -> None:
    """Sphinx calls this when the pages are written: the theme's arrows get a name."""
    for page in Path(app.outdir).rglob("*.html") if error is None else ():
        text = page.read_text(encoding="utf-8")
        arrow = '<summary><span class="toctree-toggle"'
        named = arrow.replace("<summary>", '<summary aria-label="Pages beneath">')
        if arrow in text:
            page.write_text(text.replace(arrow, named), encoding="utf-8")


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("html-page-context", mend)
    app.connect("build-finished", label)
