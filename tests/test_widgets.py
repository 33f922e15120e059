"""The widgets without a browser: what they refuse, what they send, what they write."""

import base64
import json
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attnlib.trace import Trace
from attnlib.widgets import AttentionView, Frames, explore
from attnlib.widgets.payload import EXACT_LIMIT, pack, prepare, quantise, visible
from attnlib.widgets.pictures import DARK, LIGHT, SMALL

WIDGET = "application/vnd.jupyter.widget-view+json"
TOKENS = ["the", " film", "\n", "<script>alert(1)</script>", "-->"]


def maps(*shape: int, seed: int = 3) -> torch.Tensor:
    """Weights whose rows sum to 1."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def view(**options: Any) -> AttentionView:
    return AttentionView(maps(2, 3, 5, 5), TOKENS, **options)


# ---------------------------------------------------------------- what is refused, and how
def spoilt(value: float) -> torch.Tensor:
    weights = maps(2, 3, 5, 5)
    weights[1, 2, 3, 4] = value
    return weights


@pytest.mark.parametrize(
    ("weights", "tokens", "options", "words"),
    [
        (spoilt(float("nan")), TOKENS, {}, r"1 of 150 are not finite.*\(1, 2, 3, 4\).*softmax"),
        (spoilt(float("inf")), TOKENS, {}, "not finite"),
        (spoilt(-0.1), TOKENS, {}, "negative.*after the softmax"),
        (spoilt(1.5), TOKENS, {}, "above 1"),
        (maps(5, 5), TOKENS, {}, r"4 axes \('layer', 'head', 'query', 'key'\).*\(5, 5\).*axes="),
        (maps(2, 3, 5, 5), TOKENS[:4], {}, "5 queries.*4 tokens"),
        (maps(2, 3, 5, 5), [], {}, "`tokens` is empty"),
        (maps(2, 3, 5, 5), "abcde", {}, "list of strings, got str"),
        (maps(2, 3, 5, 5), [1, 2, 3, 4, 5], {}, r"strings, got 1.*str\(t\)"),
        (maps(2, 3, 5, 4), TOKENS, {}, "5 queries and 4 keys.*sources="),
        (maps(2, 3, 5, 4), TOKENS, {"sources": TOKENS}, "4 keys.*5 tokens"),
        (maps(2, 3, 5, 5), TOKENS, {"axes": ("layer", "layer")}, "different"),
        (maps(2, 3, 5, 5), TOKENS, {"labels": {"heads": [1]}}, "'heads'.*axes are"),
        (maps(2, 3, 5, 5), TOKENS, {"labels": {"head": [1]}}, "3 positions, but 1 labels"),
        (maps(2, 3, 5, 5), TOKENS, {"start": {"step": 1}}, "start names 'step'"),
        (maps(2, 3, 5, 5), TOKENS, {"start": {"head": 3}}, "head must be.*0 to 2, got 3"),
        (maps(2, 3, 5, 5), TOKENS, {"token_axis": "item"}, "token_axis"),
        (maps(2, 3, 5, 5), TOKENS, {"token_axis": "layer"}, "2 lists of tokens"),
        (maps(2, 3, 5, 5), [TOKENS, ["a"]], {"token_axis": "layer"}, "pad the maps with zeros"),
        (maps(2, 3, 5, 5), TOKENS, {"words": [0, 1]}, "5 tokens its word, got 2"),
        (maps(2, 3, 5, 5), TOKENS, {"words": [0, 2, 3, 4, 5]}, "word indices must run"),
        (maps(2, 3, 5, 5), TOKENS, {"sources": TOKENS, "words": [0, 1, 2, 3, 4]}, "cannot go with"),
        (np.zeros((2, 0, 5, 5)), TOKENS, {}, "empty"),
        ([[[["a"]]]], ["a"], {}, "one array of numbers"),
    ],
)  # fmt: skip
def test_bad_input_is_named(weights: Any, tokens: Any, options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        AttentionView(weights, tokens, **options)


def test_rows_need_not_sum_to_one_and_the_caller_keeps_its_array() -> None:
    weights = np.zeros((1, 1, 2, 2), dtype=np.float32)
    shown = AttentionView(weights, ["a", "b"])
    weights[:] = 1
    assert shown.weights.max() == 0
    shown.weights[:] = 1  # a copy
    assert shown.weights.max() == 0


# ---------------------------------------------------------------- what the browser is sent
@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, array_shapes(min_dims=3, max_dims=4, max_side=5),
              elements=st.floats(0, 1, width=32)))  # fmt: skip
def test_quantised_maps_are_within_half_a_step(weights: np.ndarray) -> None:
    steps, top = quantise(weights)
    flat = weights.reshape(steps.shape)
    back = steps * (top / 255)[:, None, None]
    assert (np.abs(back - flat) <= top[:, None, None] / 510 * 1.001 + 1e-30).all()
    assert np.array_equal(steps.max((-2, -1)) == 255, top > 0)


def test_denormal_weights_do_not_overflow() -> None:
    steps, _ = quantise(np.array([[[1e-40, 0.0]]], dtype=np.float32))
    assert steps.tolist() == [[[255, 0]]]


def test_small_weights_do_not_vanish() -> None:
    steps, top = quantise(np.full((1, 512, 512), 1 / 512, dtype=np.float32))
    assert steps.min() == 255
    assert top[0] == np.float32(1 / 512)


def test_payload_holds_every_exact_weight() -> None:
    weights = maps(2, 3, 5, 5)
    spec, blob = pack(prepare(weights, TOKENS))
    start, length = spec["units"][0]["exact"]
    exact = np.frombuffer(blob[start : start + length], "<f4").reshape(2, 3, 5, 5)
    assert np.array_equal(exact, weights.numpy())
    assert spec["units"][0]["queries"][0][1:3] == ["·film", "↵"]


def test_large_views_send_the_exact_weights_of_the_shown_map_only() -> None:
    weights = maps(2, 3, 200, 200)
    assert weights.numel() > EXACT_LIMIT
    shown = AttentionView(weights, [str(i) for i in range(200)])
    assert shown._spec["units"][0]["exact"] is None
    shown.index = (1, 2)
    assert struct.unpack("<ii", shown._shown[:8]) == (0, 5)
    assert np.array_equal(np.frombuffer(shown._shown[8:], "<f4"), weights[1, 2].numpy().ravel())


def test_index_is_seen_set_and_checked() -> None:
    shown = view(start={"head": 2})
    assert shown.index == (0, 2)
    shown.index = [1, 0]  # as the browser sends it
    assert shown.index == (1, 0)
    assert np.array_equal(shown.weights, maps(2, 3, 5, 5)[1, 0].numpy())
    for wrong in ((2, 0), (0, -1), (0,), (0, True)):
        with pytest.raises(ValueError, match=r"must be an integer|one position"):
            shown.index = wrong
    with pytest.raises(ValueError, match="words="):
        shown.unit = "words"


def test_two_views_can_be_linked() -> None:
    traitlets = pytest.importorskip("traitlets")
    left, right = view(), view()
    traitlets.link((left, "index"), (right, "index"))
    left.index = (1, 1)
    assert right.index == (1, 1)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 99))
def test_word_rows_sum_to_one(lengths: list[int], seed: int) -> None:
    words = [word for word, length in enumerate(lengths) for _ in range(length)]
    shown = AttentionView(
        maps(1, 2, len(words), len(words), seed=seed), ["x"] * len(words), words=words
    )
    shown.unit = "words"
    assert shown.weights.shape == (len(lengths), len(lengths))
    assert np.allclose(shown.weights.sum(-1), 1, atol=1e-5)
    assert shown._spec["units"][1]["queries"][0] == ["x" * length for length in lengths]


def test_items_of_different_lengths_with_sources_and_words() -> None:
    weights = torch.zeros(4, 2, 3, 3)
    weights[:, 0] = maps(4, 3, 3)
    weights[:, 1, :2, :2] = maps(4, 2, 2)
    shown = AttentionView(
        weights, [["un", "##do", "it"], ["go", "on"]], axes=("step", "item"), token_axis="item",
        words=[[0, 0, 1], [0, 1]], labels={"step": [0, 10, 100, 1000]}, start={"item": 1},
    )  # fmt: skip
    assert shown.weights.shape == (2, 2)
    shown.index, shown.unit = (3, 0), "words"
    assert shown.weights.shape == (2, 2)
    assert np.allclose(shown.weights.sum(-1), 1, atol=1e-6)
    assert "step 1000, item 0" in shown.describe()
    assert "undo" in shown._spec["units"][1]["queries"][0]


# ---------------------------------------------------------------- text, picture, page
def test_repr_is_stable() -> None:
    assert repr(view()) == "AttentionView(layer=2, head=3, query=5, key=5)"
    assert repr(AttentionView(maps(5, 5), TOKENS, axes=())) == "AttentionView(query=5, key=5)"


def test_explore_takes_a_trace() -> None:
    trace = Trace(tuple("abc"), maps(2, 2, 3, 3), words=(0, 0, 1))
    shown = explore(trace, start={"head": 1})
    assert shown.index == (0, 1)
    shown.unit = "words"
    assert shown.weights.shape == (2, 2)
    crossed = Trace(tuple("abc"), maps(2, 2, 3, 2), sources=("x", "y"))
    assert repr(explore(crossed)) == "AttentionView(layer=2, head=2, query=3, key=2)"


def test_mime_bundle_has_widget_picture_with_alt_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNLIB_STATIC", raising=False)
    shown = view(alt="A made-up head", start={"layer": 1})
    data, metadata = shown._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == shown.model_id
    assert data["text/plain"] == repr(shown)
    assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"
    assert metadata["image/png"]["alt"].startswith("A made-up head, layer 1, head 0: 5 dest")
    assert "text/html" not in data


def test_static_bundle_has_the_live_page_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIB_STATIC", "1")
    data, _ = view()._repr_mimebundle_()
    assert WIDGET not in data
    assert '<script type="module">' in data["text/html"]


def test_fallback_picture_stays_small_even_for_noise() -> None:
    noise = AttentionView(maps(1, 1, 512, 512), ["word"] * 512)
    data, _ = noise._repr_mimebundle_()
    assert len(base64.b64decode(data["image/png"])) <= SMALL


def state_of(page: str) -> dict[str, Any]:
    found = re.search(r"const state = (\{.*\}), listeners = ", page)
    assert found is not None
    state: dict[str, Any] = json.loads(found[1])
    return state


def test_saved_page_holds_the_state_and_no_foreign_markup(tmp_path: Path) -> None:
    shown = view(title="</title><script>bad()</script>", start={"head": 1})
    shown.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<script") == 1  # ours; every token's "<" is escaped
    assert page.count("</script>") == 1
    assert "-->" not in page or "\\u003c" in page
    assert not re.search(r"(src|href)=[\"']?https?:|@import|url\(", page)
    state = state_of(page)
    assert zlib.decompress(base64.b64decode(state["_blob"])) == shown._blob
    assert state["index"] == [0, 1]
    assert state["_spec"]["units"][0]["keys"][0][3] == TOKENS[3]


def test_saving_twice_gives_the_same_page(tmp_path: Path) -> None:
    for name in ("a", "b"):
        view().save_html(tmp_path / f"{name}.html")
        view().save_svg(tmp_path / f"{name}.svg")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("mode", ["map", "links", "heads"])
def test_svg_is_well_formed_and_png_is_png(tmp_path: Path, mode: str) -> None:
    shown = AttentionView(maps(2, 3, 5, 5), [*TOKENS[:3], "$x^2$ & <b>", "日本"], title="A & B")
    shown.mode = mode
    shown.save_svg(tmp_path / "v.svg")
    shown.save_png(tmp_path / "v.png")
    root = ElementTree.parse(tmp_path / "v.svg").getroot()
    text = " ".join(root.itertext())
    assert "A & B" in text
    if mode != "heads":
        assert "$x^2$·&·<b>" in text
        assert "destination (query)" in text
        assert "source (key)" in text
    assert (tmp_path / "v.png").read_bytes()[:4] == b"\x89PNG"


@given(st.text())
def test_tokens_never_hide(token: str) -> None:
    shown = visible(token)
    assert shown
    assert not any(c in shown for c in " \n\r\t\x00")
    assert shown.isprintable()


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_palettes_are_safe_without_colour(palette: tuple[str, ...]) -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722])) ** (1 / 3)  # ∝ lightness L*

    steps = np.diff([luminance(c) for c in palette])
    assert (np.sign(steps) == np.sign(steps[0])).all()
    assert np.abs(steps).min() > 0.05


# ---------------------------------------------------------------- frames
FIGURE = SimpleNamespace(png=b"\x89PNG-one", alt="Loss falls with n")


def test_frames_of_text_and_figures(tmp_path: Path) -> None:
    frames = Frames(["<b>one</b>", FIGURE], name="n", labels=["1", "2"])
    assert repr(frames) == "Frames(n=2)"
    data, metadata = frames._repr_mimebundle_()
    assert data["text/plain"] == "Frames(n=2)\n\n<b>one</b>"
    assert "image/png" not in data
    frames.index = (1,)
    data, metadata = frames._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]) == FIGURE.png
    assert metadata["image/png"]["alt"] == FIGURE.alt
    frames.save_html(tmp_path / "f.html")
    state = state_of((tmp_path / "f.html").read_text("utf-8"))
    assert state["_spec"]["frames"] == [{"text": "<b>one</b>"}, {"alt": FIGURE.alt, "png": [0, 8]}]


def test_frames_with_two_sliders() -> None:
    frames = Frames([["a", "b"], ["c", "d"]], name=("n", "temperature"), start=(1, 0),
                    labels={"temperature": [0.5, 1.0]})  # fmt: skip
    assert frames.frame == "c"
    assert repr(frames) == "Frames(n=2, temperature=2)"
    assert [axis["labels"] for axis in frames._spec["axes"]] == [["0", "1"], ["0.5", "1.0"]]


@pytest.mark.parametrize(
    ("frames", "options", "words"),
    [
        ([], {}, "none empty"),
        ("abc", {}, "levels of lists"),
        ([["a"], ["b", "c"]], {"name": ("n", "t")}, "all of one length"),
        ([1], {}, "text or a figure.*int"),
        ([SimpleNamespace(png=b"x", alt=" ")], {}, "without alt text"),
        (["a"], {"labels": ["1", "2"]}, "1 positions, but 2 labels"),
        (["a"], {"start": 1}, "n must be an integer from 0 to 0, got 1"),
    ],
)
def test_bad_frames_are_named(frames: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Frames(frames, **({"name": "n"} | options))
