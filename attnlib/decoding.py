"""Decoding: from a model that scores the next token to a text.

Argmax, sampling, temperature, top-k, nucleus and beam search, for every language model of the
course. A transformer reads each token once: its keys and values are kept in a `Cache`. Speculative
decoding, length penalties and banned words are left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlib.transformer import Cache, Transformer

Choose = Callable[[Tensor, int], int]  # logits (D,) and the row of the batch, to a token


def next_distribution(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
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
    if top_k is None and top_p is None:
        return ((logits - logits.amax(-1, keepdim=True)) / temperature).softmax(-1)
    scores, order = logits.sort(dim=-1, descending=True, stable=True)
    ordered = ((scores - scores[..., :1]) / temperature).softmax(-1)
    if top_k is not None:
        ordered[..., top_k:] = 0.0
        ordered = ordered / ordered.sum(-1, keepdim=True)
    if top_p is not None and top_p < 1:  # 1 keeps all, whatever the sum is rounded to
        before = ordered.cumsum(-1) - ordered  # mass of the tokens ahead of this one
        ordered = ordered.masked_fill(before >= top_p, 0.0)
        ordered = ordered / ordered.sum(-1, keepdim=True)
    return torch.zeros_like(ordered).scatter(-1, order, ordered)


def generate(
    model: Any,
    ids: Tensor | Sequence[Tensor],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: int | None = None,
    cached: bool = True,
) -> Any:
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
    prompts = _prompts(ids)
    _check_settings(model.W_U.shape[1], temperature, top_k, top_p)
    generators = [torch.Generator() for _ in prompts]
    for row, generator in enumerate(generators):
        generator.seed() if seed is None else generator.manual_seed(seed + row)

    def draw(logits: Tensor, row: int) -> int:
        p = next_distribution(logits, temperature, top_k, top_p)
        return int(torch.multinomial(p.cpu(), 1, generator=generators[row]))

    texts = _continue(model, prompts, max_new_tokens, draw, stop, cached)
    return texts[0] if isinstance(ids, Tensor) else texts


def greedy(
    model: Any,
    ids: Tensor | Sequence[Tensor],
    max_new_tokens: int,
    stop: int | None = None,
    cached: bool = True,
) -> Any:
    """Continue one prompt or several with the most probable token, again and again.

    Arguments, result and errors as in `generate`.
    """

    def best(logits: Tensor, row: int) -> int:
        return int(logits.argmax())

    texts = _continue(model, _prompts(ids), max_new_tokens, best, stop, cached)
    return texts[0] if isinstance(ids, Tensor) else texts


@dataclass(frozen=True)
class Beam:
    """A continuation that beam search has kept.

    Attributes:
        ids: prompt and continuation, (T + n,).
        log_probability: of the continuation given the prompt, in nats: the sum over its tokens.
        parent: place, among the beams of the step before, of the one that it continues.
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
        stop: id that ends a text; an ended text keeps its place while it stays among the best.

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
    _check_count(max_new_tokens)
    steps = [[Beam(_prompts(ids)[0], 0.0)]]
    alive, rows = [0], [0]  # places in the last step that go on, and their rows in the cache
    with _Reader(model) as reader:
        for _ in range(max_new_tokens):
            last = steps[-1]
            logits = reader.read([last[place].ids.tolist() for place in alive], rows)
            steps.append(_widen(last, alive, logits.double().log_softmax(-1), beams))
            before = alive
            alive = [i for i, beam in enumerate(steps[-1]) if int(beam.ids[-1]) != stop]
            rows = [before.index(steps[-1][place].parent) for place in alive]
            if not alive:
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


class _Reader:
    """Reads texts of equal length, only what is new of them where the model can keep the rest.

    As a context: the model is in evaluation mode inside, and as it was afterwards.
    """

    def __init__(self, model: Any, cached: bool = True) -> None:
        self.model = model
        config = model.config if isinstance(model, Transformer) else None
        self.limit = None if config is None else config.max_len
        self.cache = Cache(config.layers) if config is not None and cached else None

    def __enter__(self) -> "_Reader":
        self.was_training = self.model.training
        self.model.eval()
        return self

    def __exit__(self, *error: object) -> None:
        self.model.train(self.was_training)

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
            state = self.model.hidden(torch.tensor(new, device=W_U.device), cache=self.cache)
        logits: Tensor = state[:, -1] @ W_U
        return logits


def _continue(
    model: Any,
    prompts: list[Tensor],
    max_new_tokens: int,
    choose: Choose,
    stop: int | None,
    cached: bool,
) -> list[Tensor]:
    """Lengthen all texts together, a token at a time, from where the shortest prompt ends.

    A longer prompt meanwhile reads its own tokens: no padding, so no text sees another's length.
    """
    _check_count(max_new_tokens)
    texts = [prompt.tolist() for prompt in prompts]
    wanted = [len(text) + max_new_tokens for text in texts]
    length = min(map(len, texts))
    alive = before = [row for row in range(len(texts)) if max_new_tokens]
    with _Reader(model, cached) as reader:
        while alive:
            rows = {row: place for place, row in enumerate(before)}  # in the cache
            logits = reader.read([texts[row][:length] for row in alive], [rows[r] for r in alive])
            before, alive = alive, []
            for row, scores in zip(before, logits, strict=True):
                if len(texts[row]) == length:
                    texts[row].append(choose(scores, row))
                    ended = len(texts[row]) == wanted[row] or texts[row][-1] == stop
                else:
                    ended = False  # still in its prompt
                if not ended:
                    alive.append(row)
            length += 1
    return [torch.tensor(text) for text in texts]


def _prompts(ids: Tensor | Sequence[Tensor]) -> list[Tensor]:
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


def _check_count(max_new_tokens: int) -> None:
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, got {max_new_tokens}")


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
