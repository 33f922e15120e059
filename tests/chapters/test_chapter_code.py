"""Functions are taken out of a chapter without running it."""

import pytest
import torch
from chapter_code import definitions


def test_functions_of_a_chapter_find_each_other_and_nothing_else_is_run(capsys):
    chapter = definitions("07_is_attention_explanation", "told", "interval")
    assert set(vars(chapter)) == {"told", "interval"}
    assert chapter.told(torch.full((5,), 0.25)) == "0.25 [0.25, 0.25]"
    assert capsys.readouterr().out == "", "a cell that prints was run"


def test_values_are_made_by_the_statement_that_defines_them():
    chapter = definitions("07_is_attention_explanation", "three", "kinds_of", "names")
    assert len(chapter.names) == sum(chapter.kinds_of.values())


def test_a_name_that_a_chapter_does_not_define_once_is_refused():
    with pytest.raises(ValueError, match="'nowhere': 0, 'alt': 4"):
        definitions("07_is_attention_explanation", "nowhere", "alt")
