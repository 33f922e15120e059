"""Decoding: from a model that scores the next token to a text.

Argmax, sampling, temperature, top-k, nucleus and beam search, for every language model of the
course; `translate` has an encoder–decoder write greedily. A transformer reads each token
once: its keys and values are kept in a `KVCache`. Speculative decoding, length penalties and banned
words are left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from attnlib.models.cache import KVCache
from attnlib.models.evaluation import evaluating
from attnlib.models.seq2seq import EncoderOutput
from attnlib.models.transformer import Transformer
from attnlib.tokenizers.words import BOS, EOS, PAD, pad

Prompts = TypeVar("Prompts", Tensor, list[Tensor])  # a prompt, or several
Choose = Callable[[Tensor, int], int]  # logits (D,) and the row of the batch, to a token


def next_distribution(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """The distribution from which the next token is drawn.

    softmax(logits / temperature), cut to the k most probable tokens, cut to the nucleus (the
    smallest set of most probable tokens whose mass reaches p; Holtzman et al. 2020), and
    normalised after each cut. Among equals the smaller id is kept.

    Args:
        logits: (..., D).
        temperature: above 0; towards 0 only the argmax is left, towards infinity all are equal.
        top_k: tokens kept, 1 … D; all if None.
        top_p: mass kept, in (0, 1]; all if None.

    Returns:
        probabilities, (..., D).

    Raises:
        ValueError: if a setting lies outside its range.

    >>> next_distribution(torch.tensor([2.0, 1.0, 0.0]), top_k=2)
    tensor([0.7311, 0.2689, 0.0000])
    """
    _check_settings(logits.shape[-1], temperature, top_k, top_p)
    # subtracting the maximum first keeps a very small temperature from overflowing
    p = ((logits - logits.amax(-1, keepdim=True)) / temperature).softmax(-1)
    if top_k is None and (top_p is None or top_p == 1):  # 1 keeps all, however the sum is rounded
        return p
    scores = logits.sort(-1, descending=True).values
    kept = torch.full_like(scores[..., :1], top_k or logits.shape[-1], dtype=torch.int64)
    if top_p is not None and top_p < 1:
        ordered = ((scores - scores[..., :1]) / temperature).softmax(-1)
        if top_k is not None:
            ordered = ordered[..., :top_k] / ordered[..., :top_k].sum(-1, keepdim=True)
        before = ordered.cumsum(-1) - ordered  # mass of the tokens ahead of this one
        kept = kept - (before >= top_p).sum(-1, keepdim=True)
    last = scores.gather(-1, kept - 1)
    keep = logits >= last
    surplus = keep.sum(-1, keepdim=True) - kept
    if surplus.any():  # more equals of the last than places: the smaller ids get them
        equal = logits == last
        keep &= ~equal | (equal.cumsum(-1) <= equal.sum(-1, keepdim=True) - surplus)
    p = p.masked_fill(~keep, 0.0)
    return p / p.sum(-1, keepdim=True)


def generate(
    model: Any,
    ids: Prompts,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: int | None = None,
    cached: bool = True,
) -> Prompts:
    """Continue one prompt or several by sampling.

    A transformer reads at most `max_len` tokens. When they are full, the oldest leave: each
    further token is computed from the last `max_len` alone, and all of them anew, because every
    position has moved.

    Args:
        model: any language model of the course, `model(ids (B, T)) -> logits (B, T, D)`.
        ids: a prompt (T,), T ≥ 1, or a list of prompts of any lengths.
        max_new_tokens: at most so many per prompt.
        temperature: as in `next_distribution`, and so
        top_k: and
        top_p: too.
        seed: the same seed gives the same text; new each time if None. Prompt i of a list is
            drawn with seed + i, so that it is continued as it would be alone.
        stop: id that ends a text, such as that of "<|endoftext|>"; it is kept as the last token.
        cached: keep keys and values where the model can. False reads everything at every step:
            slower, and the same up to rounding.

    Returns:
        prompt and continuation, (T + n,) int64; a list of them for a list of prompts.

    Raises:
        ValueError: if a setting lies outside its range or a prompt is empty.
    """
    _check_settings(model.W_U.shape[1], temperature, top_k, top_p)
    generators = [torch.Generator() for _ in _prompts(ids, max_new_tokens)]
    for row, generator in enumerate(generators):
        generator.seed() if seed is None else generator.manual_seed(seed + row)

    def draw(logits: Tensor, row: int) -> int:
        # the token in whose share of the whole a random number falls; double, as shares are small
        mass = next_distribution(logits, temperature, top_k, top_p).cpu().double().cumsum(-1)
        u = torch.rand((), dtype=torch.float64, generator=generators[row])
        return int(torch.searchsorted(mass, u * mass[-1], right=True))

    return _continue(_Reader(model, cached), ids, max_new_tokens, draw, stop)


def greedy(
    model: Any, ids: Prompts, max_new_tokens: int, stop: int | None = None, cached: bool = True
) -> Prompts:
    """Continue one prompt or several with the most probable token, again and again.

    Arguments, result and errors as in `generate`.
    """

    return _continue(_Reader(model, cached), ids, max_new_tokens, _most_probable, stop)


def _most_probable(logits: Tensor, row: int) -> int:
    return int(logits.argmax())


def translate(model: Any, source: Tensor, longest: int = 60) -> Tensor:
    """What an encoder–decoder makes of each source, each time with the most probable token.

    <pad> and <s> are never written.

    Args:
        model: a `Seq2Seq` or a `Translator`.
        source: ids (B, S), padded at the end.
        longest: tokens; stop there even without </s>.

    Returns:
        ids (B, T) without <s>, <pad> after </s>.

    Raises:
        ValueError: if `longest` is negative.
    """
    starts = [torch.tensor([BOS])] * len(source)
    texts = _continue(_Writer(model, source), starts, longest, _most_probable, EOS)
    return pad([text[1:].tolist() for text in texts])


@dataclass(frozen=True)
class Beam:
    """A continuation that beam search has kept.

    Attributes:
        ids: prompt and continuation, (T + n,).
        log_probability: of the continuation given the prompt, in nats: the sum over its tokens.
        parent: index, among the beams of the step before, of the one that it continues.
    """

    ids: Tensor
    log_probability: float
    parent: int = 0


def beam_search(
    model: Any, ids: Tensor, max_new_tokens: int, beams: int, stop: int | None = None
) -> list[Beam]:
    """The most probable continuations that a search of limited width finds.

    At each step every beam is continued by every token, and the `beams` most probable texts are
    kept. Nothing is drawn at random: the same prompt gives the same beams. The first is not always
    the most probable text of all, nor always above greedy's, which may have been dropped early.

    Args:
        model: as in `generate`.
        ids: a prompt (T,).
        max_new_tokens: at most so many.
        beams: texts kept at each step; 1 is greedy.
        stop: id that ends a text; an ended text keeps its place while it stays among the best, and
            when it is the best of all, the search ends: none can become more probable.

    Returns:
        `beams` texts (fewer if there are not so many), the most probable first.

    Raises:
        ValueError: as in `generate`, or if there is not at least one beam.
    """
    return beam_steps(model, ids, max_new_tokens, beams, stop)[-1]


def beam_steps(
    model: Any, ids: Tensor, max_new_tokens: int, beams: int, stop: int | None = None
) -> list[list[Beam]]:
    """Every step of `beam_search`, to be drawn as a tree: the prompt, then the beams of each step.

    Arguments and errors as in `beam_search`.
    """
    if beams < 1:
        raise ValueError(f"beam search needs at least one beam, got {beams}")
    steps = [[Beam(_prompts(ids, max_new_tokens)[0], 0.0)]]
    alive, rows = [0], [0]  # places in the last step that go on, and their rows in the cache
    reader = _Reader(model)
    with evaluating(model):
        for _ in range(max_new_tokens):
            last = steps[-1]
            logits = reader.read([last[place].ids.tolist() for place in alive], rows)
            steps.append(_widen(last, alive, logits.double().log_softmax(-1), beams))
            before = alive
            alive = [i for i, beam in enumerate(steps[-1]) if int(beam.ids[-1]) != stop]
            rows = [before.index(steps[-1][place].parent) for place in alive]
            if 0 not in alive:
                break
    return steps


def _widen(last: list[Beam], alive: list[int], log_p: Tensor, beams: int) -> list[Beam]:
    """The best continuations of the beams that go on, log_p (alive, D), and of those that ended."""
    totals = log_p + log_p.new_tensor([[last[place].log_probability] for place in alive])
    best = totals.flatten().topk(min(beams, totals.numel()))
    found = [Beam(beam.ids, beam.log_probability, i) for i, beam in enumerate(last)]
    found = [beam for beam in found if beam.parent not in alive]
    for value, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        row, token = divmod(place, log_p.shape[1])
        ids = torch.cat([last[alive[row]].ids, torch.tensor([token])])
        found.append(Beam(ids, value, alive[row]))
    return sorted(found, key=lambda beam: -beam.log_probability)[:beams]


class _Writer:
    """Reads what an encoder–decoder has written so far, after it has read the sources (B, S)."""

    def __init__(self, model: Any, source: Tensor) -> None:
        with evaluating(model):
            self.model, self.encoded = model, model.encoder_output(source)
        self.state = model.initial_state(self.encoded)

    @torch.inference_mode()
    def read(self, texts: list[list[int]], rows: list[int]) -> Tensor:
        """Logits (B, D) of the token after each text; text i goes on from row `rows[i]` before."""
        self.encoded = EncoderOutput(*(part[rows] for part in self.encoded))
        last = torch.tensor([text[-1] for text in texts])
        self.state, logits, _ = self.model.step(self.state[rows], last, self.encoded)
        return torch.index_fill(logits, -1, torch.tensor([PAD, BOS]), -torch.inf)


class _Reader:
    """Reads texts of equal length, only what is new of them where the model can keep the rest."""

    def __init__(self, model: Any, cached: bool = True) -> None:
        self.model = model
        config = model.config if isinstance(model, Transformer) else None
        self.limit = None if config is None else config.max_len
        self.cache = KVCache(config.layers) if config is not None and cached else None

    @torch.inference_mode()
    def read(self, texts: list[list[int]], rows: list[int]) -> Tensor:
        """Logits (B, D) of the token after each text; text i goes on from row `rows[i]` before."""
        W_U = self.model.W_U
        if self.limit is not None and len(texts[0]) > self.limit:
            self.cache = None  # every position moves by one: nothing that was kept is right
            texts = [text[-self.limit :] for text in texts]
        if self.cache is None:
            state = self.model.hidden(torch.tensor(texts, device=W_U.device))
        else:
            if rows != list(range(self.cache.batch)):
                self.cache = self.cache.select(torch.tensor(rows, device=W_U.device))
            new = [text[self.cache.length :] for text in texts]
            assert isinstance(self.model, Transformer)
            state = self.model.hidden(torch.tensor(new, device=W_U.device), cache=self.cache)
        return torch.matmul(state[:, -1], W_U)


def _continue(
    reader: _Reader | _Writer, ids: Prompts, max_new_tokens: int, choose: Choose, stop: int | None
) -> Prompts:
    """Lengthen all texts together, a token at a time, from where the shortest prompt ends.

    A longer prompt meanwhile reads its own tokens: no padding, so no text sees another's length.
    """
    texts = [prompt.tolist() for prompt in _prompts(ids, max_new_tokens)]
    wanted = [len(text) + max_new_tokens for text in texts]
    length = min(map(len, texts))
    alive = before = [row for row in range(len(texts)) if max_new_tokens]
    with evaluating(reader.model):
        while alive:
            rows = {row: place for place, row in enumerate(before)}  # in the cache
            logits = reader.read([texts[row][:length] for row in alive], [rows[r] for r in alive])
            before, alive = alive, []
            for row, scores in zip(before, logits, strict=True):
                in_prompt = len(texts[row]) > length
                if not in_prompt:
                    texts[row].append(choose(scores, row))
                if in_prompt or (len(texts[row]) < wanted[row] and texts[row][-1] != stop):
                    alive.append(row)
            length += 1
    continued = [torch.tensor(text) for text in texts]
    return continued[0] if isinstance(ids, Tensor) else continued


def _prompts(ids: Tensor | Sequence[Tensor], max_new_tokens: int) -> list[Tensor]:
    """The prompts as a list, if they and the number of new tokens are what they should be."""
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, got {max_new_tokens}")
    prompts = [ids] if isinstance(ids, Tensor) else list(ids)
    for prompt in prompts:
        if not isinstance(prompt, Tensor) or prompt.ndim != 1 or len(prompt) == 0:
            what = tuple(prompt.shape) if isinstance(prompt, Tensor) else type(prompt).__name__
            raise ValueError(
                "a prompt is a tensor of at least one id, (T,), and several are a list of them; "
                f"got {what}. To begin a text with nothing, give the id of <|endoftext|>"
            )
    if not prompts:
        raise ValueError("there is no prompt in the list")
    return prompts


def _check_settings(
    vocabulary: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    if not 0 < temperature < float("inf"):
        raise ValueError(
            f"temperature must be above 0 and finite, got {temperature}; for the limit 0, the most "
            "probable token, use greedy"
        )
    if top_k is not None and not 1 <= top_k <= vocabulary:
        raise ValueError(f"top_k must lie in 1 … {vocabulary}, the vocabulary; got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is a mass, above 0 and at most 1; got {top_p}")
