"""Where sentences of Markdown end, and what is left of one in a title."""

import pytest

from book.sentences import intro, link_free, sentences, title


@pytest.mark.parametrize(
    "whole",
    [
        "Meng et al. (2022) change one state.",
        "Edits, e.g. Meng et al. 2022, change it (cf. Fig. 2).",
        "(It stands first. It is short.)",
        "**Attention is an average. Nothing else.**",
        "*She sat near the bank . Then she left .* is a text.",
        r"At $a. B$ it is `x. Y` that counts.",
        "It fell by .5 to .3, vs. GPT-2.",
    ],
)
def test_a_sentence_is_not_cut_inside(whole: str) -> None:
    assert sentences(f"{whole} Another one.") == [whole, "Another one."]


def test_a_title_is_short_and_does_not_end_at_a_colon() -> None:
    assert title("This is how it writes:") == "This is how it writes"
    assert title("**Look twice.**") == "**Look twice**"
    long = (
        "In both models four heads are enough: put back together they restore all of it, and more."
    )
    assert title(f"{long[:-1]} of the same, as before.") == "In both models four heads are enough"
    assert title("The answer is 3.21: an average.") == "The answer is 3.21: an average"


def test_what_ends_at_a_colon_introduces_what_follows() -> None:
    assert intro("We try it. These are the lines:") == "These are the lines:"
    assert intro("We try it. Then we look.") == "We try it."


def test_links_leave_their_words() -> None:
    assert link_free("see [*the road*](more/04_a.ipynb), or [`x`](y)") == "see *the road*, or `x`"
