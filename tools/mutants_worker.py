"""The processes of `mutants`: each a copy of this one that runs some tests and goes away.

This process itself never imports the library, so a copy can import a changed one.
"""

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
MEMORY = 16 * 2**30  # bytes of address space of a copy
SETTINGS = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
QUIET = ["-q", "--doctest-modules", "-p", "no:cacheprovider", "-m", "not slow", "--assert=plain"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was loaded before


class Measured(NamedTuple):
    """What the tests do where there is no fault.

    Attributes:
        reach: file -> line -> ids of the tests that run it.
        seconds: how long each test takes.
        modules: what the tests imported.
    """

    reach: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]
    modules: list[str]


class Plugin:
    """Chooses tests, measures them, and leaves hypothesis no time for shrinking."""

    def __init__(
        self, chosen: Sequence[str] = (), changed: "Changed | None" = None, coverage: Any = None
    ) -> None:
        self.chosen, self.changed, self.coverage = list(chosen), changed, coverage
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_configure(self, config: Any) -> None:
        """An error is all we want to know, not the smallest example."""
        from hypothesis import Phase, settings

        if self.changed is not None:  # before pytest's own hook, which reads what it tests
            sys.meta_path.insert(0, self.changed)

        settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the chosen tests, in the order in which they were chosen."""
        if self.chosen:
            place = {name: i for i, name in enumerate(self.chosen)}
            items[:] = sorted(
                (item for item in items if item.nodeid in place), key=lambda i: place[i.nodeid]
            )

    def pytest_runtest_setup(self, item: Any) -> None:
        """What a fixture runs serves the tests after this one, too: the file is its context."""
        if self.coverage is not None:
            self.coverage.switch_context(item.nodeid.split("::")[0])

    def pytest_runtest_call(self, item: Any) -> None:
        """From here on a line belongs to this test."""
        if self.coverage is not None:
            self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up setup, call and teardown."""
        self.seconds[report.nodeid] += report.duration


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Imports one module from a text, as if it stood in its file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = str(ROOT / path), source
        self.name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Its spec, for this module alone."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_filename(self, fullname: str) -> str:
        """The file whose place it takes."""
        return self.path

    def get_data(self, path: str) -> bytes:
        """The changed text; nothing is read from, or kept in, a cache of bytecode."""
        if path != self.path:
            raise OSError(path)
        return self.source


def measure(places: Sequence[str], files: Sequence[str]) -> Measured:
    """Run the tests of some places once, with no fault, and load here what they import.

    Raises:
        SystemExit: if they do not pass.
    """
    os.environ.update(SETTINGS)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "measured"
        status, log = _in_a_copy(lambda: _measure(places, files, store), 3600)
        if status != 0:
            sys.exit(f"the tests do not pass as the library is:\n{log}")
        measured: Measured = pickle.loads(store.read_bytes())
    with warnings.catch_warnings(action="ignore"):
        for name in measured.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    gc.freeze()  # a copy need not look through what was there before it
    return measured


def _measure(places: Sequence[str], files: Sequence[str], store: Path) -> int:
    import coverage
    import pytest

    lines = coverage.Coverage(data_file=None, include=[str(ROOT / name) for name in files])
    lines.start()
    plugin = Plugin(coverage=lines)
    status = int(pytest.main([*QUIET, *places], plugins=[plugin]))
    lines.stop()
    reach: dict[str, dict[int, list[str]]] = {}
    for name in files:
        found = lines.get_data().contexts_by_lineno(str(ROOT / name))
        reach[name] = {line: _tests(contexts, plugin.seconds) for line, contexts in found.items()}
    ours = [name for name, module in sys.modules.items() if _is_ours(module)]
    modules = [name for name in sys.modules if name not in ours and name != "__main__"]
    store.write_bytes(pickle.dumps(Measured(reach, dict(plugin.seconds), modules)))
    return status


def _tests(contexts: Sequence[str], seconds: dict[str, float]) -> list[str]:
    """The tests of contexts: a test, or a file, which stands for all of its tests."""
    return [name for name in seconds if name in contexts or name.split("::")[0] in contexts]


def _is_ours(module: Any) -> bool:
    file = getattr(module, "__file__", None) or ""
    return file.startswith(str(ROOT)) and "site-packages" not in file


def tried(path: str, source: bytes, tests: Sequence[str], limit: float) -> str:
    """What becomes of a fault: "killed", "too slow" or "survived".

    Args:
        path: of the module, relative to the course.
        source: its text with the fault.
        tests: their ids.
        limit: seconds of computing that they may take.
    """

    def run() -> int:
        import pytest

        places = list(dict.fromkeys(name.split("::")[0] for name in tests))
        plugin = Plugin(tests, Changed(path, source))
        return int(pytest.main([*QUIET, "-x", "--tb=no", *places], plugins=[plugin]))

    status, _ = _in_a_copy(run, limit)
    return "survived" if status == 0 else "too slow" if status == -signal.SIGXCPU else "killed"


def _in_a_copy(work: Callable[[], int], limit: float) -> tuple[int, str]:
    """Work in a copy of this process: its exit status, or minus a signal, and what it printed.

    The limit is one of computing; a copy that waits is ended after ten times as long.
    """
    with tempfile.TemporaryFile("w+") as log:
        child = os.fork()
        if child == 0:
            _become_a_copy(work, limit, log.fileno())
        deadline, ended, status = time.monotonic() + 10 * limit, 0, 0
        try:
            while not ended and time.monotonic() < deadline:
                time.sleep(0.01)
                ended, status = os.waitpid(child, os.WNOHANG)
        finally:
            if not ended:
                os.kill(child, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
        log.seek(0)
        return os.waitstatus_to_exitcode(status), log.read()[-4000:]


def _become_a_copy(work: Callable[[], int], limit: float, log: int) -> None:
    import resource

    status = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 10))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.dont_write_bytecode = True
        status = work()
    finally:
        sys.stdout.flush()
        os._exit(status)
