"""How fast is `attnlib.tokenizers.BPE`, against the `tokenizers` library in the same run?

    python tests/benchmarks/bench_bpe.py

Theirs is compiled and uses every core, ours is Python and uses one.
"""

from timing import timed
from twins import bpe_twin

from attnlib.data import reviews
from attnlib.tokenizers import BPE


def all_texts() -> list[str]:
    """The 25,000 IMDB reviews, all splits together."""
    data = reviews("imdb")
    return [*data.train.texts, *data.validation.texts, *data.test.texts]


def main() -> None:
    """Print one line for training and two for encoding; stop if the results differ."""
    texts, size = all_texts(), 4096
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    theirs, their_time = timed(lambda: bpe_twin(texts, size))
    ours, our_time = timed(lambda: BPE.train(texts, size, progress=False))
    print(
        f"BPE training, {len(texts):,} reviews, {size:,} tokens: ours {our_time:.1f} s, "
        f"tokenizers {their_time:.1f} s, ratio {our_time / their_time:.1f}x"
    )
    reference, seconds = timed(
        lambda: [encoding.ids for encoding in theirs.encode_batch_fast(texts)]
    )
    for state in ("cold", "warm"):
        ids, taken = timed(lambda: [ours.encode(text) for text in texts])
        if ids != reference:
            raise SystemExit("the two encodings differ")
        print(
            f"BPE encoding ({state}), {megabytes:.1f} MB: ours {megabytes / taken:.1f} MB/s, "
            f"tokenizers {megabytes / seconds:.1f} MB/s, ratio {taken / seconds:.1f}x"
        )


if __name__ == "__main__":
    main()
