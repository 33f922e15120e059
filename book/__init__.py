"""How the course becomes pages, slides and PDF; its only own text is that of the live page.

`python -m book` writes `build/book`, `build/slides` or `build/pdf` from the stored chapters, the
exercises, the documents and the docstrings. Nothing is executed: what live views need is stored
with the chapters (see tools/chapter_tools.py).
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
sys.path.append(str(ROOT / "tools"))  # the chapters' tools are scripts, and no package
