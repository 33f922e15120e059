"""What may import what, and what a folder says of itself."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LIBRARY = ROOT / "attnlib"
MODULES = sorted(LIBRARY.rglob("*.py"))
FOLDERS = sorted(path.parent.name for path in LIBRARY.glob("*/__init__.py"))
HEAVY = """matplotlib transformers tokenizers sklearn scipy pandas ipywidgets anywidget IPython
    sentence_transformers"""


def test_imports_keep_their_contracts() -> None:
    """The contracts stand in pyproject.toml; import-linter reads the imports."""
    if not (ROOT / "grading").is_dir():
        pytest.skip("a student's copy has no grading")
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library_imports_no_module_by_a_string() -> None:
    """The contracts would not see such an import."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bimport_module\(|\b__import__\(", text), path


def test_importing_the_library_imports_nothing_heavy() -> None:
    code = f"print([m for m in {HEAVY.split()!r} if m in sys.modules])"
    code = f"import sys, attnlib, attnlib.plots; {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_module_is_not_hidden_by_a_function_of_its_name() -> None:
    import attnlib

    for name in [*FOLDERS, *(path.stem for path in LIBRARY.glob("[a-z]*.py"))]:
        module = importlib.import_module(f"attnlib.{name}")
        assert getattr(attnlib, name) is module, f"attnlib.{name} is not the module"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_lives_there(folder: str) -> None:
    text = (LIBRARY / folder / "__init__.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring is not None, f"attnlib/{folder} has no docstring"
    module = importlib.import_module(f"attnlib.{folder}")
    for name in getattr(module, "__all__", ()):
        member = getattr(module, name)
        assert member.__doc__ or not getattr(member, "__module__", "").startswith("attnlib"), name
