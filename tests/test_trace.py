"""The record of a forward pass, and the way from sub-words to words."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.trace import Trace, join_tokens, merge_words

quick = settings(deadline=None, max_examples=60)
# the lengths, in tokens, of the words of a text
splits = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def indices(split: list[int]) -> list[int]:
    return [word for word, length in enumerate(split) for _ in range(length)]


def weights(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).softmax(-1)


@quick
@given(split=splits, seed=st.integers(0, 999))
def test_word_rows_sum_to_1_for_every_split(split, seed):
    words = indices(split)
    merged = merge_words(weights(seed, 2, 3, len(words), len(words)), words)
    assert merged.shape == (2, 3, len(split), len(split))
    assert (merged >= 0).all()
    torch.testing.assert_close(merged.sum(-1), torch.ones(2, 3, len(split), dtype=torch.float64))


@quick
@given(split=splits, seed=st.integers(0, 999))
def test_words_sum_to_and_average_from(split, seed):
    words = indices(split)
    A = weights(seed, len(words), len(words))
    merged = merge_words(A, words)
    for s in range(len(split)):
        rows = [i for i, word in enumerate(words) if word == s]
        for t in range(len(split)):
            columns = [j for j, word in enumerate(words) if word == t]
            expected = sum(A[i, j] for i in rows for j in columns) / len(rows)
            torch.testing.assert_close(merged[s, t], expected)


def test_unsplit_words_change_nothing_and_one_word_sees_itself():
    A = weights(0, 4, 4)
    torch.testing.assert_close(merge_words(A, range(4)), A)
    torch.testing.assert_close(merge_words(A, [0] * 4), torch.ones(1, 1, dtype=torch.float64))
    assert merge_words(A.float(), range(4)).dtype == torch.float32


def test_the_other_way_round_rows_would_not_sum_to_1():
    A = torch.full((3, 3), 1 / 3)
    assert merge_words(A, [0, 1, 1]).sum(-1).tolist() == pytest.approx([1, 1])
    assert merge_words(A.mT, [0, 1, 1]).mT.sum(-1).tolist() == pytest.approx([2 / 3, 4 / 3])


@pytest.mark.parametrize(
    "words", [[1, 1, 2], [0, 2, 2], [0, 1, 0], [-1, 0, 1], [0, 0, -1]], ids=str
)
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


def small(**changes) -> Trace:
    given_ = {
        "tokens": ("[CLS]", "un", "##will", "##ing", "[SEP]"),
        "attention": weights(0, 2, 3, 5, 5).float(),
        "words": (0, 1, 1, 1, 2),
    }
    return Trace(**(given_ | changes))


def test_a_trace_goes_from_tokens_to_words():
    trace = small(logits=torch.zeros(5, 7))
    words = trace.to_words()
    assert words.tokens == ("[CLS]", "unwilling", "[SEP]")
    assert words.attention.shape == (2, 3, 3, 3)
    torch.testing.assert_close(words.attention, merge_words(trace.attention, trace.words))
    assert repr(words) == "Trace(layers=2, heads=3, queries=3, keys=3)"
    assert words.logits is None  # there is no sum or average of logits that would mean a word


def test_a_trace_without_words_or_with_sources_stays_in_tokens():
    with pytest.raises(ValueError, match="needs `words`"):
        small(words=None).to_words()
    with pytest.raises(ValueError, match="no sources"):
        small(sources=tuple("abcde")).to_words()


def test_a_trace_cannot_be_changed():
    trace = small()
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.tokens = ("x",)


def test_a_trace_checks_its_shapes():
    with pytest.raises(ValueError, match=r"5 queries and 5 keys, one .* got \(2, 3, 4, 5\)"):
        small(attention=torch.zeros(2, 3, 4, 5))
    with pytest.raises(ValueError, match=r"must be \(layer, head, query, key\) .* got \(5, 5\)"):
        small(attention=torch.zeros(5, 5))
    with pytest.raises(ValueError, match=r"a word for each of 5 tokens, got 2"):
        small(words=(0, 1))
    with pytest.raises(ValueError, match="5 queries and 2 keys"):
        small(sources=("ein", "und"))
    cross = small(sources=("ein", "und"), attention=torch.zeros(2, 3, 5, 2))
    assert repr(cross) == "Trace(layers=2, heads=3, queries=5, keys=2)"
