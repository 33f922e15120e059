"""Decoding: from a model that scores the next token to a text.

Argmax, sampling, temperature, top-k, nucleus and beam search, for every language model of the
course; `translate` has an encoder–decoder write greedily. A transformer reads each token
once: its keys and values are kept in a `KVCache`. Speculative decoding, length penalties and banned
words are left out.

Model and prompts may lie on different devices: what is written comes back where its prompt is. The
probabilities are single precision at least, whatever the model's own.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnlib.models.cache import KVCache
from attnlib.models.evaluation import evaluating
from attnlib.models.seq2seq import EncoderOutput
from attnlib.models.transformer import Transformer
from attnlib.tokenizers.words import BOS, EOS, PAD

Prompts = TypeVar("Prompts", Tensor, list[Tensor])  # a prompt, or several
Stop = int | Collection[int] | None  # the id that ends a text, or several of them
Choose = Callable[[Tensor, int], int]  # logits (D,) and the number of the prompt, to a token


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
        probabilities, (..., D), in single precision or that of the logits, if it is higher.

    Raises:
        ValueError: if a setting lies outside its range.

    >>> next_distribution(torch.tensor([2.0, 1.0, 0.0]), top_k=2)
    tensor([0.7311, 0.2689, 0.0000])
    """
    _check_settings(logits.shape[-1], temperature, top_k, top_p)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # subtracting the maximum first keeps a very small temperature from overflowing
    p = ((logits - logits.amax(-1, keepdim=True)) / temperature).softmax(-1)
    if top_p == 1:
        top_p = None  # all are kept, however the sum of their probabilities is rounded
    if top_k is None and top_p is None:
        return p
    # the most probable first, and of equals the one with the smaller id
    ranked, ids = logits.sort(dim=-1, descending=True, stable=True)
    ranked, ids = ranked[..., :top_k], ids[..., :top_k]
    in_nucleus = torch.ones_like(ids, dtype=torch.bool)
    if top_p is not None:
        mass = ((ranked - ranked[..., :1]) / temperature).softmax(-1)
        mass_above = mass.cumsum(-1) - mass  # of the more probable tokens
        in_nucleus = mass_above < top_p
    keep = torch.zeros_like(p, dtype=torch.bool).scatter(-1, ids, in_nucleus)
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
    stop: Stop = None,
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
        temperature: as in `next_distribution`.
        top_k: tokens that can be drawn, as in `next_distribution`.
        top_p: mass that can be drawn from, as in `next_distribution`.
        seed: the same seed gives the same text; new each time if None. Prompt i of a list is
            drawn with seed + i, so that it is continued as it would be alone.
        stop: id that ends a text, such as that of "<|endoftext|>", or several, each of which does;
            it is kept as the last token.
        cached: keep keys and values where the model can. False reads everything at every step:
            slower, and the same up to rounding.

    Returns:
        prompt and continuation, (T + n,) int64, on the prompt's device; a list of them for a list
        of prompts.

    Raises:
        ValueError: if a setting lies outside its range or a prompt is empty.
    """
    reader = _Reader(model, cached)
    _check_settings(model.W_U.shape[1], temperature, top_k, top_p)
    generators = [torch.Generator(device="cpu") for _ in _prompts(ids, max_new_tokens)]
    for number, generator in enumerate(generators):
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed + number)

    def draw(logits: Tensor, number: int) -> int:
        # the token in whose share of the whole a random number falls; in double precision, as
        # shares are small, and so on the CPU, as other devices may not have it
        p = next_distribution(logits, temperature, top_k, top_p)
        mass = p.cpu().double().cumsum(-1)
        u = torch.rand((), dtype=torch.float64, device="cpu", generator=generators[number])
        return int(torch.searchsorted(mass, u * mass[-1], right=True))

    return _continue(reader, ids, max_new_tokens, draw, stop)


def greedy(
    model: Any, ids: Prompts, max_new_tokens: int, stop: Stop = None, cached: bool = True
) -> Prompts:
    """Continue one prompt or several with the most probable token, again and again.

    Arguments, result and errors as in `generate`.
    """
    return _continue(_Reader(model, cached), ids, max_new_tokens, _most_probable, stop)


def _most_probable(logits: Tensor, number: int) -> int:
    return int(logits.argmax())


def translate(model: Any, source: Tensor, longest: int = 60) -> Tensor:
    """What an encoder–decoder makes of each source, each time with the most probable token.

    <pad> and <s> are never written.

    Args:
        model: a `Seq2Seq` or a `Translator`.
        source: ids (B, S), padded at the end.
        longest: tokens; stop there even without </s>.

    Returns:
        ids (B, T) without <s>, <pad> after </s>, on the device of the sources.

    Raises:
        ValueError: if `longest` is negative.
    """
    starts = [torch.tensor([BOS], device=source.device)] * len(source)
    texts = _continue(_Writer(model, source), starts, longest, _most_probable, EOS)
    return pad_sequence([text[1:] for text in texts], batch_first=True, padding_value=PAD)


@dataclass(frozen=True)
class Beam:
    """A continuation that beam search has kept.

    Attributes:
        ids: prompt and continuation, (T + n,), on the prompt's device.
        log_probability: of the continuation given the prompt, in nats: the sum over its tokens.
        parent: index, among the beams of the step before, of the one that it continues.
    """

    ids: Tensor
    log_probability: float
    parent: int = 0


def beam_search(
    model: Any, ids: Tensor, max_new_tokens: int, beams: int, stop: Stop = None
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
        stop: as in `generate`; an ended text keeps its place while it stays among the best, and
            when it is the best of all, the search ends: none can become more probable.

    Returns:
        `beams` texts (fewer if there are not so many), the most probable first.

    Raises:
        ValueError: as in `generate`, or if there is not at least one beam.
    """
    return beam_steps(model, ids, max_new_tokens, beams, stop)[-1]


def beam_steps(
    model: Any, ids: Tensor, max_new_tokens: int, beams: int, stop: Stop = None
) -> list[list[Beam]]:
    """Every step of `beam_search`, to be drawn as a tree: the prompt, then the beams of each step.

    Arguments and errors as in `beam_search`.
    """
    if beams < 1:
        raise ValueError(f"beam search needs at least one beam, got {beams}")
    (prompt,) = _prompts([ids], max_new_tokens)
    reader, ends = _Reader(model), _ends(stop)
    steps = [[Beam(prompt, 0.0)]]
    unfinished = [0]  # indices, in the last step, of the beams that go on
    rows = [0]  # for each of them, the row of the reader's last batch that it continues
    with evaluating(model):
        for _ in range(max_new_tokens):
            last_step = steps[-1]
            logits = reader.read([last_step[i].ids.tolist() for i in unfinished], rows)
            log_p = logits.cpu().double().log_softmax(-1)  # not every device has double precision
            step = _next_step(last_step, unfinished, log_p, beams)
            steps.append(step)

            row_of = {i: row for row, i in enumerate(unfinished)}
            unfinished = [i for i, beam in enumerate(step) if int(beam.ids[-1]) not in ends]
            rows = [row_of[step[i].parent] for i in unfinished]
            if 0 not in unfinished:  # the most probable text has ended
                break
    return steps


def _next_step(
    last_step: list[Beam], unfinished: list[int], log_p: Tensor, beams: int
) -> list[Beam]:
    """The most probable among the beams that have ended and all continuations of the others.

    Args:
        last_step: the beams of the step before.
        unfinished: the indices of those that go on.
        log_p: log-probabilities of the token after each of those, (unfinished, D).
        beams: how many are kept.
    """
    candidates = [
        Beam(beam.ids, beam.log_probability, parent=i)
        for i, beam in enumerate(last_step)
        if i not in unfinished
    ]
    so_far = log_p.new_tensor([[last_step[i].log_probability] for i in unfinished])
    totals = so_far + log_p  # of every continuation, (unfinished, D)
    best = totals.flatten().topk(min(beams, totals.numel()))
    for total, flat_index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        row, token = divmod(flat_index, log_p.shape[1])
        parent = unfinished[row]
        ids = last_step[parent].ids
        longer = torch.cat([ids, torch.tensor([token], device=ids.device)])
        candidates.append(Beam(longer, total, parent))
    return sorted(candidates, key=lambda beam: -beam.log_probability)[:beams]


class _Reader:
    """A language model that reads texts of equal length, which are a token longer each time.

    A transformer keeps what it has read (`KVCache`), and reads only what is new. Other models read
    the texts from their beginning each time, and so does a transformer whose `max_len` is passed.
    """

    def __init__(self, model: Any, cached: bool = True) -> None:
        if model.W_U is None:
            raise ValueError(
                "a model without an unembedding says nothing about the next token: decoding needs "
                "a language model (head=True)"
            )
        self.model = model
        self.limit: int | None = None
        self.cache: KVCache | None = None
        if isinstance(model, Transformer):
            self.limit = model.config.max_len
            self.cache = KVCache(model.config.layers) if cached else None

    @torch.inference_mode()
    def read(self, texts: list[list[int]], rows: list[int]) -> Tensor:
        """Logits (B, D) of the token after each text.

        Args:
            texts: B texts of equal length.
            rows: where in the batch that was read last each text's beginning was.
        """
        if self.limit is not None and len(texts[0]) > self.limit:
            texts = [text[-self.limit :] for text in texts]
            self.cache = None  # every position has moved by one: nothing that was kept is right
        if self.cache is not None:
            if rows != list(range(self.cache.batch)):
                self.cache = self.cache.select(self._ids(rows))
            texts = [text[self.cache.length :] for text in texts]
            state = self.model.hidden(self._ids(texts), cache=self.cache)
        else:
            state = self.model.hidden(self._ids(texts))
        logits: Tensor = self.model.unembed(state[:, -1])
        return logits

    def _ids(self, numbers: list[Any]) -> Tensor:
        """Numbers as a tensor on the model's device."""
        return torch.tensor(numbers, device=self.model.W_U.device)


class _Writer:
    """An encoder–decoder that has read the sources (B, S), and reads what it writes to each."""

    def __init__(self, model: Any, source: Tensor) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        with evaluating(model), torch.inference_mode():
            self.encoded: EncoderOutput = model.encoder_output(source.to(self.device))
            self.state = model.initial_state(self.encoded)

    @torch.inference_mode()
    def read(self, texts: list[list[int]], rows: list[int]) -> Tensor:
        """Logits (B, D) of the token after each text; arguments as in `_Reader.read`."""
        self.encoded = EncoderOutput(*(part[rows] for part in self.encoded))
        last = torch.tensor([text[-1] for text in texts], device=self.device)
        self.state, logits, _ = self.model.step(self.state[rows], last, self.encoded)
        never = torch.tensor([PAD, BOS], device=self.device)
        return torch.index_fill(logits, -1, never, -torch.inf)


@dataclass
class _Text:
    """A text that grows.

    Attributes:
        number: of its prompt.
        ids: what there is of it.
        goal: how long it may become.
        row: its place in the batch that was read last.
        done: whether nothing more is to be written.
    """

    number: int
    ids: list[int]
    goal: int
    row: int
    done: bool


def _continue(
    reader: _Reader | _Writer, ids: Prompts, max_new_tokens: int, choose: Choose, stop: Stop
) -> Prompts:
    """Lengthen all texts together, a token at a time, from where the shortest prompt ends.

    A longer prompt meanwhile reads its own tokens: no padding, so no text sees another's length.
    """
    prompts = _prompts(ids, max_new_tokens)
    texts = [
        _Text(
            number=number,
            ids=prompt.tolist(),
            goal=len(prompt) + max_new_tokens,
            row=number,
            done=max_new_tokens == 0,
        )
        for number, prompt in enumerate(prompts)
    ]
    length, ends = min(len(text.ids) for text in texts), _ends(stop)
    with evaluating(reader.model):
        while alive := [text for text in texts if not text.done]:
            logits = reader.read(
                [text.ids[:length] for text in alive], rows=[text.row for text in alive]
            )
            for row, text in enumerate(alive):
                text.row = row
                if len(text.ids) > length:  # the next token is the prompt's own
                    continue
                token = choose(logits[row], text.number)
                text.ids.append(token)
                text.done = token in ends or len(text.ids) == text.goal
            length += 1
    continued = [
        torch.tensor(text.ids, device=prompt.device)
        for text, prompt in zip(texts, prompts, strict=True)
    ]
    return continued[0] if isinstance(ids, Tensor) else continued


def _ends(stop: Stop) -> frozenset[int]:
    """The ids that end a text."""
    if stop is None:
        return frozenset()
    return frozenset([stop] if isinstance(stop, int) else stop)


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
