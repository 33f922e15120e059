"""What a task forbids is gone, by whatever route; doors to the machine and to others are shut."""

import json
import os
from typing import Any

import nbformat
import pytest
from each import each
from routes import ATTENTION, DERIVATIVES, DOORS, OTHERS

from grading import sandbox
from grading.judge import verdict
from grading.preprocess import scene
from grading.sandbox import Scene, run
from grading.watch import Limits

REQUIRED = os.environ.get("ATTNLIB_SANDBOX") == "required"
pytestmark = pytest.mark.skipif(
    not REQUIRED and sandbox.unusable() is not None, reason=f"no sandbox: {sandbox.unusable()}"
)
SEED = "a seed of the routes"
LIMITS = Limits(cell_seconds=30, total_seconds=240, output=60 << 20)
FIRST = "import torch\nfrom attnlib.check import check"
ROUTES = {
    "attend": ("04_self_attention", ATTENTION),
    "product_of_slopes": ("02_rnn", DERIVATIVES),
    **{task: ("05_gpt2", routes) for task, routes in OTHERS.items()},
}


def notebook(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])


def verdicts(task: str, open_: bool) -> dict[str, tuple[bool, str]]:
    """Whether each route to a task is right, and what is said of it; `open_` takes nothing away."""
    name, routes = ROUTES[task]
    about = scene(name, SEED)
    about = Scene(about.hidden, () if open_ else about.forbidden, about.folder, about.files)
    found, left = dict[str, tuple[bool, str]](), list(routes)
    while left:
        cells = [FIRST]
        for route in left:
            cells += [f"globals().pop({task!r}, None)\n{routes[route]}", f"check({task!r}, {task})"]
        done = run(notebook(*cells), about, LIMITS)
        for number, route in enumerate(list(left)):
            told = verdict(name, task, done.notebook.cells[2 + 2 * number].outputs, SEED)
            found[route] = (told.right, told.reason)
            left.remove(route)
            if not {1 + 2 * number, 2 + 2 * number} <= done.ran:
                found[route] = (False, done.reason)  # it killed its own kernel: on without it
                break
    return found


@pytest.mark.long
@pytest.mark.parametrize("task", ROUTES)
def test_no_route_leads_to_what_a_task_forbids(task: str) -> None:
    found = verdicts(task, open_=False)
    assert {route: told for route, (right, told) in found.items() if right} == {}


@pytest.mark.long
@pytest.mark.parametrize(("task", "least"), [("attend", 35), ("product_of_slopes", 10)])
def test_the_routes_would_be_right_if_nothing_were_taken_away(task: str, least: int) -> None:
    """The control: the others lead through another door, which is shut here too, or nowhere."""
    found = verdicts(task, open_=True)
    assert len([1 for right, _ in found.values() if right]) >= least, found


@pytest.fixture(scope="module")
def tried() -> dict[str, str]:
    """What trying each door came to, in one kernel."""
    lines = [
        f"try:\n    exec({source!r}, {{'torch': torch}})\nexcept BaseException as error:\n"
        f"    seen[{name!r}] = type(error).__name__\nelse:\n    seen[{name!r}] = 'open'"
        for name, source in DOORS.items()
    ]
    work = notebook("import torch\nseen = {}", *lines, "import json; print(json.dumps(seen))")
    done = run(work, Scene(), LIMITS)
    assert done.status == "finished", done.reason
    shown: Any = done.notebook.cells[-1].outputs
    found: dict[str, str] = json.loads(shown[0].text)
    return found


@each("door", DOORS)
def test_a_door_is_shut(tried: dict[str, str], door: str) -> None:
    assert tried[door] != "open"
