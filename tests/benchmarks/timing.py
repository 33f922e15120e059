"""What the benchmarks share: how two works are timed beside each other, and a browser."""

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # grading and the twins are not installed
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and its seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def compare(name: str, pair: Pair, repetitions: int, reference: str = "torch") -> float:
    """Run ours and theirs by turns, print one line, return the ratio of the medians."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for work in pair:
        work()  # what happens only once is not counted
    for _ in range(repetitions):
        for work, times in zip(pair, seconds, strict=True):
            times.append(timed(work)[1])
    ours, theirs = (1e3 * median(times) for times in seconds)
    times = f"ours {ours:7.1f} ms   {reference} {theirs:7.1f} ms"
    print(f"{name:<44} {times}   ratio {ours / theirs:.2f}x")
    return ours / theirs


def option(name: str, default: int) -> int:
    """A whole number from the command line, such as --repetitions 5."""
    parser = argparse.ArgumentParser()
    parser.add_argument(f"--{name}", type=int, default=default)
    return int(getattr(parser.parse_args(), name))


def chromium(play: Any) -> Any:
    """The browser of this machine."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    return play.chromium.launch(executable_path=path, args=FLAGS)
