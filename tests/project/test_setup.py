"""The set-up, course.py and the Makefile: what they say when something is wrong, and what they run.

The set-up is tried with a fake Python, in a folder whose name has a space and an umlaut.
"""

import ast
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parent.parent.parent


def course() -> SimpleNamespace:
    """The functions of course.py."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "course.py"), run_name="course"))


def test_an_old_python_can_read_course_py() -> None:
    """No syntax newer than Python 2.7 and 3.0 share, so that the message is seen at all."""
    source = (ROOT / "course.py").read_bytes()
    assert source.isascii(), "Python 2 reads no file with other characters in it"
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.Starred, ast.YieldFrom)
    new += (ast.AsyncFunctionDef, ast.Await, ast.Match)
    none = ("annotation", "kwonlyargs", "posonlyargs", "returns", "cause")  # if a node has them
    modules = set()
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, new), f"line {node.lineno}: {type(node).__name__}"
        assert not [name for name in none if getattr(node, name, None)], ast.unparse(node)
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    allowed = "argparse ast difflib glob hashlib os re shutil signal subprocess sys sysconfig time"
    assert modules <= set(allowed.split())


def pretend(code: str, *words: str, clone: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run course.py as a program, after some code that changes the world around it."""
    lines = [
        "import runpy, shutil, sys",
        code,
        f"sys.argv = {['course.py', *words]!r}",
        f"runpy.run_path({str(clone / 'course.py')!r}, run_name='__main__')",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 9), (3, 10, 14)])
def test_an_older_python_is_told_so(version: tuple[int, int, int]) -> None:
    told = course().too_old(version, "python3") or ""
    assert "needs Python 3.11 or newer" in told
    assert f"is Python {version[0]}.{version[1]}" in told
    assert "PYTHON=" in told


def test_it_is_all_that_an_older_python_is_told() -> None:
    done = pretend("sys.version_info = (3, 10, 14)", "lab")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1), (4, 0, 0)])
def test_a_new_python_is_welcome(version: tuple[int, int, int]) -> None:
    assert course().too_old(version, "python3") is None


def fake_clone(tmp_path: Path, **does: str) -> Path:
    """A folder with course.py, a lock, and a `.venv` whose Python only notes what it is asked.

    It is a shell script, which starts a real Python for code alone.

    Args:
        does: code by the name of the module that is asked for, such as pip.
    """
    clone = tmp_path / "übung 1"
    clone.mkdir()
    for name in ("course.py", "Makefile", "pyproject.toml", "requirements.lock"):
        (clone / name).write_bytes((ROOT / name).read_bytes())
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    stub = clone / "stub.py"
    stub.write_text(
        "import os, shutil, signal, sys, time\nwords = sys.argv[1:]\n"
        f"does = {does!r}\nexec(does.get(words[1]) or does['import*'])\n",
        encoding="utf-8",
    )
    started = shlex.join([sys.executable, str(stub)])
    python.write_text(
        "#!/bin/sh\n"
        f'case "$2" in "import sys"*) exec {shlex.quote(sys.executable)} "$@";; esac\n'
        f"(printf '%s\\t' \"$@\"; echo) >>{shlex.quote(str(clone / 'calls'))}\n"
        f'case "$2" in {"|".join(does) or "nothing"}) exec {started} "$@";; esac\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    return clone


def run_course(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(clone / "course.py"), *words]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True)


def calls(clone: Path) -> list[list[str]]:
    """The words of every call of the fake Python."""
    path = clone / "calls"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.split("\t")[:-1] for line in lines]


needs_shell = pytest.mark.skipif(os.name == "nt", reason="the fake Python is a shell script")


@needs_shell
def test_torch_is_installed_first_and_nothing_twice(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    assert run_course(clone, "setup").returncode == 0
    first = calls(clone)
    lock = str(clone / "requirements.lock")
    assert [words[-1] for words in first] == [
        "list",  # of pip's settings
        course().UV,
        course().TORCH,
        lock,
        str(clone),
        course().TRY,
    ]
    assert [words[1] for words in first[:-1]] == ["pip", "pip", "uv", "uv", "uv"]
    assert [words[-1] for words in first if "--require-hashes" in words] == [lock]
    assert [words[-1] for words in first if "--no-deps" in words] == [course().UV, lock, str(clone)]
    assert run_course(clone, "lab").returncode == 0
    assert len(calls(clone)) == 7
    assert "jupyterlab" in calls(clone)[-1]
    assert any(word.endswith("chapters/00_start_here.ipynb") for word in calls(clone)[-1])


@needs_shell
def test_another_lock_is_installed_and_the_index_is_for_torch_alone(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    for count, name in enumerate(("requirements.lock", "pyproject.toml"), 1):
        run_course(clone, "setup", "--torch-index", "file:///wheels")
        given = ["file:///wheels" in words for words in calls(clone)]
        assert given == [False, False, True, False, False, False] * count
        with (clone / name).open("a") as file:
            file.write("# changed\n")
    run_course(clone, "setup")
    assert len(calls(clone)) == 18


@needs_shell
@pytest.mark.parametrize(
    "missing",
    [
        {"pip": "sys.exit('uv==' in words[-1])"},
        {"uv": "sys.exit(2)"},
        {"uv": "sys.exit(words[-1].endswith('.lock'))"},
    ],
    ids=["no uv", "uv fails", "uv fails at the lock"],
)
def test_where_uv_cannot_pip_installs_it_all(tmp_path: Path, missing: dict[str, str]) -> None:
    clone = fake_clone(tmp_path, **missing)
    done = run_course(clone, "setup", "--torch-index", "file:///wheels")
    assert done.returncode == 0
    assert "uv could not: pip installs it all" in done.stdout
    torch, lock, own = calls(clone)[-4:-1]
    assert {words[1] for words in (torch, lock, own)} == {"pip"}
    assert torch[-3:] == ["--index-url", "file:///wheels", course().TORCH]
    assert lock[-1] == str(clone / "requirements.lock")
    assert {"--no-deps", "--require-hashes"} <= set(lock)
    assert own[-1] == str(clone)


@needs_shell
def test_what_uv_says_is_told_where_pip_cannot_help(tmp_path: Path) -> None:
    """It does not know where PyTorch keeps its smaller build, and would take the larger one."""
    clone = fake_clone(tmp_path, uv="print('error: too far\\n  Caused by: the moon'); sys.exit(2)")
    done = run_course(clone, "setup", "--torch-index", "cpu")
    assert done.returncode == 1
    assert "too far\n  Caused by: the moon\n" in done.stderr
    assert calls(clone)[-1][1] == "uv"


def test_uv_is_told_what_pip_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a file of pip's, by a section of it, and by the environment, which is the strongest."""
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a/simple\nextra-index-url =\n  https://b\n  https://c\n"
        "cert = /global.pem\nproxy = http://proxy:3128\n[install]\ncert = /install.pem\n"
        "trusted-host = a b\n",
        encoding="utf-8",
    )
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "SSL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels https://d/%20e")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "7")
    told = course().for_uv(course().pip_settings(sys.executable))
    wanted = {
        "UV_DEFAULT_INDEX": "https://a/simple",
        "UV_INDEX": "https://b https://c",
        "UV_FIND_LINKS": "/wheels,https://d/%20e",
        "UV_INSECURE_HOST": "a b",
        "UV_HTTP_TIMEOUT": "7",  # the user's own word to uv
        "SSL_CERT_FILE": "/install.pem",
        "ALL_PROXY": "http://proxy:3128",
        "UV_SYSTEM_CERTS": "1",
    }
    assert {name: told.get(name) for name in wanted} == wanted
    monkeypatch.setenv("PIP_CERT", "/environment.pem")
    assert (
        course().for_uv(course().pip_settings(sys.executable))["SSL_CERT_FILE"]
        == "/environment.pem"
    )


@needs_shell
def test_the_smaller_torch_is_what_uv_knows_as_cpu(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    assert run_course(clone, "setup", "--torch-index", "cpu").returncode == 0
    torch = next(words for words in calls(clone) if words[-1] == course().TORCH)
    assert torch[1] == "uv"
    assert "--torch-backend=cpu" in torch


@needs_shell
def test_a_set_up_here_installs_into_the_python_that_runs_it(tmp_path: Path) -> None:
    """As binder/postBuild does, which has an environment of its own."""
    clone = fake_clone(tmp_path)
    python = clone / "python"
    (clone / ".venv" / "bin" / "python").rename(python)
    done = pretend(f"sys.executable = {str(python)!r}", "setup", "--here", clone=clone)
    assert done.returncode == 0, done.stderr
    assert [words[-1] for words in calls(clone)][-3:-1] == [
        str(clone / "requirements.lock"),
        str(clone),
    ]
    assert not (clone / ".venv" / "installed").exists()


@pytest.mark.parametrize(
    ("pip_says", "we_say"),
    [
        ("[Errno -3] Temporary failure in name resolution", "is there a network?"),
        ("[Errno 101] Network is unreachable", "is there a network?"),
        ("OSError: [Errno 28] No space left on device", "The disk filled up"),
        ("ERROR: No matching distribution found for torch==2.13.0", "No matching distribution"),
        ("ImportError: libgomp.so.1: cannot open shared object file", "failed. ImportError: libg"),
        ("", "It gave no reason"),
    ],
)
def test_a_failing_installation_says_why(pip_says: str, we_say: str) -> None:
    assert we_say in course().explain(f"Collecting torch\n{pip_says}\n")


@needs_shell
def test_a_failing_installation_ends_and_leaves_its_log(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path, pip="print('No route to host'); sys.exit(1)")
    done = run_course(clone, "test")
    assert done.returncode == 1
    assert "is there a network?" in done.stderr
    assert "Traceback" not in done.stderr
    log = clone / ".venv" / "install.log"
    assert "No route to host" in log.read_text()
    assert str(log.relative_to(clone)) in done.stderr
    assert calls(clone)[-1][-1] == course().TORCH, "nothing is run after a failure"
    assert not (clone / ".venv" / "installed").exists()


@needs_shell
def test_an_installation_that_cannot_be_imported_says_why_and_is_tried_again(
    tmp_path: Path,
) -> None:
    clone = fake_clone(tmp_path, **{"import*": "sys.exit('ImportError: DLL load failed')"})
    for tries in (1, 2):
        done = run_course(clone, "lab")
        assert done.returncode == 1
        assert "The installation failed. ImportError: DLL load failed" in done.stderr
        assert [words[-1] for words in calls(clone)].count(course().TRY) == tries
    assert "jupyterlab" not in [words[1] for words in calls(clone)]


@pytest.mark.parametrize(
    ("system", "words", "needed"),
    [("linux", [], 8), ("linux", ["--torch-index", "file:///x"], 3), ("darwin", [], 3)],
)
def test_a_full_disk_is_told_before_anything_is_installed(
    tmp_path: Path, system: str, words: list[str], needed: int
) -> None:
    clone = fake_clone(tmp_path)
    shutil.rmtree(clone / ".venv")
    code = (
        "from types import SimpleNamespace\n"
        f"sys.platform = {system!r}\n"
        "shutil.disk_usage = lambda path: SimpleNamespace(free=1_200_000_000)"
    )
    done = pretend(code, "setup", *words, clone=clone)
    assert done.returncode == 1
    assert f"needs about {needed} GB" in done.stderr
    assert "1.2 GB free" in done.stderr
    assert ("TORCH_INDEX" in done.stderr) == (needed == 8), "where it would help"
    assert calls(clone) == []
    assert not (clone / ".venv").exists()


STOPPED = "\nStopped. The same command goes on from here.\n"
CTRL_C = "os.killpg(0, signal.SIGINT); time.sleep(600)"  # reaches all that the terminal started
DEAF = "signal.signal(signal.SIGINT, signal.SIG_IGN); " + CTRL_C


def interrupted(clone: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run course.py in a group of processes of its own, after some code; see `pretend`."""
    return pretend(f"import os, signal\nos.setpgid(0, 0)\n{code}", "setup", clone=clone)


@needs_shell
@pytest.mark.parametrize("does", [CTRL_C, DEAF], ids=["it hears", "it is deaf"])
def test_ctrl_c_ends_an_installation_in_a_sentence(tmp_path: Path, does: str) -> None:
    noted = "print(os.getpid(), file=open('child', 'w'), flush=True)"
    clone = fake_clone(tmp_path, pip=f"if not os.path.exists('twice'): {noted}; {does}")
    for _ in range(1 if does == DEAF else 2):  # it waits for what is deaf
        done = interrupted(clone, "")
        with pytest.raises(ProcessLookupError):
            os.kill(int((clone / "child").read_text()), 0)
        assert (done.returncode, done.stderr) == (130, STOPPED)
        assert "Traceback" not in done.stdout
    (clone / "twice").touch()
    assert run_course(clone, "setup").returncode == 0
    assert len(calls(clone)) == (1 if does == DEAF else 2) + 6


@needs_shell
def test_an_environment_without_the_whole_of_pip_is_made_anew(tmp_path: Path) -> None:
    venv = "shutil.rmtree('.venv'); os.makedirs('.venv/bin'); shutil.copy('python', '.venv/bin')"
    clone = fake_clone(tmp_path, venv=f"if not os.path.exists('twice'): {CTRL_C}\n{venv}")
    python = clone / "python"
    (clone / ".venv" / "bin" / "python").rename(python)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    before = f"sys.executable = {str(python)!r}"
    done = interrupted(clone, before)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", STOPPED)
    (clone / "twice").touch()
    assert interrupted(clone, before).returncode == 0
    assert " ".join(words[1] for words in calls(clone)[:-1]) == "venv venv pip pip uv uv uv"


@needs_shell
def test_a_package_that_was_half_installed_is_installed_again(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(clone / ".venv")}))
    for name in ("half-1.dist-info", "whole-1.dist-info"):
        (packages / name).mkdir(parents=True)
        (packages / name / "METADATA").touch()
    (packages / "whole-1.dist-info" / "INSTALLER").touch()
    assert run_course(clone, "setup").returncode == 0
    assert [path.name for path in packages.iterdir()] == ["whole-1.dist-info"]


@needs_shell
def test_pip_installs_again_what_uv_failed_at_half_way(tmp_path: Path) -> None:
    clone = fake_clone(tmp_path, uv="os.makedirs(os.environ['HALF']); sys.exit(2)")
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(clone / ".venv")}))
    half = packages / "torch-2.dist-info"
    done = pretend(f"import os\nos.environ['HALF'] = {str(half)!r}", "setup", clone=clone)
    assert done.returncode == 0, done.stderr
    assert packages.is_dir()
    assert not half.exists()


@needs_shell
def test_what_runs_hears_ctrl_c_itself(tmp_path: Path) -> None:
    """JupyterLab asks whether to stop; it is not killed meanwhile."""
    asks = "signal.signal(signal.SIGINT, lambda *a: None); os.killpg(0, signal.SIGINT)"
    clone = fake_clone(tmp_path, jupyterlab=f"{asks}; time.sleep(0.3); sys.exit(7)")
    done = pretend("import os\nos.setpgid(0, 0)", "lab", clone=clone)
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize(
    ("word", "told"),
    [("slide", "no command slide; did you mean slides? "), ("xyzzy", "no command xyzzy. ")],
)
def test_an_unknown_command_is_told_with_the_nearest(word: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "course.py", word], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert "usage" not in done.stderr


def test_the_exit_status_is_that_of_the_tests(tmp_path: Path) -> None:
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_no(): assert False")
    options = ["test", "--here", "-n", "0", "-p", "no:cacheprovider", "--noconftest"]
    command = [sys.executable, "course.py", *options, str(failing)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "1 failed" in done.stdout


def test_what_goes_deeper_or_takes_minutes_runs_if_it_is_asked_for() -> None:
    kinds = [], ["--ci"], ["--long"], ["--ci", "--long"]
    short, ci, long, both = (set(course().test("python", [*words, "-x"])) for words in kinds)
    assert short - ci == {"not long and not ci"} | {
        f"--ignore={ROOT / 'tests' / name}" for name in ("book", "project")
    }
    assert ci - long == {"not long", f"--ignore={ROOT / 'chapters' / 'more'}"}
    assert long == both
    named = course().test("python", ["chapters/more"])
    assert not [word for word in named if "ignore" in word], "a side road that is named is run"


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def made(*words: str) -> subprocess.CompletedProcess[str]:
    """What make says here, to a shell of its own: no word of a make that runs these tests."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, env=alone)


@needs_make
def test_make_lists_its_targets_when_asked_for_nothing() -> None:
    done = made()
    assert done.returncode == 0, done.stderr
    listed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")]
    assert listed == ["lab", "test", "help"], "the students' commands, first and alone"
    everything = made("help", "ARGS=--all").stdout
    assert everything.startswith(done.stdout)
    for target in ("lab", "test", "quick", "chapters", "bench", "book", "slides", "pdf", "clean"):
        assert f"make {target} " in everything


@needs_make
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lab", "PYTHON=python9"], "There is no Python of the name python9. "),
        (["lba"], "There is no command lba; did you mean lab? "),
    ],
)
def test_make_says_in_a_sentence_what_there_is_not(words: list[str], told: str) -> None:
    done = made(*words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "not found" not in done.stderr


@needs_make
@needs_shell
@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["test", "ARGS=-k attention"], "-k attention"),
        (["chapters", "NAMES=01_ngram 02_rnn"], "execute 01_ngram 02_rnn"),
        (["bench", "load"], "run.py load"),
        (["release", "NAME=01_ngram", "DUE=2026-12-01 12:00"], "01_ngram --due 2026-12-01 12:00"),
        (["lab", "TORCH_INDEX=file:///wheels in a folder"], "-m jupyterlab"),
    ],
)
def test_make_hands_its_words_on(tmp_path: Path, words: list[str], asked: str) -> None:
    clone = fake_clone(tmp_path)
    (clone / "grading").mkdir()  # an instructor's copy
    if words[0] != "lab":  # as a set-up before has left it
        done_for = course().fingerprint(str(clone))
        (clone / ".venv" / "installed").write_text(done_for, encoding="utf-8")
    command = ["make", f"PYTHON={sys.executable}", *words]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert asked in " ".join(calls(clone)[-1])
    asked_of = [
        one[one.index("--default-index") + 1] for one in calls(clone) if "--default-index" in one
    ]
    assert asked_of == [word.partition("=")[2] for word in words if "INDEX" in word]


def test_what_is_quick_leaves_out_what_is_slow() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "from playwright" in text and path != Path(__file__):
            assert "pytestmark = pytest.mark.browser" in text, path.name
    command = course().quick("python", [])
    assert "not slow and not ci and not long and not browser" in command
    assert not [word for word in command if "chapters" in word and "--ignore" not in word]
    assert course().quick("python", ["tests/test_trace.py"])[-1] == "tests/test_trace.py"
    assert "chapters" in course().test("python", [])
