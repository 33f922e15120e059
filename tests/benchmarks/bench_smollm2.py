"""SmolLM2 in our Transformer beside the reference implementations, on the same file, in one run.

    python tests/benchmarks/bench_smollm2.py

Loading stands beside `gguf`, which reads and unpacks the same file; writing and the maps beside
`transformers`' Llama with the same weights. A page of `explore` is measured in `bench_view.py`.
Memory is that of a process of its own.
"""

import subprocess
import sys
from typing import Any

import torch
from timing import compare, option, timed
from torch import Tensor
from twins import smollm2_twin

from attnlib.data import reviews
from attnlib.decoding import greedy
from attnlib.pretrained import smollm2
from attnlib.pretrained.published import smollm2_file

NEW, LENGTH = 60, 100
MEMORY = """
import re
import torch, attnlib.pretrained as pretrained
most = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1e6
before = most()
pretrained.smollm2()
print(before, most())
"""


def unpacked_by_gguf() -> dict[str, Any]:
    """Every tensor of the file by the reference reader."""
    from gguf import GGUFReader, dequantize

    tensors = GGUFReader(smollm2_file().path).tensors
    return {t.name: dequantize(t.data, t.tensor_type) for t in tensors}


def main() -> None:
    """Print every figure beside its reference."""
    repetitions = option("repetitions", 3)
    ours = timed(smollm2)[1]
    print(f"{'load: ours, and gguf reads and unpacks':<44} {ours:.1f} s and ", end="", flush=True)
    theirs = timed(unpacked_by_gguf)[1]
    print(f"{theirs:.1f} s   ratio {ours / theirs:.2f}x")
    before, after = map(
        float, subprocess.check_output([sys.executable, "-c", MEMORY], text=True).split()
    )
    print(f"{'memory: at its most, of it torch':<44} {after:.2f} GB, {before:.2f} GB")

    lm = smollm2()
    reference = smollm2_twin(lm.model.config, eos_token_id=None)
    ids = torch.tensor(lm.encode(reviews("imdb").test.texts[0])[:LENGTH])

    def write_ours() -> Tensor:
        return greedy(lm.model, ids[:14], NEW)

    @torch.no_grad()
    def write_theirs() -> Tensor:
        return reference.generate(ids[None, :14], max_new_tokens=NEW, do_sample=False)[0]

    assert torch.equal(write_ours(), write_theirs()), "the two write other texts"
    compare(f"write {NEW} tokens with a cache", (write_ours, write_theirs), repetitions, "theirs")

    @torch.no_grad()
    def maps_theirs() -> Any:
        return reference(ids[None], output_attentions=True).attentions

    maps = lm.model.trace(ids).pattern
    torch.testing.assert_close(maps, torch.cat(maps_theirs()), atol=1e-5, rtol=0)
    works = (lambda: lm.model.trace(ids), maps_theirs)
    compare(
        f"trace of {LENGTH} tokens, {maps[:, :, 0, 0].numel()} maps", works, repetitions, "theirs"
    )


if __name__ == "__main__":
    main()
