"""Encoder and decoder: padding, alignments, decoding, and what attention buys (claim 37)."""

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnlib.decoding import translate
from attnlib.models.seq2seq import Seq2Seq, translation_loss
from attnlib.tokenizers.words import BOS, EOS, PAD, Vocabulary, pad

KINDS = ["additive", "dot", None]


def model_of(kind: str | None, seed: int = 0, d_model: int = 8, target_size: int = 9) -> Seq2Seq:
    """A small model with random weights, larger than at the start so that choices are clear."""
    torch.manual_seed(seed)
    model = Seq2Seq(7, target_size, d_model, kind)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model.eval()


def sources(seed: int = 0) -> list[list[int]]:
    """Five sources of different lengths, </s> at the end."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [*torch.randint(3, 7, (n,), generator=generator).tolist(), EOS] for n in (4, 1, 7, 2, 5)
    ]


# --- padding never changes results ------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_in_a_padded_batch_is_as_alone(kind: str | None) -> None:
    model = model_of(kind)
    batch = torch.nn.functional.pad(pad(sources()), (0, 3))
    target = torch.randint(3, 9, (5, 6))
    together, weights = model.teacher_forcing(model.encoder_output(batch), target)
    for i, source in enumerate(sources()):
        encoded = model.encoder_output(torch.tensor([source]))
        alone, look = model.teacher_forcing(encoded, target[i : i + 1])
        torch.testing.assert_close(together[i], alone[0])
        if weights is not None and look is not None:
            torch.testing.assert_close(weights[i, :, : len(source)], look[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_decodes_as_its_rows_alone(kind: str | None) -> None:
    model = model_of(kind, seed=11)
    with torch.no_grad():
        model.readout.bias[EOS] += 0.5  # so that the rows end at different steps
    ids = translate(model, pad(sources()), longest=12)
    assert len(set((ids != PAD).sum(1).tolist())) > 1
    for i, source in enumerate(sources()):
        row = translate(model, torch.tensor([source]), longest=12)
        assert ids[i].tolist()[: row.shape[1]] == row[0].tolist()
        assert not ids[i, row.shape[1] :].any()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_of_the_target_does_not_count_in_the_loss(kind: str | None) -> None:
    model, source = model_of(kind), pad(sources())
    target = pad([[BOS, *[3 + i] * i, EOS] for i in range(5)])
    logits = model(source, target[:, :-1]).log_softmax(-1)
    real = [(i, t) for i in range(5) for t in range(i + 1)]  # row i has i words and </s>
    by_hand = -sum(logits[i, t, target[i, t + 1]] for i, t in real) / len(real)
    wider = torch.nn.functional.pad(target, (0, 4))
    torch.testing.assert_close(translation_loss(model, (source, target)), by_hand)
    torch.testing.assert_close(translation_loss(model, (source, wider)), by_hand)


@pytest.mark.parametrize(
    ("rows", "message"), [([[3, 0, 4]], "only at the end"), ([[3], [0]], "row needs a token")]
)
def test_padding_elsewhere_is_refused(rows: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_of("dot").encoder_output(torch.tensor(rows))


# --- attention --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["additive", "dot"])
def test_rows_sum_to_one_on_real_tokens_and_padding_weighs_nothing(kind: str) -> None:
    source = pad(sources())
    model = model_of(kind)
    target = torch.randint(3, 9, (5, 6))
    _, weights = model.teacher_forcing(model.encoder_output(source), target)
    assert weights is not None
    padding = (source == PAD).unsqueeze(1).expand_as(weights)
    assert (weights[padding] == 0).all()
    assert (weights[~padding] > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(5, 6))


def loop(model: Seq2Seq, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The model for one source, by its definition: logits, weights, contexts."""
    h, state = (
        model.encoder_output(source[None]).states[0],
        model.initial_state(model.encoder_output(source[None])),
    )
    logits, alphas, contexts = [], [], []
    for previous in target:
        scores = []
        for h_j in h:
            left, right = state[0] @ model.W, h_j @ model.U
            additive = model.attention == "additive"
            scores.append(
                torch.tanh(left + right) @ model.v if additive else left @ right / len(right) ** 0.5
            )
        exponentials = torch.stack(scores).exp()
        alpha = exponentials / exponentials.sum()
        context = sum((a * h_j for a, h_j in zip(alpha, h, strict=True)), torch.zeros_like(h[0]))
        state = model.decoder(torch.cat([model.embed_target(previous), context])[None], state)
        logits.append(model.readout(torch.cat([state[0], context])))
        alphas.append(alpha)
        contexts.append(context)
    return torch.stack(logits), torch.stack(alphas), torch.stack(contexts)


@pytest.mark.claim(37)
@pytest.mark.parametrize("kind", ["additive", "dot"])
def test_the_context_is_the_weighted_sum_of_the_encoder_states(kind: str) -> None:
    model, source = model_of(kind, seed=3), torch.tensor(sources()[2])
    target = torch.tensor([BOS, 5, 8, 3, EOS])
    trace = model.trace(source, target, keep="all")
    logits, alphas, contexts = loop(model, source, target[:-1])
    torch.testing.assert_close(trace.pattern[0, 0], alphas)
    torch.testing.assert_close(trace.logits, logits)
    assert trace.v is not None
    torch.testing.assert_close(trace.pattern[0, 0] @ trace.v[0, 0], contexts)


def test_the_fixed_context_is_the_same_at_every_step() -> None:
    model = model_of(None)
    encoded = model.encoder_output(pad(sources()))
    for state in (model.initial_state(encoded), torch.randn(5, 8)):
        context, weights = model.attend(state, encoded)
        assert weights is None
        assert context is encoded.final
    # one vector passes, however long the source: nothing else of it reaches the decoder
    assert encoded.final.shape == (5, 8)


def test_a_trace_names_rows_by_the_tokens_they_produce() -> None:
    en, de = Vocabulary.alphabetical([("one", "two")]), Vocabulary.alphabetical([("eins", "zwei")])
    model = Seq2Seq(len(en), len(de), 4)
    source = torch.tensor(en.encode(("two", "one")))
    target = torch.tensor(de.encode(("zwei", "eins"), start=True))
    trace = model.trace(source, target, (en, de))
    assert trace.tokens == ("zwei", "eins", "</s>")
    assert trace.sources == ("two", "one", "</s>")
    assert tuple(trace.pattern.shape) == (1, 1, 3, 3)
    assert trace.v is trace.logits is None
    other = model.trace(source, target[[0, 2, 1, 3]])
    assert other.tokens == ("3", "4", "2")
    # the first row was made before any token was fed back: the target cannot have changed it
    torch.testing.assert_close(other.pattern[0, 0, 0], trace.pattern[0, 0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_forward_sees_no_later_target_token(kind: str | None) -> None:
    model, source = model_of(kind), pad(sources())
    target = torch.randint(3, 9, (5, 6))
    changed = target.clone()
    changed[:, 3] = 3 + (target[:, 3] - 2) % 6
    before, after = model(source, target), model(source, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


# --- decoding ---------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_each_word_is_the_most_probable_after_those_before(seed: int, kind: str | None) -> None:
    """By teacher forcing, <pad> and <s> apart."""
    model, source = model_of(kind, seed), pad(sources(seed))
    written = translate(model, source, longest=8)
    assert below_best(model, source, written) < 1e-5
    for row in written.tolist():
        kept = [token for token in row if token != PAD]
        assert EOS not in kept[:-1]
        assert kept[-1] == EOS or len(kept) == 8


def below_best(model: Seq2Seq, source: Tensor, written: Tensor) -> float:
    """The most that the logit of a written token lies below the best, <pad> and <s> apart."""
    starts = torch.full((len(source), 1), BOS, device=source.device)
    logits = model(source, torch.cat([starts, written[:, :-1]], 1)).detach().float()
    logits[..., [PAD, BOS]] = -torch.inf
    chosen = logits.gather(-1, written.unsqueeze(-1))[..., 0]
    return (logits.amax(-1) - chosen)[written != PAD].max().item()


def test_decoding_stops_at_the_end_token_and_at_the_cap() -> None:
    model, source = model_of("dot"), pad(sources())
    with torch.no_grad():
        model.readout.bias[EOS] = 100.0
    ids = translate(model, source)
    assert ids.tolist() == [[EOS]] * 5
    with torch.no_grad():
        model.readout.bias[EOS] = -100.0
    ids = translate(model, source, longest=7)
    assert ids.shape == (5, 7)
    assert EOS not in ids
    with pytest.raises(ValueError, match="at least 0, got -1"):
        translate(model, source, longest=-1)


# --- devices and floats -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_on_any_device_in_any_float(kind: str | None, device: str, dtype: torch.dtype) -> None:
    """Sources may lie on the CPU or beside the model; what is written lies beside them."""
    model = model_of(kind).to(device, dtype)
    source = pad(sources())
    written = translate(model, source.to(device), longest=8)
    assert written.device.type == device
    assert torch.equal(translate(model, source, longest=8), written.cpu())
    rounding = 1e-4 if dtype == torch.float32 else 0.1
    assert below_best(model, source.to(device), written) < rounding


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_made_where_the_source_is(kind: str | None) -> None:
    model, source, target = model_of(kind), pad(sources()), torch.randint(3, 9, (5, 6))
    expected = translate(model, source, longest=8), translation_loss(model, (source, target))
    with nothing_made_elsewhere():
        found = translate(model, source, longest=8), translation_loss(model, (source, target))
        if kind is not None:
            model.trace(source[0], target[0], keep="all")
    for here, there in zip(found, expected, strict=True):
        assert torch.equal(here, there)


def test_wrong_use_is_told_plainly() -> None:
    with pytest.raises(ValueError, match="attention must be one of"):
        Seq2Seq(5, 5, 8, "multiplicative")
    with pytest.raises(ValueError, match="even"):
        Seq2Seq(5, 5, 7)
    with pytest.raises(ValueError, match="no attention"):
        model_of(None).trace(torch.tensor([3, EOS]), torch.tensor([BOS, EOS]))
