"""What a class got wrong: counted by task in the course's sentences, and nobody's word on it."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from semester import BY_HAND, NAME, NOON, TASKS, give, grade, hand_in, semester

from grading.judging.report import CRASHED, GRADED, PERSON, Line
from grading.release.build import BuildError
from grading.reports.insights import OTHER, insights, mistake
from grading.settings import Places
from grading.tasks import exercise

ATTEND = exercise(NAME)["attend"]
SENTENCE = next(iter(ATTEND.mistakes))


def wrong(reason: str) -> dict[str, Line]:
    return {"attend": Line(0, TASKS["attend"], GRADED, reason)}


def test_the_page_counts_and_names_nobody(tmp_path: Path) -> None:
    places = semester(tmp_path, due=NOON - timedelta(hours=2))
    reason = f"{SENTENCE[0].lower()}{SENTENCE[1:].rstrip('.')} (attend(float32 (2, 3)))"
    grade(places, "ada", seconds=2.0)
    give(places, "ada", BY_HAND, manual_score=4.0)
    grade(places, "emmy", wrong(reason), seconds=4.0)
    grade(places, "alan", wrong("it raised EmmyError: ask Emmy"), seconds=90.0)
    grade(places, "kurt", {"attend": Line(0, 3, CRASHED, "Kurt's kernel died")}, seconds=4.0)
    hand_in(places, "leo")  # which is not graded yet
    text = insights(NAME, places).read_text(encoding="utf-8")
    attend = text[text.index("<h2>attend</h2>") : text.index("<h2>causal_weights</h2>")]
    assert "1 of 3 passed; 1 waits" in attend
    assert f"<td>1</td><td>{SENTENCE.replace('>', '&gt;')}" in attend
    assert "<td>1</td><td>it raised an exception of its own</td>" in attend
    assert "1 of 1 passed; 3 wait" in text[text.index(f"<h2>{BY_HAND}</h2>") :]
    assert "ran 4.0 s (median; the longest 90.0 s). 4 of 4 came late." in text
    assert 'alt="Points of 4 students' in text
    words = re.sub(r'src="[^"]*"', "", text).casefold()  # without the picture's bytes
    assert not [name for name in ("ada", "emmy", "alan", "kurt") if name in words]


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("it raised AdaError: bad", "it raised an exception of its own"),
        ("it raised ValueError: Ada", "it raised ValueError"),
        ("no answer: it is not written yet", "not written"),
        ("no answer: the cell above ended with Ada", "no answer: a cell stopped before it"),
        ("forged: Ada", "forged: what was shown is not what a check cell shows"),
        ("it uses Ada, which would be the answer", "it uses what the task forbids"),
        ("it changes argument 1 in place", "it changes its argument"),
        ("the shape is (2,), and should be (3,)", "another shape than the right one"),
        ("attend(q) is 3, and should be 4 in Ada's words", OTHER),
    ],
)
def test_no_mistake_is_told_in_words_of_a_student(reason: str, sentence: str) -> None:
    assert mistake(ATTEND, reason) == sentence


def test_every_named_mistake_is_recognised_in_a_reason() -> None:
    for task in exercise(NAME).values():
        for sentence in task.mistakes:
            reason = f"{sentence[0].lower()}{sentence[1:].rstrip('.')} (f(float32 (2, 3)))"
            assert mistake(task, reason) == sentence


def test_a_class_of_which_nothing_is_graded_says_what_to_do(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada", submission=None, status=PERSON)  # could not be processed
    for home in (places, Places(tmp_path / "empty", tmp_path)):
        with pytest.raises(BuildError, match=f"make grade NAME={NAME}"):
            insights(NAME, home)
