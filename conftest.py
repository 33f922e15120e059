"""For every kind of test, of the library, the chapters and the project: no network, one thread.

What is set here is set before torch is imported, and passes on to kernels and other children.
"""

import gc
import importlib.util
import os
from pathlib import Path

import hypothesis

OFFLINE = Path(__file__).parent / "tests" / "offline"


def cut_network() -> None:
    """Cut the network of this process, and of every Python that it starts."""
    spec = importlib.util.spec_from_file_location("offline", OFFLINE / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    paths = [str(OFFLINE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")


cut_network()
os.environ["MPLBACKEND"] = "module://readable"  # beside what cuts the network: measures figures
# The same examples at every run and on every machine: a test that passed stays passed.
hypothesis.settings.register_profile("course", derandomize=True, deadline=None)
hypothesis.settings.load_profile("course")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the course's notebooks; workers get it too


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the search for garbage need not look at it."""
    gc.freeze()
