"""Kernels of the tests are copies of one process: each is as a new one would be."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.provisioning import local_provisioner
from nbclient import NotebookClient

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are copied on Linux only")
LOOK = """
import os, sys
print(os.getcwd(), sys.path, sorted(os.environ.items()), __name__)
print("torch" in sys.modules, os.getpgid(0) == os.getpid(), getattr(sys, "_attnlib_network_cut"))
"""


def said(path: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> tuple[str, str]:
    """What a kernel says of itself in one line, and of how it was made in another."""
    if monkeypatch:
        own = local_provisioner.launch_kernel.__globals__["launch_kernel"]
        monkeypatch.setattr(local_provisioner, "launch_kernel", own)
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(LOOK)])
    NotebookClient(notebook, resources={"metadata": {"path": str(path)}}).execute()
    first, second = notebook.cells[0].outputs[0].text.splitlines()
    return first, second


def test_a_copy_is_as_a_new_kernel_but_has_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLD", "to the next kernel")
    copy, made = said(tmp_path)
    assert made == "True True True"
    assert "to the next kernel" in copy
    new, made = said(tmp_path, monkeypatch)
    assert made.startswith("False")
    assert copy == new.replace(f"('JPY_PARENT_PID', '{os.getpid()}'), ", "")


def test_a_copy_is_interrupted_and_ends(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(x) for x in ("print(7)", "import time; time.sleep(60)")]
    client = NotebookClient(nbformat.v4.new_notebook(cells=cells), resources={}, timeout=2)
    client.interrupt_on_timeout = True
    with client.setup_kernel():
        process = client.km.provisioner.process
        client.execute_cell(cells[0], 0)
        with pytest.raises(Exception, match="KeyboardInterrupt"):
            client.execute_cell(cells[1], 1)
        assert process.poll() is None
    assert process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, signal.SIGCONT)
