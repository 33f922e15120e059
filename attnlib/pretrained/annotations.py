"""Sentences of film reviews with their grammar: parts of speech, and who depends on whom.

The labels are silver, made by a parser and read by nobody: spaCy's small English pipeline, which
its makers report to attach 92 % of the words rightly. `recipes.syntax` makes the file, and needs
spaCy; to read it, nothing is needed. The format is CoNLL-U (universaldependencies.org), a line of
ten columns for each word; relations have the names of spaCy's English pipeline ("dobj", "pobj").
"""

import gzip
from dataclasses import dataclass

from attnlib.pretrained.checkpoints import card, checked_file

NAME = "syntax"


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence and its grammar, one entry of each for every word.

    Attributes:
        words: as the parser cut them; joined by spaces they are the text.
        tags: universal parts of speech, such as "NOUN".
        heads: index of the word that each depends on, its own index for the root.
        relations: how it depends on it, such as "dobj", and "ROOT" for the root.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    def __str__(self) -> str:
        return " ".join(self.words)


def parsed_sentences() -> tuple[ParsedSentence, ...]:
    """The 2,000 sentences of Rotten Tomatoes' validation and test splits, in their order.

    Raises:
        RuntimeError: if the file is not the one that its card speaks of.
    """
    text = gzip.decompress(checked_file(card(NAME)).read_bytes()).decode()
    return tuple(from_conllu(part) for part in text.split("\n\n") if part)


def from_conllu(text: str) -> ParsedSentence:
    r"""One sentence from its lines.

    >>> from_conllu("1\tgo\tgo\tVERB\t_\t_\t0\tROOT\t_\t_").relations
    ('ROOT',)
    """
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    _, words, _, tags, _, _, heads, relations, _, _ = zip(*rows, strict=True)
    indices = tuple(i if head == "0" else int(head) - 1 for i, head in enumerate(heads))
    return ParsedSentence(words, tags, indices, relations)
