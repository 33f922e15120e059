"""The widgets without a browser: what they take, what they refuse, and what stands for them."""

import base64
import json
import re
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import traitlets
from comm import DummyComm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attnlib.trace import Trace
from attnlib.widgets import AttentionView, Frames, TextView, explore
from attnlib.widgets.page import snippet
from attnlib.widgets.payload import EXACT_LIMIT, quantise
from attnlib.widgets.script import EXPORT, HERE, IMPORT, modules

WIDGET = "application/vnd.jupyter.widget-view+json"
VIEW = "application/vnd.attnlib.view+json"
TOKENS = ["the", " film", "\n", "<script>alert(1)</script>", "-->"]


def maps(*shape: int, seed: int = 3) -> torch.Tensor:
    """Weights whose rows sum to 1."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def view(**options: Any) -> AttentionView:
    return AttentionView(maps(2, 3, 5, 5), TOKENS, **options)


def trace(length: int, layers: int = 1, heads: int = 1, seed: int = 0, **more: Any) -> Trace:
    tokens = tuple(f"t{i}" for i in range(length))
    size = len(more.get("sources", tokens))
    return Trace(tokens, maps(layers, heads, length, size, seed=seed), **more)


# ---------------------------------------------------------------- one array
def spoilt(value: float) -> torch.Tensor:
    weights = maps(2, 3, 5, 5)
    weights[1, 2, 3, 4] = value
    return weights


@pytest.mark.parametrize(
    ("weights", "options", "words"),
    [
        (spoilt(float("nan")), {}, r"1 of 150 weights are not finite.*\(1, 2, 3, 4\).*softmax"),
        (spoilt(-0.1), {}, "negative.*after the softmax"),
        (spoilt(1.5), {}, "above 1"),
        (maps(5, 5), {}, r"4 axes \('layer', 'head', 'query', 'key'\).*\(5, 5\).*axes="),
        ([maps(3, 5, 5), maps(3, 4, 4)], {}, "one array of numbers.*shown by explore"),
        (np.zeros((2, 0, 5, 5)), {}, "empty"),
        (maps(2, 3, 5, 4), {}, "5 queries and 4 keys.*sources="),
        (maps(2, 3, 4, 5), {"sources": TOKENS}, "4 queries and 5 keys.*5 and 5 tokens"),
        (maps(2, 3, 5, 5), {"tokens": []}, "`tokens` is empty"),
        (maps(2, 3, 5, 5), {"tokens": "abcde"}, "list of strings, got str"),
        (maps(2, 3, 5, 5), {"tokens": [1, 2, 3, 4, 5]}, r"strings, got 1.*str\(t\)"),
        (maps(2, 3, 5, 5), {"axes": ("layer", "layer")}, "different"),
        (maps(2, 3, 5, 5), {"labels": {"heads": [1]}}, "'heads'.*axes are"),
        (maps(2, 3, 5, 5), {"labels": {"head": [1]}}, "3 positions, but 1 labels"),
        (maps(2, 3, 5, 5), {"start": {"step": 1}}, "start names 'step'"),
        (maps(2, 3, 5, 5), {"start": {"head": 3}}, "head must be.*0 to 2, got 3"),
        (maps(2, 3, 5, 5), {"play": "step"}, "play names 'step', but the axes are"),
        (maps(2, 3, 5, 5), {"opened": (1, 1)}, "pass `numbers=`, too"),
    ],
)
def test_bad_input_is_named(weights: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        AttentionView(weights, **({"tokens": TOKENS} | options))


def test_rows_need_not_sum_to_one_and_arrays_are_copies() -> None:
    weights = np.zeros((1, 1, 2, 2), dtype=np.float32)
    shown = AttentionView(weights, ["a", "b"])
    weights[:] = 1
    shown.weights[:] = 1
    assert shown.weights.max() == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_every_precision_and_device_goes_in(dtype: torch.dtype) -> None:
    """On a device where nothing is made by default: whatever lands there shows itself."""
    weights = maps(2, 3, 5, 5)
    q, k = torch.randn(2, 2, 3, 5, 8, generator=torch.Generator().manual_seed(1))
    behind = (q @ k.mT / 8**0.5).softmax(-1)
    words = Trace(tuple(TOKENS), weights, word_ids=(0, 0, 1, 2, 3))
    with torch.device("meta"):
        shown = AttentionView(weights.to(dtype).requires_grad_(), TOKENS)
        explored = explore(tuple(layer[None].to(dtype) for layer in weights), TOKENS)
        AttentionView(behind, TOKENS, numbers=(q, k))
        AttentionView([[0.5, 0.5]], ["a"], sources=["b", "c"], axes=())
        explored.describe()
        joined = explore(words)
        joined.unit = "words"
    for other in (shown, explored):
        assert other.weights == pytest.approx(weights[0, 0].numpy(), abs=1e-2)
    assert joined.weights == pytest.approx(words.to_words().pattern[0, 0].numpy())


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        np.float32,
        array_shapes(min_dims=3, max_dims=4, max_side=5),
        elements=st.floats(0, 1, width=32),
    )
)
def test_colours_are_within_half_a_step_of_the_weights(weights: np.ndarray) -> None:
    steps, top = (part.numpy() for part in quantise(torch.tensor(weights)))
    back = steps * (top.astype(float) / 255)[:, None, None]
    error = np.abs(back - weights.reshape(steps.shape))
    assert (error <= top[:, None, None] / 510 * 1.001 + 1e-30).all()
    assert np.array_equal(steps.max((-2, -1)) == 255, top > 0)


@pytest.mark.parametrize("size", [1e-40, 1 / 512])
def test_small_weights_neither_vanish_nor_overflow(size: float) -> None:
    steps, _ = quantise(torch.tensor([[[size, 0.0]]]))
    assert steps.tolist() == [[[255, 0]]]


def test_of_a_large_view_the_kernel_sends_the_exact_weights_of_the_map_shown() -> None:
    weights = maps(2, 3, 200, 200)
    assert weights.numel() > EXACT_LIMIT
    shown = AttentionView(weights, [str(i) for i in range(200)])
    shown.index = (1, 2)
    assert struct.unpack("<ii", shown._shown[:8]) == (0, 5)
    assert np.array_equal(np.frombuffer(shown._shown[8:], "<f4"), weights[1, 2].numpy().ravel())


def test_large_views_are_light() -> None:
    """What is sent at first, of a byte a weight: half is zeros, and most of the rest is near it."""
    generator = torch.Generator().manual_seed(7)
    scores = 2 * torch.randn(4, 4, 256, 256, generator=generator)
    scores[..., 0] += 5  # as in SmolLM2
    scores.masked_fill_(torch.ones(256, 256).triu(1).bool(), -torch.inf)
    shown = AttentionView(scores.softmax(-1), [f"w{i}" for i in range(256)])
    assert len(base64.b64decode(shown.state()["_blob"])) < 0.25 * scores.numel()


def test_more_than_a_browser_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlib.widgets.checks.LARGEST", 149)
    with pytest.raises(ValueError, match=r"at most 149 weights, .* have 150: .*pattern\[20:\]"):
        view()


def test_index_is_seen_set_and_checked() -> None:
    shown = view(start={"head": 2})
    assert shown.index == (0, 2)
    shown.index = [1, 0]  # as the browser sends it
    assert np.array_equal(shown.weights, maps(2, 3, 5, 5)[1, 0].numpy())
    another = view()
    traitlets.link((shown, "index"), (another, "index"))
    assert another.index == (1, 0)
    for wrong in ((2, 0), (0, -1), (0,), (0, True)):
        with pytest.raises(ValueError, match=r"must be an integer|one position"):
            shown.index = wrong
    with pytest.raises(ValueError, match="does not know the words"):
        shown.unit = "words"


# ---------------------------------------------------------------- traces
@pytest.mark.parametrize(
    ("layers", "heads", "axes", "expected"),
    [
        (2, 3, ("step",), "step=2, layer=2, head=3, "),
        (1, 3, ("step",), "step=2, head=3, "),
        (2, 1, ("step",), "step=2, layer=2, "),
        (1, 1, ("step",), "step=2, "),
        (2, 1, (), "layer=2, "),
        (1, 1, (), "head=1, "),
    ],
)
def test_an_axis_of_layers_or_heads_that_carries_nothing_is_left_out(
    layers: int, heads: int, axes: tuple[str, ...], expected: str
) -> None:
    single = trace(4, layers, heads)
    shown = explore([single, single] if axes else single, axes=axes)
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
        assert np.array_equal(shown.weights, traces[i][j].pattern[0, head])
        assert f"λ {labels['λ'][i]}, sentence {labels['sentence'][j]}" in shown.describe()
        assert f"{3 + j} destinations (queries) by {1 + j} sources" in shown.describe()


def test_maps_with_their_tokens_stand_for_traces() -> None:
    pairs = [(0.5 * maps(3, 3), list("abc")), (maps(2, 2), ("d", "e"))]
    shown = explore(pairs, axes="sentence", start={"sentence": 1})
    assert np.array_equal(shown.weights, pairs[1][0])
    assert "2 destinations" in shown.describe()
    with pytest.raises(ValueError, match="2 queries and 2 keys, but there are 3 and 3"):
        explore([pairs[0], (maps(2, 2), ["abc"] * 3)], axes="sentence")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 99))
def test_word_rows_sum_to_one(lengths: list[int], seed: int) -> None:
    words = [word for word, length in enumerate(lengths) for _ in range(length)]
    shown = explore(trace(len(words), 2, seed=seed, word_ids=tuple(words)))
    shown.unit = "words"
    assert shown.weights.shape == (len(lengths), len(lengths))
    assert np.allclose(shown.weights.sum(-1), 1, atol=1e-5)


def test_traces_of_different_lengths_between_words() -> None:
    traces = [trace(3, 2, 2, word_ids=(0, 1, 1)), trace(4, 2, 2, seed=1, word_ids=(0, 0, 1, 2))]
    shown = explore(traces, axes="sentence", start={"sentence": 1, "layer": 1})
    shown.unit = "words"
    for place, each in enumerate(traces):
        shown.index = (place, 1, 0)
        assert np.array_equal(shown.weights, each.to_words().pattern[1, 0])
    without = explore([traces[0], trace(4, 2, 2)], axes=("sentence",))
    with pytest.raises(ValueError, match="does not know the words"):
        without.unit = "words"


def test_a_text_that_was_cut_is_told_in_the_title() -> None:
    cut, whole = trace(3, left_out=1999), trace(4)
    assert explore(cut).describe().startswith("the first 3 of 2,002 tokens, head 0: ")
    box = TextView(lambda text: cut, "some text", title="typed")
    assert box.view.describe().startswith("typed · the first 3 of 2,002 tokens, ")
    several = explore([cut, whole, cut], axes="text", title="mine")
    assert several.describe().startswith("mine · 2 of 3 texts are cut, ")
    assert explore(whole, title="mine").describe().startswith("mine, ")


A, B = trace(3), trace(4)


@pytest.mark.parametrize(
    ("traces", "axes", "words"),
    [
        ([A, B], (), "one level of lists for every name.*got list"),
        (A, ("step",), r"traces must be 1 levels of lists, \('step',\)"),
        ([A, B], ("step", "sentence"), r"at 'sentence' the lengths are \[-1\]"),
        ([[A, B], [A]], ("step", "sentence"), r"at 'sentence' the lengths are \[1, 2\]"),
        ([], ("step",), r"none empty; at 'step' the lengths are \[0\]"),
        ([A, "B"], ("step",), "got str where a trace should be"),
        ([A, trace(3, heads=2)], ("step",), r"the first has \(1, 1\), that at place 1 \(1, 2\)"),
        ([trace(3, heads=2)] * 2, ("head",), "different"),
        ([A, B], ("",), "non-empty names"),
    ],
)
def test_traces_that_do_not_fit_are_named(traces: Any, axes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        explore(traces, axes=axes)


# ---------------------------------------------------------------- other libraries
def test_explore_takes_what_another_library_returned() -> None:
    layers = tuple(maps(1, 3, 4, 5, seed=seed) for seed in range(2))
    for outputs in (layers, SimpleNamespace(attentions=layers)):
        shown = explore(outputs, list("abcd"), sources=list("vwxyz"), start={"head": 2}, title="T")
        assert repr(shown) == "AttentionView(layer=2, head=3, query=4, key=5)"
        assert np.array_equal(shown.weights, layers[0][0, 2])
        assert shown.describe().startswith("T, layer 0, head 2")
        with pytest.raises(ValueError, match=r"explore\(outputs, tokens\)"):
            explore(outputs)
    words = explore([maps(2, 3, 3)], list("abc"), word_ids=[None, 0, 0])
    words.unit = "words"
    assert words.weights.shape == (2, 2)


def encoder_decoder(family: str) -> Any:
    """A tiny random model of a family, which tells its attention."""
    import transformers

    sizes = {"d_model": 16, "vocab_size": 30, "attn_implementation": "eager"}
    if family == "T5":
        config: Any = transformers.T5Config(d_kv=4, num_layers=2, num_heads=4, d_ff=16, **sizes)
        config.decoder_start_token_id = 0
    else:
        sizes |= {"encoder_layers": 2, "decoder_layers": 3 if family == "Marian" else 2}
        sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
        sizes |= {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "pad_token_id": 0}
        config = getattr(transformers, f"{family}Config")(**sizes)
    torch.manual_seed(0)
    name = {"Marian": "MarianMTModel"}.get(family, f"{family}ForConditionalGeneration")
    name = {"Bart": "BartForConditionalGeneration"}.get(family, name)
    return getattr(transformers, name)(config).eval()


@pytest.mark.parametrize("family", ["T5", "Bart", "Marian"])
def test_the_three_stacks_of_an_encoder_and_a_decoder_stand_under_one_slider(family: str) -> None:
    sources, tokens = list("abcde"), list("xyz")
    ids = torch.arange(3, 8)[None], torch.arange(10, 13)[None]
    model = encoder_decoder(family)
    with torch.no_grad():
        outputs = model(input_ids=ids[0], decoder_input_ids=ids[1], output_attentions=True)
    shown = explore(outputs, tokens, sources=sources)
    depth = 1 if family == "Marian" else 2  # Marian's decoder here has a layer more
    axes = "stack=3, layer=2" if depth == 2 else "layer=8"
    assert repr(shown) == f"AttentionView({axes}, head=4, query=5, key=5)"
    stacks = (outputs.encoder_attentions, outputs.decoder_attentions, outputs.cross_attentions)
    sizes = ("5 destinations (queries) by 5", "3 destinations (queries) by 3", "3 dest.*by 5")
    layers = [(stack, layer) for stack in range(3) for layer in range(len(stacks[stack]))]
    for place, (stack, layer) in enumerate(layers):
        shown.index = (stack, layer, 1) if depth == 2 else (place, 1)
        assert np.array_equal(shown.weights, stacks[stack][layer][0, 1])
        name = ("encoder", "decoder", "cross")[stack]
        where = f"stack {name}, layer {layer}" if depth == 2 else f"layer {name} {layer}"
        assert f"{where}, head 1: " in shown.describe()
        assert re.search(sizes[stack].replace("(", r"\(").replace(")", r"\)"), shown.describe())
    with pytest.raises(ValueError, match=r"as `sources`, the encoder's"):
        explore(outputs, tokens)
    with pytest.raises(ValueError, match=r"3 queries and 3 keys, but there are 4"):
        explore(outputs, [*tokens, "w"], sources=sources)


def test_an_encoder_and_a_decoder_without_maps_say_how_to_get_them() -> None:
    nothing = dict.fromkeys(("encoder_attentions", "decoder_attentions", "cross_attentions"))
    with pytest.raises(ValueError, match="attn_implementation"):
        explore(SimpleNamespace(**nothing), ["a"], sources=["b"])


# ---------------------------------------------------------------- the numbers behind the weights
def queries_and_keys(far: float = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries and keys of two layers and three heads, and their causal weights."""
    draw = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, 3, 4, 8, generator=draw) for _ in range(2))
    q[..., 0] += far  # scores far above 0, and all near one another
    k[..., 0] += far
    scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    return q, k, scores.softmax(-1)


Q, K, CAUSAL = queries_and_keys()


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((Q, 2 * K), r"q·k / √d_k\) .* differs from the weights by up to 0\.\d+: .*rotary"),
        ((Q, 1.03 * K), "differs from the weights by up to 0.0"),
        ((Q, K[..., :3, :]), r"for maps \(2, 3, 4, 4\), got .*3, 8\)"),
        ((Q[0], K), r"queries must have 4 axes"),
        ((Q, K, K), r"\(queries, keys\), got 3 arrays"),
        ((Q / 0, K), "queries are not finite"),
    ],
)
def test_numbers_that_are_not_those_of_the_weights_are_refused(numbers: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        AttentionView(CAUSAL, list("abcd"), numbers=numbers)


@pytest.mark.parametrize("cell", [(4, 0), (0, -1), (0,)])
def test_a_cell_that_is_not_there_is_not_opened(cell: Any) -> None:
    with pytest.raises(ValueError, match="row must be an integer|column must|one position"):
        AttentionView(CAUSAL, list("abcd"), numbers=(Q, K), opened=cell)


# ---------------------------------------------------------------- text, picture, page
def test_a_sink_is_left_out_of_the_picture_too() -> None:
    weights = torch.full((5, 5), 0.1).tril()
    weights[:, 0] = 0.6
    shown = AttentionView(weights, list("abcde"), axes=())
    left_out = shown._picture()
    shown.sink = "shown"
    assert shown._picture() != left_out
    assert shown.state()["sink"] == "shown"
    other = AttentionView(weights, list("abcde"), sources=list("vwxyz"), axes=())
    before = other._picture()
    other.sink = "shown"
    assert other._picture() == before, "the first of other tokens is none"


def test_a_weight_too_small_for_two_digits_is_not_told_as_zero() -> None:
    small = AttentionView(torch.full((1, 2, 2), 0.0041), ["a", "b"], axes=("head",))
    assert "Strongest weight 0.0041, from" in small.describe()


def test_a_view_is_a_widget_a_picture_with_alt_text_and_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ATTNLIB_STATIC", raising=False)
    shown = view(alt="A made-up head", start={"layer": 1})
    data, metadata = shown._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == shown.model_id
    assert data["text/plain"] == repr(shown)
    assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"
    assert metadata["image/png"]["alt"].startswith("A made-up head, layer 1, head 0: 5 dest")
    monkeypatch.setenv("ATTNLIB_STATIC", "1")
    data, _ = shown._repr_mimebundle_()
    assert WIDGET not in data
    assert json.loads(json.dumps(data[VIEW])) == json.loads(json.dumps(shown.state()))


def test_a_snippet_holds_no_foreign_markup_and_names_no_other_address() -> None:
    text = snippet(view(title="</title><script>bad()</script>").state())
    assert text == snippet(view(title="</title><script>bad()</script>").state())
    assert text.count("<script") == text.count("</script>") == 1  # every token's "<" is escaped
    assert "-->" not in text or "\\u003c" in text
    assert not re.search(r"(src|href)=[\"']?https?:|@import|url\(", text)


def test_modules_import_what_is_exported_before_them() -> None:
    """Joined, they have no lines of import: nothing else would notice a name that is not there."""
    names = modules()
    assert sorted(names) == sorted(path.name for path in HERE.glob("*.js"))
    for place, name in enumerate(names):
        text = (HERE / name).read_text("utf-8")
        for imported in IMPORT.finditer(text):
            exported = (HERE / imported[1]).read_text("utf-8")
            assert imported[1] in names[:place]
            for wanted in re.findall(r"\w+", imported[0].partition("{")[2].partition("}")[0]):
                assert re.search(EXPORT.pattern + rf"[\w ]+\b{wanted}\b", exported, re.M), wanted
                assert text.count(wanted) > 1, f"{name} does not use {wanted}"


# ---------------------------------------------------------------- frames
FIGURE = SimpleNamespace(png=b"\x89PNG-one", alt="Loss falls with n")


def test_frames_of_text_and_figures() -> None:
    frames = Frames(["<b>one</b>", FIGURE], name="n", labels=["1", "2"])
    assert repr(frames) == "Frames(n=2)"
    data, metadata = frames._repr_mimebundle_()
    assert data["text/plain"] == "Frames(n=2)\n\n<b>one</b>"
    assert "image/png" not in data
    frames.index = (1,)
    data, metadata = frames._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]) == FIGURE.png
    assert metadata["image/png"]["alt"] == FIGURE.alt


def test_frames_with_two_sliders() -> None:
    options: dict[str, Any] = {"start": (1, 0), "labels": {"temperature": [0.5, 1.0]}}
    frames = Frames([["a", "b"], ["c", "d"]], name=("n", "temperature"), **options)
    assert frames.frame == "c"
    assert repr(frames) == "Frames(n=2, temperature=2)"


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
        (["a"], {"play": "m"}, "play names 'm', but the axes are"),
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
    weights = maps(2, 3, len(words), len(words))
    return Trace(tuple(words), weights, word_ids=tuple(range(len(words))))


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
    assert box.view.weights == pytest.approx(box.trace.pattern[1, 1].numpy())
    assert (box.view.index, box.view.unit, box.view.mode) == ((1, 1), "words", "links")
    assert "typed, layer 1, head 1: 3 destinations" in box.view.describe()
    assert all({"_spec", "_blob"} <= keys for keys in messages), "words and maps go together"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("  ", "The box is empty"), ("boom", "No boom here."), ("w " * 5, "more than 4 tokens")],
)
def test_a_text_that_cannot_be_shown_is_answered_and_loses_nothing(
    text: str, sentence: str
) -> None:
    box = TextView(letters, "one two", max_tokens=4)
    before = box.view.describe()
    status = box.children[1]
    box.text.value = text
    assert sentence in status.value
    assert "still those of the text before" in status.value
    assert (box.trace.tokens, box.view.describe()) == (("one", "two"), before)
    box.text.value = "w " * 4
    assert "still" not in status.value
    assert len(box.trace.tokens) == 4
    with pytest.raises(ValueError, match=sentence):
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
    first = explore(letters("a b c"))
    with pytest.raises(ValueError, match="needs a view with the axes of"):
        first.show(AttentionView(maps(2, 4, 5, 5), TOKENS))
    first.unit = "words"
    with pytest.raises(ValueError, match="does not know the words"):
        first.show(view())
