"""What chapter 00 finds about the favourite place of the encoder, with its controls."""

import pytest
import torch
from chapter_code import definitions

from attnlib.data import reviews

CHAPTER = definitions("00_start_here", "encoder", "received", "tries")


@pytest.fixture(scope="module")
def shares() -> dict[str, torch.Tensor]:
    """Times an even share, by layer, on other sentences than the chapter's."""
    results = [CHAPTER.tries(text) for text in reviews("rotten_tomatoes").test.texts[20:30]]
    return {name: torch.stack([one[name] for one in results]).mean(0) for name in results[0]}


def test_what_one_place_receives_is_read_from_the_map():
    text = reviews("rotten_tomatoes").test.texts[20]
    attention = CHAPTER.encoder.trace(text).attention
    expected = attention[:, :, 1:, 0].mean((1, 2)) * attention.shape[-1]
    torch.testing.assert_close(
        CHAPTER.received(CHAPTER.encoder.encode(text), 0), expected, rtol=1e-3, atol=1e-3
    )


def test_the_first_place_is_favoured_whatever_token_stands_there(shares):
    cls, film, word, *_ = shares.values()
    assert cls[1:].min() > 5
    assert ((film / cls)[1:] - 1).abs().max() < 0.1
    assert ((word / cls)[1:] - 1).abs().max() < 0.15


def test_layer_one_goes_by_the_position_and_later_layers_by_either_mark(shares):
    cls, _, _, moved, middle, late, neither = shares.values()
    assert moved[1] < 0.4 * cls[1]
    assert middle[1] > 0.8 * cls[1]
    assert late[1] < 0.4 * cls[1]
    assert late[2:].min() > 0.6 * cls[2:].min()
    assert neither.max() < 3, "with neither mark the first place is a place like another"
