"""The parsed sentences: what the stored file holds, and how a parse becomes a line of it."""

from dataclasses import dataclass
from typing import Any

import pytest

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.pretrained import ParsedSentence, checkpoints, parsed_sentences
from attnlib.pretrained.annotations import from_conllu
from recipes.syntax import to_conllu

OPEN = {"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"}
CLOSED = {"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"}
TAGS = OPEN | CLOSED | {"PUNCT", "SYM", "X"}  # those of universaldependencies.org


@pytest.fixture(scope="module")
def sentences() -> tuple[ParsedSentence, ...]:
    return parsed_sentences()


def test_the_sentences_are_those_of_the_splits(sentences):
    splits = reviews("rotten_tomatoes")
    texts = [*splits.validation.texts, *splits.test.texts]
    squeezed = ["".join(text.split()) for text in texts]
    assert ["".join(sentence.words) for sentence in sentences] == squeezed


def test_every_word_has_a_tag_a_head_and_a_relation(sentences):
    for one in sentences:
        assert len(one) == len(one.tags) == len(one.heads) == len(one.relations)
        assert set(one.tags) <= TAGS
        assert all(0 <= head < len(one) for head in one.heads)
        roots = [i for i, head in enumerate(one.heads) if head == i]
        assert roots == [i for i, name in enumerate(one.relations) if name == "ROOT"]


def test_from_every_word_its_heads_lead_to_a_root(sentences):
    for one in sentences:
        for word in range(len(one)):
            steps = 0
            while one.heads[word] != word:
                word, steps = one.heads[word], steps + 1
                assert steps < len(one)


def test_objects_hang_on_verbs(sentences):
    """What the labels mean: the head of a direct object is a verb, of a "pobj" a preposition."""
    for relation, tags, share in (("dobj", {"VERB", "AUX"}, 0.97), ("pobj", {"ADP", "SCONJ"}, 0.9)):
        found = [
            one.tags[head]
            for one in sentences
            for name, head in zip(one.relations, one.heads, strict=True)
            if name == relation
        ]
        assert len(found) > 1_000
        assert sum(tag in tags for tag in found) > share * len(found)


@dataclass
class Word:
    """A token as spaCy gives it."""

    i: int
    text: str
    pos_: str
    dep_: str
    head: Any = None
    lemma_: str = "_"
    tag_: str = "_"


def test_what_is_written_can_be_read():
    words = [Word(0, "films", "NOUN", "nsubj"), Word(1, "end", "VERB", "ROOT")]
    words[0].head = words[1].head = words[1]
    text = to_conllu(words)
    assert {line.count("\t") for line in text.splitlines()} == {9}
    assert from_conllu(text) == ParsedSentence(
        ("films", "end"), ("NOUN", "VERB"), (1, 1), ("nsubj", "ROOT")
    )


def test_a_changed_file_is_noticed(tmp_path, monkeypatch):
    for name in ("syntax.json", "syntax.conllu.gz"):
        data = (checkpoints.FOLDER / name).read_bytes()
        (tmp_path / name).write_bytes(data + b"x" * name.endswith("gz"))
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match="python -m recipes syntax"):
        parsed_sentences()


def test_annotations_are_no_model():
    with pytest.raises(ValueError, match=r"parsed_sentences\(\)"):
        pretrained.load("syntax")
