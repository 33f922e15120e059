"""The helper library of the course: small on purpose.

Chapters build an idea from nothing; `attnlib` keeps the finished version. It is made of layers,
and an import only ever goes down (docs/architecture.md has the picture):

- `attention`, `positions`, `trace`, `data`: the pieces
- `tokenizers`: text to ids; `models`: ids to logits
- `training`: fitting a model; `decoding`: writing text; `pretrained`: trained models
- `explain`: what a prediction hangs on
- beside them `plots` and `widgets`, which show things, and `check`, the line under an exercise

One record flows through all of them, the `Trace`: tokens, attention weights and, on request,
queries, keys, values, what each head writes, the residual stream and the logits. Its fields have
the names of the sites where a forward pass can be edited (`models.transformer`).

Importing it does one thing more, in a notebook kernel only: see `_one_thread_in_a_kernel`.
"""

import os
import sys

import torch

from attnlib.attention import MultiHeadAttention
from attnlib.trace import Trace

__version__ = "0.1.0"
__all__ = ["MultiHeadAttention", "Trace"]


def _one_thread_in_a_kernel() -> None:
    """A notebook of the course computes on one thread, unless its reader says otherwise.

    Threads that share a computation wait for each other by spinning. On matrices as small as ours
    two of them gain little, and beside one other busy program (a browser, a second notebook) they
    take ten times as long: `make bench ARGS=load` measures it.

    - What is set: the threads of torch and of the linear algebra under numpy, to 1; and
      OMP_NUM_THREADS=1 for what is loaded later and for processes that the kernel starts.
    - When: at the first `import attnlib` in a Jupyter kernel, whoever started it. A script, a
      test or a server that imports the library is left alone.
    - How to change it: `torch.set_num_threads(2)` in a later cell, or start Jupyter with
      OMP_NUM_THREADS or MKL_NUM_THREADS set to any number, and nothing is touched.
    """
    ipython = sys.modules.get("IPython")  # in a kernel it is always loaded
    in_kernel = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    if not in_kernel or not os.environ.keys().isdisjoint(("OMP_NUM_THREADS", "MKL_NUM_THREADS")):
        return
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    threadpool_limits(1)  # torch has loaded numpy, and numpy has started its threads


_one_thread_in_a_kernel()
