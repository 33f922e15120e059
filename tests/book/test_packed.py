"""SmolLM2's graph for the browser, run by onnxruntime: the same numbers as in `attnlib`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnlib.models.transformer import Edits
from attnlib.pretrained import smollm2
from attnlib.pretrained.published import smollm2_file
from book.export import READS
from book.packed import BLOCK, SESSION, Llama, four_bits

pytestmark = pytest.mark.slow
TEXTS = [
    "x",
    "When Mary and John went to the store, John gave a drink to",
    "naïve café 👍 – “quotes”\n\nIn 1,024 words: " + "the film " * 8,
]
Run = Callable[..., list[np.ndarray]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """New ids, what was kept, and a gate of the heads to maps, what to keep, and logits."""
    runtime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    path = tmp_path_factory.mktemp("onnx") / "smollm2.onnx"
    config = smollm2().model.config
    onnx.save(Llama(smollm2_file(), config, READS).model(), path)
    assert path.stat().st_size < 100e6
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    for name, value in SESSION.items():
        options.add_session_config_entry(f"session.{name}", value)
    session = runtime.InferenceSession(path, options)
    nothing = np.zeros((0, config.layers, 2, config.kv_heads, 64), np.float32)
    whole = np.ones((config.layers, config.heads), np.float32)

    def run(ids: list[int], past: np.ndarray = nothing, gate: np.ndarray = whole) -> Any:
        fed = {"ids": np.array(ids), "past": past, "gate": gate}
        return session.run(["maps", "kept", "logits"], fed)

    return run


def differences(
    found: list[np.ndarray], text: str, edits: Edits | None = None
) -> tuple[float, ...]:
    """How far maps (total variation of a row) and next-token probabilities are from Python's."""
    trace = smollm2().trace(text, keep=("logits",), edits=edits)
    maps = torch.from_numpy(found[0]).permute(1, 2, 0, 3)
    p = torch.from_numpy(found[2]).softmax(0) - trace.logits[-1].softmax(0)
    return (maps - trace.pattern).abs().sum(-1).max().item() / 2, p.abs().max().item()


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_maps_and_probabilities_are_those_of_python(run: Run, text: str) -> None:
    assert max(differences(run(smollm2().encode(text)), text)) < 1e-4


def test_what_was_read_stays_read(run: Run) -> None:
    ids = smollm2().encode(TEXTS[1])
    maps, kept, logits = run(ids)
    _, first, _ = run(ids[:9])
    later = run(ids[9:], first)
    assert np.abs(later[0] - maps[9:]).max() < 1e-5
    assert np.abs(later[1] - kept[9:]).max() < 1e-3
    assert np.abs(later[2] - logits).max() < 1e-3


def test_a_gate_of_nought_removes_a_head(run: Run) -> None:
    gate = np.ones((30, 9), np.float32)
    gate[23, 0] = gate[24, 4] = 0

    def without(head: int) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda mixed: mixed.index_fill(1, torch.tensor(head), 0)

    edits: Edits = {("z", 23): without(0), ("z", 24): without(4)}
    found = run(smollm2().encode(TEXTS[1]), gate=gate)
    assert max(differences(found, TEXTS[1], edits)) < 1e-4
    assert differences(found, TEXTS[1])[1] > 0.01


def test_the_blocks_are_those_of_the_file() -> None:
    name = "blk.7.attn_k.weight"
    q, d, m = four_bits(smollm2_file().blocks(name))
    in_order = torch.stack([q & 15, q >> 4], -1).flatten(-2)
    d, m = d.float()[..., None], m.float()[..., None]
    weights = (d * in_order + m).flatten(1)
    assert q.shape[-1] == BLOCK // 2
    assert (weights - smollm2_file()[name]).abs().max() < 1e-6
