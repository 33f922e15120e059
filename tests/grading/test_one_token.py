"""No one-token change of a model solution is paid, unless it is known to be right, and why.

What is paid and wrong is closed by a hidden case of the task, not by an entry in the list.
"""

import contextlib
import io

import pytest
from bank import solved
from one_token import changes, limit, paid

from attnlib.check.protocol import Case
from grading.answers import answers
from grading.judge import copied, draw
from grading.tasks import EXERCISES, exercise

SEED = "course"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # stopped late
@pytest.mark.parametrize("name", EXERCISES)
def test_no_one_token_change_of_a_solution_is_paid(name: str) -> None:
    wrong, tried = list[str](), 0
    for task, solution in solved(name).items():
        one, known = exercise(name)[task], answers(name)[task].same
        asked = [Case(args, copied(one.reference(*copied(args)))) for args in draw(one, SEED)]
        assert all(reason.strip() for reason in known.values())
        seconds, found = limit(one, solution, asked), dict[str, None]()
        for line, source in changes(solution):
            tried += 1
            with contextlib.redirect_stdout(io.StringIO()):
                patience = 60 if line in known else seconds
                found |= {line: None} if paid(one, source, asked, patience) else {}
        wrong += [f"{task}, paid, and not known to be right: {x}" for x in found if x not in known]
        wrong += [
            f"{task}, listed, but not paid or no change: {x}" for x in known if x not in found
        ]
    assert not wrong, "\n".join(wrong)
    assert tried > 100, "changes of every kind"
