"""The live page as it is built: also where a part of it cannot be had, and what leads to it."""

import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlib.pretrained import language_model, minilm
from attnlib.trace import Trace
from attnlib.widgets import AttentionView, Frames, explore
from book import ROOT, live
from book.export import Live, byte_level, models, stamp
from book.notebooks import Assets
from book.pages import with_links


def test_the_exported_tokenizer_is_the_course_s_own() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    bpe = language_model().tokenizer
    found = tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0", **byte_level(bpe)}))
    text = "The naïve café 👍 isn't “bad”,\n\n  <|endoftext|> 日本."
    assert found.encode(text).ids == bpe.encode(text)
    assert found.decode(bpe.encode(text)) == text


@pytest.mark.ci
def test_the_page_is_written_without_what_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(live, "find_spec", lambda name: None)
    for name in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, None)
    lacks = live.missing(tmp_path)
    assert lacks is not None
    assert "npm is missing: install Node.js" in lacks
    assert lacks.count("run pip install onnx onnxscript") == 1
    assets = Assets(tmp_path / "assets")
    assert [assets.write("x", data) for data in (b"old", b"new")] == ["x", "x"]
    assert (tmp_path / "assets" / "x").read_bytes() == b"new"
    text = live.live_page(assets, lacks, tmp_path)
    assert lacks in text
    assert "try.js" not in text
    stored = list((tmp_path / "assets" / "views").glob("*.js"))
    assert len(stored) == len(models()), "the stored views"
    live.place(tmp_path, lacks, tmp_path)
    assert (tmp_path / "live" / "try.css").exists(), "which hides what does not work"
    assert not list((tmp_path / "live").glob("*.onnx"))


def test_two_builds_at_once_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def fetch(kept: Path) -> None:
        steps.append("begins")
        time.sleep(0.2)
        steps.append("ends")

    monkeypatch.setattr(live, "fetch_packages", fetch)
    monkeypatch.setattr(live, "models", lambda: ())
    with ThreadPoolExecutor(2) as both:
        assert list(both.map(live.missing, [tmp_path / "kept"] * 2)) == [None, None]
    assert steps == ["begins", "ends"] * 2


def test_npm_s_own_words_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "npm"
    fake.write_text("#!/bin/sh\necho 'npm error network getaddrinfo ENOTFOUND' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(live, "npm", lambda: [str(fake)])
    told = live.fetch_packages(tmp_path / "kept")
    assert told is not None
    assert told.endswith("for want of a network (network getaddrinfo ENOTFOUND)")


def test_a_part_is_made_anew_when_its_weights_change(tmp_path: Path) -> None:
    first = models()[0]
    live.keep(tmp_path, first.name, stamp(first))
    assert live.current(tmp_path, first.name, stamp(first))
    assert live.make_model(first, tmp_path) is None, "nothing is made: it is there"
    assert not list(tmp_path.glob("*.onnx"))
    other = Live(**first._asdict() | {"sha256": "0"})
    assert not live.current(tmp_path, other.name, stamp(other))


def test_the_lock_names_versions_and_no_host() -> None:
    lock = json.loads((live.HERE / "package-lock.json").read_text("utf-8"))
    wanted = json.loads((live.HERE / "package.json").read_text("utf-8"))["dependencies"]
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert lock["packages"][f"node_modules/{name}"]["version"] == version
    assert not any("resolved" in about for about in lock["packages"].values())


def state(view: Any) -> Any:
    return json.loads(json.dumps(view.state()))


def test_a_view_leads_to_its_model_with_its_sentence() -> None:
    text = "The film was unwatchable."
    assert live.words(state(explore(minilm().trace(text)))) == (
        "minilm",
        "the film was un ##watch ##able .".replace(" ##", ""),
    )
    assert live.words(state(explore(language_model().trace(text)))) == ("reviews-gpt", text)
    other = explore(Trace(("some", "where"), language_model().trace("I am").pattern[:, :, :2, :2]))
    assert live.words(state(other)) is None
    maps = np.tile(np.eye(2), (30, 9, 1, 1))
    assert live.words(state(AttentionView(maps, ["I", " am"]))) == ("smollm2", "I am")
    plain = AttentionView(np.eye(2), ["a", "b"], axes=())
    assert (
        live.link(state(plain), "../")
        == '<p class="attn-try"><a href="../try.html">Try your own sentence</a></p>'
    )
    assert "#reviews-gpt=The%20film" in live.link(state(explore(language_model().trace(text))), "")
    assert live.link(state(Frames(["one", "two"], name="step")), "") == ""


def test_a_link_to_what_is_no_page_leaves_its_words() -> None:
    text = "[a](course.py), [b](docs/teaching.md#top), [c](https://x.org), ![d](e.png)"
    told = with_links(text, Path("README.md"), {ROOT / "docs/teaching.md"})
    assert told == text.replace("[a](course.py)", "a")
