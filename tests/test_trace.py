"""The record of a forward pass, and the way from sub-words to words."""

import itertools
import re
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.trace import (
    OPTIONAL,
    ROUNDING,
    Trace,
    check_weights,
    join_tokens,
    merge_words,
    token_names,
    wanted,
)

quick = settings(deadline=None, max_examples=60)
# the lengths, in tokens, of the words of a text
splits = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def indices(split: list[int]) -> list[int]:
    return [word for word, length in enumerate(split) for _ in range(length)]


def weights(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).softmax(-1)


@pytest.mark.claim(26)
@quick
@given(split=splits, seed=st.integers(0, 999))
def test_words_sum_to_and_average_from(split, seed):
    words = indices(split)
    A = weights(seed, len(words), len(words))
    merged = merge_words(A, words)
    torch.testing.assert_close(merged.sum(-1), torch.ones(len(split), dtype=torch.float64))
    for s in range(len(split)):
        rows = [i for i, word in enumerate(words) if word == s]
        for t in range(len(split)):
            columns = [j for j, word in enumerate(words) if word == t]
            expected = sum(A[i, j] for i in rows for j in columns) / len(rows)
            torch.testing.assert_close(merged[s, t], expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *[(words, r"run 0, 0, 1, 2, 2, …, got \[") for words in ([1, 1, 2], [0, 2, 2], [0, 1, 0])],
        ([0, 1], r"2 word indices do not fit a map \(3, 3\)"),
        ([0, 1, 2, 3], r"4 word indices do not fit a map \(3, 3\)"),
    ],
)
def test_word_indices_run_in_order_and_fit_the_map(words, message):
    with pytest.raises(ValueError, match=message):
        merge_words(weights(0, 3, 3), words)


@pytest.mark.claim(121)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_words_in_half_precision_are_rounded_once(dtype):
    """Their sums and means are taken in single precision."""
    words = [i // 3 for i in range(999)]
    for maps in (torch.full((1, 1, 999, 999), 1 / 999), weights(0, 1, 1, 999, 999).float()):
        maps = maps.to(dtype)
        merged = Trace(("x",) * 999, maps, word_ids=tuple(words)).to_words().pattern
        assert torch.equal(merged, merge_words(maps.float(), words).to(dtype))


@quick
@given(split=splits)
def test_tokens_join_into_one_string_a_word(split):
    tokens = [f"##{i}" if i else "w" for length in split for i in range(length)]
    joined = join_tokens(tokens, indices(split))
    assert joined == tuple("w" + "".join(map(str, range(1, length))) for length in split)


def test_join_tokens_keeps_a_word_that_begins_with_signs():
    assert join_tokens(["##", "a", "##b"], [0, 1, 1]) == ("##", "ab")
    assert join_tokens(["a", "##", "b"], [0, 0, 0]) == ("a##b",)  # not WordPiece's
    assert join_tokens([], []) == ()


# --- the record -------------------------------------------------------------------------------

L, H, T, S = 2, 3, 5, 4  # no two sizes are equal, so that no axis passes for another
TOKENS = ("[CLS]", "un", "##will", "##ing", "[SEP]")
SOURCES = ("ein", "und", "zwan", "zig")
SHAPES = {  # of a trace with its own sources, widths apart
    **dict.fromkeys(("resid_pre", "attn_out", "mlp_out", "resid_post"), (L, T, 8)),
    "q": (L, H, T, 7),
    "k": (L, H, S, 7),
    "v": (L, H, S, 6),
    "z": (L, H, T, 6),
    "head_outputs": (L, H, T, 8),
    "final": (T, 8),
    "logits": (T, 9),
}


def small(**changes) -> Trace:
    parts = {
        "tokens": TOKENS,
        "pattern": weights(0, L, H, T, T).float(),
        "word_ids": (0, 1, 1, 1, 2),
    }
    return Trace(**(parts | changes))


def crossed(**changes) -> Trace:
    return Trace(TOKENS, weights(0, L, H, T, S), SOURCES, **changes)


def test_a_trace_goes_from_tokens_to_words():
    trace = small(logits=torch.zeros(T, 7), resid_post=torch.zeros(L, T, 8))
    words = trace.to_words()
    assert words.tokens == ("[CLS]", "unwilling", "[SEP]")
    assert words.pattern.shape == (2, 3, 3, 3)
    torch.testing.assert_close(words.pattern, merge_words(trace.pattern, trace.word_ids))
    assert repr(words) == "Trace(layers=2, heads=3, queries=3, keys=3)"
    assert small(words=("[CLS]", "Unwilling", "[SEP]")).to_words().tokens[1] == "Unwilling"
    # there is no sum or average of logits or states that would mean a word
    assert all(getattr(words, name) is None for name in (*OPTIONAL, "word_ids", "sources"))


def test_a_trace_without_words_or_with_sources_stays_in_tokens():
    with pytest.raises(ValueError, match="needs `word_ids`"):
        small(word_ids=None).to_words()
    with pytest.raises(ValueError, match="no sources"):
        small(sources=tuple("abcde")).to_words()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pattern": torch.zeros(2, 3, 4, 5)}, r"5 queries and 5 keys, one .* got \(2, 3, 4, 5\)"),
        ({"pattern": torch.zeros(5, 5)}, r"must be \(layer, head, query, key\) .* got \(5, 5\)"),
        ({"sources": ("ein", "und")}, "5 queries and 2 keys"),
        ({"word_ids": (0, 1)}, r"a word for each of 5 tokens, got 2"),
        ({"word_ids": (0, 1, 0, 1, 2)}, "must run 0, 0, 1"),
        ({"words": ("a", "b")}, "words must name each word of word_ids, got 2"),
    ],
)
def test_tokens_sources_and_words_fit_the_pattern(changes, message):
    with pytest.raises(ValueError, match=message):
        small(**changes)


def test_every_part_has_its_shape():
    parts = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    assert parts.keys() == set(OPTIONAL)
    trace = crossed(**parts)
    assert all(getattr(trace, name) is part for name, part in parts.items())
    assert repr(trace) == "Trace(layers=2, heads=3, queries=5, keys=4)"
    own = small(k=torch.zeros(L, H, T, 7), v=torch.zeros(L, H, T, 6))
    assert own.k.shape[2] == T  # without sources the keys are the tokens


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_part_of_another_shape_is_refused(name):
    """One axis longer or shorter, one missing, one too many, two exchanged: each is named."""
    *axes, width = SHAPES[name]
    wrongs = [[], axes[1:], [1, *axes], [*axes, 1]]
    for axis, step in itertools.product(range(len(axes)), (-1, 1)):
        wrongs.append([size + step * (i == axis) for i, size in enumerate(axes)])
    if len(axes) > 1:
        wrongs.append([axes[1], axes[0], *axes[2:]])
    expected = ", ".join(map(str, axes))
    for wrong in wrongs:
        with pytest.raises(ValueError, match=rf"^{name} must be \({expected}, width\), got \("):
            crossed(**{name: torch.zeros(*wrong, width)})


def test_the_stream_is_what_enters_and_what_each_layer_leaves():
    stream = torch.randn(L + 1, T, 8)
    parts = {"resid_pre": stream[:-1], "resid_post": stream[1:]}
    assert torch.equal(small(**parts).resid, stream)
    for name in parts:
        with pytest.raises(ValueError, match='keep="resid" keeps it'):
            _ = small(**{name: parts[name]}).resid


@pytest.mark.parametrize("wrong", [-1e-6, -3.0, float("nan"), float("-inf")])
def test_an_entry_that_is_no_weight_is_refused(wrong):
    pattern = weights(0, L, H, T, T).float()
    pattern[1, 2, 3, 4] = wrong
    with pytest.raises(ValueError, match=r"at least 0, got .* at \(1, 2, 3, 4\): pass the weights"):
        small(pattern=pattern)


@pytest.mark.parametrize("scale", [0.99, 1.01, 2.0, float("inf")])
def test_a_row_that_does_not_sum_to_1_is_refused(scale):
    pattern = weights(0, L, H, T, T).float()
    pattern[1, 2, 3] *= scale
    with pytest.raises(ValueError, match=r"row \(1, 2, 3\) sums to"):
        small(pattern=pattern)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_rows_of_zeros_and_rounded_rows_are_weights(dtype):
    for length in (1, 5, 1000):
        pattern = weights(0, L, H, length, length)
        pattern[0, 1, -1] = 0.0  # a row that may look at nothing
        check_weights(pattern.to(dtype))
        check_weights(torch.full((1, 1, length, length), 1 / length, dtype=dtype))
    check_weights(torch.zeros(0, 3, 5, 5, dtype=dtype))
    with pytest.raises(ValueError, match="sums to"):
        check_weights(torch.full((1, 1, 4, 4), 0.255, dtype=dtype))


# --- what other libraries return --------------------------------------------------------------

MAPS = weights(3, L, H, T, T).float()
OF_ONE = tuple(layer[None] for layer in MAPS)  # as transformers has them, a batch of one text
EAGER = r"no attention weights here.*attn_implementation=\"eager\".*output_attentions=True"


@pytest.mark.parametrize(
    "returned",
    [
        OF_ONE,
        list(MAPS),
        MAPS,
        torch.stack(OF_ONE),
        MAPS.double().numpy(),
        [layer.numpy() for layer in OF_ONE],
        MAPS.tolist(),
        torch.stack(OF_ONE).requires_grad_(),
        SimpleNamespace(attentions=OF_ONE, cross_attentions=None),
    ],
)
def test_whatever_a_library_returned_becomes_a_trace(returned):
    trace = Trace.of(returned, list(TOKENS), word_ids=[None, 0, 0, 0, None])
    torch.testing.assert_close(trace.pattern, MAPS, rtol=0, atol=0)
    assert (trace.pattern.dtype, trace.pattern.requires_grad) == (torch.float32, False)
    assert (trace.tokens, trace.sources, trace.word_ids) == (TOKENS, None, (0, 1, 1, 1, 2))
    crossed_ = Trace.of([weights(0, 1, H, T, S)], TOKENS, sources=list(SOURCES))
    assert (crossed_.sources, crossed_.pattern.shape) == (SOURCES, (1, H, T, S))


@pytest.mark.claim(121)
@pytest.mark.parametrize("size", [3, 7, 100, 1000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_sums_to_1(dtype, size):
    """A third is .33398 in bfloat16, and three of them are 1.00195."""
    for rows in (torch.full((1, 1, size, size), 1 / size), weights(1, 1, 1, size, size)):
        trace = Trace.of(rows.to(dtype), ["x"] * size)
        assert trace.pattern.dtype == torch.float32
        assert (trace.pattern.sum(-1) - 1).abs().max() < ROUNDING
        near = {"rtol": torch.finfo(dtype).eps, "atol": 1e-7}
        torch.testing.assert_close(trace.pattern.double(), rows.double(), **near)
    wrong = rows.to(dtype).clone()
    wrong[..., 0, :] *= 0.98
    with pytest.raises(ValueError, match="row .* sums to"):
        Trace.of(wrong, ["x"] * size)
    wrong[..., 0, :] = 0  # nothing may be looked at
    assert (Trace.of(wrong, ["x"] * size).pattern[..., 0, :] == 0).all()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, EAGER),
        ((), EAGER),
        ((None, None), EAGER),
        (SimpleNamespace(attentions=None, cross_attentions=None), EAGER),
        (SimpleNamespace(to_tuple=tuple), "does not attend, such as Mamba"),
        (SimpleNamespace(cross_attentions=None), r"encoder_attentions, .*`sources`.*cross_att"),
        ([torch.cat([layer] * 4) for layer in OF_ONE], r"4 texts.*tuple\(a\[i : i \+ 1\] for a in"),
        ([OF_ONE, OF_ONE], "layer 0 must be an array, got tuple.*`generate`.*whole text"),
        ([OF_ONE[0], None], "layer 1 must be an array, got NoneType"),
        ([OF_ONE[0], OF_ONE[1][:, 1:]], r"differ: \(3, 5, 5\) in layer 0, {\(2, 5, 5\)} in"),
        (MAPS[0], r"layer 0 must be \(head, query, key\), .*got \(5, 5\)"),
        (small(), "sequence of layers.*got Trace"),
        ({"attentions": OF_ONE}, "got dict"),
    ],
)
def test_what_is_no_attention_is_told_with_what_to_do(returned, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        Trace.of(returned, TOKENS)


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        (
            torch.tensor([[3, 4, 5, 6, 7]]),
            {},
            r"list of strings.*got tensor\(\[\[3.*convert_ids_to_to",
        ),
        ([3, 4, 5, 6, 7], {}, r"tokens must be.*got \[3, 4, 5, 6, 7\]"),
        ("[CLS]", {}, "got '\\[CLS\\]'"),
        ([list(TOKENS)], {}, r"got \[\['"),
        (TOKENS[1:], {}, "5 queries and 5 keys, but there are 4 and 4 strings.*special ones too"),
        (TOKENS, {"sources": SOURCES}, "but there are 5 and 4 strings"),
        (TOKENS, {"sources": [1, 2, 3, 4, 5]}, "sources must be a list of strings"),
    ],
)
def test_what_does_not_name_the_tokens_is_told(tokens, options, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        Trace.of(OF_ONE, tokens, **options)


def test_outputs_of_transformers_are_taken():
    transformers = pytest.importorskip("transformers")
    size = {"vocab_size": 30, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 20}
    config = transformers.BertConfig(**size, num_hidden_layers=2)
    ids, tokens = torch.tensor([[2, 7, 9, 3]]), ["[CLS]", "a", "b", "[SEP]"]
    eager = transformers.BertModel._from_config(config, attn_implementation="eager").eval()
    outputs = eager(ids, output_attentions=True)
    trace = Trace.of(outputs, tokens)
    assert repr(trace) == "Trace(layers=2, heads=3, queries=4, keys=4)"
    torch.testing.assert_close(trace.pattern[1], outputs.attentions[1][0])
    config = transformers.BertConfig(**size, num_hidden_layers=2)
    default = transformers.BertModel._from_config(config, attn_implementation="sdpa").eval()
    for model, asked in ((eager, {}), (default, {"output_attentions": True})):
        with pytest.raises(ValueError, match=EAGER):
            Trace.of(model(ids, **asked), tokens)


# --- what is kept -----------------------------------------------------------------------------


def test_names_of_what_to_keep():
    assert wanted(()) == ()
    assert wanted("v") == wanted(["v"]) == wanted(iter(("v",))) == ("v",)
    assert wanted("all") == OPTIONAL
    assert wanted(["resid", "v", "resid_post"]) == ("resid_pre", "resid_post", "v")
    for wrong in ("value", ["v", "value"]):
        with pytest.raises(ValueError, match=r"keep names \['value'\]; a trace can keep"):
            wanted(wrong)


def test_tokens_are_named_by_their_ids_if_by_nothing_else():
    assert token_names(torch.tensor([7, 0]), None) == ("7", "0")
    assert token_names(torch.tensor([7, 0]), ["a", "b"]) == ("a", "b")
    for wrong in (torch.tensor(3), torch.zeros(2, 3), torch.zeros(0)):
        with pytest.raises(ValueError, match="one text of at least one token, got"):
            token_names(wrong, None)
