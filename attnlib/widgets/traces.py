"""What `explore` is given, as maps: traces, nested ones, and outputs of other libraries."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlib.trace import NO_WEIGHTS, Trace

from . import checks
from .maps import Maps, Text, put_together

STACKS = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


def is_encoder_decoder(outputs: Any) -> bool:
    """Whether these are the outputs of a model such as T5, BART or Marian."""
    return all(hasattr(outputs, name) for name in STACKS.values())


def stacks(
    outputs: Any, tokens: Sequence[str], sources: Sequence[str] | None
) -> tuple[list[Trace], str, list[str]]:
    """The traces of an encoder and a decoder, with a name for their axis and one for each.

    Args:
        outputs: with `encoder_attentions`, `decoder_attentions` and `cross_attentions`, as
            `transformers` gives them; a stack that has none is left out.
        tokens: what the decoder read.
        sources: what the encoder read.

    Returns:
        One trace for each stack, "stack" and the names of the stacks. Where the stacks have not as
        many layers as one another: one trace for each layer, "layer", and names of the layers.

    Raises:
        ValueError: if there are no weights, or no sources, or these are not those of the weights.
    """
    if sources is None:
        raise ValueError(
            "these are the outputs of an encoder and a decoder: pass the decoder's tokens and, as "
            "`sources`, the encoder's, as in explore(outputs, tokens, sources=…)"
        )
    sides = {"encoder": (sources, None), "decoder": (tokens, None), "cross": (tokens, sources)}
    traces = {
        name: Trace.of(attentions, *sides[name])
        for name, field in STACKS.items()
        if (attentions := getattr(outputs, field))
    }
    if not traces:
        raise ValueError(NO_WEIGHTS)
    if len({len(trace.pattern) for trace in traces.values()}) == 1:
        return list(traces.values()), "stack", list(traces)
    layers = {
        f"{name} {number}": Trace(trace.tokens, layer[None], trace.sources)
        for name, trace in traces.items()
        for number, layer in enumerate(trace.pattern)
    }
    return list(layers.values()), "layer", list(layers)


def maps_of(
    nested: Any, names: tuple[str, ...], labels: Mapping[str, Sequence[object]]
) -> tuple[Maps, str]:
    """Nested traces, or nested pairs of a map and its tokens, as the maps of one view.

    Args:
        nested: one level of lists for every name.
        names: of the levels of lists.
        labels: axis → what its positions are called.

    Returns:
        The maps, and what a title says of texts that are cut.

    Raises:
        ValueError: if the nesting is not that of the names, something else is in it, or the items
            do not fit together.
    """
    items, sizes = checks.flatten(nested, names, "traces")
    if all(isinstance(item, Trace) for item in items):
        return _maps_of_traces(items, sizes, names, labels), _cut_in_words(items)
    if names and all(isinstance(item, tuple) and len(item) == 2 for item in items):
        return _maps_of_pairs(items, sizes, names, labels), ""
    other = next(item for item in items if not isinstance(item, Trace))
    raise ValueError(
        f"explore takes traces, in one level of lists for every name in axes={names}; got "
        f"{type(other).__name__} where a trace should be. What another library returned needs its "
        "tokens, as in explore(outputs, tokens)"
    )


def _maps_of_pairs(
    pairs: Sequence[tuple[Any, Sequence[str]]],
    sizes: tuple[int, ...],
    names: tuple[str, ...],
    labels: Mapping[str, Sequence[object]],
) -> Maps:
    """Single maps (query, key), each with its tokens."""
    leaves = []
    texts = []
    for weights, tokens in pairs:
        queries = checks.check_strings("tokens", tokens)
        leaf = checks.check_weights("weights", weights, ())
        checks.check_fit(leaf, len(queries), len(queries))
        leaves.append(leaf)
        texts.append(Text(queries, queries))
    return put_together(leaves, texts, sizes, names, labels)


def _maps_of_traces(
    traces: Sequence[Trace],
    sizes: tuple[int, ...],
    names: tuple[str, ...],
    labels: Mapping[str, Sequence[object]],
) -> Maps:
    """Traces, row by row, with the same layers and heads.

    Of the axes "layer" and "head", one of size 1 is left out; of a single trace "head" stays.
    """
    shapes = [tuple(trace.pattern.shape[:2]) for trace in traces]
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                "traces in one view must have the same number of layers and of heads; the first "
                f"has {shapes[0]}, that at place {place} {shape}"
            )
    layers, heads = shapes[0]
    inner = [name for name, size in (("layer", layers), ("head", heads)) if size > 1]
    if not inner and not names:
        inner = ["head"]
    left_out = tuple(side for side, name in enumerate(("layer", "head")) if name not in inner)
    leaves = [trace.pattern.detach().cpu().float().squeeze(left_out) for trace in traces]
    axes = checks.check_axes((*names, *inner))
    return put_together(leaves, _texts(traces), sizes, axes, labels)


def _texts(traces: Sequence[Trace]) -> list[Text]:
    """The text of each trace; its words only where all traces know theirs."""
    know_words = all(trace.word_ids is not None and trace.sources is None for trace in traces)
    return [
        Text(
            queries=trace.tokens,
            keys=trace.tokens if trace.sources is None else trace.sources,
            word_ids=trace.word_ids if know_words else None,
            words=trace.words if know_words else None,
        )
        for trace in traces
    ]


def _cut_in_words(traces: Sequence[Trace]) -> str:
    """What a title says of texts that were longer than their model reads, or ""."""
    cut = [trace for trace in traces if trace.left_out]
    if not cut:
        return ""
    if len(traces) > 1:
        return f"{len(cut)} of {len(traces)} texts are cut"
    read = len(cut[0].tokens)
    return f"the first {read} of {read + cut[0].left_out:,} tokens"
