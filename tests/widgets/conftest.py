"""JupyterLab, started once for a file of tests."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
collect_ignore = ["conftest.py"]  # for doctests: there is one in other folders, too


def environment(folder: Path) -> dict[str, str]:
    """This process's environment, with settings of its own and attnlib on the path."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    settings = {"JUPYTER_CONFIG_DIR": str(folder / "config"), "PYTHONPATH": path}
    settings |= {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_DATA_DIR": str(folder / "data")}
    return {**os.environ, **settings}


@pytest.fixture(scope="module")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab on a free port of 127.0.0.1: its address with %s for a path, and its folder."""
    folder = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = "--no-browser --allow-root --ServerApp.ip=127.0.0.1 --ServerApp.port_retries=0 "
    options += (
        "--IdentityProvider.token=attn --LabApp.expose_app_in_browser=True --LabApp.news_url="
    )
    command = [sys.executable, "-m", "jupyter", "lab", *options.split()]
    command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
    with (folder / "lab.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=log, stderr=log
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/api?token=attn", server, folder / "lab.log")
        yield f"http://127.0.0.1:{port}/lab/tree/%s?token=attn&reset", folder
    finally:
        server.terminate()
        server.wait(20)


def wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until the server answers; its log in the message when it does not."""
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                break
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")
