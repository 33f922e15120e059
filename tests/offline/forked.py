"""Kernels that are forked from a process which has imported what every chapter imports.

Starting Python, the kernel and torch anew takes longer than most cells. The first kernel of a test
run starts a server of forks (`multiprocessing`); every kernel is a copy of it.
"""

import gc
import os
import runpy
import subprocess
import sys
import time
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from typing import Any

from jupyter_client.launcher import launch_kernel
from jupyter_client.provisioning import local_provisioner

get_context("forkserver").set_forkserver_preload(
    ["ipykernel.kernelapp", "ipywidgets", "matplotlib.pyplot", "torch._dynamo"]
)
THREADS = os.environ.get("OMP_NUM_THREADS")  # torch asks when it is imported


@cache
def path(told: str) -> list[str]:
    """Where a Python finds modules that starts with this PYTHONPATH; this one was told more."""
    asked = [sys.executable, "-c", "import sys; print(*sys.path, sep='\\n')"]
    found = subprocess.run(
        asked, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": told}
    )
    return found.stdout.splitlines()


class Kernel(ForkServerProcess):
    """A copy that becomes a kernel, with what a manager asks of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], folder: str | None, variables: Any) -> None:
        super().__init__()
        found = path(variables.get("PYTHONPATH", ""))
        self.settings = arguments, found, folder or ".", dict(variables)

    def run(self) -> None:
        """Be a kernel, in the copy."""
        os.setpgid(0, 0)  # a signal reaches it and its children alone
        gc.freeze()  # nothing that the copy comes with is garbage
        arguments, sys.path[:], folder, variables = self.settings
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = ["ipykernel", *arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
        runpy.run_module("ipykernel_launcher", run_name="__main__")

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self.exitcode

    def wait(self) -> int | None:
        """The exit status, when it has ended."""
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to the copy."""
        os.kill(self.pid or 0, number)


def launch(command: list[str], **settings: Any) -> Any:
    """A kernel: a copy if it is a Python of these settings, otherwise a process of its own."""
    variables = settings.get("env") or os.environ
    same = variables.get("OMP_NUM_THREADS") == THREADS
    if command[:3] != [sys.executable, "-m", "ipykernel_launcher"] or not same:
        return launch_kernel(command, **settings)
    kernel = Kernel(command[3:], settings.get("cwd"), variables)
    kernel.start()
    while kernel.is_alive() and os.getpgid(kernel.pid or 0) != kernel.pid:
        time.sleep(0.01)
    return kernel


def install() -> None:
    """Let every kernel that this process starts be such a copy."""
    vars(local_provisioner)["launch_kernel"] = launch
