"""The autograded tasks: a module per chapter, ch01 … ch15, with `TASKS`, and beside it the answers.

`exercise(name)` gives each task its reference, the solution's own function, and its mistakes.
"""

from dataclasses import replace
from functools import cache
from importlib import import_module

from grading.tasks.answers import mistakes
from grading.tasks.solutions import solution
from grading.tasks.task import Task

EXERCISES = (
    "01_ngram",
    "02_rnn",
    "03_bahdanau",
    "04_self_attention",
    "05_gpt2",
    "06_bpe",
    "07_is_attention_explanation",
    "08_histogram_task",
    "09_circuits",
    "10_heads",
    "11_probing",
    "12_identifiability",
    "13_geometry",
    "14_today",
    "15_causes",
)


@cache
def exercise(name: str) -> dict[str, Task]:
    """The tasks of an exercise by name, in the order of the notebook.

    Raises:
        ValueError: if there is no such exercise, or two of its tasks share a name.
    """
    if name not in EXERCISES:
        raise ValueError(f"no exercise is called {name!r}; there are: {', '.join(EXERCISES)}")
    tasks: tuple[Task, ...] = import_module(f"grading.tasks.ch{name[:2]}").TASKS
    if len({task.name for task in tasks}) < len(tasks):
        raise ValueError(f"two tasks of {name} share a name: {[task.name for task in tasks]}")
    return {
        task.name: replace(
            task,
            reference=task.reference or solution(name, task.name),
            mistakes=mistakes(name, task.name),
        )
        for task in tasks
    }
