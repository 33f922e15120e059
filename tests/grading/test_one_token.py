"""No one-token change of a model solution is paid, unless it is known to be right, and why.

What is paid and wrong is closed by a hidden case of the task, not by an entry in the list.
"""

import contextlib
import io

import pytest
from bank import bank, solved
from one_token import changes, limit, paid

from grading.judge import cases
from grading.tasks import EXERCISES, exercise

SEED = "course"
TASKS = [(name, task) for name in EXERCISES for task in exercise(name)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # stopped late
@pytest.mark.parametrize(("name", "task"), TASKS)
def test_no_one_token_change_of_the_solution_is_paid(name: str, task: str) -> None:
    asked, known = cases(name, SEED)[task], bank(name).equivalent.get(task, {})
    assert all(reason.strip() for reason in known.values())
    one, solution = exercise(name)[task], solved(name)[task]
    seconds, found = limit(one, solution, asked), []
    for line, source in changes(solution):
        with contextlib.redirect_stdout(io.StringIO()):
            found += [line] if paid(one, source, asked, seconds) else []
    wrong = [line for line in found if line not in known]
    assert not wrong, "paid, and not known to be right:\n" + "\n".join(wrong)
    stale = [line for line in known if line not in found]
    assert not stale, "listed as right, and not paid or no such change:\n" + "\n".join(stale)


@pytest.mark.parametrize("name", EXERCISES)
def test_there_are_changes_of_every_kind(name: str) -> None:
    lines = [line for source in solved(name).values() for line, _ in changes(source)]
    assert len(lines) > 100
