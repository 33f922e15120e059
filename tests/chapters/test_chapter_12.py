"""What chapter 12 concludes, with the controls that could have refuted it.

The algebra, claims 50 to 52, 54 and 56, is tested in tests/explain/test_identifiability.py; that
keys of width 1 do what wide ones do, in tests/recipes/test_identifiability_recipes.py.
"""

import pytest
import torch
from chapter_code import definitions
from gemma import gemma_or_skip

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import identifiability as ident

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "12_identifiability",
    *("parts", "shortest", "score_map", "free_directions", "interval", "lead", "kept"),
    *("head_parts", "lengths", "ranks", "tau", "three_taus", "of_classifier", "generator"),
)
REACH = definitions("more/12_reach", "score_map", "jacobian", "trained", "distance")
KEEP = ("v", "head_outputs")
TEXT = "the plot is thin, the jokes are old, and yet i would see it again with my friends"


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.fixture(scope="module")
def classifier():
    return pretrained.classifier("rt-transformer")


@pytest.fixture(scope="module")
def real(classifier):
    """A, T, V and a basis of the null space for the row that is read, on another sentence."""
    trace = classifier.trace(TEXT, keep=KEEP)
    A, T, _ = CHAPTER.parts(trace, classifier.model.encoder.blocks)
    return A[1, 0], T[1, 0], trace.v[1, 0].double(), ident.null_space(T[1, 0])


@pytest.mark.claim(49)
def test_a_head_writes_its_weights_times_T(classifier):
    minilm, review = pretrained.minilm(), reviews("imdb").test.texts[11][:250]
    for trace, blocks in (
        (classifier.trace(TEXT, keep=KEEP), classifier.model.encoder.blocks),
        (minilm.trace(review, keep=KEEP), minilm.model.blocks),
    ):
        A, T, H = CHAPTER.parts(trace, blocks)
        assert torch.allclose(A @ T, H.double(), atol=1e-5)
        assert (A @ T.roll(1, 1) - H).abs().max() > 0.5  # T of another head


def test_short_texts_give_the_weights_back_and_long_ones_do_not(classifier):
    off = {}
    for words in (TEXT.split()[:5], TEXT.split()):
        trace = classifier.trace(" ".join(words), keep=KEEP)
        A, T, _ = CHAPTER.parts(trace, classifier.model.encoder.blocks)
        found = CHAPTER.shortest(A, T)
        assert torch.allclose(found @ T, A @ T, atol=1e-9)
        off[len(words)] = (found - A).abs().max().item()
    assert off[5] < 1e-9
    assert off[len(TEXT.split())] > 0.05


def test_a_null_space_of_one_size_leaves_an_even_row_free_and_a_peaked_one_bound(classifier):
    """The row decides: with the values of the other layer it is as free, or as bound."""
    trace = classifier.trace(TEXT, keep=KEEP)
    A, T, _ = CHAPTER.parts(trace, classifier.model.encoder.blocks)
    n = A.shape[-1]
    even, peaked = torch.full((n,), 1 / n).double(), torch.full((n,), 0.1 / (n - 1)).double()
    peaked[3] = 0.9
    for T_head in T.flatten(0, 1):
        N = ident.null_space(T_head)
        assert N.shape[1] == n - 9
        goal = -torch.eye(n)[3]
        assert ident.extreme_weights(even, N, goal)[3] < 1e-9
        assert ident.extreme_weights(peaked, N, goal)[3] > 0.6


def test_a_weight_is_bound_by_the_row_and_by_the_nullity():
    shares = torch.tensor(
        [[CHAPTER.kept(p, k).mean() for k in (1, 6, 12)] for p in (0.1, 0.5, 0.9)]
    )
    assert (shares.diff(dim=0) > 0.01).all()
    assert (shares.diff(dim=1) < 0).all()
    assert shares[0, 2] < 0.01
    assert shares[2].min() > 0.85
    assert CHAPTER.kept(0.9, 12, among=True).max() < 0.01  # its values among the others'


def test_the_lead_is_found_by_a_program_of_its_own(real):
    """Whoever asks for the largest weight of a word, and then who leads, finds too few."""
    A, _, _, N = real
    a, n = A[0], len(A)
    low, high = CHAPTER.interval(a, N)
    assert (low <= a + 1e-9).all()
    assert (a <= high + 1e-9).all()
    leads = [CHAPTER.lead(a, N, k) for k in range(n)]
    largest = [ident.extreme_weights(a, N, torch.eye(n)[k]) for k in range(n)]
    at_its_largest = [bool(row.argmax() == k) for k, row in enumerate(largest)]
    assert all(lead > 0 for lead, found in zip(leads, at_its_largest, strict=True) if found)
    assert sum(lead > 0 for lead in leads) > sum(at_its_largest)
    step = 1e-3 * N @ torch.ones(N.shape[1]).double()  # any other row with the output is behind
    for k in range(n):
        for row in (a, a + step):
            ahead = row[k] - torch.cat([row[:k], row[k + 1 :]]).max()
            assert ahead <= leads[k] + 1e-9


@pytest.mark.claim(53)
def test_the_rank_grows_with_the_length_up_to_the_values_and_one():
    minilm = pretrained.minilm()
    for text in [t for t in reviews("imdb").test.texts[50:90] if len(t) > 700][:2]:
        ids = torch.tensor(minilm.encode(text))
        for n in (10, 32, 33, 34, 70):
            states = minilm.model.run(minilm.model.embed(ids[None, :n]))
            state = [next(states), next(states)][1]
            T = state.v[0].double() @ minilm.model.blocks[1].attention.W_O.double()
            ranks = ident.numerical_rank(ident.with_ones(T))
            assert (ranks == min(n, 33)).all()
            assert n < 33 or (ident.numerical_rank(T) == 32).all()


def test_a_repeated_token_frees_a_direction_where_values_know_no_positions():
    """The first layer of SmolLM2; at the same length its later layers are not free."""
    smollm2, text = pretrained.smollm2(), reviews("imdb").test.texts[51]
    ids = torch.tensor(smollm2.encode(text))[:60]
    assert len(ids.unique()) < 60
    _, T = CHAPTER.head_parts(smollm2, ids, 0)
    assert (ident.numerical_rank(ident.with_ones(T)) == len(ids.unique())).all()
    _, later = CHAPTER.head_parts(smollm2, ids, 5)
    assert (ident.numerical_rank(ident.with_ones(later)) == 60).all()


def test_the_peaked_rows_of_a_language_model_keep_their_strongest_weight():
    """With 31 free directions, and a uniform row with the same values does not."""
    smollm2, text = (
        pretrained.smollm2(),
        next(t for t in reviews("imdb").test.texts[53:] if len(t) > 900),
    )
    ids = torch.tensor(smollm2.encode(text))[:96]
    assert len(ids) == 96
    A, T = CHAPTER.head_parts(smollm2, ids, 15)
    uniform, shares = torch.full((96,), 1 / 96).double(), []
    for row, T_head in zip(A[:4, -1], T[:4], strict=True):
        row = row / row.sum()
        k, N = int(row.argmax()), ident.null_space(T_head)
        assert N.shape[1] >= 31
        goal = -torch.eye(96)[k]
        shares.append((ident.extreme_weights(row, N, goal)[k] / row[k]).item())
        if k != 0:  # the first token's value is unlike all others
            assert ident.extreme_weights(uniform, N, goal)[k] < 0.5 / 96
    assert min(shares) > 0.8
    word = -torch.eye(96)[40]
    assert ident.extreme_weights(uniform, N, word)[40] < 0.5 / 96
    first_layer = []  # peaked rows are a matter of the layer
    for row, T_head in zip(*(x[:6] for x in CHAPTER.head_parts(smollm2, ids, 0)), strict=True):
        row, N = row[-1] / row[-1].sum(), ident.null_space(T_head)
        k = int(row.argmax())
        least = ident.extreme_weights(row, N, -torch.eye(96)[k])[k]
        first_layer.append((least / row[k]).item())
    assert sum(share >= 0.9 for share in first_layer) < 3
    assert min(first_layer) < 0.01


@pytest.mark.long
def test_the_last_layer_of_gemma_3_keeps_its_strongest_weights_and_the_first_need_not():
    """127 directions are free in the last layer; of another review than the chapter's three."""
    gemma_or_skip()
    gemma3 = pretrained.gemma3()
    text = next(t for t in reviews("imdb").test.texts[100:] if len(t) > 2200)
    ids = torch.tensor(gemma3.encode(text))[:384]
    shares = {}
    for layer in (0, 17):
        for row, T_head in zip(*CHAPTER.head_parts(gemma3, ids, layer), strict=True):
            last, N = row[-1] / row[-1].sum(), ident.null_space(T_head)
            assert N.shape[1] >= 127
            k = int(last.argmax())
            least = ident.extreme_weights(last, N, -torch.eye(384)[k])[k]
            shares.setdefault(layer, []).append((least / last[k]).item())
    assert min(shares[17]) > 0.9
    assert min(shares[0]) < 0.01


# -- what the head can make --------------------------------------------------------------------


def test_the_jacobian_is_the_derivative():
    QK = drawn(2, 5, 3)
    slow = torch.func.jacrev(CHAPTER.score_map)(QK).flatten(2)
    assert torch.allclose(REACH.jacobian(QK), slow)


@pytest.mark.claim(54)
def test_rivals_that_the_head_can_make_begin_where_the_count_says(real):
    A, _, V, _ = real
    n = len(A)
    limit = max(d for d in range(1, 9) if d * (2 * n - 1 - d) <= 8 * n)
    assert limit == 4
    left, values, right = torch.linalg.svd(A.log() - A.log().mean(-1, keepdim=True))
    for d_k in (limit, 6, 8):
        moves, seen = CHAPTER.free_directions(d_k, V)
        assert (moves > seen) == (d_k > limit)
        half = (values[:d_k] * d_k**0.5).sqrt()
        QK = torch.stack([left[:, :d_k] * half, right[:d_k].T * half])
        goal, ends = CHAPTER.score_map(QK), []
        for seed in range(2):
            start = QK + 0.2 * drawn(2, n, d_k, seed=seed)
            found, error = REACH.trained(goal @ V, start, V, steps=100)
            if error < 1e-8:
                ends.append(REACH.distance(CHAPTER.score_map(found), goal))
        assert len(ends) >= 1
        assert max(ends) < 1e-4 if d_k <= limit else min(ends) > 5e-3


# -- the sweep, effective attention ------------------------------------------------------------


@pytest.mark.claim(55)
def test_accuracy_depends_on_d_k_only_with_the_divisor_of_the_released_code():
    card = pretrained.card("key-width")
    found = {row: torch.tensor(values) for row, values in card["accuracy"].items()}
    assert {len(seeds) for table in card["accuracy"].values() for seeds in table} == {3}
    falls = {row: (x[0] - x[-1]).mean().item() for row, x in found.items()}
    assert falls["concat, d_v"] > 0.025
    assert found["concat, d_v"][0].min() > found["concat, d_v"][-1].max()
    for row in ("concat, d_k", "add, d_k"):
        assert falls[row] < 0.01  # the paper's own divisor
    assert falls["concat, d_v"] > falls["add, d_v"]
    assert card["d_k"] == [1, 16, 256]
    by_16 = {row: x[0] - x[1] for row, x in found.items()}  # no fall yet: three seeds disagree
    assert by_16["concat, d_v"].min() < 0 < by_16["concat, d_v"].max()
    assert max(x.mean().item() for x in by_16.values()) < 0.01
    spread = {row: torch.tensor(values) for row, values in card["spread"].items()}
    assert spread["concat, d_v"][-1].min() > 1.5 * spread["concat, d_k"][-1].max()


def test_all_maps_with_the_same_output_share_their_effective_attention(real):
    A, T, _, N = real
    other = ident.extreme_weights(A[0], N, -torch.eye(len(A))[int(A[0].argmax())])
    rows = torch.stack([A[0], other, A[1]])
    assert (rows[0] - rows[1]).abs().max() > 0.05
    effective = ident.effective_attention(rows, T)
    assert torch.allclose(effective[0], effective[1], atol=1e-8)
    assert (effective[0] - effective[2]).abs().max() > 1e-3  # a row with another output
    assert torch.allclose(effective, rows - rows @ N @ N.T, atol=1e-8)


def test_effective_attention_is_above_chance_and_no_better_than_attention():
    plain, effective, random = CHAPTER.of_classifier("imdb-average", slice(40, 44)).T
    assert (plain > effective).all()
    assert (effective - random).mean() > 0.1
    plain, effective, _ = CHAPTER.of_classifier("imdb-lstm", slice(40, 44)).T
    assert (effective - plain).mean() < 0.08


def test_nearly_each_token_could_lead_in_three_heads_of_four_of_the_last_layer(classifier):
    """The control is the layer below, with as many free directions and peaked rows."""
    texts = reviews("rotten_tomatoes").test.texts[:200]
    count = torch.zeros(2, 4)
    for text in [text for text in texts if len(classifier.encode(text)) == 20][:2]:
        trace = classifier.trace(text, keep=KEEP)
        A, T, _ = CHAPTER.parts(trace, classifier.model.encoder.blocks)
        for layer, head in [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1)]:
            a, N = A[layer, head, 0], ident.null_space(T[layer, head])
            leads = sum(CHAPTER.lead(a, N, k) > 1e-6 for k in range(20))
            count[layer, head] += leads / 2
    assert count[1, :3].min() > 16
    assert count[0, :2].max() < 10
