"""SentencePiece's merging by score, against the library of that name."""

import copy
import io
import pickle
import random

import pytest
import sentencepiece
import torch
from devices import DEVICES
from gemma import gemma_or_skip
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.pretrained.published import sentencepiece_of
from attnlib.tokenizers.sentencepiece import BYTE, CONTROL, NORMAL, USER_DEFINED, SentencePiece

DEFINED = ["  ", "   ", "\n", "\n\n", "<b>"]
SENTENCES = [
    "The film was not as bad as I feared, and the acting was better than the film.",
    "She watched it twice;  she did not like it once. Naïve, or clever?",
    "Ein Film, der länger ist als er sein müsste: 120 Minuten, 3 Enden.",
]
ODD = [
    *("film", " the", "don't", " 25 ", "<br /><br />", "<h1>", "</h1>", "<<b>", "[multimodal]"),
    *("<bos>", "<eos>", "<start_of_turn>", "<0x41>", "<unused5>", "http://x.y/z?a=b", "> </"),
    *("\n" * 33, " " * 40, "\t" * 32, "a" * 70, "ab" * 40, "▁ ▁▁ a", "\x00\r\x7f\x85\ufeff"),
    *("äöüß", "e\u0301", "абвгд ежз", "中文字符", "かなカナ", "العربية", "हिन्दी", "한국어"),
    *("🎬👍🏽", "👨‍👩‍👧‍👦", "🇨🇭❤️", "ﷺﬁⅧ", "𝔹𐍈", "\u200b\u00a0\u2028"),
]


def in_library(pieces, scores, types):
    """The library's own tokenizer of the same pieces."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    for piece, score, type_ in zip(pieces, scores, types, strict=True):
        model.pieces.add(piece=piece.replace(" ", "▁"), score=score, type=type_)
    unknown = pieces.index("<unk>")
    model.pieces[unknown].type = 2  # which the library wants, and llama.cpp calls control
    model.trainer_spec.model_type = 2  # byte-pair encoding
    model.trainer_spec.unk_id = unknown
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def trained_pieces():
    """Pieces, scores and types that the library has learned."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20),
        model_writer=written,
        vocab_size=400,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        user_defined_symbols=DEFINED,
        minloglevel=3,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    ids = range(model.vocab_size())
    types = [NORMAL] * len(ids)
    for i in ids:
        if model.is_byte(i):
            types[i] = BYTE
        elif model.is_control(i) or model.is_unknown(i):
            types[i] = CONTROL
        elif model.id_to_piece(i).replace("▁", " ") in DEFINED:
            types[i] = USER_DEFINED
    return [model.id_to_piece(i) for i in ids], [model.get_score(i) for i in ids], types


@pytest.fixture(scope="module")
def small():
    """Ours and the library's tokenizer of 400 pieces."""
    pieces, scores, types = trained_pieces()
    ours = SentencePiece(pieces, scores, types, pieces.index("<s>"), pieces.index("</s>"))
    return ours, in_library(pieces, scores, types)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(ODD + DEFINED + " ".join(SENTENCES).split(" ")),
            st.sampled_from([" ", "er", "t", "e", "a", "s"]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        ),
        max_size=12,
    ).map("".join)
)
def test_ids_and_text_are_the_librarys(small, text):
    ours, library = small
    ids = ours.encode(text)
    assert ids == [ours.start, *library.encode(text)]
    assert ours.decode(ids) == text.replace("▁", " ")
    assert len(ours.tokens(ids)) == len(ours.word_ids(ids)) == len(ids)
    ours.decode(ids[::-1])  # no error, though the bytes of a character are now out of order


@pytest.mark.slow
def test_gemmas_ids_are_the_librarys_on_a_thousand_odd_texts():
    metadata = gemma_or_skip().metadata
    ours = sentencepiece_of(metadata)
    library = in_library(
        metadata["tokenizer.ggml.tokens"],
        metadata["tokenizer.ggml.scores"],
        metadata["tokenizer.ggml.token_type"],
    )
    draw = random.Random(0)
    letters = [*range(32, 0xD800), *range(0xE000, 0x30000)]
    for _ in range(1_000):
        parts = draw.choices([*ODD, *SENTENCES, " ", "  "], k=draw.randint(0, 8))
        parts += map(chr, draw.choices(letters, k=draw.randint(0, 3)))
        draw.shuffle(parts)
        text = "".join(parts)
        ids = ours.encode(text)
        assert ids == [2, *library.encode(text)], text
        assert ours.decode(ids) == text.replace("▁", " ")
    assert ours.tokens(ours.encode("Hello\n\n")) == ["<bos>", "Hello", r"\n\n"]
    assert (ours.vocab_size, ours.end) == (262_144, 1)


def test_a_long_word_does_not_take_the_square_of_its_length(small):
    ours, library = small
    text = "er" * 40_000
    assert ours.encode(text)[1:] == library.encode(text)


def test_tokens_can_be_read_and_belong_to_words(small):
    ours, _ = small
    ids = [*ours.encode("  Naïve, don't\n🎬"), ours.end]
    assert ours.decode(ids) == "  Naïve, don't\n🎬"
    tokens, word_ids = ours.tokens(ids), ours.word_ids(ids)
    words = ["".join(t for t, w in zip(tokens, word_ids, strict=True) if w == n) for n in range(9)]
    clapper = r"\xf0\x9f\x8e\xac"
    assert words == ["<s>", "  Naïve", ",", " don", "'t", r"\n", clapper, "</s>", ""]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_after_use_reads_the_same(small, copied):
    ours, _ = small
    ids = ours.encode(SENTENCES[1])
    assert copied(ours).tokens(ids) == ours.tokens(ids)
    assert copied(ours).encode(SENTENCES[1]) == ids


@pytest.mark.parametrize("device", DEVICES)
def test_ids_come_from_any_device(small, device):
    ours, _ = small
    ids = torch.tensor(ours.encode("the film"), device=device)
    assert ours.decode(ids) == "the film"
    assert ours.tokens(ids) == ours.tokens(ids.tolist())
    assert ours.word_ids(ids) == ours.word_ids(ids.tolist())
    with pytest.raises(ValueError, match="from 0 to 399, got 400"):
        ours.decode([400])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pieces, scores, types: scores.pop(), "400 pieces, 399 scores and 400 types"),
        (lambda pieces, scores, types: types.__setitem__(-1, 5), "a piece of type 5"),
        (lambda pieces, scores, types: pieces.__setitem__(20, "x"), "must be a piece, and <0x"),
    ],
)
def test_pieces_that_make_no_tokenizer_are_refused(change, message):
    parts = [list(part) for part in trained_pieces()]
    change(*parts)
    with pytest.raises(ValueError, match=message):
        SentencePiece(*parts, start=1, end=2)


def test_another_tokenizer_in_a_file_is_refused():
    about = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.add_space_prefix": False}
    with pytest.raises(ValueError, match="got 'gpt2' with add_space_prefix=False"):
        sentencepiece_of(about)
