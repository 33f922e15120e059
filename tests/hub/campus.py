"""A department in a temporary folder: Unix accounts, the course, and the hub of docs/hub."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from course_files import course_files
from hub_environment import ROOT, found

from grading.release.build import student_copy

PASSWORD = "a password"
SEED = "a seed that nobody else knows"


@dataclass
class Campus:
    """Who is there and where everything lies.

    Attributes:
        place: what docs/teaching.md calls /srv/attention; the class is the group of its name.
        address: where the hub answers.
        lecturer: an account.
        students: two accounts.
    """

    place: Path
    address: str = ""
    lecturer: str = ""
    students: list[str] = field(default_factory=list)

    def home(self, user: str) -> Path:
        """A user's home folder."""
        return self.place / "home" / user

    @contextmanager
    def started(self, user: str, *command: str, **about: str) -> "Iterator[subprocess.Popen[str]]":
        """A process of a user's, in that user's ~/attention, with text for input and output."""
        account = pwd.getpwnam(user)
        home, path = str(self.home(user)), f"{found('bin')}:/usr/bin:/bin"
        settings = {"HOME": home, "USER": user, "PATH": path, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command,
            cwd=self.home(user) / "attention",
            env=settings | about,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:  # its input ends, and it is waited for
            yield process

    def run(self, user: str, *command: str, **about: str) -> str:
        """What a command of a user's prints."""
        with self.started(user, *command, **about) as process:
            told, _ = process.communicate()
        assert process.returncode == 0, told
        return told

    def course(self, *words: str) -> str:
        """What the lecturer's `make` says: course.py in the lecturer's folder."""
        command = [str(found("bin/python")), "course.py", "--here", *words]
        return self.run(self.lecturer, *command, ATTNLIB_SEED=SEED, TQDM_DISABLE="1")


@contextmanager
def accounts(campus: Campus) -> Iterator[None]:
    """Three accounts and the class's group, gone again afterwards."""
    group = campus.place.name
    campus.lecturer, *campus.students = [f"{group}-{name}" for name in ("lou", "ada", "bob")]
    (campus.place / "home").mkdir()
    with ExitStack() as stack:
        subprocess.run(["groupadd", group], check=True)
        stack.callback(subprocess.run, ["groupdel", group], check=False)
        for user in (campus.lecturer, *campus.students):
            home = ["--create-home", "--home-dir", str(campus.home(user)), "-k", "/nonexistent"]
            groups = ["--user-group", "--groups", group]
            subprocess.run(["useradd", *home, *groups, user], check=True)
            stack.callback(subprocess.run, ["userdel", "--force", user], check=False)
        told = "".join(f"{user}:{PASSWORD}\n" for user in (campus.lecturer, *campus.students))
        subprocess.run(["chpasswd"], input=told, text=True, check=True)
        yield


def lay_out(campus: Campus) -> None:
    """The steps of docs/teaching.md: the students' copy, the exchange, the lecturer's course."""
    course = campus.place / "course"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(student_copy(Path(folder))))
        archive.extractall(campus.place)
    (campus.place / "attention-course").rename(course)
    (course / "docs/hub/start").chmod(0o755)  # zipfile forgets what unzip keeps
    (course / ".venv").symlink_to(found("."))
    (campus.place / "state").mkdir(mode=0o700)
    (campus.place / "exchange").mkdir()
    shutil.chown(campus.place / "exchange", campus.lecturer, campus.lecturer)
    for name in course_files():
        target = campus.home(campus.lecturer) / "attention" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    who = f"{campus.lecturer}:{campus.lecturer}"
    subprocess.run(["chown", "-R", who, str(campus.home(campus.lecturer))], check=True)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def hub(campus: Campus) -> Iterator[None]:
    """The hub with the configuration of docs/hub, on ports of its own."""
    public, inner, proxy = free_ports(3)
    config = campus.place / "state" / "test_config.py"
    config.write_text(
        f"load_subconfig({str(campus.place / 'course/docs/hub/jupyterhub_config.py')!r})\n"
        "c = get_config()\n"
        f"c.JupyterHub.bind_url = 'http://127.0.0.1:{public}'\n"
        f"c.JupyterHub.hub_port = {inner}\n"
        f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{proxy}'\n"
    )
    path = f"{found('bin')}:{found('node_modules/.bin')}:{os.environ['PATH']}"
    library = f"{campus.place / 'course'}:{ROOT / 'tests' / 'offline'}"
    command = [str(found("bin/python")), "-m", "jupyterhub", "-f", str(config)]
    log = campus.place / "state" / "hub.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=campus.place / "state",
            env=os.environ | {"PATH": path, "PYTHONPATH": library},
            stdout=file,
            stderr=file,
        )
    campus.address = f"http://127.0.0.1:{public}"
    try:
        wait_for(f"{campus.address}/hub/api/", process, log)
        yield
    finally:
        process.terminate()
        process.wait(20)


def wait_for(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until the hub answers; its log in the message when it does not."""
    for _ in range(150):
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
            time.sleep(0.2)
    raise AssertionError(f"JupyterHub did not start:\n{log.read_text()[-3000:]}")


@contextmanager
def campus() -> Iterator[Campus]:
    """Everything, with the hub running; nothing of it stays."""
    place = Path(tempfile.mkdtemp(prefix="attn", dir="/tmp"))
    place.chmod(0o755)
    place = place.rename(place.with_name(place.name.replace("_", "x").lower()))
    made = Campus(place)
    try:
        with accounts(made):
            lay_out(made)
            with hub(made):
                yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)
