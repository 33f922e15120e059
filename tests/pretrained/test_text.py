"""A model with its tokenizer: language model, classifier and encoder are asked the same way."""

import copy

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere

from attnlib import pretrained
from attnlib.decoding import generate
from attnlib.pretrained import LanguageModel, text
from attnlib.tokenizers import ReviewVocabulary
from attnlib.trace import OPTIONAL


@pytest.fixture
def small(small_model, small_bpe):
    """A language model with random weights that reads 16 tokens."""
    return LanguageModel(small_model(), small_bpe, "small")


# --- all three kinds --------------------------------------------------------------------------

KINDS = {
    "reviews-gpt": lambda: pretrained.language_model(),
    "rt-lstm": lambda: pretrained.classifier("rt-lstm"),
    "rt-transformer": lambda: pretrained.classifier("rt-transformer"),
    "all-MiniLM-L6-v2": lambda: pretrained.minilm(),
}
SENTENCE = "A film of unwavering, bittersweet honesty; 9/10!"


@pytest.mark.parametrize("name", KINDS)
def test_one_way_to_ask(name):
    """`encode` is the tokenizer's, `trace` the model's: nothing is added and nothing is lost."""
    found = KINDS[name]()
    ids = found.encode(SENTENCE)
    assert found.name == name
    assert isinstance(ids, list)
    assert ids == found.tokenizer.encode(SENTENCE)
    plain = found.trace(SENTENCE)
    assert all(getattr(plain, part) is None for part in OPTIONAL)
    trace = found.trace(SENTENCE, keep="all")
    tokens = found.tokenizer.tokens(ids)
    word_ids = found.tokenizer.word_ids(ids)
    expected = found.model.trace(torch.tensor(ids), tokens, word_ids, keep="all")
    assert (trace.tokens, trace.sources) == (expected.tokens, expected.sources)
    assert trace.word_ids == expected.word_ids
    for part in ("pattern", *OPTIONAL):
        ours, theirs = getattr(trace, part), getattr(expected, part)
        assert (ours is None) == (theirs is None)
        assert ours is None or torch.equal(ours, theirs)
    assert torch.equal(plain.pattern, trace.pattern)
    assert found.trace(SENTENCE, keep="v").resid_post is None


@pytest.mark.parametrize(
    ("name", "read"), [("reviews-gpt", 128), ("rt-transformer", 65), ("all-MiniLM-L6-v2", 512)]
)
def test_what_a_model_does_not_read_is_cut_and_counted(name, read):
    """MiniLM puts [CLS] and [SEP] around the 600 words, the classifier [CLS] before them."""
    found, long = KINDS[name](), "film " * 600
    whole = {"all-MiniLM-L6-v2": 602, "rt-transformer": 601}.get(name, len(found.encode(long)))
    trace = found.trace(long)
    assert (len(trace.tokens), trace.left_out) == (read, whole - read)
    assert len(trace.word_ids) == read
    assert found.trace("film").left_out == 0


def test_what_each_kind_gives():
    """The kinds differ in what they have: a head or none, one destination or all."""
    gpt, lstm, former, encoder = (make() for make in KINDS.values())
    words = len(lstm.encode(SENTENCE))
    gpt_trace = gpt.trace(SENTENCE, keep=("logits", "final"))
    assert gpt_trace.logits.shape == (len(gpt.encode(SENTENCE)), 4096)
    lstm_trace = lstm.trace(SENTENCE, keep=("logits", "final", "v"))
    assert lstm_trace.tokens == ("prediction",)
    assert lstm_trace.sources[:3] == ("a", "film", "of")
    assert lstm_trace.pattern.shape == (1, 1, 1, words)
    ids = torch.tensor([lstm.encode(SENTENCE)])
    torch.testing.assert_close(lstm_trace.logits[0, 0], lstm.model(ids)[0])
    context = lstm_trace.pattern[0, 0] @ lstm_trace.v[0, 0]
    torch.testing.assert_close(lstm_trace.final, context)
    former_trace = former.trace(SENTENCE, keep=("logits", "resid_post"))
    assert former_trace.tokens[0] == "[CLS]"
    assert former_trace.logits.shape == (words + 1, 1)
    torch.testing.assert_close(former_trace.logits[0, 0], former.model(ids)[0])
    assert former_trace.final is None
    assert former_trace.to_words().tokens == former_trace.tokens
    encoder_trace = encoder.trace(SENTENCE, keep=("logits", "final"))
    assert encoder_trace.logits is None
    assert encoder_trace.final.shape == (len(encoder.encode(SENTENCE)), 384)


def test_what_is_changed_on_the_way_is_passed_on():
    gpt, lstm, former, encoder = (make() for make in KINDS.values())
    edits = {("pattern", 1): lambda A: torch.full_like(A, 1 / A.shape[-1])}
    maps = [found.trace(SENTENCE, edits=edits).pattern[1] for found in (gpt, former, encoder)]
    n = len(lstm.encode(SENTENCE))
    maps.append(lstm.trace(SENTENCE, weights=torch.full((n,), 1 / n)).pattern)
    for even in maps:
        torch.testing.assert_close(even, torch.full_like(even, 1 / even.shape[-1]))


@pytest.mark.parametrize("name", KINDS)
def test_a_text_without_tokens_is_refused(name):
    found = KINDS[name]()
    if name == "all-MiniLM-L6-v2":
        assert found.trace("").tokens == ("[CLS]", "[SEP]")
        return
    assert found.encode("") == []
    with pytest.raises(ValueError, match="one text of at least one token"):
        found.trace("")


@pytest.mark.claim(121)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KINDS)
def test_it_goes_where_it_is_put(name, device, dtype):
    """The copy moves, in place; what is published and loaded once stays where it is."""
    loaded = KINDS[name]()
    moved = copy.deepcopy(loaded)
    assert moved.to(device, dtype) is moved
    assert (moved.device.type, next(moved.model.parameters()).dtype) == (device, dtype)
    trace = moved.trace(SENTENCE, keep="all")
    assert trace.pattern.device.type == device
    exact = loaded.trace(SENTENCE)
    assert exact.pattern.dtype == torch.float32
    torch.testing.assert_close(trace.pattern.float().cpu(), exact.pattern, atol=0.1, rtol=0)
    with nothing_made_elsewhere():
        again = moved.trace(SENTENCE, keep="all")
    assert torch.equal(trace.pattern, again.pattern)
    if isinstance(moved, LanguageModel):
        assert moved.generate("The", 4, seed=0).startswith("The")


def test_a_list_of_texts_is_refused(small):
    with pytest.raises(TypeError, match="trace reads one text, got list"):
        small.trace(["low", "slow"])


def test_an_encoder_does_not_write():
    with pytest.raises(TypeError, match="reads texts and does not write"):
        pretrained.minilm().generate("a film", 3)


def test_ids_are_a_batch(small):
    ids = small.encode("low")
    for wrong in (ids, torch.tensor(ids)):
        with pytest.raises(ValueError, match=r"tensor \(B, T\), such as ids\[None\]"):
            small.model(wrong)


def test_what_an_edit_returns_is_taken_in_the_float_of_the_model(small):
    small.to(torch.bfloat16)
    plain = small.trace("slow", keep="logits")
    edited = small.trace("slow", keep="logits", edits={("z", 0): lambda z: z.float()})
    assert torch.equal(edited.logits, plain.logits)


# --- classifiers ------------------------------------------------------------------------------


def test_other_words_are_refused(monkeypatch):
    other = ReviewVocabulary.most_frequent(["a film"], min_count=1)
    monkeypatch.setattr(text, "vocabulary", lambda source: other)
    with pytest.raises(RuntimeError, match="rebuild it with python -m recipes rt-lstm"):
        pretrained.classifier("rt-lstm")


@pytest.mark.parametrize(("name", "kind"), [("reviews-gpt", "Transformer"), ("elman", "Elman")])
def test_a_language_model_is_no_classifier(name, kind):
    with pytest.raises(ValueError, match=f"'{name}' is a {kind}, no classifier of reviews"):
        pretrained.classifier(name)


# --- language models --------------------------------------------------------------------------


def test_language_model_is_a_checkpoint_with_its_tokenizer(own, small_bpe):
    found = pretrained.language_model("reviews-gpt")
    assert found.name == "reviews-gpt"
    assert found.tokenizer == small_bpe
    assert not found.model.training
    weights = pretrained.load("reviews-gpt").state_dict()
    assert all(torch.equal(v, weights[k]) for k, v in found.model.state_dict().items())
    count = found.model.parameter_count
    assert repr(found) == f"LanguageModel(reviews-gpt: 2 layers, 3 heads, {count:,} parameters)"


def test_end_is_the_token_after_every_text(small):
    assert small.end == 261
    assert small.decode([small.end]) == "<|endoftext|>"
    assert small.end not in small.encode("<|endoftext|>")  # a text cannot end itself


def test_trace_of_a_text_has_readable_tokens_and_words(small):
    trace = small.trace("low, slowly low", keep="logits")
    assert trace.tokens == tuple(small.tokenizer.tokens(small.encode("low, slowly low")))
    assert "".join(trace.tokens) == "low, slowly low"
    assert trace.to_words().tokens == ("low", ",", " slowly", " low")
    expected = small.model(torch.tensor([small.encode("low, slowly low")]))[0]
    torch.testing.assert_close(trace.logits, expected, atol=1e-5, rtol=0)
    assert trace.pattern.shape == (2, 3, len(trace.tokens), len(trace.tokens))


def test_generate_continues_a_text(small):
    """The text of what `decoding.generate` gives for its ids, with every setting handed on."""
    chosen = {"temperature": 0.7, "top_k": 200, "top_p": 0.9, "seed": 3}
    found = small.generate("slow", 9, **chosen)
    ids = generate(small.model, torch.tensor(small.encode("slow")), 9, stop=small.end, **chosen)
    assert found == small.decode(ids.tolist()).removesuffix("<|endoftext|>")
    assert found.startswith("slow")
    assert found == small.generate("slow", 9, **chosen)
    assert len({small.generate("slow", 9, seed=seed) for seed in range(4)}) > 1
    assert small.generate("slow", 0) == "slow"


def test_generate_begins_and_ends_with_the_end_token(small):
    """An empty prompt is the end of the text before; what ends is not printed."""
    with torch.no_grad():
        small.model.final_norm.bias.copy_(small.model.W_E[small.end] * 1e4)  # the end is certain
    assert small.generate("slow", 9, seed=0) == "slow"
    assert small.generate("", 9, seed=0) == ""


@pytest.mark.parametrize("change", [{"causal": False}, {"head": False, "tied": False}])
def test_an_encoder_is_no_language_model(change, small_model, small_bpe):
    with pytest.raises(ValueError, match="'x' is no language model: it must be causal, with a"):
        LanguageModel(small_model(**change), small_bpe, "x")


def test_a_tokenizer_that_knows_more_than_the_model_is_refused(small_model, small_bpe):
    with pytest.raises(ValueError, match="knows 200 tokens and its tokenizer 262: they do not"):
        LanguageModel(small_model(vocab_size=200), small_bpe, "x")


def test_checkpoints_that_are_no_language_models(own):
    with pytest.raises(ValueError, match="'small-bpe' is no model"):
        pretrained.language_model("small-bpe")
    for name, kind in (("zero", "ZeroLayer"), ("bare", "Transformer")):
        with pytest.raises(ValueError, match=f"'{name}' is a {kind}; a language model here is"):
            pretrained.language_model(name)
    for name in ("blind", "headless"):
        with pytest.raises(ValueError, match=f"'{name}' is no language model"):
            pretrained.language_model(name)
    with pytest.raises(ValueError, match="no checkpoint 'none'; there are bare, blind"):
        pretrained.language_model("none")
