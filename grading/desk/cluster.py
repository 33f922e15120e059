"""A cluster of dask.distributed as the executor of `grading.desk.classes`; somebody else starts it.

A worker is a process of dask's in a clone of this course, with its environment and bubblewrap. It
gets the bytes of a submission and the seed, and needs neither the class's folders nor the
gradebook. This file only speaks with the scheduler: `connected(address)` gives what makes an
executor of `concurrent.futures`' kind. What is particular to dask ends here: a worker that is lost
is a broken executor, as everywhere, and all else that goes wrong with a cluster is a `Fault`, in a
sentence.
"""

import contextlib
import logging
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from grading.child import Trouble
from grading.release.build import BuildError
from grading.sandbox.watch import SandboxError

PATIENCE = 60.0  # seconds until a scheduler answers and has a worker


class Fault(BuildError):
    """The cluster cannot grade; nothing is said about a submission. The text says why."""


@contextmanager
def connected(address: str) -> Iterator[Callable[[], Executor] | None]:
    """What makes executors whose calls run in a cluster; None without an address.

    Args:
        address: the scheduler's, such as tcp://head:8786.

    Raises:
        BuildError: nobody answers there, or no worker has come.
    """
    if not address:
        yield None
        return
    try:
        dask: Any = import_module("distributed")
    except ImportError:
        raise BuildError(
            "A cluster needs the package distributed: pip install distributed"
        ) from None
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is told by us
    try:
        client = dask.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BuildError(f"No scheduler answers at {address}: {error}") from None
    try:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise BuildError(f"The scheduler at {address} has no worker; start one") from None
        yield lambda: Workers(client, address)
    finally:
        client.close(timeout=5)


class Workers(Executor):
    """The workers that a cluster has, more or fewer as they come and go."""

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.size = client, 1
        self.inner = client.get_executor(pure=False)  # the same work by two students runs twice
        self.gone = f"the scheduler at {address} has gone"
        # what each call of a client raises from the moment it sees that its scheduler has gone
        self.closed: type[Exception] = import_module("distributed.client").ClosedClientError

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As every executor's, of a function of a module; what its result raises is translated."""
        outer: Future[Any] = Future()
        try:
            inner = self.inner.submit(by_name(call), pickle.dumps((args, kwargs)))
        except self.closed:
            outer.set_exception(Fault(self.gone))
        else:
            inner.add_done_callback(lambda done: self.hand_over(done, outer))
        return outer

    def hand_over(self, done: "Future[Any]", outer: "Future[Any]") -> None:
        """End a future as the cluster's own has ended, in words that do not depend on dask."""
        try:
            outer.set_result(done.result())
        except (SandboxError, Trouble) as error:
            outer.set_exception(error)
        except CancelledError:
            outer.set_exception(Fault(self.gone))
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            lost = type(error).__name__ == "KilledWorker"
            need = "a worker has failed; it needs this course's clone and its environment"
            outer.set_exception(BrokenExecutor(text) if lost else Fault(f"{need} ({text})"))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the executor; its client stays."""
        with contextlib.suppress(self.closed):  # then all calls have ended
            self.inner.shutdown(wait=wait and not cancel_futures)

    @property
    def _max_workers(self) -> int:
        with contextlib.suppress(OSError):  # a scheduler that has gone ends all calls by itself
            asked = self.client.scheduler.ncores
            self.size = sum(self.client.sync(asked, workers=None, callback_timeout=10).values())
        return self.size


def by_name(call: Any) -> Any:
    """The same function, of pickled arguments.

    A worker that has not got the function, or the classes of its arguments, fails in this call. It
    would not survive reading them.
    """
    module, name = call.__module__, call.__qualname__

    def function(arguments: bytes) -> Any:
        args, kwargs = pickle.loads(arguments)
        return getattr(import_module(module), name)(*args, **kwargs)

    return function
