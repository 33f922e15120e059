"""A few reviews, and a folder with the course's tokenizer, for recipes that are run small."""

from attnlib.data import Reviews, Split, reviews
from attnlib.pretrained import checkpoints


def few_of(source, letters, *counts):
    """The first texts of the three splits, so many of each, cut after so many letters."""
    whole = reviews(source)
    parts = zip((whole.train, whole.validation, whole.test), counts, strict=True)
    return Reviews(
        *(Split(tuple(t[:letters] for t in p.texts[:n]), p.labels[:n]) for p, n in parts)
    )


def with_tokenizer(monkeypatch, folder):
    """Checkpoints are looked for in `folder`, where the course's tokenizer is already."""
    for name in ("reviews-bpe.bpe", "reviews-bpe.json"):
        (folder / name).write_bytes((checkpoints.FOLDER / name).read_bytes())
    monkeypatch.setattr(checkpoints, "FOLDER", folder)
