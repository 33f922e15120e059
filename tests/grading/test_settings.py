"""Where a class is kept, and what cannot delete it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from grading.settings import ROOT, Places, class_folder


def test_a_class_lies_outside_of_every_package_or_where_class_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLASS", raising=False)
    assert class_folder() == ROOT / "class"
    monkeypatch.setenv("CLASS", str(tmp_path / "autumn"))
    assert Places().roster == tmp_path / "autumn" / "roster.csv"


@pytest.mark.skipif(shutil.which("git") is None, reason="without git nobody calls git clean")
def test_cleaning_the_clone_spares_the_class(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init")
    (tmp_path / ".gitignore").write_text("/class/\n")
    places = Places(tmp_path / "class")
    places.make()
    places.roster.write_text("id,name\n")
    (tmp_path / "rubbish").write_text("")
    git("clean", "-fdx")
    assert places.roster.exists()
    assert not (tmp_path / "rubbish").exists()
