"""The tool that puts faults into the library: what it changes, which tests it asks."""

import subprocess
import sys
import tomllib
from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parent.parent.parent
NOTES = tomllib.loads(mutants.NOTES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", NOTES["equivalent"], ids=lambda entry: entry["old"][:60])
def test_a_fault_that_changes_nothing_is_still_where_the_notes_say(entry):
    assert set(entry) == {"file", "old", "new", "why"}
    assert len(entry["why"]) > 10, "a reason"
    lines = " ".join(line.strip() for line in (ROOT / entry["file"]).read_text().splitlines())
    assert entry["old"] in lines, f"{entry['file']} no longer has this line: {entry['old']}"


def test_every_room_has_tests():
    for room in ("explain", "attention.py", "tokenizers", "decoding.py", "models/transformer.py"):
        for place in mutants.tests_of(f"attnlib/{room}", NOTES["tests"]):
            assert (ROOT / place).exists(), f"{room} is tested by {place}, which is not there"


def test_faults_are_put_into_code_and_not_into_messages_or_types(monkeypatch, tmp_path):
    pytest.importorskip("mutmut")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(
        "from a import b\n"
        "__all__ = ['f']\n\n\n"
        "@property\n"
        "def f(x: 'int | str') -> int:\n"
        "    '''Twice.'''\n"
        "    if x < 0:\n"
        "        raise ValueError(f'{x + 1}')\n"
        "    return (\n"
        "        x + x\n"
        "    )\n"
    )
    found = list(mutants.mutants_of(path))
    assert {(one.line, one.old, one.new) for one in found} == {
        (8, "if x < 0:", "if x <= 0:"),
        (8, "if x < 0:", "if x < 1:"),
        (11, "x + x", "x - x"),
    }
    assert {one.within for one in found} == {range(6, 13)}
    for one in found:
        assert path.read_text().replace(one.old, one.new).encode() == one.source


@pytest.mark.long
@pytest.mark.slow
def test_a_fault_is_killed_by_the_tests_of_its_room_or_survives_without_them():
    pytest.importorskip("mutmut")
    for tests, status, told in (
        ("tests/explain/test_saliency.py", 0, "0.0 % of the faults"),
        ("tests/explain/test_aggregation.py", 1, "+ tokens = gradients"),
    ):
        options = ["--only", "gradients.abs().mean(-1)", "--tests", tests]
        done = subprocess.run(
            [sys.executable, "tools/mutants.py", "attnlib/explain/saliency.py", *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert told in done.stdout
