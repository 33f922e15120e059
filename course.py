"""Sets the course up and runs it: `python course.py lab`, or `make lab`, which calls this file.

Needs nothing but Python: it makes `.venv`, installs torch and then the exact files of
requirements.lock into it, and starts JupyterLab, the tests and the rest from there. What is
installed already is not installed again. The syntax stays old on purpose, so that an old Python
can still read the file and say that it is too old.
"""

from __future__ import print_function

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` can say something

import argparse
import ast
import difflib
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time

OLDEST = (3, 11)
DISK_NEEDED = 3 * 10**9  # bytes: 2.4 GB installed, and .6 GB downloaded, if pip does it
DISK_WITH_CUDA = 8 * 10**9  # 6.3 GB installed, 1.8 GB downloaded
TORCH = "torch==2.13.0"
TRY = (  # what JupyterLab and the notebooks import; the first time, Python compiles it
    "import jupyterlab.labapp, ipykernel.kernelapp, attnlib.widgets, matplotlib.pyplot,"
    " torch._dynamo"
)
UV = "uv==0.13.9"  # installs in a third of pip's time
FROM_PIP = {  # pip's setting: uv's name for it, and what stands between two values there
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
}
ROOT = os.path.dirname(os.path.abspath(__file__))
NO_NETWORK = (
    "name resolution",
    "Name or service not known",
    "nodename nor servname",
    "getaddrinfo failed",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ConnectionResetError",
    "ProxyError",
    "Network is unreachable",
    "No route to host",
    "Read timed out",
    "Connection refused",
)
DISK_FULL = ("No space left on device", "not enough space on the disk")
HELP = """\
make lab        set up, then open JupyterLab on the first chapter
make test       set up, then run the tests and every chapter

Without make: python course.py lab, python course.py test.
make help ARGS=--all tells the rest: web pages, slides, exercises, marks."""
MORE = """

For whoever changes the course:
make quick      set up, then style, types and the fast tests: the inner loop of a change
make chapters   run the chapters that changed again, and store them with their outputs
                (NAMES="01_ngram 02_rnn" picks some, ARGS=--all takes all, ARGS=--times also
                writes the measured seconds into the headers and the README)
make bench      print speed ratios against the reference libraries (make bench load: the time of
                a training loop beside other busy processes; make bench grading: hours for a class;
                make bench hub: a class at once)
make book       write the course to build/book/html as web pages: they need no kernel, no network
make slides     write every chapter to build/slides as a lecture (reveal.js, opened from the disk;
                NAMES=10_heads takes that one alone)
make pdf        print chapters, slides and the whole course to build/pdf (needs Chromium)
make colab      write copies of the notebooks for Colab and Kaggle to build/colab, for the address
                of this clone's origin, or of ARGS=address-of-a-repository
make setup      only install
make clean      remove build/ and caches (to remove the installation, delete .venv)

For instructors (NAME is an exercise, such as 04_self_attention):
make exercises  write exercises/ from solutions/
make student    write a copy of the course without solutions and grading: dist/attention-course.zip
make release NAME=04_self_attention DUE=2026-12-01T12:00
                write dist/NAME.zip to hand out, and note when it is due
make collect FROM=folder-or-zip (or the folder inbound of nbgrader's exchange)
                take in what a platform exported, and tell what is late, missing or unreadable
                (PATTERN='(?P<student_id>[^_]+)_.*' reads names of a shape of your own)
make grade NAME=04_self_attention
                grade it in a sandbox, and go on where the last run stopped (ARGS=--force: anew;
                CLUSTER=tcp://head:8786: on the workers of a dask cluster)
make feedback NAME=04_self_attention
                write a page per student, and the zips that Moodle and Canvas take back
make marks      write tables of marks: one row a task, and one row a student for each platform
make insights NAME=04_self_attention
                write a page about what the class got wrong, nobody's name in it
make similarity NAME=04_self_attention
                write a folder of answers for JPlag or Dolos
                All of a class lies in class/, or where CLASS=folder says.

Options:
make lab PYTHON=python3.12 uses another Python; make lab TORCH_INDEX=cpu takes PyTorch's smaller
build, without CUDA, and TORCH_INDEX=URL takes torch alone from another package index.
make test ARGS="-k attention" hands options on to pytest; ARGS=--ci adds what .ci/run runs, and
ARGS=--long everything: side roads, trainings that tests repeat, the book, attacks on the grader."""


class Trouble(Exception):
    """Something the user has to do; the message says what."""


def too_old(version, executable):
    """The message for a Python that is too old, or None if it is new enough."""
    if tuple(version[:2]) >= OLDEST:
        return None
    return (
        "This course needs Python {}.{} or newer; {} is Python {}.{}. Install a newer one, or name"
        " one that you have: make lab PYTHON=python3.12 (without make: python3.12 course.py lab)."
    ).format(OLDEST[0], OLDEST[1], executable, version[0], version[1])


def too_full(free, needed):
    """The message for a disk with `free` bytes left, or None if that is enough."""
    if free >= needed:
        return None
    smaller = (
        " or take the smaller torch, with which {:.0f} GB are enough (make lab TORCH_INDEX=cpu),"
    ).format(DISK_NEEDED / 1e9)
    return (
        "The installation needs about {:.0f} GB, and this disk has {:.1f} GB free."
        " Make room,{} then run the same command again."
    ).format(needed / 1e9, free / 1e9, smaller if needed > DISK_NEEDED else "")


def explain(log):
    """Why uv or pip failed, from what it printed."""
    if any(sign in log for sign in DISK_FULL):
        return (
            "The disk filled up during the installation. It needs about {:.0f} GB, {:.0f} GB with"
            " torch for CUDA (see the README). Make room, then run the same command again."
        ).format(DISK_NEEDED / 1e9, DISK_WITH_CUDA / 1e9)
    if any(sign in log for sign in NO_NETWORK):
        return (
            "The package index cannot be reached: is there a network? Connect, or set HTTPS_PROXY"
            " if you are behind a proxy, then run the same command again; it goes on from here."
        )
    told = re.findall(r"^(?:ERROR|error|  \xd7|\w+Error: ).*(?:\n  .*)*", log, re.MULTILINE)
    return "The installation failed. " + (told[-1].strip() if told else "It gave no reason.")


def venv_python(venv):
    """The Python inside a virtual environment."""
    if os.name == "nt":
        return os.path.join(venv, "Scripts", "python.exe")
    return os.path.join(venv, "bin", "python")


def fingerprint(root):
    """What an installation depends on: lock, pyproject, Python, and where the clone lies."""
    digest = hashlib.sha256(repr((sys.version_info[:3], root)).encode())
    for name in ("requirements.lock", "pyproject.toml"):
        with open(os.path.join(root, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def read(path):
    """The text of a file, empty if there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def starts(python):
    """Whether this Python exists, is of our version, runs, and has the whole of pip."""
    code = (
        "import sys; from importlib.metadata import distribution as of; sys.exit("
        "sys.version_info[:2] != {!r} or not of('pip').read_text('INSTALLER'))"
    ).format(tuple(sys.version_info[:2]))
    try:
        with open(os.devnull, "wb") as nowhere:
            return subprocess.call([python, "-c", code], stderr=nowhere) == 0
    except OSError:
        return False


def heard(command, hear, environment=None):
    """Run a command, hand on each line that it prints, and return its exit status."""
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=both, cwd=ROOT, env=environment) as process:
        try:
            for line in process.stdout:
                hear(line)
            return process.wait()
        except KeyboardInterrupt:  # the command has heard it, too, and may tidy up
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                pass
            finally:
                process.kill()
                process.wait()
            raise


def run_logged(title, log_path, commands, environment=None):
    """Run commands with their output in a file and its latest line on the terminal."""
    began, live = time.time(), sys.stdout.isatty()
    print(title + " ..." if live else title, flush=True)
    for command in commands:
        lines = []

        def hear(line, lines=lines):
            lines.append(line)
            with open(log_path, "ab") as log:
                log.write(line)
            if live:
                text = line.decode("utf-8", "replace").strip()[:70]
                print("\r  {:<70}".format(text), end="", flush=True)

        status = heard(command, hear, environment)
        if live:
            print("\r{:<72}\r".format(""), end="")
        if status:
            raise Trouble(
                "{}\nWhat it printed is in {}".format(
                    explain(b"".join(lines).decode("utf-8", "replace")), os.path.relpath(log_path)
                )
            )
    print("  done in {:.0f} s".format(time.time() - began), flush=True)


def make_venv(venv):
    """A fresh virtual environment, in place of whatever was there."""
    lines = []
    if heard([sys.executable, "-m", "venv", "--clear", venv], lines.append):
        raise Trouble(
            "Python could not make a virtual environment. On Debian and Ubuntu, install the package"
            " python3-venv; then run the same command again. Its own words:\n"
            + b"".join(lines).decode("utf-8", "replace")
        )


def forget_halves(venv):
    """Have installed again what uv or pip was interrupted at: their last act is to note INSTALLER.

    Until then a package may lack data and scripts, and counts as installed nevertheless.
    """
    packages = sysconfig.get_path("purelib", "venv", {"base": venv})
    for name in glob.glob("*.dist-info", root_dir=packages):
        folder = os.path.join(packages, name)
        if not os.path.exists(os.path.join(folder, "INSTALLER")):
            shutil.rmtree(folder)


def pip_settings(python):
    """What pip is told by its files and by the environment: option to value, the stronger last."""
    lines, settings = [], {}
    heard([python, "-m", "pip", "config", "list"], lines.append)
    for section in ("global.", "install.", ":env:."):
        for line in lines:
            name, _, value = line.decode("utf-8", "replace").strip().partition("=")
            if name.startswith(section):
                option = name[len(section) :].replace("default-timeout", "timeout")
                settings[option] = ast.literal_eval(value)
    return settings


def for_uv(settings):
    """The environment in which uv looks where pip would look. uv's own settings are kept."""
    environment = {
        "UV_SYSTEM_CERTS": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip: any index will do, by the lock's hashes
    }
    for option, (name, between) in FROM_PIP.items():
        if settings.get(option):
            environment[name] = between.join(settings[option].split())
    environment.update(os.environ)
    return environment


def steps(root, of_torch):
    """What is installed, in order: a title, and the words that uv and pip both understand.

    The lock has hashes and is complete but for torch, so that nothing is left to resolve.
    """
    lock = os.path.join(root, "requirements.lock")
    return [
        ("[1/4] Installing PyTorch (a minute, once)", of_torch + [TORCH]),
        (
            "[2/4] Installing Jupyter, the data and the tools",
            ["--no-deps", "--require-hashes", "-r", lock],
        ),
        (
            "[3/4] Installing attnlib from this folder",
            ["--no-deps", "--no-build-isolation", "-e", root],
        ),
    ]


def install(python, root, torch_index, log):
    """Install everything into the environment of this Python: with uv, or else with pip."""
    open(log, "wb").close()
    pip = [python, "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check"]
    uv = [python, "-m", "uv", "pip", "install", "--no-progress", "--python", python]
    settings = pip_settings(python)
    if settings.get("no-index", "0") in ("1", "true", "yes", "on"):
        uv.append("--no-index")
    of_torch = ["--default-index", torch_index] if torch_index else []
    if torch_index == "cpu":  # uv knows where PyTorch keeps it
        of_torch = ["--torch-backend=cpu"]
    first = [pip + ["--retries", "2", "--no-deps", UV]]
    try:
        for title, words in steps(root, of_torch):
            run_logged(title, log, first + [uv + words], for_uv(settings))
            first = []
    except Trouble:
        if torch_index == "cpu":
            raise
        print("      uv could not: pip installs it all (three minutes)", flush=True)
        forget_halves(os.path.dirname(os.path.dirname(python)))
        for title, words in steps(root, ["--index-url", torch_index] if torch_index else []):
            run_logged(title, log, [pip + words])
    run_logged("[4/4] Importing what the notebooks import", log, [[python, "-c", TRY]])


def set_up(root, torch_index=None):
    """Install what is missing into `.venv`, and return its Python."""
    venv = os.path.join(root, ".venv")
    python, stamp = venv_python(venv), os.path.join(venv, "installed")
    usable = starts(python)
    if usable and read(stamp) == fingerprint(root):
        return python
    if not usable:
        cuda = sys.platform.startswith("linux") and not torch_index
        needed = DISK_WITH_CUDA if cuda else DISK_NEEDED
        full = too_full(shutil.disk_usage(root).free, needed)
        if full:
            raise Trouble(full)
        make_venv(venv)
    forget_halves(venv)
    install(python, root, torch_index, os.path.join(venv, "install.log"))
    with open(stamp, "w") as file:
        file.write(fingerprint(root))
    return python


def lab(python, words):
    """The command that opens JupyterLab on the first chapter."""
    return [
        python,
        "-m",
        "jupyterlab",
        "--ServerApp.root_dir=" + ROOT,
        "--ServerApp.contents_manager_class=book.lab.Chapters",
        "--LabApp.app_settings_dir=" + os.path.join(ROOT, "tools", "lab"),
        "--LabApp.default_url=/lab/tree/chapters/00_start_here.ipynb",
    ] + words


def in_course(*names):
    """Those of the named folders that are there: a student's copy has no grading."""
    return [name for name in names if os.path.isdir(os.path.join(ROOT, name))]


def pytest(python, words, otherwise, waiting=0):
    """The command that tests what the words name, or otherwise these folders.

    There is a worker for each core, and some more where workers wait for a browser.
    """
    named = [word for word in words if os.path.exists(os.path.join(ROOT, word.split("::")[0]))]
    workers = min(3, (os.cpu_count() or 1) + waiting)
    command = [python, "-m", "pytest", "-n", str(workers)]
    command += ["--dist", "loadscope", "--doctest-modules"]
    command += ["--no-loadscope-reorder"]  # the chapters, of like length, come last
    return command + words + ([] if named else otherwise)


def test(python, words):
    """The command that runs the suite: tests, doctests, the chapters; more with --ci and --long."""
    everything = "--long" in words
    landing = everything or "--ci" in words
    left_out = [] if everything else [os.path.join("chapters", "more")]
    if not landing:  # for those who change the course
        left_out += [os.path.join("tests", "book"), os.path.join("tests", "project")]
    marks = [] if everything else ["-m", "not long" if landing else "not long and not ci"]
    options = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=600"] + marks
    return pytest(
        python,
        options + [word for word in words if word not in ("--ci", "--long")],
        in_course("attnlib", "recipes", "book", "grading", "tools", "tests", "chapters")
        + ["--ignore=" + os.path.join(ROOT, path) for path in left_out],
        waiting=1,
    )


def quick(python, words):
    """The command for the inner loop: style, types, and the tests that take seconds."""
    fast = [
        "-m",
        "not slow and not ci and not long and not browser",
        "-p",
        "no:nbval",  # no notebook is run, and every worker would import what runs them
        "--ignore=tests/benchmarks",
        "--ignore=tests/chapters",
        "--ignore=tests/grading",
    ]
    return pytest(python, fast + words, in_course("attnlib", "recipes", "book", "tools", "tests"))


def chapters(python, words):
    """The command that executes chapters again and stores them."""
    return [python, os.path.join("tools", "chapter_tools.py"), "execute"] + words


def colab(python, words):
    """The command that writes copies of the notebooks for Colab and Kaggle."""
    return [python, os.path.join("tools", "colab.py")] + words


def bench(python, words):
    """The command that prints the benchmarks."""
    return [python, os.path.join("tests", "benchmarks", "run.py")] + words


def module(package, name):
    """The function that makes a package's command of this name."""
    return lambda python, words: [python, "-m", package, name] + words


COMMANDS = {"lab": lab, "test": test, "quick": quick, "chapters": chapters}
COMMANDS.update({"bench": bench, "colab": colab})
COMMANDS.update((name, module("book", name)) for name in ("book", "slides", "pdf"))
INSTRUCTORS = (
    "exercises",
    "student",
    "release",
    "collect",
    "grade",
    "feedback",
    "marks",
    "insights",
    "similarity",
)
COMMANDS.update((name, module("grading", name)) for name in INSTRUCTORS)


def clean(root):
    """Remove what was built; the installation stays."""
    for name in (
        "build",
        "attnlib.egg-info",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
    ):
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
    for room in ("attnlib", "recipes", "book", "grading", "tests", "tools"):
        for folder, inside, _ in os.walk(os.path.join(root, room)):
            if "__pycache__" in inside:
                shutil.rmtree(os.path.join(folder, "__pycache__"))


def unknown(command, known):
    """The message for a command that there is not."""
    near = "".join(difflib.get_close_matches(command, known, 1))
    return "There is no command {}{} `make help ARGS=--all` tells what there is.".format(
        command, "; did you mean {}?".format(near) if near else "."
    )


def finished(command):
    """Run a command, and return its exit status. What Ctrl-C does is its own affair."""
    process = subprocess.Popen(command, cwd=ROOT)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            pass


def main(words):
    """Do what the command line says, and return the exit status; Ctrl-C ends it in a sentence."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return attempt(words)
    except Trouble as trouble:
        print("\n" + str(trouble), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return 130


def attempt(words):
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="course.py",
        usage="python course.py COMMAND [options]",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", default="help")
    parser.add_argument("--torch-index", help="package index for torch alone, or cpu")
    parser.add_argument(
        "--here",
        action="store_true",
        help="use the Python that runs this file as it is; only `setup --here` installs into it",
    )
    options, rest = parser.parse_known_args(words)
    if options.command == "help":
        print(HELP + MORE if "--all" in rest else HELP)
        return 0
    if options.command == "clean":
        clean(ROOT)
        return 0
    if options.command not in COMMANDS and options.command != "setup":
        raise Trouble(unknown(options.command, list(COMMANDS) + ["setup", "clean", "help"]))
    if options.command in INSTRUCTORS and not os.path.isdir(os.path.join(ROOT, "grading")):
        raise Trouble(
            "make {} is for instructors; this is a student's copy of the course, which comes"
            " without solutions and grading.".format(options.command)
        )
    if options.here and options.command == "setup":
        install(sys.executable, ROOT, options.torch_index, os.path.join(sys.prefix, "install.log"))
        return 0
    python = sys.executable if options.here else set_up(ROOT, options.torch_index)
    if options.command == "setup":
        return 0
    return finished(COMMANDS[options.command](python, rest))


if __name__ == "__main__":
    complaint = too_old(sys.version_info, sys.executable)
    sys.exit(complaint or main(sys.argv[1:]))
