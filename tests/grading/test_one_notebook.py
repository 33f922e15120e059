"""No file that was handed in stops, stalls or misleads a class: each way that once did, tried."""

import errno
import itertools
import json
import os
import re
import resource
import time
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import answered, hand_in, needs_sandbox, notebook, released_class, solved, told
from each import each

from attnlib.check import MIME
from attnlib.check.protocol import to_json
from grading import child, sandbox, watch
from grading.autograde import grade_class
from grading.child import Trouble
from grading.collect import collect
from grading.insights import insights
from grading.judge import cases
from grading.marks import feedback, marks, write_marks
from grading.settings import Places, configuration
from grading.submission import How, read_report, report_path
from grading.watch import Limits

NAME, SEED = "04_self_attention", "a seed"
GRADED, MANUAL = "graded", "needs manual grading"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A class whose submissions do not run: what they show is what a test lets them tell."""
    monkeypatch.delenv("ATTNLIB_GRADEBOOK", raising=False)
    monkeypatch.setattr(sandbox, "execute", lambda job: told())
    return released_class(NAME, tmp_path / "class")


def bundle(name: str, task: str, answers: list[Any]) -> dict[str, Any]:
    """What the check cell of a task shows, or somebody who forges it."""
    cells = notebook("exercises", name).cells
    (index,) = (
        i for i, c in enumerate(cells) if c.metadata.get("nbgrader", {}).get("grade_id") == task
    )
    data = {MIME: {"task": task, "answers": answers}}
    return {"cell": index, "outputs": [{"output_type": "display_data", "data": data}]}


def grade(places: Places, works: dict[str, Any], name: str = NAME) -> dict[str, Any]:
    """The reports of a class, by student."""
    for student, work in works.items():
        hand_in(places, name, student, work)
    how = How(places, SEED, unsafe=True)
    one = lambda: ThreadPoolExecutor(1)  # noqa: E731
    return {r["student"]: r for r in grade_class(name, list(works), how, one, progress=False)}


def future() -> Any:
    """A: a notebook of a version to come, with a cell of a kind that nobody knows."""
    work = json.loads(json.dumps(solved(NAME)))
    work["nbformat_minor"] = 9
    work["cells"].append({"cell_type": "future", "id": "x", "metadata": {}})
    return work


def test_a_a_notebook_that_cannot_be_restored_stops_nobody(places: Places) -> None:
    found = grade(places, {"ada": solved(NAME), "bob": future(), "cy": solved(NAME)})
    assert {r["status"] for r in found.values()} == {MANUAL}
    assert "could not be processed" in found["bob"]["reason"]
    assert "could not" not in found["ada"]["reason"] + found["cy"]["reason"]
    line = next(m for m in marks(places) if m.student == "bob")
    assert (line.status, "could not be processed" in line.reason) == (MANUAL, True)
    (again,) = grade_class(NAME, ["bob"], How(places, SEED), lambda: ThreadPoolExecutor(1))
    assert "could not be processed" in again["reason"]


def ended(end: str) -> tuple[bytes, tuple[str, str]]:
    """In place of `sandbox.started`: how a run ended."""
    return told(end=end).partition(b"\n")[2], ("crashed", "")


def test_b_a_process_killed_elsewhere_is_nobody_s_fault(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever crashed meanwhile is tried again, alone; who crashes again has crashed."""
    monkeypatch.undo()
    tries = list[str]()

    def started(job: str, *_: Any) -> Any:
        tries.append(job)
        return ended("crashed")

    monkeypatch.setattr(sandbox, "started", started)
    monkeypatch.setattr(sandbox, "killed_for_memory", lambda: min(1, len(tries)))
    found = grade(places, {"ada": solved(NAME), "bob": solved(NAME)})
    assert {r["status"] for r in found.values()} == {"crashed"}
    assert len(tries) == 3


def test_b_who_is_near_whenever_memory_runs_out_stops_nobody(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(
        sandbox, "started", lambda job, *_: ended("crashed" if "bob" in job else "finished")
    )
    monkeypatch.setattr(sandbox, "killed_for_memory", itertools.count().__next__)
    bomb = solved(NAME)
    bomb.cells.append(nbformat.v4.new_code_cell("bob"))
    found = grade(places, {"ada": solved(NAME), "bob": bomb, "cy": solved(NAME)})
    assert "could not be processed" in found["bob"]["reason"]
    assert "memory" in found["bob"]["reason"]
    assert "could not" not in found["ada"]["reason"] + found["cy"]["reason"]


def test_e_a_text_that_is_slow_to_render_has_a_page_that_says_so(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grading.marks.PAGE", 2, raising=False)
    slow = answered(NAME, {"explain_scale": r"\begin{a}" * 12_000})
    grade(places, {"ada": slow, "bob": solved(NAME)})
    begun = time.process_time()
    lines = list(feedback([NAME], places))
    assert time.process_time() - begun < 10
    assert any("ada: no page" in line for line in lines), lines
    assert "bob" not in "".join(lines)
    path = places.feedback / "ada" / NAME / f"{NAME}.html"
    assert "could not be shown" in path.read_text()


@pytest.mark.long
def test_f_an_answer_that_is_costly_to_judge_costs_its_child_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = "12_identifiability"
    places = released_class(name, tmp_path / "other")
    answers = []
    for case in cases(name, SEED)["null_space"]:
        rows = len(case.args[0])
        wide = {"dtype": "float64", "shape": [rows, 9000], "data": [0] * (9000 * rows)}
        answers.append({"output": {"tensor": wide}, "args": to_json(case.args)})
    lines = [bundle(name, "null_space", answers)]
    monkeypatch.setattr(sandbox, "execute", lambda job: told(lines))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = grade(places, {"ada": solved(name)}, name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB
    assert found["ada"]["tasks"]["null_space"]["points"] == 0


def test_h_a_forged_answer_sends_its_own_task_to_a_person(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(cases(NAME, SEED)["attend"])
    forged = bundle(NAME, "attend", [{"output": 1, "args": 5}] * count)
    monkeypatch.setattr(sandbox, "execute", lambda job: told([forged]))
    found = grade(places, {"ada": solved(NAME)})["ada"]["tasks"]
    assert found["attend"]["status"] == MANUAL
    assert found["causal_weights"]["status"] == GRADED


def test_i_no_reason_is_longer_than_500_characters(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"tensor": {"dtype": "x" * 120_000, "shape": [], "data": []}}
    forged = bundle(NAME, "merged_weights", [{"output": kind, "args": None}])
    error = {"output_type": "error", "ename": "E" * 9999, "evalue": "x" * 9999, "traceback": []}
    lines = [forged, bundle(NAME, "attend", []) | {"outputs": [error]}]
    monkeypatch.setattr(sandbox, "execute", lambda job: told(lines, "crashed"))
    hand_in(places, NAME, "eve", b'{"cells": [], "metadata": {}, "nbformat": 4, "' + b"x" * 99_999)
    grade(places, {"ada": solved(NAME)})
    grade_class(NAME, ["eve"], How(places, SEED, unsafe=True), lambda: ThreadPoolExecutor(1))
    assert max(len(line) for line in write_marks(places).read_text().splitlines()) < 700


def test_l_no_cell_leaves_more_than_a_person_wants_to_see(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {"output_type": "stream", "name": "stdout", "text": "\x1b" * 3_000_000}
    png = {"output_type": "display_data", "data": {"image/png": "A" * 900_000}}
    lines = [bundle(NAME, "attend_answer", []) | {"outputs": [text] + [png] * 5}]
    monkeypatch.setattr(sandbox, "execute", lambda job: told(lines))
    grade(places, {"ada": solved(NAME)})
    path = places.autograded / "ada" / NAME / f"{NAME}.ipynb"
    assert path.stat().st_size < 2_600_000
    assert "the rest is not kept" in path.read_text()
    assert "image/png" in path.read_text()


def test_c_no_name_of_a_file_makes_a_folder_an_exchange(places: Places, tmp_path: Path) -> None:
    for path in ("ada_04_self_attention.ipynb", "eve+04_self_attention+2026-12-01 12:00:00 UTC"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / path).write_text(json.dumps(solved(NAME)))
    assert "ada" in {r.student for r in collect(tmp_path / "in", places) if r.status == "collected"}


def test_d_an_answer_of_great_depth_stops_no_page(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = solved(NAME)
    for cell in deep.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "attend_answer":
            cell.source = "x = " + "1+" * 1500 + "1"
    grade(places, {"ada": deep, "bob": solved(NAME)})
    assert insights(NAME, places).exists()


@pytest.mark.parametrize("listed", [True, False])
def test_m_another_spelling_displaces_nothing(places: Places, tmp_path: Path, listed: bool) -> None:
    if listed:
        places.roster.write_text("id,name\nada,Ada Lovelace\n")
    source = tmp_path / "in"
    source.mkdir()
    for second, name in enumerate(("ada", "ADA")):
        path = source / f"{name}_04_self_attention.ipynb"
        path.write_text(json.dumps(answered(NAME, {"attend_answer": name})))
        os.utime(path, (10**9 + second, 10**9 + second))
    found = {row.path: row for row in collect(source, places)}
    assert found["ada_04_self_attention.ipynb"].status == "collected"
    doubt = found["ADA_04_self_attention.ipynb"]
    assert (doubt.status, "is 'ADA' the same as 'ada'" in doubt.reason) == ("doubtful", True)
    (source / "ada_04_self_attention.ipynb").unlink()
    (again,) = collect(source, places)
    assert again.status == "doubtful"
    kept = places.submitted / "ada" / NAME / f"{NAME}.ipynb"
    assert "'ada'" in repr([c["source"] for c in json.loads(kept.read_text())["cells"]])


def test_files_of_zeros_fill_no_disk(places: Places, tmp_path: Path) -> None:
    folder = tmp_path / "inbound" / f"ada+{NAME}+2026-01-01 12:00:00 UTC"
    folder.mkdir(parents=True)
    for i in range(5):
        with (folder / f"{i}.bin").open("wb") as file:
            file.write(b"%d" % i)
            file.truncate(19 << 20)
    assert sum("holds too much" in row.reason for row in collect(folder.parent, places)) == 2
    assert sum(path.stat().st_size for path in places.collected.rglob("*.bin")) < 60 << 20


@pytest.mark.parametrize("seconds", [-62_135_596_800, 253_402_300_799, 10**16])
def test_a_file_of_a_strange_time_stops_nobody(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """As far from today as a disk lets a student go (tmpfs, btrfs, ZFS), east and west of us."""
    real = Path.lstat
    about = lambda path: os.stat_result([*real(path)[:7], seconds, seconds, 0])  # noqa: E731
    monkeypatch.setattr(Path, "lstat", about)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"ada_{NAME}.ipynb").write_text(json.dumps(solved(NAME)))
    for zone in ("UTC-14", "UTC+12"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        (row,) = collect(tmp_path / "in", places)
        assert row.status == "collected"
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", ["x\u0363\u0364\u036d", "a·da", "\u2118da"])
def test_marks_above_letters_write_nothing_on_the_page(places: Places, name: str) -> None:
    answer = f"def attend(q, k, v):\n    {name} = f'Ada {{q}} · {{k}}'\n    return {name}"
    grade(places, {"ada": answered(NAME, {"attend_answer": answer})})
    text = insights(NAME, places).read_text()
    assert "name1 = f" in text
    assert not set(name[1:]) & set(text.partition("<h2>")[2]) - set("ad")


@pytest.mark.parametrize("tag", ["meta", "form", "base"])
def test_no_formula_writes_html_on_a_page(places: Places, tag: str) -> None:
    attack = rf'$\unicode{{<{tag}/http-equiv="refresh"content="0;url=//evil.example">}}$'
    grade(places, {"ada": answered(NAME, {"explain_scale": attack})})
    assert list(feedback([NAME], places))
    text = (places.feedback / "ada" / NAME / f"{NAME}.html").read_text()
    assert "evil.example" in text
    assert not re.search(rf"<{tag}\b[^>]*evil", text)


def test_a_picture_that_is_not_there_costs_no_page(places: Places) -> None:
    grade(places, {"ada": answered(NAME, {"explain_scale": "See ![it](attachment:it.png)."})})
    assert "no page" not in "".join(feedback([NAME], places))


# each holds 600 MB that no process maps, and says so
HOARDS = {
    "shared without a file": """
import mmap
for _ in range(10):
    kept.append(mmap.mmap(-1, 60 << 20))
    kept[-1].write(bytes(60 << 20)); kept[-1].madvise(mmap.MADV_DONTNEED)
""",
    "of a device": """
import mmap, os
for _ in range(10):
    kept.append(mmap.mmap(os.open("/dev/zero", os.O_RDWR), 60 << 20))
    kept[-1].write(bytes(60 << 20)); kept[-1].madvise(mmap.MADV_DONTNEED)
""",
    "lent to pipes": """
import ctypes, os
libc, page = ctypes.CDLL(None), ctypes.create_string_buffer(1)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(page), 1)  # of each huge page one byte is enough
assert libc.vmsplice(os.pipe()[1], vector, ctypes.c_size_t(1), 0) == 1
""",
    "names of files": """
import os
for i in range(300_000):
    os.symlink("x" * 120, f"/tmp/{i}")
""",
    "sockets of TCP": """
import socket
server = socket.create_server(("127.0.0.1", 0))
for _ in range(60):
    kept += [socket.create_connection(server.getsockname()), server.accept()[0]]
""",
    "sockets of many processes": """
import os, socket
for _ in range(9):
    if os.fork() == 0:
        kept += [socket.socketpair() for _ in range(90)]
        time.sleep(60)
time.sleep(3)
""",
}


@needs_sandbox
@each("kind", HOARDS)
def test_memory_that_no_process_maps_is_refused_or_counted(kind: str) -> None:
    source = f"import time\nkept = []\n{HOARDS[kind]}\ntime.sleep(1)\nprint('kept')"
    work = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    many = "processes" in kind
    done = sandbox.run(work, sandbox.Scene(), Limits() if many else Limits(memory=500 << 20))
    assert done.reason in ("", "killed: memory above 0.488 GB", "killed: more than 512 sockets")
    assert not many or done.reason == "killed: more than 512 sockets"
    assert "'text': 'kept" not in str(done.notebook.cells[0].outputs)


def test_memory_that_was_put_aside_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk for memory, or as tables of addresses; a library that all share does not."""
    (tmp_path / "status").write_text(
        "VmPTE:\t8 kB\nVmSwap:\t4 kB\nRssAnon:\t2 kB\nRssFile:\t99 kB\nRssShmem:\t1 kB\n"
    )
    monkeypatch.setattr(watch, "Path", lambda path: tmp_path / "status")
    assert watch.memory(1) == 15 << 10


def test_many_files_under_long_paths_stall_no_collection(places: Places, tmp_path: Path) -> None:
    names = "".join(f"s{i:03d},First{i} Last{i}\n" for i in range(300))
    places.roster.write_text("id,name\n" + names)
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "s001.zip", "w") as archive:
        for i in range(200):
            deep = "/".join(f"w{j}" for j in range(200 if i % 2 else 8))
            archive.writestr(f"{deep}/{i}/{NAME}.ipynb", '{"cells": []}')
    (tmp_path / "in" / f"s002_{NAME}.ipynb").write_text(json.dumps(solved(NAME)))
    begun = time.process_time()
    found = [row for row in collect(tmp_path / "in", places) if row.status != "missing"]
    assert time.process_time() - begun < 10
    assert "more than 50 files" in "".join(row.reason for row in found)
    assert "its path is too long" in "".join(row.reason for row in found)
    assert [row.path for row in found if row.student == "s002"] == [f"s002_{NAME}.ipynb"]


@pytest.mark.long
def test_a_flood_of_hand_ins_stalls_no_exchange(places: Places, tmp_path: Path) -> None:
    inbound = tmp_path / "inbound"
    for i in range(60):
        folder = inbound / f"ada+{NAME}+2026-01-01 12:00:00 UTC+{i:02}"
        folder.mkdir(parents=True)
        (folder / f"{NAME}.ipynb").write_text(f'{{"cells": [], "x": {i}}}')
    assert len(collect(inbound, places)) == 50
    (kept,) = places.submitted.glob(f"*/{NAME}/{NAME}.ipynb")
    assert '"x": 59' in kept.read_text()


def test_formgraders_button_grades_as_the_command_does(places: Places) -> None:
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    hand_in(places, NAME, "ada", solved(NAME))
    hand_in(places, NAME, "bob", b"no notebook")
    config = configuration(places)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert api.autograde(NAME, "ada")["success"]
        assert not api.autograde(NAME, "bob")["success"]
    report = read_report(report_path(NAME, "ada", places))
    assert report is not None
    assert grade(places, {}) == {}
    (again,) = grade_class(NAME, ["ada"], How(places), lambda: ThreadPoolExecutor(1))
    assert again == report


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EACCES, errno.ELOOP, errno.ENOSPC])
def test_only_a_disk_that_cannot_be_used_stops_who_waits_for_a_child(number: int) -> None:
    def work() -> bytes:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError if number == errno.ENOSPC else Trouble, match=os.strerror(number)):
        child.run(work)


def test_a_page_that_is_too_large_is_nobody_else_s_trouble(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade(places, {"ada": solved(NAME)})
    monkeypatch.setattr("grading.marks.LARGEST_PAGE", 50_000)
    assert "ada: no page" in "".join(feedback([NAME], places))
    with monkeypatch.context() as silent:  # whatever has become of nbgrader's log
        silent.setattr("grading.marks.nbgrader_log", lambda: nullcontext(StringIO()))
        assert "ada: no page" in "".join(feedback([NAME], places))
