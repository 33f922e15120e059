"""Functions are taken out of a chapter without running it."""

import pytest
import torch
from chapter_code import definitions


def test_functions_of_a_chapter_find_each_other_and_nothing_else_is_run(capsys):
    chapter = definitions("07_is_attention_explanation", "shuffled_bins", "medians_by")
    assert set(vars(chapter)) == {"shuffled_bins", "medians_by"}
    text = type("One", (), {"shift": torch.full((5,), 0.25), "largest": torch.full((5,), 0.1)})
    assert chapter.shuffled_bins(text) == "0.25 → 0.25"
    assert capsys.readouterr().out == "", "a cell that prints was run"


def test_values_are_made_by_the_statement_that_defines_them():
    chapter = definitions("07_is_attention_explanation", "dyck", "learned_from")
    assert torch.equal(chapter.learned_from[0], chapter.dyck(4000, 12, 2, 3)[0])


def test_a_name_that_a_chapter_does_not_define_once_is_refused():
    with pytest.raises(ValueError, match="'nowhere': 0, 'found': 2"):
        definitions("07_is_attention_explanation", "nowhere", "found")
