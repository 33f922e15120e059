"""Kernels of the tests are copies of one process: each is as a new one would be."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are copied on Linux only")
LOOK = """
import os, sys
differ = ("JPY_PARENT_PID", "OMP_NUM_THREADS")
print(os.getcwd(), sys.path, sorted(set(os.environ.items()) - {(k, os.getenv(k)) for k in differ}))
print("torch" in sys.modules, os.getpgid(0) == os.getpid(), getattr(sys, "_attnlib_network_cut"))
"""


def said(path: Path) -> tuple[str, str]:
    """What a kernel says of itself in one line, and of how it was made in another."""
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(LOOK)])
    NotebookClient(notebook, resources={"metadata": {"path": str(path)}}).execute()
    first, second = notebook.cells[0].outputs[0].text.splitlines()
    return first, second


def test_a_copy_is_as_a_new_kernel_but_has_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(tmp_path)  # what this one found is nothing to the next one, which is told more
    monkeypatch.setenv("TOLD", "to the next kernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    copy, made = said(tmp_path)
    assert made == "True True True"
    assert "to the next kernel" in copy
    monkeypatch.delenv("OMP_NUM_THREADS")  # torch is not asked again: a new process
    new, made = said(tmp_path)
    assert made == "False True True"
    assert copy == new


def test_a_copy_is_interrupted_and_ends() -> None:
    cells = [nbformat.v4.new_code_cell(x) for x in ("print(7)", "import time; time.sleep(60)")]
    client: Any = NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=2)
    client.interrupt_on_timeout = True
    with client.setup_kernel():
        process = client.km.provisioner.process
        client.execute_cell(cells[0], 0)
        with pytest.raises(Exception, match="KeyboardInterrupt"):
            client.execute_cell(cells[1], 1)
        assert process.poll() is None
    assert process.poll() is not None
