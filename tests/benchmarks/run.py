"""Runs every benchmark beside this file, one after the other: `make bench [ARGS="bpe view"]`.

Each prints ratios against a reference measured in the same run; none is part of the tests. Both
sides compute on one thread, as the course does; OMP_NUM_THREADS=2 make bench gives them two.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def main(names: Sequence[str]) -> int:
    """Run the named benchmarks, or all, and return 1 if one fails."""
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 1
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    failed = 0
    for name in names or known:
        print(f"\n{name}", flush=True)
        failed += subprocess.call([sys.executable, str(known[name])]) != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
