"""Checkpoints with cards and hashes: written, read, and refused where something is wrong."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from attnlib import pretrained
from attnlib.models import (
    Elman,
    NeuralNgram,
    Recurrent,
    Seq2Seq,
    Transformer,
    TransformerConfig,
    Translator,
    ZeroLayer,
)
from attnlib.tokenizers import BPE
from recipes.cards import save

CASES = {
    "ZeroLayer": (ZeroLayer, {"vocab_size": 9, "d_model": 4}),
    "NeuralNgram": (NeuralNgram, {"vocab_size": 9, "n": 3, "d_model": 4, "d_hidden": 5}),
    "Elman": (Elman, {"vocab_size": 9, "d_model": 4, "d_hidden": 5}),
    "Recurrent": (Recurrent, {"vocab_size": 9, "d_model": 4, "d_hidden": 5, "cell": "gru"}),
    "Transformer": (Transformer, {"vocab_size": 9, "d_model": 4, "heads": 2}),
    "tied": (Transformer, {"vocab_size": 9, "d_model": 4, "heads": 2, "tied": True}),
}


def saved(folder, case="Transformer", seed=0):
    kind, config = CASES[case]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = kind(TransformerConfig(**config)) if kind is Transformer else kind(**config)
    about = {"config": config, "command": "python -m recipes mine", "seed": seed}
    return model, save("mine", model, about, folder)


@pytest.mark.parametrize("case", CASES)
def test_round_trip_in_half_precision(folder, case):
    model, path = saved(folder, case)
    loaded = pretrained.load("mine")
    assert type(loaded) is type(model)
    assert not loaded.training
    ours = loaded.state_dict()
    assert ours.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert ours[name].dtype == torch.float32
        assert torch.equal(ours[name], value.half().float()), name
    size = (folder / "mine.safetensors").stat().st_size
    numbers = sum(value.numel() for value in model.state_dict().values())
    assert 2 * numbers <= size <= 2 * numbers + 2000
    ids = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(loaded(ids), model.eval()(ids), atol=0.02, rtol=0.02)
    assert path == folder / "mine.json"
    assert pretrained.names() == ["mine"]


def test_saving_changes_nothing_in_the_model(folder):
    model, _ = saved(folder)
    twin, _ = saved(folder)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_card_holds_what_it_was_told_and_the_hash(folder):
    saved(folder, seed=7)
    card = pretrained.card("mine")
    found = hashlib.sha256((folder / "mine.safetensors").read_bytes()).hexdigest()
    assert card == {
        "name": "mine",
        "kind": "Transformer",
        "file": "mine.safetensors",
        "sha256": found,
        "config": CASES["Transformer"][1],
        "command": "python -m recipes mine",
        "seed": 7,
    }


def test_everybody_may_read_a_checkpoint(folder):
    saved(folder)
    plain = folder / "plain"
    plain.write_bytes(b"")
    assert (folder / "mine.safetensors").stat().st_mode == plain.stat().st_mode


def test_altered_weights_are_refused(folder):
    saved(folder)
    path = folder / "mine.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # one bit of one number
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match="rebuild it with: python -m recipes mine"):
        pretrained.load("mine")
    path.unlink()
    with pytest.raises(RuntimeError, match="mine.safetensors: expected .* found no file"):
        pretrained.load("mine")


def test_weights_of_another_shape_are_refused(folder):
    _, path = saved(folder)
    card = json.loads(path.read_text(encoding="utf-8"))
    card["config"]["d_model"] = 8
    path.write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(RuntimeError, match="size mismatch"):
        pretrained.load("mine")


def test_unknown_name_lists_the_names(folder):
    saved(folder)
    for function in (pretrained.load, pretrained.card):
        with pytest.raises(ValueError, match="no checkpoint 'yours'; there are mine"):
            function("yours")


def test_a_tokenizer_is_a_checkpoint_too(folder):
    bpe = BPE.train(["low login lower"], vocab_size=260, progress=False)
    save("bpe", bpe, {"command": "make it"}, folder)
    assert pretrained.tokenizer("bpe") == bpe
    assert pretrained.card("bpe")["kind"] == "BPE"
    (folder / "bpe.bpe").write_text("low", encoding="utf-8")
    with pytest.raises(RuntimeError, match="rebuild it with: make it"):
        pretrained.tokenizer("bpe")


def test_models_and_tokenizers_are_not_taken_for_each_other(own):
    with pytest.raises(
        ValueError, match=r"'small-bpe' is no model: tokenizer\('small-bpe'\) loads"
    ):
        pretrained.load("small-bpe")
    with pytest.raises(ValueError, match="'zero' is a ZeroLayer, no tokenizer"):
        pretrained.tokenizer("zero")


# --- the checkpoints that are shipped -----------------------------------------------------------


def of_kind(*kinds, but=False):
    return [name for name in pretrained.names() if (pretrained.card(name)["kind"] in kinds) != but]


@pytest.mark.parametrize("name", of_kind("Result"))
def test_shipped_result(name):
    """A card without weights, which nothing tries to load."""
    card = pretrained.card(name)
    assert len(card.keys() - {"name", "kind", "command"}) > 0
    assert not card.keys() & {"file", "sha256"}
    with pytest.raises(ValueError, match=f"'{name}' is no model but a result: card"):
        pretrained.load(name)
    with pytest.raises(ValueError, match=f"'{name}' is a Result, no tokenizer"):
        pretrained.tokenizer(name)


@pytest.mark.parametrize("name", of_kind("Result", "Annotations", but=True))
def test_shipped_checkpoint(name):
    card = pretrained.card(name)
    load = pretrained.tokenizer if card["kind"] == "BPE" else pretrained.load
    thing = load(name)  # which checks the hash
    assert card["name"] == name
    assert {"data", "sha256", "file", "kind"} <= card.keys()
    if not isinstance(thing, BPE):
        assert {"config", "seed", "steps", "tokens"} <= card.keys()
        assert all(parameter.isfinite().all() for parameter in thing.parameters())
    if not isinstance(thing, BPE | Seq2Seq | Translator):
        assert "loss" in card
        outputs = 11 if card["kind"] == "HistogramModel" else card["config"]["vocab_size"]
        one_number = card["kind"].endswith("Classifier")
        shape = (1,) if one_number else (1, 3, outputs)
        assert thing(torch.tensor([[1, 2, 3]])).shape == shape


def test_save_refuses_what_load_could_not_build(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got Linear"):
        save("line", torch.nn.Linear(2, 2), {}, tmp_path)
    assert not list(tmp_path.iterdir())
