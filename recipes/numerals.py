"""Chapter 03's translators of numbers: two that the chapter loads, and what it says of more seeds.

The numbers and the measures are the chapter's own, out of its cells, and so is the class of the
translators with attention. Every model is trained for 300 batches of 32 pairs.

`numerals-fixed` writes German from one fixed context, `numerals-fr` writes French with attention.
The card `numerals` holds, by seed, the share of exact translations by length of translators into
German, "by_length", and of those with a dot product whose random W and U have another size,
"scores", by model and size; the "swaps" that are right, under the names of the tokens produced; and
for "mille", in 300 test numbers, how many rows there are, how many have their largest weight
elsewhere, how many of these on a direct neighbour, and p(mille) after each change, a mean over
these numbers.
"""

import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.data import Pairs, pairs_of
from attnlib.models.seq2seq import EncoderOutput, Seq2Seq, translation_loss
from attnlib.tokenizers.words import Vocabulary
from attnlib.training.loop import fit, shuffled
from recipes.cards import finished, result, rounded, sweep, write

D_MODEL, BATCH, STEPS = 128, 32, 300
LANGUAGES = {"numerals-fixed": "de", "numerals-fr": "fr"}
SETTINGS: dict[str, dict[str, Any]] = {
    "numerals-fixed": {"attention": None, "lr": 5e-3},  # at 2e-3 it learns more slowly
    "numerals-fr": {"attention": "additive", "lr": 2e-3},
}
TRANSLATORS = tuple(SETTINGS)
SEEDS, SCORE_SEEDS = (0, 1, 2, 3), (0, 1, 2)
SIZES = (0.1, 0.3, 1.0, 3.0)
NUMBERS = ("rng", "draw", "shown", "drawn", "short", "long", "train", "test", "en", "de")
MEASURES = ("exact", "alignment", "tens", "units", "swapped")
ROWS = ("fr", "rows_of_mille", "looks_elsewhere")
FRENCH = (*ROWS, "states_of", "p_mille", "without", "changes", "means")
Run = tuple[str, Any, int]  # what is trained, its size, its seed


@cache
def chapter(french: bool = False) -> Any:
    """Numbers, models and measures out of the chapter's cells; what is French needs a card."""
    sys.path.append(str(Path(__file__).parents[1] / "tools"))  # scripts, and no package
    from chapter_code import definitions  # type: ignore[import-not-found]

    names = (*NUMBERS, *MEASURES, "Bahdanau", "learn")
    return definitions("03_bahdanau", *names, *(FRENCH if french else ()))


class CutOff(Seq2Seq):
    """No gradient passes through the scores, to W and U or to the states."""

    def attend(self, state: Tensor, encoded: EncoderOutput) -> tuple[Tensor, Tensor | None]:
        with torch.no_grad():
            _, weights = super().attend(state, encoded)
        assert weights is not None
        return (weights[:, None] @ encoded.states)[:, 0], weights


def with_dot(name: str, size: float, source_size: int, target_size: int, d_model: int) -> Seq2Seq:
    """A model with a dot product whose random W and U are so many times as large as usual.

    Args:
        name: "learned", all of it; "frozen", all but W and U; "cut off", a `CutOff`.
        size: a factor on W and on U.
        source_size, target_size, d_model: as for `Seq2Seq`.
    """
    kind = CutOff if name == "cut off" else Seq2Seq
    model = kind(source_size, target_size, d_model, attention="dot")
    for matrix in (model.W, model.U):
        matrix.data *= size
        matrix.requires_grad_(name == "learned")
    return model


def pairs_in(language: str) -> tuple[Pairs, Vocabulary]:
    """The pairs to train on, and the words that are written."""
    known = chapter()
    if language == "de":
        return known.train, known.de
    pairs = pairs_of(known.train.numbers, "fr")
    return pairs, Vocabulary.alphabetical(pairs.targets)


def train(name: str, steps: int | None, folder: Path) -> None:
    """One of the translators that the chapter loads."""
    known, settings = chapter(), SETTINGS[name]
    pairs, words = pairs_in(LANGUAGES[name])
    config: dict[str, Any] = {"source_size": len(known.en), "target_size": len(words)}
    config |= {"d_model": D_MODEL, "attention": settings["attention"]}
    torch.manual_seed(0)
    model = Seq2Seq(**config)
    batch = shuffled((known.en.batch(pairs.sources), words.batch(pairs.targets, start=True)), BATCH)
    steps = STEPS if steps is None else steps
    history = fit(model, batch, translation_loss, steps=steps, lr=settings["lr"], warmup=20)
    about = {
        "config": config,
        "data": {"source": "num2words", "numbers": len(pairs), "words": 9},
        "vocabularies": {"source": known.en.words, "target": words.words},
        "seed": 0,
        "exact": rounded(by_length(model, pairs.language, words)),
    }
    write(name, model, finished(history), folder, about)


def by_length(model: nn.Module, language: str, words: Vocabulary) -> dict[int, float]:
    """Share of exact translations of the chapter's test numbers, short and long."""
    known = chapter()
    short, long = (pairs_of(pairs.numbers, language) for pairs in (known.test, known.long))
    shares: dict[int, float] = known.exact(model, short, words) | known.exact(model, long, words)
    return shares


def runs() -> list[Run]:
    """What is trained for the card `numerals`."""
    fixed = [("fixed", 128, seed) for seed in SEEDS] + [("fixed", 256, seed) for seed in (0, 1)]
    attention = [(name, 128, seed) for name in ("additive", "french") for seed in SEEDS]
    models = ("learned", "frozen", "cut off")
    return [
        *fixed,
        *attention,
        *((name, size, seed) for name in models for size in SIZES for seed in SCORE_SEEDS),
    ]


def one_run(run: Run, steps: int) -> dict[str, Any]:
    """What is found of one model, trained anew."""
    (name, size, seed), known = run, chapter()
    about: dict[str, Any] = {"model": name, "size": size, "seed": seed}
    pairs, words = pairs_in("fr" if name == "french" else "de")
    settings: dict[str, Any] = {"seed": seed, "steps": steps}
    if name == "fixed":
        settings |= {"attention": None, "d_model": size, "lr": 5e-3}
    build = known.Bahdanau if name in ("additive", "french") else Seq2Seq
    if name in ("learned", "frozen", "cut off"):
        build = partial(with_dot, name, size)
    model = known.learn(build, pairs, words, **settings)
    if name == "french":
        about |= rounded(mille(model))
        return about
    if name == "additive":
        about["swaps"] = round(swaps(model), 4)
    return about | {"exact": rounded(by_length(model, "de", words))}


def swaps(model: nn.Module) -> float:
    """Share of the swaps of 150 test numbers on which the largest weights lie right."""
    known = chapter()
    rows = [known.alignment(model, n, "de", known.de) for n in known.test.numbers[:150]]
    return float(known.swapped(rows))


def mille(model: nn.Module) -> dict[str, Any]:
    """Where the row "mille" looks, in 300 test numbers, and p(mille) after each change."""
    known = chapter(french=True)
    rows = list(known.rows_of_mille(model, known.test.numbers[:300]))
    elsewhere = known.looks_elsewhere(rows)
    beside = sum(abs(int(row.argmax()) - j) == 1 for _, row, j in rows)
    p = {name: values.mean() for name, values in known.means(model, elsewhere).items()}
    counts = {"rows": len(rows), "elsewhere": len(elsewhere), "beside": beside}
    return counts | {"p": p}


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """The card of what the chapter says of more seeds."""
    steps = STEPS if steps is None else steps
    rows = sweep(name, folder, runs(), lambda run: one_run(tuple(run), steps))
    scores: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        if row["model"] in ("learned", "frozen", "cut off"):
            sizes = scores.setdefault(row["model"], {})
            sizes.setdefault(f"{row['size']:g}", []).append(row["exact"])
    fixed = {
        f"fixed, {width} numbers": [
            row["exact"] for row in rows if (row["model"], row["size"]) == ("fixed", width)
        ]
        for width in (128, 256)
    }
    additive = [row for row in rows if row["model"] == "additive"]
    facts = {
        "steps": steps,
        "seeds": SEEDS,
        "by_length": fixed | {"additive": [row["exact"] for row in additive]},
        "swaps": [row["swaps"] for row in additive],
        "score_seeds": SCORE_SEEDS,
        "scores": scores,
        "mille": [
            {key: row[key] for key in ("rows", "elsewhere", "beside", "p")}
            for row in rows
            if row["model"] == "french"
        ],
    }
    return result(name, folder, facts)
