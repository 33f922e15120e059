"""The command line of the recipes: `python -m recipes NAME …`, or `--table`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from attnlib.pretrained.checkpoints import FOLDER
from recipes import (
    causes,
    circuits,
    classification,
    copying,
    geometry,
    histogram,
    identifiability,
    language,
    ngram_seeds,
    numerals,
    pruning,
    recall,
    suspects,
    syntax,
    today,
    translation,
    variants,
)

RECIPES: dict[str, Callable[[str, int | None, Path], object]] = {
    "reviews-bpe": language.train_tokenizer,
    **dict.fromkeys(language.LANGUAGE_MODELS | language.POSITIONS, language.train),
    "ngram-seeds": ngram_seeds.train,
    **dict.fromkeys(histogram.MINIMA, histogram.train),
    **dict.fromkeys(classification.CLASSIFIERS, classification.train),
    "guided": classification.train_guided,
    "recall": recall.train,
    "key-width": identifiability.train,
    **dict.fromkeys(causes.STUDIES, causes.measure),
    "copying": copying.measure,
    "geometry": geometry.measure,
    "geometry-5": geometry.train,
    "suspects": suspects.measure,
    "syntax": syntax.annotate,
    "today": today.measure,
    "variants": variants.train,
    **dict.fromkeys(circuits.RUNS, circuits.train),
    **dict.fromkeys(numerals.TRANSLATORS, numerals.train),
    "numerals": numerals.measure,
    **dict.fromkeys(translation.TRANSLATORS, translation.train),
    "translator-heads": pruning.rank,
    "translator-gates": pruning.gate,
    "translator-pruned": pruning.prune,
}


def main(arguments: list[str] | None = None) -> None:
    """Make the named checkpoints, then print the table if it is asked for."""
    parser = argparse.ArgumentParser(prog="python -m recipes", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    parser.add_argument("--steps", type=int, help="other than the recipe's, to try it out")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write")
    parser.add_argument("--table", action="store_true", help="print the held-out losses")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in RECIPES]
    if unknown or not (options.names or options.table):
        parser.error(f"name one or more of {', '.join(RECIPES)}, or ask for --table")
    for name in options.names:
        RECIPES[name](name, options.steps, options.folder)
    if options.table:
        print(language.table())


if __name__ == "__main__":
    main()
