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
import traitlets
from comm import DummyComm
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attnlib.plots import PALETTE, SIGNED, visible
from attnlib.trace import Trace
from attnlib.widgets import AttentionView, Frames, TextView, explore
from attnlib.widgets.maps import prepare
from attnlib.widgets.payload import EXACT_LIMIT, pack, quantise
from attnlib.widgets.pictures import DARK, DARK_SIGNED, SMALL

WIDGET = "application/vnd.jupyter.widget-view+json"
VIEW = "application/vnd.attnlib.view+json"
TOKENS = ["the", " film", "\n", "<script>alert(1)</script>", "-->"]


def maps(*shape: int, seed: int = 3) -> torch.Tensor:
    """Weights whose rows sum to 1."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def view(**options: Any) -> AttentionView:
    return AttentionView(maps(2, 3, 5, 5), TOKENS, **options)


def svg(shown: AttentionView, folder: Path) -> list[str]:
    """The words of a view's SVG."""
    shown.save_svg(folder / "v.svg")
    return list(ElementTree.parse(folder / "v.svg").getroot().itertext())


# ---------------------------------------------------------------- what is refused, and how
def spoilt(value: float) -> torch.Tensor:
    weights = maps(2, 3, 5, 5)
    weights[1, 2, 3, 4] = value
    return weights


@each(
    "weights, tokens, options, words",
    [
        (spoilt(float("nan")), TOKENS, {}, r"1 of 150 are not finite.*\(1, 2, 3, 4\).*softmax"),
        (spoilt(float("inf")), TOKENS, {}, "not finite"),
        (spoilt(-0.1), TOKENS, {}, "negative.*after the softmax.*signed=True"),
        (spoilt(float("nan")), TOKENS, {"signed": True}, "not finite"),
        (spoilt(1.5), TOKENS, {}, "above 1"),
        (maps(5, 5), TOKENS, {}, r"4 axes \('layer', 'head', 'query', 'key'\).*\(5, 5\).*axes="),
        (maps(2, 3, 5, 5), TOKENS[:4], {}, "5 queries and 5 keys.*4 and 4 tokens"),
        (maps(2, 3, 5, 5), [], {}, "`tokens` is empty"),
        (maps(2, 3, 5, 5), "abcde", {}, "list of strings, got str"),
        (maps(2, 3, 5, 5), [1, 2, 3, 4, 5], {}, r"strings, got 1.*str\(t\)"),
        (maps(2, 3, 5, 4), TOKENS, {}, "5 queries and 4 keys.*sources="),
        (maps(2, 3, 5, 4), TOKENS, {"sources": TOKENS}, "4 keys.*5 and 5 tokens"),
        (maps(2, 3, 5, 5), TOKENS, {"axes": ("layer", "layer")}, "different"),
        (maps(2, 3, 5, 5), TOKENS, {"labels": {"heads": [1]}}, "'heads'.*axes are"),
        (maps(2, 3, 5, 5), TOKENS, {"labels": {"head": [1]}}, "3 positions, but 1 labels"),
        (maps(2, 3, 5, 5), TOKENS, {"start": {"step": 1}}, "start names 'step'"),
        (maps(2, 3, 5, 5), TOKENS, {"start": {"head": 3}}, "head must be.*0 to 2, got 3"),
        (maps(2, 3, 5, 5), [TOKENS], {}, r"`tokens` is nested \(1,\), but the maps \(2,\)"),
        (maps(2, 3, 5, 5), [TOKENS, ["a"]], {}, r"weights\[1\] has 5 queries.*1 and 1 tokens"),
        (maps(2, 3, 5, 5), [[[[["a"]]]]], {}, "4 levels of lists, but the axes are"),
        ([maps(2, 5, 5), maps(3, 5, 5)], TOKENS, {}, r"weights\[1\] has \(3,\), the first \(2,\)"),
        ([maps(5, 5)], TOKENS, {"axes": ()}, "1 levels of lists.*name each"),
        (maps(2, 3, 5, 5), TOKENS, {"word_ids": [0, 1]}, "2 word indices do not fit"),
        (maps(2, 3, 5, 5), TOKENS, {"word_ids": [0, 2, 3, 4, 5]}, "word indices must run"),
        (maps(2, 3, 5, 5), TOKENS, {"sources": TOKENS, "word_ids": range(5)}, "no sources"),
        (maps(2, 3, 5, 5), TOKENS, {"signed": True, "word_ids": range(5)}, "no sign"),
        (np.zeros((2, 0, 5, 5)), TOKENS, {}, "empty"),
        ([[[["a"]]]], ["a"], {}, "one array of numbers"),
    ],
)
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
@given(
    arrays(
        np.float32,
        array_shapes(min_dims=3, max_dims=4, max_side=5),
        elements=st.floats(-1, 1, width=32),
    ),
    st.booleans(),
)
def test_quantised_maps_are_within_half_a_step(weights: np.ndarray, signed: bool) -> None:
    weights = weights if signed else abs(weights)
    zero, span = (128, 127) if signed else (0, 255)
    quantised, largest = quantise(torch.tensor(weights), signed)
    steps, top = quantised.numpy().astype(float) - zero, largest.numpy()
    flat = weights.reshape(steps.shape)
    back = steps * (top / span)[:, None, None]
    assert (np.abs(back - flat) <= top[:, None, None] / (2 * span) * 1.001 + 1e-30).all()
    assert np.array_equal(np.abs(steps).max((-2, -1)) == span, top > 0)
    assert (steps[flat == 0] == 0).all()


@each("size", [1e-40, 1 / 512])
def test_small_weights_neither_vanish_nor_overflow(size: float) -> None:
    steps, top = quantise(torch.tensor([[[size, 0.0]]]))
    assert steps.tolist() == [[[255, 0]]]
    assert top[0] == torch.tensor(size)


def test_payload_holds_every_exact_weight() -> None:
    weights = maps(2, 3, 5, 5)
    spec, blob = pack(prepare(weights, TOKENS))
    blob = zlib.decompress(blob)
    start, length = spec["units"][0]["exact"]
    exact = np.frombuffer(blob[start : start + length], "<f4").reshape(2, 3, 5, 5)
    assert np.array_equal(exact, weights.numpy())
    assert spec["units"][0]["queries"][0][1:3] == ["·film", "↵"]
    assert spec["texts"] == [0]


def test_large_views_send_the_exact_weights_of_the_shown_map_only() -> None:
    weights = maps(2, 3, 200, 200)
    assert weights.numel() > EXACT_LIMIT
    shown = AttentionView(weights, [str(i) for i in range(200)])
    assert shown._spec["units"][0]["exact"] is None
    shown.index = (1, 2)
    assert struct.unpack("<ii", shown._shown[:8]) == (0, 5)
    assert np.array_equal(np.frombuffer(shown._shown[8:], "<f4"), weights[1, 2].numpy().ravel())


def causal(layers: int, heads: int, length: int) -> Trace:
    """Causal rows of random scores, with a first token that draws most of them, as in SmolLM2."""
    generator = torch.Generator().manual_seed(7)
    scores = 2 * torch.randn(layers, heads, length, length, generator=generator)
    scores[..., 0] += 5
    scores.masked_fill_(torch.ones(length, length).triu(1).bool(), -torch.inf)
    tokens = ("<|im_start|>", *(f" w{i}" for i in range(1, length)))
    return Trace(tokens, scores.softmax(-1))


def test_large_views_are_light() -> None:
    """What is sent at first, of a byte a weight: half is zeros, and most of the rest is near it."""
    one = causal(4, 4, 256)
    assert len(explore(one)._blob) < 0.25 * one.attention.numel()


def test_more_than_a_browser_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlib.widgets.maps.LARGEST", 149)
    with pytest.raises(ValueError, match=r"at most 149 weights, .* have 150: .*attention\[20:\]"):
        view()
    monkeypatch.setattr("attnlib.widgets.maps.LARGEST", 150)
    assert view().index == (0, 0)


def test_index_is_seen_set_and_checked() -> None:
    shown = view(start={"head": 2})
    assert shown.index == (0, 2)
    shown.index = [1, 0]  # as the browser sends it
    assert shown.index == (1, 0)
    assert np.array_equal(shown.weights, maps(2, 3, 5, 5)[1, 0].numpy())
    another = view()
    traitlets.link((shown, "index"), (another, "index"))
    assert another.index == (1, 0)
    for wrong in ((2, 0), (0, -1), (0,), (0, True)):
        with pytest.raises(ValueError, match=r"must be an integer|one position"):
            shown.index = wrong
    with pytest.raises(ValueError, match="word_ids="):
        shown.unit = "words"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 99))
def test_word_rows_sum_to_one(lengths: list[int], seed: int) -> None:
    words = [word for word, length in enumerate(lengths) for _ in range(length)]
    shown = AttentionView(
        maps(1, 2, len(words), len(words), seed=seed), ["x"] * len(words), word_ids=words
    )
    shown.unit = "words"
    assert shown.weights.shape == (len(lengths), len(lengths))
    assert np.allclose(shown.weights.sum(-1), 1, atol=1e-5)
    assert shown._spec["units"][1]["queries"][0] == ["x" * length for length in lengths]


def test_maps_of_different_lengths_with_words() -> None:
    long, short = maps(4, 3, 3), maps(4, 2, 2, seed=4)
    shown = AttentionView(
        [long, short],
        [["un", "##do", "it"], ["go", "on"]],
        axes=("item", "step"),
        word_ids=[[0, 0, 1], [0, 1]],
        labels={"step": [0, 10, 100, 1000]},
        start={"item": 1},
    )
    assert repr(shown) == "AttentionView(item=2, step=4, query=3, key=3)"
    assert np.array_equal(shown.weights, short[0])
    shown.index = (0, 3)
    assert np.array_equal(shown.weights, long[3])
    shown.unit = "words"
    assert shown.weights.shape == (2, 2)
    assert np.allclose(shown.weights.sum(-1), 1, atol=1e-6)
    assert "item 0, step 1000" in shown.describe()
    assert shown._spec["units"][1]["queries"] == [["undo", "it"], ["go", "on"]]


def test_one_text_may_stand_for_all_maps_and_one_side_alone_may_change() -> None:
    shown = AttentionView(
        [maps(1, 2), maps(1, 4)], ["prediction"], sources=[["a", "b"], list("cdef")], axes=("text",)
    )
    assert shown._spec["units"][0]["queries"] == [["prediction"], ["prediction"]]
    shown.index = (1,)
    assert np.array_equal(shown.weights, maps(1, 4))
    stacked = AttentionView([maps(5, 5), maps(5, 5, seed=4)], TOKENS, axes=("seed",))
    assert repr(stacked) == "AttentionView(seed=2, query=5, key=5)"
    assert len(stacked._spec["units"][0]["queries"]) == 1


# ---------------------------------------------------------------- traces
def trace(length: int, layers: int = 1, heads: int = 1, seed: int = 0, **more: Any) -> Trace:
    tokens = tuple(f"t{i}" for i in range(length))
    size = len(more.get("sources", tokens))
    return Trace(tokens, maps(layers, heads, length, size, seed=seed), **more)


def test_explore_takes_a_trace() -> None:
    one = Trace(tuple("abc"), maps(2, 2, 3, 3), word_ids=(0, 0, 1))
    shown = explore(one, start={"head": 1})
    assert shown.index == (0, 1)
    shown.unit = "words"
    assert np.array_equal(shown.weights, one.to_words().attention[0, 1])
    crossed = Trace(tuple("abc"), maps(2, 2, 3, 2), sources=("x", "y"))
    assert repr(explore(crossed)) == "AttentionView(layer=2, head=2, query=3, key=2)"


def test_explore_takes_what_another_library_returned() -> None:
    layers = tuple(maps(1, 3, 4, 5, seed=seed) for seed in range(2))
    outputs = SimpleNamespace(attentions=layers)
    sides: dict[str, Any] = {"sources": list("vwxyz")}
    for given_ in (layers, outputs):
        shown = explore(given_, list("abcd"), **sides, start={"head": 2}, title="mine")
        assert repr(shown) == "AttentionView(layer=2, head=3, query=4, key=5)"
        assert np.array_equal(shown.weights, layers[0][0, 2])
        assert shown._heading == "mine"
    square = [maps(2, 3, 3)]
    shown = explore(square, tokens=list("abc"), word_ids=[None, 0, 0])
    assert [unit["name"] for unit in shown._spec["units"]] == ["tokens", "words"]
    for wrong, tokens, told in (
        (outputs, None, r"got SimpleNamespace.*explore\(outputs, tokens\)"),
        (layers, None, r"explore\(outputs, tokens\)"),
        ((), ["a"], "attn_implementation"),
        (layers, ["a"], "4 queries and 5 keys, but there are 1 and 1 strings"),
        (trace(3), list("abc"), "got Trace"),
    ):
        with pytest.raises(ValueError, match=re.compile(told, re.DOTALL)):
            explore(wrong, tokens)


def test_a_text_that_was_cut_is_told_in_the_title() -> None:
    cut, whole = trace(3, left_out=1999), trace(4)
    assert explore(cut)._heading == "the first 3 of 2,002 tokens"
    assert explore(cut, title="mine")._spec["title"] == "mine · the first 3 of 2,002 tokens"
    assert explore([cut, whole, cut], axes="text")._heading == "2 of 3 texts are cut"
    assert explore(whole, title="mine")._heading == "mine"
    words = Trace(("a", "b"), maps(1, 1, 2, 2), word_ids=(0, 0), left_out=2).to_words()
    assert explore(words)._heading
    box = TextView(lambda text: cut, "one", title="typed")
    assert box.view._heading == "typed · the first 3 of 2,002 tokens"


@each(
    "layers, heads, axes, expected",
    [
        (2, 3, ("step",), "step=2, layer=2, head=3, "),
        (1, 3, ("step",), "step=2, head=3, "),
        (2, 1, ("step",), "step=2, layer=2, "),
        (1, 1, ("step",), "step=2, "),
        (2, 1, (), "layer=2, "),
        (1, 3, (), "head=3, "),
        (1, 1, (), "head=1, "),
    ],
)
def test_an_axis_of_layers_or_heads_that_carries_nothing_is_left_out(
    layers: int, heads: int, axes: tuple[str, ...], expected: str
) -> None:
    one = trace(4, layers, heads)
    shown = explore([one, one] if axes else one, axes=axes)
    assert repr(shown) == f"AttentionView({expected}query=4, key=4)"


def test_nested_traces_keep_their_own_maps_tokens_and_sources() -> None:
    traces = [
        [trace(3 + j, 1, 2, seed=7 * i + j, sources=("x", "y", "z")[: 1 + j]) for j in range(3)]
        for i in range(2)
    ]
    labels = {"λ": [0.1, 10], "sentence": ["short", "middle", "long"]}
    shown = explore(traces, axes=("λ", "sentence"), labels=labels)
    assert repr(shown) == "AttentionView(λ=2, sentence=3, head=2, query=5, key=3)"
    for index in np.ndindex(2, 3, 2):
        i, j, head = index
        shown.index = index
        assert np.array_equal(shown.weights, traces[i][j].attention[0, head])
        assert f"λ {labels['λ'][i]}, sentence {labels['sentence'][j]}" in shown.describe()
        assert f"{3 + j} destinations (queries) by {1 + j} sources" in shown.describe()
    unit = shown._spec["units"][0]  # the text of a sentence is sent once, for both λ
    assert unit["keys"] == [["x"], ["x", "y"], ["x", "y", "z"]]
    assert shown._spec["texts"] == [0, 1, 2, 0, 1, 2]


def test_traces_of_different_lengths_between_words() -> None:
    traces = [trace(3, 2, 2, word_ids=(0, 1, 1)), trace(4, 2, 2, seed=1, word_ids=(0, 0, 1, 2))]
    shown = explore(traces, axes="sentence", start={"sentence": 1, "layer": 1})
    shown.unit = "words"
    for i, one in enumerate(traces):
        shown.index = (i, 1, 0)
        assert np.array_equal(shown.weights, one.to_words().attention[1, 0])
    without = explore([traces[0], trace(4, 2, 2)], axes=("sentence",))
    assert [unit["name"] for unit in without._spec["units"]] == ["tokens"]


A, B = trace(3), trace(4)


@each(
    "traces, axes, words",
    [
        ([A, B], (), "one level of lists for every name.*got list"),
        ([[A, B]], ("step",), "one level of lists for every name.*got list"),
        (A, ("step",), r"traces must be 1 levels of lists, \('step',\)"),
        ([A, B], ("step", "sentence"), r"at 'sentence' the lengths are \[-1\]"),
        ([[A, B], [A]], ("step", "sentence"), r"at 'sentence' the lengths are \[1, 2\]"),
        ([[A, B], B], ("step", "sentence"), r"at 'sentence' the lengths are \[-1, 2\]"),
        ([], ("step",), r"none empty; at 'step' the lengths are \[0\]"),
        ([A, "B"], ("step",), "got str where a trace should be"),
        ([A, trace(3, layers=2)], ("step",), r"weights\[1\] has \(2,\), the first \(1,\)"),
        ([A, trace(3, heads=2)], ("step",), r"weights\[1\] has \(2,\), the first \(1,\)"),
        ([trace(3, 2, 3), trace(3, 3, 2)], ("step",), r"\(3, 2\), the first \(2, 3\)"),
        ([A, B], ("",), "non-empty names"),
        ([trace(3, heads=2)] * 2, ("head",), "different"),
    ],
)
def test_traces_that_do_not_fit_are_named(traces: Any, axes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        explore(traces, axes=axes)


# ---------------------------------------------------------------- the numbers behind the weights
def counted(length: int, seed: int = 0, far: float = 0, **more: Any) -> Trace:
    """A trace of two layers and three heads with its queries and keys, causal."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 3, length, 8, generator=draw) for _ in range(2))
    q[..., 0] += far  # scores far above 0, and all near one another
    k[..., 0] += far
    scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    tokens = tuple(f"t{i}" for i in range(length))
    return Trace(tokens, scores.softmax(-1), **({"queries": q, "keys": k} | more))


def sent(shown: AttentionView) -> dict[str, np.ndarray]:
    """The numbers that travel with a view."""
    spec, blob = shown._spec["numbers"], zlib.decompress(shown._blob)
    kinds = {"queries": f"<f{spec['bytes']}", "keys": f"<f{spec['bytes']}", "rows": "<f4"}
    parts = {name: blob[spec[name][0] : sum(spec[name])] for name in kinds}
    found = {name: np.frombuffer(parts[name], kind) for name, kind in kinds.items()}
    return {name: one.reshape(-1, 2 if name == "rows" else 8) for name, one in found.items()}


@each("far, size", [(0, 2), (100, 4)])
def test_the_numbers_behind_the_weights_give_them(far: float, size: int) -> None:
    one = counted(7, far=far)
    shown, plain = explore(one, numbers=True), explore(one)
    assert "numbers" not in plain._spec
    assert len(shown._blob) < len(plain._blob) + 2 * 2 * 3 * 7 * 8 * size + 2 * 3 * 7 * 8
    assert (shown._spec["numbers"]["width"], shown._spec["numbers"]["bytes"]) == (8, size)
    q, k, rows = (part.reshape(6, 7, -1).astype(float) for part in sent(shown).values())
    powers = np.exp(q @ k.swapaxes(1, 2) / 8**0.5 - rows[..., :1])
    weights = np.tril(powers / rows[..., 1:])
    assert np.abs(weights - one.attention.numpy().reshape(6, 7, 7)).max() < 2.5e-3


def test_the_numbers_of_traces_of_different_lengths_stand_where_their_maps_do() -> None:
    traces = [counted(3), counted(5, seed=1)]
    shown = explore(traces, axes="text", numbers=True)
    keys = sent(shown)["keys"].reshape(2, 2, 3, 5, 8)
    for place, one in enumerate(traces):
        assert one.keys is not None
        length = len(one.tokens)
        assert np.abs(keys[place, :, :, :length] - one.keys.numpy()).max() < 5e-3
        assert not keys[place, :, :, length:].any()


ONE = counted(4)
Q, K = ONE.queries, ONE.keys


@each(
    "numbers, words",
    [
        ((Q, 2 * K), r"q·k / √d_k\) .* differs from weights by up to 0\.\d+: .*rotary"),
        ((Q, 1.03 * K), "differs from weights by up to 0.0"),
        ((Q, K[..., :3, :]), r"must be \(\*axes, query, d_k\) .*\(2, 3, 4, 4\), got .*3, 8\)"),
        ((Q[..., :5], K), r"got \(2, 3, 4, 5\) and"),
        ((Q[0], K), r"queries of weights must have 4 axes"),
        ((Q, K, K), r"\(queries, keys\), each nested \(\)"),
        ((Q / 0, K), "queries of weights must be finite"),
    ],
)
def test_numbers_that_are_not_those_of_the_weights_are_refused(numbers: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        AttentionView(ONE.attention, ONE.tokens, numbers=numbers)


def test_numbers_need_queries_and_keys_of_one_width() -> None:
    with pytest.raises(ValueError, match=r"traces with keys, as model\.trace\(…, keep="):
        explore(counted(4, keys=None), numbers=True)
    narrow = counted(4, seed=1)
    assert narrow.queries is not None
    assert narrow.keys is not None
    q, k = (torch.cat([part, 0 * part], -1) * 2**0.25 for part in (narrow.queries, narrow.keys))
    wide = Trace(narrow.tokens, narrow.attention, queries=q, keys=k)
    with pytest.raises(ValueError, match=r"one width d_k, got \[8, 16\]"):
        explore([narrow, wide], axes="text", numbers=True)


# ---------------------------------------------------------------- maps one over another
def test_maps_over_one_another_are_checked_told_and_drawn(tmp_path: Path) -> None:
    rows = torch.stack([torch.eye(3).roll(-n, 0) for n in range(3)])
    shown = AttentionView(rows, list("abc"), axes=("head",), labels={"head": "uvw"})
    for wrong, words in (((3,), "0 to 2, got 3"), ((1, 1), "different"), ((0, 1, 2, 3), "up to t")):
        with pytest.raises(ValueError, match=words):
            shown.overlay = wrong
    with pytest.raises(ValueError, match="not for maps with a sign"):
        signed().overlay = (1,)
    shown.overlay = [2, 0]  # as the browser sends it
    alone = shown.describe()
    shown.mode = "links"
    assert shown.describe() == f"{alone} Over it, head w: Strongest weight 1.00, from “a” to “c”."
    names = svg(shown, tmp_path)
    assert [names.count(f"head {name}") for name in "uvw"] == [2, 0, 1]
    coloured = (tmp_path / "v.svg").read_text("utf-8").lower().count("#d55e00")
    shown.overlay = ()
    shown.save_svg(tmp_path / "v.svg")
    assert coloured > 3
    assert "#d55e00" not in (tmp_path / "v.svg").read_text("utf-8").lower()
    assert state_of(shown.snippet())["overlay"] == []


# ---------------------------------------------------------------- maps with a sign
def signed(**options: Any) -> AttentionView:
    values = torch.tensor([[[0.5, -2.0], [0.0, 1.0]], [[4.0, 0.25], [0.0, 3.0]]])
    return AttentionView(values, ["a", "b"], axes=("head",), signed=True, **options)


def test_signed_values_keep_sign_and_size() -> None:
    shown = signed(title="QK")
    assert shown.weights.tolist() == [[0.5, -2.0], [0.0, 1.0]]
    spec, blob = shown._spec, zlib.decompress(shown._blob)
    start, length = spec["units"][0]["maps"]
    steps = np.frombuffer(blob[start : start + length], np.uint8).reshape(2, 2, 2)
    assert steps.tolist() == [[[160, 1], [128, 192]], [[255, 136], [128, 223]]]
    start, length = spec["units"][0]["exact"]
    assert np.frombuffer(blob[start : start + length], "<f4")[1] == -2


def test_alt_text_of_a_signed_map_says_the_strongest_of_either_sign() -> None:
    shown = signed(alt="Scores of a head")
    assert shown.describe() == (
        "Scores of a head, head 0: 2 destinations (queries) by 2 sources (keys). Strongest "
        "positive value 1.00, from “b” to “b”; strongest negative value −2.00, from “a” to “b”."
    )
    shown.index = (1,)
    assert shown.describe().endswith("4.00, from “a” to “a”; no negative value.")
    assert signed().describe().startswith("Map of values, head 0: ")


def test_alt_text_of_a_weight_too_small_for_two_digits_is_not_zero() -> None:
    small = AttentionView(torch.full((1, 2, 2), 0.0041), ["a", "b"], axes=("head",))
    assert "Strongest weight 0.0041, from" in small.describe()


def strongest_of(rows: list[list[float]], tokens: str) -> str:
    told = AttentionView(rows, tokens.split(), axes=()).describe()
    return told.partition("(keys). ")[2]


def test_what_is_strongest_goes_by_words_and_choice() -> None:
    rows = [[0.3, 0.7, 0.0], [0.5, 0.2, 0.3], [0.6, 0.4, 0.0]]
    assert strongest_of(rows, "a b c") == "Strongest weight 0.70, from “a” to “b”."
    found = "Strongest weight 0.40, from “c” to “b” (special tokens apart)."
    for special in ("[CLS]", "<s>", "</s>", "<|endoftext|>", "<bos>"):
        assert strongest_of(rows, f"{special} b c") == found.replace("[CLS]", special)
    for plain in ("[cls]", "<", "<br", "[1]", "CLS"):
        assert f"from “{plain}”" in strongest_of(rows, f"{plain} b c")
    below, told = (
        [[1.0, 0.0], [0.7, 0.3]],
        "Strongest weight 0.30, from “b” to “b” (the first token",
    )
    assert strongest_of(below, "a b") == f"{told} apart)."
    assert strongest_of(below, "<s> b") == f"{told} and special tokens apart)."
    assert strongest_of(below, "[CLS] [SEP]") == "Strongest weight 1.00, from “[CLS]” to “[CLS]”."


def test_alt_text_of_the_thumbnails_is_not_that_of_one_map() -> None:
    shown = AttentionView(maps(4, 2, 3, 5, 5), TOKENS, axes=("step", "layer", "head"))
    shown.mode = "heads"
    shown.index = (3, 0, 0)
    assert shown.describe() == "Attention map, step 3: all maps side by side, layer (2) × head (3)."


def test_thumbnails_are_those_of_the_last_two_axes(tmp_path: Path) -> None:
    shown = AttentionView(maps(3, 2, 4, 5, 5), TOKENS, axes=("step", "layer", "head"))
    shown.mode, drawn = "heads", []
    for index in ((0, 0, 0), (0, 1, 2), (2, 0, 0)):
        shown.index = index
        text = " ".join(svg(shown, tmp_path))
        drawn.append((tmp_path / "v.svg").read_bytes())
    assert all(name in text for name in ("step 2", "layer 1", "head 3"))
    assert "step 0" not in text
    assert drawn[0] == drawn[1] != drawn[2]


@each("mode", ["map", "links", "heads"])
@each("scale", ["max", "one"])
def test_signed_pictures_have_a_legend_with_both_signs(
    tmp_path: Path, mode: str, scale: str
) -> None:
    shown = signed(title="QK")
    shown.mode, shown.scale = mode, scale
    ends = ("−max", "max") if (mode, scale) == ("heads", "max") else ("−2", "2")
    if scale == "one":
        ends = ("−4", "4")  # the largest of all maps
    assert {*ends, "0", "value"} <= set(" ".join(svg(shown, tmp_path)).split())


def pixels(shown: AttentionView, path: Path) -> np.ndarray:
    from matplotlib.image import imread

    shown.save_png(path)
    return (imread(path)[..., :3] * 255).round()


@each("mode", ["map", "links"])
def test_the_colour_of_a_signed_picture_tells_the_sign(tmp_path: Path, mode: str) -> None:
    """One entry, once positive and once negative: blue dots, or brown ones."""
    for sign, (more, less) in ((1, (2, 0)), (-1, (0, 2))):
        one = AttentionView([[0.0, sign * 2.0], [0.0, 0.0]], ["a", "b"], axes=(), signed=True)
        one.mode = mode
        picture = pixels(one, tmp_path / "v.png")
        left = picture[:, : int(0.6 * picture.shape[1])]  # without the colour bar
        tinted = left[..., more] - left[..., less]
        assert (tinted > 60).sum() > 100
        assert (tinted < -60).sum() < 20


def test_an_empty_signed_map_is_drawn(tmp_path: Path) -> None:
    empty = AttentionView(torch.zeros(2, 2), ["a", "b"], axes=(), signed=True)
    for mode in ("map", "links"):
        empty.mode = mode
        empty.save_png(tmp_path / "v.png")
    assert empty.describe().endswith("No positive value; no negative value.")


# ---------------------------------------------------------------- text, picture, page
def test_mime_bundle_has_widget_picture_with_alt_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNLIB_STATIC", raising=False)
    shown = view(alt="A made-up head", start={"layer": 1})
    data, metadata = shown._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == shown.model_id
    assert data["text/plain"] == repr(shown)
    assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"
    assert metadata["image/png"]["alt"].startswith("A made-up head, layer 1, head 0: 5 dest")
    assert "text/html" not in data


def test_static_bundle_has_the_state_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIB_STATIC", "1")
    shown = view()
    data, _ = shown._repr_mimebundle_()
    assert WIDGET not in data
    told = json.loads(json.dumps(data[VIEW]))
    assert told["index"] == list(shown.index)
    assert base64.b64decode(told["_blob"]) == shown._blob


@each("length, labels", [(40, 40), (120, 30)])
def test_labels_of_a_picture_are_few_where_not_all_fit(
    tmp_path: Path, length: int, labels: int
) -> None:
    shown = AttentionView(maps(length, length), ["word"] * length, axes=())
    assert svg(shown, tmp_path).count("word") == 2 * labels


def test_fallback_picture_stays_small_even_for_noise() -> None:
    noise = AttentionView(maps(1, 1, 512, 512), ["word"] * 512)
    data, _ = noise._repr_mimebundle_()
    assert len(base64.b64decode(data["image/png"])) <= SMALL


def state_of(page: str) -> dict[str, Any]:
    found = re.search(r"^const state = (\{.*\});$", page, re.M)
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
    assert base64.b64decode(state["_blob"]) == shown._blob
    assert state["index"] == [0, 1]
    assert state["_spec"]["units"][0]["keys"][0][3] == TOKENS[3]


def test_saving_twice_gives_the_same_page(tmp_path: Path) -> None:
    for name in ("a", "b"):
        view().save_html(tmp_path / f"{name}.html")
        view().save_svg(tmp_path / f"{name}.svg")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@each("mode", ["map", "links", "heads"])
def test_svg_is_well_formed_and_png_is_png(tmp_path: Path, mode: str) -> None:
    shown = AttentionView(maps(2, 3, 5, 5), [*TOKENS[:3], "$x^2$ & <b>", "日本"], title="A & B")
    shown.mode = mode
    text = " ".join(svg(shown, tmp_path))
    shown.save_png(tmp_path / "v.png")
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


def rgb(palette: tuple[str, ...], count: int = 0) -> np.ndarray:
    """Linear RGB of the anchors, or of `count` colours between the first and the last."""
    anchors = [[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in palette]
    places = np.linspace(0, len(anchors) - 1, count or len(anchors))
    levels = [np.interp(places, range(len(anchors)), channel) for channel in np.transpose(anchors)]
    colours = np.stack(levels, -1)
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB, whose distances are what the eye sees: about 2 is just noticeable."""
    rows = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    f = np.cbrt(linear.clip(0, 1) @ np.transpose(rows) / [0.9505, 1, 1.089])
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


# What is left of a colour without one kind of cone (Machado, Oliveira and Fernandes 2009).
VISION = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]],
    "deutan": [[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


@each("palette", [PALETTE, DARK, SIGNED[6:], SIGNED[6::-1], DARK_SIGNED[6:]])
def test_palettes_are_safe_without_colour(palette: tuple[str, ...]) -> None:
    steps = np.diff(lab(rgb(palette))[:, 0])
    assert (np.sign(steps) == np.sign(steps[0])).all()
    assert np.abs(steps).min() > 5


@each("palette, zero", [(SIGNED, "#ffffff"), (DARK_SIGNED, DARK[0])])
@each("vision", VISION)
def test_signs_differ_for_every_kind_of_colour_vision(
    palette: tuple[str, ...], zero: str, vision: str
) -> None:
    """Same size, other sign: equally dark, and told apart from a tenth of the scale on."""
    assert palette[len(palette) // 2] == zero
    seen = lab(rgb(palette, 255) @ np.transpose(VISION[vision]))
    plain = lab(rgb(palette, 255))
    assert np.abs(plain[:, 0] - plain[::-1, 0]).max() < 3
    for share in (0.1, 0.2, 0.5, 0.75, 1.0):
        k = round(127 * share)
        assert np.linalg.norm(seen[127 + k] - seen[127 - k]) > min(10, 100 * share)


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
    options: dict[str, Any] = {"start": (1, 0), "labels": {"temperature": [0.5, 1.0]}}
    frames = Frames([["a", "b"], ["c", "d"]], name=("n", "temperature"), **options)
    assert frames.frame == "c"
    assert repr(frames) == "Frames(n=2, temperature=2)"
    assert [axis["labels"] for axis in frames._spec["axes"]] == [["0", "1"], ["0.5", "1.0"]]


@each(
    "frames, options, words",
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


# ---------------------------------------------------------------- a box to type into
def letters(text: str) -> Trace:
    """A trace with one token per word; it refuses one word."""
    if "boom" in text:
        raise ValueError("No boom here.")
    words = text.split()
    return Trace(
        tuple(words), maps(2, 3, len(words), len(words)), word_ids=tuple(range(len(words)))
    )


def test_typing_shows_other_maps_and_keeps_sliders_and_switches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("comm.create_comm", DummyComm)  # ipykernel, once imported, sends nothing
    box = TextView(letters, "one two", start={"head": 2}, title="typed")
    messages: list[set[str]] = []
    box.view.send_state = lambda key=None: messages.append(set(key))  # type: ignore[method-assign]
    box.view.index, box.view.unit, box.view.mode = (1, 1), "words", "links"
    messages.clear()
    box.text.value = "now three words"
    assert box.trace.tokens == ("now", "three", "words")
    assert box.view.weights == pytest.approx(box.trace.attention[1, 1].numpy())
    assert (box.view.index, box.view.unit, box.view.mode) == ((1, 1), "words", "links")
    assert "typed, layer 1, head 1: 3 destinations" in box.view.describe()
    assert box.view._spec["units"][0]["queries"] == [["now", "three", "words"]]
    assert all({"_spec", "_blob"} <= keys for keys in messages), "words and maps go together"


@each(
    "text, told",
    [
        ("", "The box is empty"),
        ("  ", "The box is empty"),
        ("boom", "No boom here."),
        ("w " * 5, "more than 4 tokens"),
    ],
)
def test_a_text_that_cannot_be_shown_is_told_and_loses_nothing(text: str, told: str) -> None:
    box = TextView(letters, "one two", max_tokens=4)
    blob = box.view._blob
    box.text.value = text
    assert told in box._told.value
    assert "still those of the text before" in box._told.value
    assert (box.trace.tokens, box.view._blob) == (("one", "two"), blob)
    box.text.value = "w " * 4
    assert "still" not in box._told.value
    assert len(box.trace.tokens) == 4
    with pytest.raises(ValueError, match=told):
        TextView(letters, text, max_tokens=4)


def test_a_box_on_a_page_without_a_kernel_says_what_it_would_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = TextView(letters, "one <b>")
    data, metadata = box._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == box.model_id
    assert metadata["image/png"]["alt"] == box.view.describe()
    monkeypatch.setenv("ATTNLIB_STATIC", "1")
    data, _ = box._repr_mimebundle_()
    assert WIDGET not in data
    assert "With a running kernel" in data[VIEW]["told"]
    assert "“one <b>”" in data[VIEW].pop("told")
    assert data[VIEW] == box.view.state()


def test_a_view_is_replaced_by_one_of_the_same_axes_only() -> None:
    first = view(word_ids=range(5))
    with pytest.raises(ValueError, match="needs a view with the axes of"):
        first.show(AttentionView(maps(2, 4, 5, 5), TOKENS))
    first.unit = "words"
    with pytest.raises(ValueError, match="has no 'words'"):
        first.show(view())
    large = AttentionView(maps(2, 3, 200, 200), [f"w{i}" for i in range(200)])
    first.unit = "tokens"
    first.show(large)
    assert first._shown == large._shown != b""
