"""What a class got wrong: counted by task, two answers shown, and nobody's name on the page."""

import csv
from pathlib import Path

import pytest
from classroom import WITHOUT, answered, hand_in, released_class
from each import each

from grading.build import BuildError
from grading.insights import insights, mistake, plain, words
from grading.preprocess import GRADED
from grading.settings import Places
from grading.submission import How, grade_one, read_report, report_path
from grading.tasks import exercise

NAME = "04_self_attention"
AXIS = """
def attend(q, k, v):
    # {remark}
    scores = q @ k.mT / q.shape[-1] ** 0.5
    {word} = scores.softmax(dim=2 if scores.ndim > 2 else 1)
    return {word} @ v, {word}
"""
RIGHT = '''
def attend(q, k, v):
    """{remark} wrote <this>."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights
'''
ORDINARY = """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v), weights
"""
HELD = """
import ctypes as gauss
held = getattr(torch.nn.functional, "scaled_dot_" + "product_attention")

def attend(q, k, v):
    return held(q, k, v), v
"""
CLASS = {
    "lovelace": RIGHT.format(remark="Ada Lovelace"),
    "turing": AXIS.format(remark="by turing", word="weights"),
    "noether": AXIS.format(remark="", word="noether"),
    "hopper": "def attend(q, k, v):\n    return 1 / 0",
    "galois": ORDINARY,
    "abel": HELD,
    "gauss": None,
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    home = tmp_path_factory.mktemp("insights")
    places = released_class(NAME, home)
    rows = [("id", "name"), *((student, f"{student.title()}, A.") for student in CLASS)]
    with (home / "roster.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    for student, answer in CLASS.items():
        if answer:
            work = answered(NAME, {"attend_answer": answer})
            hand_in(places, NAME, student, work)
            grade_one(NAME, student, How(places, "a seed", unsafe=WITHOUT is not None))
    return places


@pytest.mark.long
def test_mistakes_are_counted_and_answers_shown_without_names(places: Places) -> None:
    (places.home / "collected.csv").write_text(
        "student,exercise,status,handed in,file,reason\n"
        f"turing,{NAME},collected,2026-01-02 10:00,a.ipynb,\n"
        f"turing,{NAME},duplicate,2026-01-01 10:00,b.ipynb,\n"
    )
    text = insights(NAME, places).read_text(encoding="utf-8")
    attend = text[text.index("<h2>attend</h2>") : text.index("<h2>causal_weights</h2>")]
    assert "1 of 6 passed" in attend
    assert "<td>2</td><td>your softmax is over axis 2." in attend
    assert "<td>1</td><td>it raised ZeroDivisionError</td>" in attend
    assert attend.count("<pre>") == 2
    assert "scores.softmax(dim=2" in attend
    assert "scores.softmax(-1)" in attend
    assert "2: " in text.partition("Right: median points by times handed in")[2][:40]
    assert not [name for name in (*CLASS, "Ada") if name in text.lower().replace("numpy", "")]
    assert "0 of 6 passed" in text[text.index("<h2>causal_weights</h2>") :]
    assert "<td>6</td><td>not written</td>" in text
    assert "NotImplementedError" not in text


def test_refused_and_suspicious_names_are_counted_and_cost_what_they_should(places: Places) -> None:
    marks = {name: read_report(report_path(NAME, name, places)) for name in ("galois", "abel")}
    tasks = {name: report["tasks"]["attend"] for name, report in marks.items() if report}
    said = "uses scaled_dot_product_attention, which would be the answer"
    assert tasks["galois"]["reason"] == f"it {said}: write it yourself"
    assert f"this {said}" in tasks["abel"]["reason"]
    assert {(one["points"], one["status"]) for one in tasks.values()} == {(0, GRADED)}
    text = insights(NAME, places).read_text(encoding="utf-8")
    table = text[text.index("<h2>Names that a task forbids") :]
    for row in ("2</td><td>scaled_dot_product_attention", "1</td><td>ctypes", "1</td><td>getattr"):
        assert f"<tr><td>{row}</td></tr>" in table
    assert table.count("<tr><td>") == 3
    assert f"<td>1</td><td>it {said}: write it yourself</td>" in text


def test_what_is_shown_of_an_answer_is_its_code() -> None:
    shown = plain(CLASS["lovelace"] or "", words(NAME))
    assert "Lovelace" not in shown
    assert shown.startswith('def attend(q, k, v):\n    """…"""\n    scores')
    told = plain("import ada as x\nclass Ada(ada.Y, q=1):\n    q: 'Ada' = 12345678.5", words(NAME))
    assert "ada" not in told.lower()
    assert "1234" not in told
    assert plain("x = 471101 + 4096 * True", {"x"}) == "x = 0 + 4096 * name1"
    assert "class name" in told
    assert told.endswith("q: '…' = 0")


@each(
    "reason, told",
    [
        ("it raised AdaError: bad", "it raised an exception of its own"),
        ("it raised LinAlgError: bad", "it raised an exception of its own"),
        ("it raised ValueError: Ada", "it raised ValueError"),
        (
            "no answer: the cell above the check ended with Ada: I am Ada",
            "no answer: the cell above the check ended with an exception of its own",
        ),
        (
            "no answer: the check cell ended with NameError: name 'ada' is not defined",
            "no answer: the check cell ended with NameError",
        ),
        ("no answer: Ada", "no answer: the cell did not run to its end"),
        ("forged: Ada", "forged: what was shown is not what a check cell shows"),
        (
            "it uses Ada, which would be the answer: write it yourself",
            "it uses what the task forbids",
        ),
    ],
)
def test_g_no_mistake_is_told_in_words_of_a_student(reason: str, told: str) -> None:
    assert mistake(exercise(NAME)["attend"], reason) == told


def test_every_named_mistake_is_found_in_its_reason() -> None:
    for task in exercise(NAME).values():
        for sentence in task.mistakes:
            told = f"{sentence[0].lower()}{sentence[1:].rstrip('.')} (f(float32 (2, 3)))"
            assert mistake(task, told) == sentence
        assert mistake(task, "the shape is (2,), and should be (3,)") == (
            "another shape than the right one"
        )


def test_a_class_of_which_nothing_is_graded_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"make grade NAME={NAME}"):
        insights(NAME, Places(tmp_path, tmp_path))
