"""An exercise goes round on a hub: docs/hub as it stands, three accounts, and a browser for each.

The lecturer releases it, two students fetch it in JupyterLab, work on it and hand it in, this
course's grader grades it, and the feedback is read where the exercise was written. On the way one
of the students tries what an account can try.
"""

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from campus import PASSWORD, SEED, Campus, campus
from hub_environment import found, unusable

pytestmark = [pytest.mark.long, pytest.mark.browser]
NAME = "04_self_attention"
NOTEBOOK = f"exercises/{NAME}/{NAME}.ipynb"
RIGHT = """\
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights
"""
WRONG = RIGHT.replace(" ** 0.5", "")  # divided by the width, not by its root


@pytest.fixture(scope="module")
def school(browser: Any) -> Iterator[Campus]:
    """The hub, running; a machine on which that cannot be skips, if skipping is allowed."""
    if why := unusable():
        if os.environ.get("ATTNLIB_HUB") == "required":
            pytest.fail(f"{why}, and ATTNLIB_HUB=required does not allow to skip")
        pytest.skip(why)
    with campus() as made:
        yield made


class Desk:
    """Somebody's browser, logged in."""

    def __init__(self, page: Any, school: Campus, user: str) -> None:
        self.page, self.home = page, f"{school.address}/user/{user}"
        page.goto(f"{school.address}/hub/login?next=/hub/spawn")
        page.fill("#username_input", user)
        page.fill("#password_input", PASSWORD)
        page.click("#login_submit")
        page.wait_for_url(f"{self.home}/**", timeout=60_000)

    def lab(self, path: str = "") -> None:
        """JupyterLab, with a file opened or with nothing."""
        self.page.goto(f"{self.home}/lab{path}?reset")
        self.page.wait_for_selector(".lm-MenuBar-itemLabel", timeout=60_000)

    def menu(self, item: str) -> None:
        """Choose from the menu Nbgrader."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Nbgrader").click()
        self.page.locator(".lm-Menu-itemLabel").get_by_text(item, exact=True).click()

    def assignments(self, state: str, button: str) -> Any:
        """Press a button of the assignment list, and return the list of that state."""
        self.lab()
        self.menu("Assignment List")
        items = self.page.locator(f"#{state}_assignments_list")
        items.get_by_role("button", name=button, exact=True).click()
        return items

    def run_cells(self, sources: list[str | None], sign: str) -> str:
        """Run cells of the exercise, and give the first output that has a sign in it.

        The first source is for the first code cell, the next ones are for whatever cells follow;
        None leaves a cell as it is.
        """
        self.lab(f"/tree/{NOTEBOOK}")
        self.page.get_by_text("| Idle").wait_for(timeout=60_000)  # or cells are skipped in silence
        keyboard = self.page.keyboard
        self.page.locator(".jp-CodeCell .cm-content").first.click()
        for source in sources:
            if source is not None:
                keyboard.press("Enter")  # from the cell to its text
                keyboard.press("Control+a")
                keyboard.insert_text(source)
            keyboard.press("Shift+Enter")
        output = self.page.locator(".jp-OutputArea-output", has_text=sign).first
        output.wait_for(timeout=60_000)
        return str(output.inner_text())

    def save(self) -> None:
        """Save the notebook."""

        def kept(answer: Any) -> bool:
            return answer.request.method == "PUT" and "/api/contents/" in answer.url

        with self.page.expect_response(kept):
            self.page.keyboard.press("Control+s")

    def submit(self) -> None:
        """Hand the exercise in."""
        self.assignments("fetched", "Submit")
        self.page.locator("#submitted_assignments_list .list_item").first.wait_for()

    def formgrader(self, button: str) -> str:
        """Press a button in Formgrader's row of the exercise, and return what it tells."""
        self.lab()
        self.menu("Formgrader")
        inside = self.page.frame_locator("iframe")
        inside.locator("tr", has_text=NAME).locator(f".{button} a").click()
        told = inside.locator(".modal-body", has_text="uccess").first
        told.wait_for(timeout=30_000)
        return str(told.inner_text())


@pytest.fixture(scope="module")
def desks(school: Campus, pages: Callable[[], Any]) -> dict[str, Desk]:
    """The browsers of Lou, who lectures, and of Ada and Bob."""
    kept = school.home(school.lecturer) / "attention/class"
    kept.mkdir()
    shutil.chown(kept, school.lecturer)
    (kept / "roster.csv").write_text(
        "id,name\n" + "".join(f"{user},\n" for user in school.students)
    )
    school.course("release", NAME, "--due", "2100-01-01T12:00")
    users = (school.lecturer, *school.students)
    return {user[-3:]: Desk(pages(), school, user) for user in users}


@pytest.fixture(scope="module")
def worked(desks: dict[str, Desk]) -> dict[str, str]:
    """What the line under the first task says to Ada, who then hands her work in, and to Bob."""
    assert "Successfully released" in desks["lou"].formgrader("release")
    told = {}
    for name, answer in {"ada": RIGHT, "bob": WRONG}.items():
        desk = desks[name]
        desk.assignments("released", "Fetch")
        desk.page.locator("#fetched_assignments_list .list_item").first.wait_for()
        told[name] = desk.run_cells([None, None, answer, None], "attend")
        desk.save()
    desks["ada"].submit()
    return told


@pytest.fixture(scope="module")
def burgled(school: Campus, desks: dict[str, Desk], worked: Any) -> dict[str, Any]:
    """What Bob's kernel finds of other people's, and what the same code finds for Lou.

    It also hands something in for Ada, and a link to the solutions for Bob, who then hands in what
    he has written himself.
    """
    script = Path(__file__).with_name("burglar.py").read_text(encoding="utf-8")
    tools = school.place / "course/burglar.py"
    tools.write_text(script)
    inbound = school.place / "exchange/attention/inbound"
    ada, bob = school.students
    code = f"""\
import os, pathlib, runpy, sys
forged = pathlib.Path({str(inbound)!r}, "{ada}+{NAME}+2099-01-01 00:00:00.0 UTC+forged")
forged.mkdir()
(forged / "{NAME}.ipynb").write_text(pathlib.Path("{NAME}.ipynb").read_text())
os.symlink({str(school.home(school.lecturer) / "attention/solutions" / NAME)!r}, forged.with_name(
    "{bob}+{NAME}+2099-01-01 00:00:00.0 UTC+link"))
sys.argv = ["", {str(school.place)!r}, {SEED!r}]
runpy.run_path({str(tools)!r}, run_name="__main__")"""
    # as it is while Lou grades: the seed stands in the environment of a process of Lou's
    python = str(found("bin/python"))
    with school.started(school.lecturer, python, "-c", "input()", ATTNLIB_SEED=SEED) as process:
        seen: dict[str, Any] = {"process": process.pid}
        seen["bob"] = json.loads(desks["bob"].run_cells([code], '"readable"'))
        command = [python, str(tools), str(school.place), SEED]
        seen["lou"] = json.loads(school.run(school.lecturer, *command))
    desks["bob"].submit()
    return seen


@pytest.fixture(scope="module")
def marks(school: Campus, burgled: Any) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of marks.csv, by student and task, after `make collect`, `grade` and `feedback`."""
    school.course("collect", str(school.place / "exchange/attention/inbound"))
    school.course("grade", NAME)
    school.course("feedback", NAME)
    school.course("marks")
    path = school.home(school.lecturer) / "attention/class/marks.csv"
    with path.open(encoding="utf-8") as file:
        return {(row["student"][-3:], row["task"]): row for row in csv.DictReader(file)}


def test_the_check_answers_in_the_notebook(worked: dict[str, str]) -> None:
    assert worked["ada"].startswith("Passed: attend")
    assert "√d_k" in worked["bob"] or "root" in worked["bob"], worked["bob"]


def test_a_student_reads_nothing_of_anybody_else(school: Campus, burgled: dict[str, Any]) -> None:
    bob, lou = burgled["bob"], burgled["lou"]
    everybodys = [
        f"exchange/attention/outbound/{NAME}/{f}" for f in (f"{NAME}.ipynb", "checks.json")
    ]
    assert bob["readable"] == everybodys
    assert bob["writable"] == ["exchange/attention/inbound"]  # but not to be listed
    assert bob["processes"] == []
    teaching = school.home(school.lecturer) / "attention"
    assert (teaching / "solutions" / NAME / f"{NAME}.ipynb").exists()
    assert (teaching / "class/gradebook.db").exists()
    assert not (school.place / "course/solutions").exists()
    # the control: somebody who may, finds what there is to find
    assert burgled["process"] in lou["processes"]
    assert sum(path.startswith("exchange/attention/inbound/") for path in lou["readable"]) >= 4
    assert len({bob["user"], lou["user"], os.getuid()}) == 3


def test_no_other_server_opens(school: Campus, desks: dict[str, Desk], burgled: Any) -> None:
    page, own = desks["bob"].page, f"{desks['bob'].home}/api/contents"
    assert page.goto(own).status == 200
    for user in ("lou", "ada"):
        assert page.goto(f"{desks[user].home}/api/contents").status == 403
    assert page.goto(f"{school.address}/hub/api/users").status == 403
    assert page.goto(f"{school.address}/hub/admin").status == 403


def test_this_course_grades_what_came_through_the_exchange(
    school: Campus, marks: dict[tuple[str, str], dict[str, str]]
) -> None:
    """What Bob handed in for Ada is not hers, and the link to the solutions is no answer of his."""
    assert marks["ada", "attend"]["points"] == "3"
    assert marks["bob", "attend"]["points"] == "0"
    assert "square root" in marks["bob", "attend"]["reason"]
    assert {row["status"] for row in marks.values()} == {"graded"}
    collected = school.home(school.lecturer) / "attention/class/collected.csv"
    with collected.open(encoding="utf-8") as file:
        rows = [(row["student"][-3:], row["status"]) for row in csv.DictReader(file)]
    assert sorted(rows) == [
        ("", "refused"),
        ("ada", "collected"),
        ("bob", "collected"),
        ("bob", "duplicate"),
    ]


def test_the_feedback_is_read_where_the_exercise_was_written(
    desks: dict[str, Desk], marks: Any
) -> None:
    assert "Successfully released feedback" in desks["lou"].formgrader("release-feedback")
    for user, score in {"ada": "3.0", "bob": "0.0"}.items():
        items, page = desks[user].assignments("submitted", "Fetch Feedback"), desks[user].page
        items.get_by_text("view feedback").click()
        page.locator(".jp-DirListing-item", has_text=NAME).dblclick()
        told = page.frame_locator("iframe").locator("body").inner_text(timeout=30_000)
        assert f"Score: {score} / 20.0" in told
        assert all("mathjax" in address for address in page.asked)  # nbgrader's template does
