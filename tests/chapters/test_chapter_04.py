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
        with_cls.append(share["[CLS]"])
        with_film.append(swapped[:, :, 1:-1, 0].mean(-1))
        sep.append(share["[SEP]"].mean() * len(ids))
        rest.append(share["[SEP] in the rest"] * (len(ids) - 1))
    cls, other, sep_rest = (torch.stack(values).mean(0) for values in (with_cls, with_film, rest))
    assert cls.mean() > 0.3
    assert abs(other.mean() / cls.mean() - 1) < 0.1
    assert (other - cls).abs().max() < 0.2, "head by head"
    assert torch.stack(sep).mean() < 0.8, "below even of all"
    assert 0.85 < sep_rest.mean() < 1.2, "even of the rest, on average"
    assert sep_rest.mean(1).min() < 0.85, "but not in every layer"
    assert sep_rest.mean(1).max() > 1.15


def test_two_heads_go_by_position_and_the_head_of_the_same_token_does_not():
    encoder = minilm()
    torch.manual_seed(0)
    shares = []
    for text in reviews("rotten_tomatoes").test.texts[40:80]:
        ids = torch.tensor(encoder.encode(text))
        mixed = torch.cat([ids[:1], ids[1:-1][torch.randperm(len(ids) - 2)], ids[-1:]])
        maps = [encoder.model.trace(one).attention for one in (ids, mixed)]
        here = torch.arange(1, len(ids) - 1)
        heads = (0, 2, -1), (1, 8, 1), (1, 1, 1)
        shares.append([[m[i, h, here, here + to].mean() for i, h, to in heads] for m in maps])
    plain, shuffled = torch.tensor(shares).mean(0)
    assert shuffled[0] > 0.99
    assert abs(shuffled[1] - plain[1]) < 0.1
    assert shuffled[1] > 0.5
    assert shuffled[2] < 0.2


def test_a_fresh_map_is_even_if_scores_hardly_differ_in_a_row_and_not_if_sigma_is_small():
    torch.manual_seed(0)
    e, w_q, w_k = torch.randn(6, 32), torch.randn(32, 8), torch.randn(32, 8)
    far = []
    for sigma, x in ((0.01, e), (0.01, 1000 * e), (0.01, 1000 * e[:1].expand(6, -1))):
        _, weights = attention(sigma * x @ w_q, sigma * x @ w_k, x)
        far.append((weights - 1 / 6).abs().max())
    assert far[0] < 0.01
    assert far[1] > 0.5, "long and different: sharp"
    assert far[2] < 0.01, "long and equal: even"


def test_without_positions_equal_tokens_stay_equal_unless_a_mask_tells_them_apart():
    torch.manual_seed(0)
    e = torch.randn(5, 16)
    e[3] = e[2]
    for mask, equal in ((None, True), (causal_mask(5), False)):
        output, _ = attention(e, e, e, mask)
        assert torch.allclose(output[2], output[3], atol=1e-6) == equal
