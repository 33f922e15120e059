"""Functions are taken out of a chapter without running it."""

import pytest
from chapter_code import definitions


def test_functions_of_a_chapter_find_each_other_and_nothing_else_is_run(capsys):
    chapter = definitions("05_gpt2", "repetition", "grams")
    assert chapter.repetition([1, 2, 1, 2, 1, 2], 2) == pytest.approx(0.6)
    assert not hasattr(chapter, "lm")
    assert capsys.readouterr().out == "", "a cell that prints was run"


def test_values_are_made_by_the_statement_that_defines_them():
    chapter = definitions("02_rnn", "SYMBOLS", "recall")
    ids, answers = chapter.recall(3, 0)
    assert ids.shape == (len(answers), 4)
    assert answers.max() < chapter.SYMBOLS


def test_a_name_that_a_chapter_does_not_define_once_is_refused():
    later = definitions("02_rnn", "nowhere", "fig")  # nothing is read until a name is asked for
    assert not hasattr(later, "pytestmark")
    with pytest.raises(ValueError, match="'nowhere': 0, 'fig': 6"):
        assert later.nowhere
