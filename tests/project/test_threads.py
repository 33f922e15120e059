"""How many threads a notebook computes on, and that nothing else is told how many."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import chapter_tools
import nbformat
import pytest
from nbclient import NotebookClient

from attnlib import _one_thread_in_a_kernel

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Two threads first, so that something must happen, also on a machine with one core.
IMPORT = """\
import os, threadpoolctl, torch
torch.set_num_threads(2)
limits = threadpoolctl.threadpool_limits(2)
import attnlib
pools = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
print(torch.get_num_threads(), max(pools), os.environ.get("OMP_NUM_THREADS"))
"""


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable says how many threads; what is set during the test is forgotten after it."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def in_a_kernel(code: str) -> str:
    """What a cell prints in a kernel that starts with the present environment."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return "".join(output["text"] for output in notebook.cells[0].outputs)


@pytest.mark.ci
def test_a_kernel_computes_on_one_thread(unset: pytest.MonkeyPatch) -> None:
    later = "torch.set_num_threads(2); import attnlib.trace; print(torch.get_num_threads())"
    assert in_a_kernel(f"{IMPORT}{later}") == "1 1 1\n2\n"  # the reader has the last word


@pytest.mark.parametrize(
    ("kernel", "chosen", "touched"), [(True, None, True), (True, "1", False), (False, None, False)]
)
def test_when_it_is_touched(
    unset: pytest.MonkeyPatch, kernel: bool, chosen: str | None, touched: bool
) -> None:
    """The same rule without starting a kernel."""
    calls: list[int] = []
    shell = SimpleNamespace(kernel=None) if kernel else SimpleNamespace()
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    unset.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    unset.setattr("torch.set_num_threads", calls.append)
    unset.setattr("threadpoolctl.threadpool_limits", calls.append)
    if chosen is not None:
        unset.setenv("MKL_NUM_THREADS", chosen)
    _one_thread_in_a_kernel()
    assert calls == [1, 1] * touched
    assert os.environ.get("OMP_NUM_THREADS") == ("1" if touched else None)


@pytest.mark.slow
def test_a_stored_chapter_was_executed_on_one_thread(
    unset: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Or the seconds in its header would be those of whoever ran it."""
    unset.setenv("OMP_NUM_THREADS", "2")
    cell = nbformat.v4.new_code_cell("import os\nprint(os.environ['OMP_NUM_THREADS'])")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "sample.ipynb")
    notebook, *_ = chapter_tools.executed(tmp_path / "sample.ipynb")
    assert notebook.cells[0].outputs[0]["text"] == "1\n"
