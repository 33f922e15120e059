"""A folder for checkpoints, and a GPT-2 that is small enough to lie in it."""

from dataclasses import replace

import pytest
import torch

from attnlib.models import Transformer, TransformerConfig, ZeroLayer
from attnlib.pretrained import checkpoints
from attnlib.tokenizers import BPE
from recipes.cards import save

SMALL = replace(
    TransformerConfig.gpt2(), vocab_size=262, d_model=12, layers=2, heads=3, d_ff=20, max_len=16
)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder, in which all checkpoints are looked for."""
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def small_bpe():
    """A tokenizer of six merges."""
    return BPE.train(["low login lower slow, slowly"], vocab_size=262, progress=False)


@pytest.fixture(scope="session")
def small_model():
    """A function that builds GPT-2's architecture, 12 wide, always with the same weights."""

    def build(**changes):
        with torch.random.fork_rng():
            torch.manual_seed(4)
            return Transformer(replace(SMALL, **changes)).eval()

    return build


@pytest.fixture
def own(folder, small_bpe):
    """A folder with a course's own GPT and its tokenizer, both very small, and with others."""
    config = {"vocab_size": 262, "d_model": 12, "layers": 2, "heads": 3, "max_len": 16}
    save("small-bpe", small_bpe, {}, folder)
    about = {"config": config, "tokenizer": "small-bpe"}
    model = Transformer(TransformerConfig(**config))
    save("reviews-gpt", model, about, folder)
    for name, change in (("blind", {"causal": False}), ("headless", {"head": False})):
        model = Transformer(TransformerConfig(**config, **change))
        save(name, model, about | {"config": {**config, **change}}, folder)
    save("bare", model, {"config": {**config, "head": False}}, folder)
    zero = {"vocab_size": 262, "d_model": 4}
    save("zero", ZeroLayer(**zero), {"config": zero, "tokenizer": "small-bpe"}, folder)
    return folder
