"""What the side roads of chapter 13 conclude: on depth, and on a penalty on the entropy."""

from itertools import pairwise

import pytest
import torch
from chapter_code import definitions

from attnlib.explain.geometry import row_entropy

DEPTH = definitions("more/13_depth", "runs", "seeds_of", "depths")
PENALTIES = definitions("more/13_penalties", "runs", "seeds_of")


@pytest.mark.claim(81)
@pytest.mark.parametrize("key", ["keys", "values"])
@pytest.mark.parametrize("source", ["rotten_tomatoes", "imdb"])
def test_the_last_layer_is_narrower_in_deeper_stacks(source, key):
    """In every seed; and half of it at least is what training adds."""
    depths = DEPTH.depths[source]
    last, before = (
        [DEPTH.seeds_of(key, when, source=source, layers=n)[:, -1] for n in depths]
        for when in (False, True)
    )
    for few, more in pairwise(last):
        assert few.max() < more.min()
    assert (last[-1] - before[-1]).min() > 0.1
    # the control: stacks that have learned nothing are narrower if deeper, too
    for few, more in pairwise(before):
        assert few.max() < more.min()
    assert before[-1].mean() > 0.35 * last[-1].mean()


@pytest.mark.claim(81)
def test_a_narrow_cone_is_not_what_accuracy_needs():
    found = [DEPTH.seeds_of("accuracy", layers=n) for n in (1, 2, 3, 5)]
    assert torch.stack(found).max() - torch.stack(found).min() < 0.025
    assert torch.stack(found).min() > 0.7


# -- the penalty ---------------------------------------------------------------------------------

STRONG = [("rotten_tomatoes", 3.0), ("imdb", 10.0)]


def change(key, source, penalty, rows):
    """What the penalty changes, for each seed."""
    with_it = PENALTIES.seeds_of(key, source=source, penalty=penalty, rows=rows)
    return (with_it - PENALTIES.seeds_of(key, source=source)).flatten()


@pytest.mark.claim(82)
@pytest.mark.parametrize(("source", "penalty"), STRONG)
def test_a_penalty_on_all_rows_is_paid_by_rows_that_nobody_reads(source, penalty):
    assert change("entropy", source, penalty, "all").max() < -0.85
    assert change("accuracy", source, penalty, "all").abs().max() < 0.02
    assert PENALTIES.seeds_of("read", source=source, penalty=penalty).min() > 0.6
    # the control: if the row that is read must pay, accuracy falls
    assert change("read", source, penalty, "read").max() < -0.9
    assert change("accuracy", source, penalty, "read").max() < -0.15


@pytest.mark.claim(82)
def test_sparse_rows_rest_on_one_token_which_differs_between_seeds():
    A = PENALTIES.seeds_of("map", penalty=3.0)
    places = A[:, 1:].argmax(-1)  # of the words; the row of [CLS] is the first
    common = places.mode(-1).values
    assert ((places == common[:, None]).sum(-1) > 12).all()
    assert len(common.unique()) == 3
    assert A[:, 0].amax(-1).max() < 0.5
    without = PENALTIES.seeds_of("map")[:, 1:]
    assert without.amax(-1).mean() < 0.1  # the control: without a penalty no row rests anywhere


@pytest.mark.claim(82)
def test_a_penalty_that_leaves_the_classification_alone_costs_accuracy_on_the_row_that_is_read():
    assert change("read", "rotten_tomatoes", 0.3, "read").max() < -0.5
    assert change("accuracy", "rotten_tomatoes", 0.3, "read").max() < -0.01
    assert PENALTIES.seeds_of("accuracy", penalty=0.3, rows="read").min() > 0.65


@pytest.mark.claim(82)
def test_a_small_penalty_stays_on_the_flat_top():
    assert change("entropy", "rotten_tomatoes", 0.3, "all").abs().max() < 0.01
    scores = torch.randn(1000, 20, generator=torch.Generator().manual_seed(0))
    below = [1 - row_entropy((s * scores).softmax(-1)).mean() for s in (0.05, 0.1, 3.0, 6.0)]
    assert below[1] / below[0] == pytest.approx(4, abs=0.1)
    assert below[3] / below[2] < 2  # far from the top it is no square


@pytest.mark.claim(83)
def test_the_values_narrow_a_little_and_not_in_every_seed():
    assert change("values", "rotten_tomatoes", 3.0, "all").min() > 0.05
    imdb = change("values", "imdb", 10.0, "all")
    assert imdb.mean() > 0
    assert imdb.min() < 0.01
    # they narrow as well where the predictions break down: nothing is rescued
    for source, penalty in STRONG:
        assert change("values", source, penalty, "read").min() > 0.01
        assert change("accuracy", source, penalty, "read").max() < -0.15


@pytest.mark.claim(84)
@pytest.mark.parametrize(("source", "penalty"), STRONG)
def test_keys_grow_longer_and_queries_too(source, penalty):
    for key in ("key_norm", "query_norm"):
        assert change(key, source, penalty, "all").min() > 3
    kept = PENALTIES.seeds_of("key_norm", source=source)
    assert kept.std() < 0.1  # without a penalty no seed makes them longer


@pytest.mark.claim(84)
def test_keys_do_not_become_orthogonal():
    assert change("keys", "rotten_tomatoes", 3.0, "all").min() > 0.1
