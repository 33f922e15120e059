"""What chapter 04 concludes, computed again, each conclusion beside what could refute it."""

import pytest
import torch
from chapter_code import definitions

from attnlib.attention import attention, causal_mask
from attnlib.data import reviews
from attnlib.pretrained import minilm

CHAPTER = definitions("04_self_attention", "fresh", "kinds")


def test_undivided_the_median_gradient_of_a_wide_head_vanishes_and_the_mean_does_not():
    torch.manual_seed(3)
    narrow, wide, divided = (CHAPTER.fresh(*case) for case in ((4, 0), (1024, 0), (1024, 1)))
    assert wide[0] > 0.9
    assert divided[0] < 0.4
    assert wide[1].median() < 0.01 * narrow[1].median()
    assert wide[1].mean() > narrow[1].mean()
    assert divided[1].median() > 0.5 * divided[1].mean()
    assert (divided[1] < 0.01).float().mean() < 0.01 < 0.5 < (wide[1] < 0.01).float().mean()


def test_a_match_counts_length_as_well_as_direction():
    table = minilm().model.W_E.detach()[2000:20_000]
    drawn = torch.randint(len(table), (2000, 7), generator=torch.Generator().manual_seed(3))
    query, keys = table[drawn[:, :1]], table[drawn[:, 1:]]
    products = (query * keys).sum(-1)
    angles = products / keys.norm(dim=-1)
    assert 0.02 < (products.argmax(-1) != angles.argmax(-1)).float().mean() < 0.2
    same_length = torch.nn.functional.normalize(keys, dim=-1)
    assert ((query * same_length).sum(-1).argmax(-1) == angles.argmax(-1)).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_forbidden_value_adds_nothing_only_if_it_is_finite(bad):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 5, 4).unbind()
    output, _ = attention(q, k, v, causal_mask(5))
    for last, seen in ((1e30, False), (bad, True)):
        changed = v.clone()
        changed[..., -1, :] = last
        ours, _ = attention(q, k, changed, causal_mask(5))
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, changed, causal_mask(5))
        assert bool(ours[..., :-1, :].isnan().all()) == seen
        assert bool(theirs[..., :-1, :].isnan().all()) == seen, "the framework's kernel differs"
        assert seen or torch.equal(ours[..., :-1, :], output[..., :-1, :])


def test_the_first_place_keeps_its_share_with_another_word_on_it_and_sep_gets_an_even_rest():
    encoder, film = minilm(), minilm().encode("film")[1]
    with_cls, with_film, sep, rest = [], [], [], []
    for text in reviews("rotten_tomatoes").test.texts[40:80]:
        ids = encoder.encode(text)
        share = CHAPTER.kinds(encoder.trace(text))
        swapped = encoder.model.trace(torch.tensor([film, *ids[1:]])).attention
        with_cls.append(share["[CLS]"].mean())
        with_film.append(swapped[:, :, 1:-1, 0].mean())
        sep.append(share["[SEP]"].mean() * len(ids))
        rest.append(share["[SEP] in the rest"].mean() * (len(ids) - 1))
    cls, other, sep_share, sep_rest = (
        torch.stack(values).mean() for values in (with_cls, with_film, sep, rest)
    )
    assert cls > 0.3
    assert abs(other / cls - 1) < 0.1
    assert sep_share < 0.8, "below even of all"
    assert 0.85 < sep_rest < 1.15, "and even of the rest"
