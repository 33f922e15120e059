"""The theme's icons without the theme's 1.5 MB of them: only those that its pages show."""

import json
import re
from pathlib import Path
from typing import Any

SCRIPT = Path("_static", "scripts", "fontawesome.js")
USED = re.compile(r'class="[^"]*\bfa-solid fa-([a-z-]+)')
ICON = r'[,{{"]{}"?:\[(\d+),(\d+),\[[^\]]*\],"[0-9a-f]+","([^"]+)"\]'  # width, height, outline
FIRST = "/*! Font Awesome Free (fontawesome.com/license/free): icons CC BY 4.0 */\n"
DRAW = """
for (const place of document.querySelectorAll("i.fa-solid")) {
  const name = [...place.classList].find((one) => one.slice(3) in ICONS);
  const [width, height, outline] = ICONS[name.slice(3)];
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const { name, value } of place.attributes) picture.setAttribute(name, value);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("aria-hidden", "true");
  picture.innerHTML = `<path fill="currentColor" d="${outline}"/>`;
  place.replaceWith(picture);
}
"""


def icons(script: str, names: set[str]) -> dict[str, tuple[int, int, str]]:
    """Width, height and outline of icons in the theme's script; a name's last outline is solid.

    Raises:
        ValueError: if the script lacks one of them.
    """
    found = {name: re.findall(ICON.format(re.escape(name)), script) for name in names}
    if missing := sorted(name for name, outlines in found.items() if not outlines):
        raise ValueError(f"the theme's script of icons lacks {missing}")
    return {n: (int(found[n][-1][0]), int(found[n][-1][1]), found[n][-1][2]) for n in sorted(found)}


def lighten(app: Any, error: Exception | None) -> None:
    """Sphinx calls this when the pages are written."""
    path, pages = Path(app.outdir) / SCRIPT, Path(app.outdir).rglob("*.html")
    script = path.read_text(encoding="utf-8")
    if error is None and not script.startswith(FIRST):
        names = {name for page in pages for name in USED.findall(page.read_text(encoding="utf-8"))}
        text = f"{FIRST}const ICONS = {json.dumps(icons(script, names))};{DRAW}"
        path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
