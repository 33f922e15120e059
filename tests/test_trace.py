"""The record of a forward pass, and the way from sub-words to words."""

import copy
import dataclasses
import itertools
import re
from types import SimpleNamespace

import pytest
import torch
from each import each
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


@each("words", [[1, 1, 2], [0, 2, 2], [0, 1, 0], [-1, 0, 1], [0, 0, -1]])
def test_word_indices_must_run_in_order(words):
    with pytest.raises(ValueError, match=r"must run 0, 0, 1, 2, 2, …, got \["):
        merge_words(weights(0, 3, 3), words)


def test_word_indices_must_fit_the_map():
    with pytest.raises(ValueError, match=r"2 word indices do not fit a map \(3, 3\)"):
        merge_words(weights(0, 3, 3), [0, 1])
    with pytest.raises(ValueError, match=r"3 word indices do not fit a map \(3, 4\)"):
        merge_words(weights(0, 3, 4), [0, 1, 2])
    with pytest.raises(ValueError, match="must run"):
        merge_words(torch.zeros(0, 0), [])


@quick
@given(split=splits)
def test_tokens_join_into_one_string_a_word(split):
    tokens = [f"##{i}" if i else "w" for length in split for i in range(length)]
    joined = join_tokens(tokens, indices(split))
    assert joined == tuple("w" + "".join(map(str, range(1, length))) for length in split)


def test_join_tokens_keeps_a_word_that_begins_with_signs():
    assert join_tokens(["##", "a", "##b"], [0, 1, 1]) == ("##", "ab")
    assert join_tokens([], []) == ()
    with pytest.raises(ValueError, match="zip"):
        join_tokens(["a", "b"], [0])


# --- the record -------------------------------------------------------------------------------

L, H, T, S = 2, 3, 5, 4  # no two sizes are equal, so that no axis passes for another
TOKENS = ("[CLS]", "un", "##will", "##ing", "[SEP]")
SOURCES = ("ein", "und", "zwan", "zig")
SHAPES = {  # of a trace with its own sources, widths apart
    "queries": (L, H, T, 7),
    "keys": (L, H, S, 7),
    "values": (L, H, S, 6),
    "head_outputs": (L, H, T, 8),
    "residual": (L + 1, T, 8),
    "final": (T, 8),
    "logits": (T, 9),
}


def small(**changes) -> Trace:
    given_ = {
        "tokens": TOKENS,
        "attention": weights(0, L, H, T, T).float(),
        "word_ids": (0, 1, 1, 1, 2),
    }
    return Trace(**(given_ | changes))


def crossed(**changes) -> Trace:
    return Trace(TOKENS, weights(0, L, H, T, S), SOURCES, **changes)


def test_a_trace_goes_from_tokens_to_words():
    trace = small(logits=torch.zeros(5, 7), residual=torch.zeros(3, 5, 8))
    words = trace.to_words()
    assert words.tokens == ("[CLS]", "unwilling", "[SEP]")
    assert words.attention.shape == (2, 3, 3, 3)
    torch.testing.assert_close(words.attention, merge_words(trace.attention, trace.word_ids))
    assert repr(words) == "Trace(layers=2, heads=3, queries=3, keys=3)"
    # there is no sum or average of logits or states that would mean a word
    assert all(getattr(words, name) is None for name in (*OPTIONAL, "word_ids", "sources"))


def test_a_trace_without_words_or_with_sources_stays_in_tokens():
    with pytest.raises(ValueError, match="needs `word_ids`"):
        small(word_ids=None).to_words()
    with pytest.raises(ValueError, match="no sources"):
        small(sources=tuple("abcde")).to_words()


def test_a_trace_cannot_be_changed():
    trace = small()
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.tokens = ("x",)


def test_attention_must_fit_the_tokens():
    with pytest.raises(ValueError, match=r"5 queries and 5 keys, one .* got \(2, 3, 4, 5\)"):
        small(attention=torch.zeros(2, 3, 4, 5))
    with pytest.raises(ValueError, match=r"must be \(layer, head, query, key\) .* got \(5, 5\)"):
        small(attention=torch.zeros(5, 5))
    with pytest.raises(ValueError, match="5 queries and 2 keys"):
        small(sources=("ein", "und"))
    assert repr(crossed()) == "Trace(layers=2, heads=3, queries=5, keys=4)"


@each(
    "word_ids, message",
    [((0, 1), r"a word for each of 5 tokens, got 2"), ((0, 1, 0, 1, 2), "must run 0, 0, 1")],
)
def test_word_ids_must_fit_the_tokens(word_ids, message):
    with pytest.raises(ValueError, match=message):
        small(word_ids=word_ids)


def test_every_part_has_its_shape():
    parts = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    assert parts.keys() == set(OPTIONAL)
    trace = crossed(**parts)
    assert all(getattr(trace, name) is part for name, part in parts.items())
    own = small(keys=torch.zeros(L, H, T, 7), values=torch.zeros(L, H, T, 6))
    assert own.keys.shape[2] == T  # without sources the keys are the tokens


@each("name", OPTIONAL)
def test_a_part_of_another_shape_is_refused(name):
    """One axis longer or shorter, one missing, one too many, two exchanged: each is named."""
    *axes, width = SHAPES[name]
    wrongs = [[], axes[1:], [1, *axes], [*axes, 1]]
    for axis, step in itertools.product(range(len(axes)), (-1, 1)):
        wrongs.append([size + step * (i == axis) for i, size in enumerate(axes)])
    if len(axes) > 1:
        wrongs.append([axes[1], axes[0], *axes[2:]])
    told = ", ".join(map(str, axes))
    for wrong in wrongs:
        with pytest.raises(ValueError, match=rf"^{name} must be \({told}, width\), got \("):
            crossed(**{name: torch.zeros(*wrong, width)})
    with pytest.raises(ValueError, match=rf"{name} must be \({told}, width\), got \(\)"):
        crossed(**{name: torch.zeros(())})
    assert getattr(crossed(**{name: torch.zeros(*axes, 1)}), name) is not None


@each("wrong", [-1e-6, -3.0, float("nan"), float("-inf")])
def test_an_entry_that_is_no_weight_is_refused(wrong):
    attention = weights(0, L, H, T, T).float()
    attention[1, 2, 3, 4] = wrong
    with pytest.raises(ValueError, match=r"at least 0, got .* at \(1, 2, 3, 4\): pass the weights"):
        small(attention=attention)


@each("scale", [0.99, 1.01, 2.0, float("inf")])
def test_a_row_that_does_not_sum_to_1_is_refused(scale):
    attention = weights(0, L, H, T, T).float()
    attention[1, 2, 3] *= scale
    with pytest.raises(ValueError, match=r"row \(1, 2, 3\) sums to"):
        small(attention=attention)


def test_rows_of_zeros_and_rounded_rows_are_weights():
    attention = weights(0, L, H, T, T)
    attention[0, 1, 2] = 0.0  # a row that may look at nothing
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        check_weights(attention.to(dtype))
    check_weights(weights(1, 1, 1, 1, 1000).half())
    check_weights(torch.zeros(0, 3, 5, 5))
    check_weights(torch.eye(4))
    with pytest.raises(ValueError, match="pass the weights after the softmax, not the scores"):
        check_weights(torch.randn(3, 3))
    with pytest.raises(ValueError, match="sums to"):
        check_weights(torch.rand(3, 3) + 0.5)


# --- what other libraries return --------------------------------------------------------------

MAPS = weights(3, L, H, T, T).float()
OF_ONE = tuple(layer[None] for layer in MAPS)  # as transformers has them, a batch of one text
EAGER = r"no attention weights here.*attn_implementation=\"eager\".*output_attentions=True"


@each(
    "given_",
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
def test_whatever_a_library_returned_becomes_a_trace(given_):
    trace = Trace.of(given_, list(TOKENS), word_ids=[None, 0, 0, 0, None])
    torch.testing.assert_close(trace.attention, MAPS, rtol=0, atol=0)
    assert (trace.attention.dtype, trace.attention.requires_grad) == (torch.float32, False)
    assert (trace.tokens, trace.sources, trace.word_ids) == (TOKENS, None, (0, 1, 1, 1, 2))
    crossed_ = Trace.of([weights(0, 1, H, T, S)], TOKENS, sources=list(SOURCES))
    assert (crossed_.sources, crossed_.attention.shape) == (SOURCES, (1, H, T, S))


@each("dtype, size", itertools.product((torch.float16, torch.bfloat16), (3, 7, 100, 1000)))
def test_half_precision_sums_to_1(dtype, size):
    """A third is .33398 in bfloat16, and three of them are 1.00195."""
    for rows in (torch.full((1, 1, size, size), 1 / size), weights(1, 1, 1, size, size)):
        trace = Trace.of(rows.to(dtype), ["x"] * size)
        assert trace.attention.dtype == torch.float32
        assert (trace.attention.sum(-1) - 1).abs().max() < ROUNDING
        near = {"rtol": torch.finfo(dtype).eps, "atol": 1e-7}
        torch.testing.assert_close(trace.attention.double(), rows.double(), **near)
    wrong = rows.to(dtype).clone()
    wrong[..., 0, :] *= 0.98
    with pytest.raises(ValueError, match="row .* sums to"):
        Trace.of(wrong, ["x"] * size)
    wrong[..., 0, :] = 0  # nothing may be looked at
    assert (Trace.of(wrong, ["x"] * size).attention[..., 0, :] == 0).all()


@each(
    "given_, words",
    [
        (None, EAGER),
        ((), EAGER),
        ((None, None), EAGER),
        (SimpleNamespace(attentions=()), EAGER),
        (SimpleNamespace(attentions=None, cross_attentions=None), EAGER),
        (SimpleNamespace(cross_attentions=None), r"encoder_attentions, .*`sources`.*cross_att"),
        ([torch.cat([layer] * 4) for layer in OF_ONE], r"4 texts.*tuple\(a\[i : i \+ 1\] for a in"),
        ([OF_ONE, OF_ONE], "layer 0 must be an array, got tuple.*`generate`.*whole text"),
        ([OF_ONE[0], None], "layer 1 must be an array, got NoneType"),
        ([OF_ONE[0], OF_ONE[1][:, 1:]], r"differ: \(3, 5, 5\) in layer 0, {\(2, 5, 5\)} in"),
        (MAPS[0], r"layer 0 must be \(head, query, key\), .*got \(5, 5\)"),
        (small(), "sequence of layers.*got Trace"),
        ({"attentions": OF_ONE}, "got dict"),
        (MAPS * 2, "sums to"),
        (MAPS - 0.5, "after the softmax"),
    ],
)
def test_what_is_no_attention_is_told_with_what_to_do(given_, words):
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        Trace.of(given_, TOKENS)


@each(
    "tokens, options, words",
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
        (TOKENS, {"word_ids": [None, 0, 0, None]}, "a word for each of 5 tokens, got 4"),
        (TOKENS, {"word_ids": [0, 2, 2, 3, 4]}, "must run 0, 0, 1"),
    ],
)
def test_what_does_not_name_the_tokens_is_told(tokens, options, words):
    with pytest.raises(ValueError, match=re.compile(words, re.DOTALL)):
        Trace.of(OF_ONE, tokens, **options)


def test_outputs_of_transformers_are_taken():
    transformers = pytest.importorskip("transformers")
    size = {"vocab_size": 30, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 20}
    ids, tokens = torch.tensor([[2, 7, 9, 3]]), ["[CLS]", "a", "b", "[SEP]"]
    default = transformers.BertModel(transformers.BertConfig(**size, num_hidden_layers=2)).eval()
    config = copy.deepcopy(default.config)
    eager = transformers.BertModel._from_config(config, attn_implementation="eager").eval()
    outputs = eager(ids, output_attentions=True)
    trace = Trace.of(outputs, tokens)
    assert repr(trace) == "Trace(layers=2, heads=3, queries=4, keys=4)"
    torch.testing.assert_close(trace.attention[1], outputs.attentions[1][0])
    for asked in ({}, {"output_attentions": True}):
        with pytest.raises(ValueError, match=EAGER):
            Trace.of(default(ids, **asked), tokens)
    small_ = {"vocab_size": 30, "d_model": 12, "d_kv": 4, "d_ff": 20, "num_heads": 3}
    t5 = transformers.T5Config(**small_, num_layers=2, decoder_start_token_id=0)
    both = transformers.T5Model._from_config(t5, attn_implementation="eager").eval()
    outputs = both(input_ids=ids, decoder_input_ids=ids[:, :2], output_attentions=True)
    with pytest.raises(ValueError, match="three kinds of attention"):
        Trace.of(outputs, tokens)
    cross = Trace.of(outputs.cross_attentions, ["x", "y"], sources=tokens)
    assert repr(cross) == "Trace(layers=2, heads=3, queries=2, keys=4)"


# --- what is kept -----------------------------------------------------------------------------


def test_names_of_what_to_keep():
    assert wanted(()) == ()
    assert wanted("values") == wanted(["values"]) == wanted(iter(("values",))) == ("values",)
    assert wanted("all") == OPTIONAL
    for wrong in ("value", ["values", "attention"], ["all"]):
        with pytest.raises(
            ValueError, match=r"keep names \['(value|attention|all)'\]; a trace can"
        ):
            wanted(wrong)


def test_tokens_are_named_by_their_ids_if_by_nothing_else():
    assert token_names(torch.tensor([7, 0]), None) == ("7", "0")
    assert token_names(torch.tensor([7, 0]), ["a", "b"]) == ("a", "b")
    for wrong in (torch.tensor(3), torch.zeros(2, 3), torch.zeros(0)):
        with pytest.raises(ValueError, match="one text of at least one token, got"):
            token_names(wrong, None)
