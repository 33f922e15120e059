"""What the recipe of chapter 14 measures, on small models whose answer is known."""

from types import SimpleNamespace

import pytest
import torch
from tiny import assert_near, config_of, ids_of, model_of

from attnlib import pretrained
from attnlib.attention import causal_mask
from recipes import today

SIZE = {"d_ff": 10, "norm_kind": "rms", "positions": "rotary", "kv_heads": 1}


def local_model(layers=3, window=4):
    return model_of(config_of(layers=layers, window=window, **SIZE))


def test_edits_that_share_out_a_row_are_a_mask():
    """The weights of a model with a window, in the same model without it."""
    local, ids = local_model(), ids_of(0, 1, 12)
    whole = model_of(config_of(layers=3, **SIZE))
    whole.load_state_dict(local.state_dict())
    back = torch.arange(12)[:, None] - torch.arange(12)
    edits = today.only((back >= 0) & (back < 4), 3)
    assert_near(whole(ids, edits=edits), local(ids), 1e-5)
    assert (whole(ids) - local(ids)).abs().max() > 1e-3


@pytest.mark.claim(117)
def test_reach_grows_by_a_window_less_one_in_each_layer():
    lm = SimpleNamespace(model=local_model(layers=4, window=3))
    ids = (ids_of(0, 1, 30)[0] * 5 + torch.arange(30)) % 13
    ids[3], ids[8] = 1, 2
    assert today.reach(lm, ids, changed=3).tolist() == [2, 4, 6, 8]


def test_a_model_that_knows_nothing_needs_its_vocabularys_bits(monkeypatch):
    """Thirteen tokens alike, two bytes each: log2(13) / 2 bits for a byte."""
    monkeypatch.setattr(today, "CONTEXT", 4)
    lm = SimpleNamespace(
        model=lambda ids: torch.zeros(*ids.shape, 13),
        tokenizer=SimpleNamespace(vocab=[b"ab"] * 13),
        encode=lambda text: [0] * (len(text) // 2),
    )
    expected = torch.tensor(13.0).log2().item() / 2
    assert today.bits_per_byte(lm, "ab" * 10) == pytest.approx(expected)


def test_sinks_are_read_where_they_were_put(monkeypatch):
    """A pattern that is known: all on the first token, where it is seen."""
    for name, value in (("LONG", 20), ("NEAR", (2, 5)), ("FAR", 12), ("LOCAL", 6)):
        monkeypatch.setattr(today, name, value)
    monkeypatch.setitem(today.LOUD_LAYER, "small", 1)
    model = model_of(config_of(layers=2, **SIZE))
    run = model.run

    def known(x, **settings):
        first = torch.zeros(1, model.config.heads, 20, 20)
        first[..., 0] = 1
        return run(x, **settings, edits={("pattern", layer): lambda _: first for layer in (0, 1)})

    monkeypatch.setattr(model, "run", known)
    lm = SimpleNamespace(model=model)
    with torch.no_grad():
        measured = today.sinks(lm, "small", ids_of(0, 1, 20)[0])
    assert (measured["near"] == 1).all()
    assert (measured["far"] == 1).all()
    assert (measured["beyond"] == 1).all(), "the first token is six and more tokens back"
    assert (measured["oldest"] == 0).all()
    assert measured["value_first"].shape == (2, 1)


def test_a_state_is_put_elsewhere_from_its_layer_on(monkeypatch):
    monkeypatch.setitem(today.MOVED_AT, "small", 1)
    model = model_of(config_of(layers=2, max_len=64, **SIZE))
    rows = today.moved(SimpleNamespace(model=model), "small", ids_of(0, 1, 48)[0])
    plain, copied, _ = rows["moved"]
    assert torch.equal(plain[0], copied[0])
    assert (plain[1] - copied[1]).abs().max() > 1e-6
    assert torch.equal(rows["replaced"][:1], plain[:1, 0])


def test_windows_of_a_short_text_cost_nothing(monkeypatch):
    """A window as long as the text hides nobody; the first token hidden is the first left out."""
    monkeypatch.setattr(today, "WINDOW", 16)
    monkeypatch.setattr(today, "KEPT", {"window": ()})
    model, ids = model_of(config_of(layers=2, **SIZE)), ids_of(0, 1, 16)[0]
    added = today.windows(SimpleNamespace(model=model), ids)
    assert added["window_window"].abs().max() < 1e-5
    hidden = causal_mask(16)
    hidden[1:, 0] = False
    whole = today.nats(model, ids[None], 8)
    alone = today.nats(model, ids[None], 8, edits=today.only(hidden, 2)) - whole
    assert_near(added["window_without"], alone, 1e-5)


def test_the_stored_card_is_that_of_the_recipe():
    card, measured = pretrained.card("today"), pretrained.history("today")
    assert card["command"] == "python -m recipes today"
    assert card["measures"] == " ".join(today.MEASURES.split())
    assert list(card["models"]) == ["reviews-gpt", *today.MODELS]
    names = {key.partition("_")[2].partition("_")[0] for key in measured}
    assert all(name in today.MEASURES for name in names)
    for name, layers, heads in (("smollm2", 30, 9), ("gemma3", 18, 4)):
        assert measured[f"{name}_near"].shape == (today.TEXTS, layers, heads)
        texts = len(measured[f"{name}_window_window"])
        assert today.TEXTS - 1 <= texts <= today.TEXTS, "a review that is there twice is read once"
    for about in card["models"].values():
        assert len(about["bits_per_byte"]) == today.COUNTED
        assert all(text.startswith(today.PROMPT) for text in about["texts"])
