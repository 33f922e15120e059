"""JupyterHub for this course on one machine; docs/teaching.md tells the steps.

This file lies in the students' copy of the course, `course`, and beside that folder lie `exchange`
and `state`. Whoever is in the Unix group that has the name of the folder around these three may log
in, by the machine's own accounts and passwords, and works with the rights of that account.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = HERE.parents[2]

c = get_config()  # noqa: F821  (JupyterHub defines it)
c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # behind a web server that speaks https
c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.allowed_groups = {PLACE.name}
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = [str(HERE / "start")]
c.Spawner.default_url = "/lab/tree/chapters/00_start_here.ipynb"
c.Spawner.http_timeout = 60
# root's alone: the hub's list of tokens, and the key of its cookies
c.JupyterHub.db_url = f"sqlite:///{PLACE / 'state' / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(PLACE / "state" / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(PLACE / "state" / "proxy.pid")
