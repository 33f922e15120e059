"""Where sentences of Markdown end, which of them is a title, and which example a question means."""

import pytest

from book.sentences import example, intro, link_free, noticed, sentences, title


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


def test_a_title_leaves_out_what_it_follows_from_and_what_it_cites() -> None:
    assert title("So the rank is bounded:") == "The rank is bounded"
    assert title("Patching lets a run go on (Vig et al. 2020, Meng et al. 2022).") == (
        "Patching lets a run go on"
    )
    assert title("Nobody says so (chapter 10).") == "Nobody says so"
    assert title("It writes words (and no sentences).") == "It writes words (and no sentences)"


def test_what_says_only_where_to_look_is_no_title() -> None:
    assert noticed("**Notice.** Move the slider. Every row finds its token.")[0].startswith("Every")


def test_what_ends_at_a_colon_introduces_what_follows() -> None:
    assert intro("We try it. These are the lines:") == "These are the lines:"
    assert intro("We try it. Then we look.") == "We try it."


def test_links_leave_their_words() -> None:
    assert link_free("see [*the road*](more/04_a.ipynb), or [`x`](y)") == "see *the road*, or `x`"


def test_a_question_shows_its_example_and_no_other() -> None:
    told = "*When Mary and John went to the store* … You know who. *A paper in italics* (2020)."
    assert example("Who gets it?", told, told) == "*When Mary and John went to the store* …"
    assert example("How likely is “Mary”?", "", told).startswith("*When Mary")
    assert example("How long is the prompt?", "", told).startswith("*When Mary")
    assert example("How many heads are there?", "", told) == ""
    answered = f"{told} They answered with *Attention is not not Explanation*."
    assert example("How likely is “Mary”?", answered, told).startswith("*When Mary")
    assert example("In *A text of its own* what moves?", told, told) == ""
    assert example("Which digit?", "A text says `c7 a3 f1`.", "") == "`c7 a3 f1`"
