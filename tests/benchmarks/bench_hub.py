"""What a class at once costs: `make bench hub`, some six minutes on two cores.

    python tests/benchmarks/bench_hub.py --kernels 10 --chapter 05_gpt2

As many kernels as a class has students run a chapter from its first cell to its last, all started
together as in a lecture, and one kernel alone before them. If cores were shared without loss, `n`
kernels on `c` of them would take n / c times as long. --every-core lets each kernel compute on all
cores, which is torch's own choice and not the course's; that takes far longer.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from timing import ROOT

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
RUN = """
import resource, sys, time, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
client = NotebookClient(notebook, timeout=1800, kernel_name="python3", store_widget_state=False)
began = time.perf_counter()
client.execute(cwd=sys.argv[2])
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measured(chapter: Path, kernels: int, every_core: bool) -> list[tuple[float, float]]:
    """Of each of some kernels that run a chapter together: wall seconds, and peak memory in GB."""
    env = {name: value for name, value in os.environ.items() if name not in THREADS}
    env |= {"TQDM_DISABLE": "1"} | ({"OMP_NUM_THREADS": str(os.cpu_count())} if every_core else {})
    command, pipe = [sys.executable, "-c", RUN, str(chapter), str(chapter.parent)], subprocess.PIPE
    processes = [
        subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)
        for _ in range(kernels)
    ]
    told = [process.communicate() for process in processes]
    for process, (_, why) in zip(processes, told, strict=True):
        if process.returncode:
            raise SystemExit(f"a kernel did not come to the end of {chapter.stem}:\n{why[-2000:]}")
    pairs = (out.split() for out, _ in told)
    return sorted((float(seconds), int(memory) / 2**20) for seconds, memory in pairs)


def main() -> None:
    """Print the time alone, the times together, and what sharing the cores costs beyond that."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=10)
    parser.add_argument("--chapter", default="05_gpt2")
    parser.add_argument("--every-core", action="store_true")
    options = parser.parse_args()
    chapter = ROOT / "chapters" / f"{options.chapter}.ipynb"
    cores, began = len(os.sched_getaffinity(0)), time.strftime("%H:%M")
    ((alone, memory),) = measured(chapter, 1, options.every_core)
    print(f"{options.chapter} on {cores} cores, begun {began}", flush=True)
    print(f"  one kernel alone {alone:6.1f} s          {memory:.1f} GB at its peak", flush=True)
    together = measured(chapter, options.kernels, options.every_core)
    for number, (one, memory) in enumerate(together, start=1):
        told = f"{one:6.1f} s   {one / alone:5.2f}x  {memory:.1f} GB"
        print(f"  kernel {number:2} of {options.kernels:<4} {told}")
    share, slowest = max(1, options.kernels / cores), together[-1][0] / alone
    print(f"cores shared without loss {share:.2f}x, the slowest kernel {slowest:.2f}x: ", end="")
    print(f"sharing costs {slowest / share:.2f}x")


if __name__ == "__main__":
    main()
