"""Makes the environment for the tests of docs/hub: `.venv/bin/python tools/hub_environment.py`.

JupyterHub is no part of the course, so it is in no lock. `build/hub` gets links to the files of the
environment that runs this, JupyterHub on top of them, and its proxy by npm. It takes some fifteen
seconds.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JUPYTERHUB = "jupyterhub==6.1.1"
PROXY = "configurable-http-proxy@5"
OWN = "include-system-site-packages = false\n"


def found(name: str) -> Path:
    """A file of the environment, by its path in there."""
    return ROOT / "build" / "hub" / name


def open_to_all(path: Path) -> bool:
    """Whether every user of this machine may go where a file really is."""
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def unusable() -> str | None:
    """Why the hub cannot be tested on this machine, or None if it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can start a hub for several accounts, and make them"
    if shutil.which("useradd") is None:
        return "there is no useradd, which makes accounts"
    for name in ("bin/jupyterhub", "node_modules/.bin/configurable-http-proxy"):
        if not found(name).exists():
            return f"there is no {found(name)}: run {sys.executable} tools/hub_environment.py"
    for path in (ROOT / "course.py", found("bin/python")):
        if not open_to_all(path):
            return f"the hub's users may not go to {path.resolve()}"
    return None


def python_for_all() -> Path:
    """A Python of this version that every user may run."""
    own, system = Path(sys.base_prefix), Path("/usr")
    name = f"bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    for prefix in (own, system):
        if (prefix / name).exists() and open_to_all(prefix / name):
            return prefix / name
    raise SystemExit(f"no user but you may run {own / name}, and there is no {system / name}")


def make(folder: Path) -> None:
    """Make the environment in place of what was there."""
    python = python_for_all()
    if not open_to_all(ROOT / "course.py"):
        raise SystemExit(f"the hub's users may not go to {ROOT}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sys.prefix, folder, symlinks=True, copy_function=os.link)
    for path in (folder / "bin").glob("python*"):
        path.unlink()
    for name in ("python", "python3", python.name):
        (folder / "bin" / name).symlink_to(python)
    (folder / "pyvenv.cfg").unlink()
    (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\n{OWN}")
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    # the lock may have other versions for this Python than for ours
    lock = ["--no-deps", "--require-hashes", "-r", ROOT / "requirements.lock"]
    subprocess.run([*pip, *lock], check=True)
    subprocess.run([*pip, JUPYTERHUB], check=True)
    # nbgrader calls this one by name; the link still starts the Python that it came from
    alembic = f"alembic=={version('alembic')}"
    subprocess.run([*pip, "--no-deps", "--force-reinstall", alembic], check=True)
    npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", folder, PROXY]
    subprocess.run(npm, check=True)


if __name__ == "__main__":
    make(found("."))
