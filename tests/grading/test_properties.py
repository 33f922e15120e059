"""Hidden cases are made of promises: each is there, and breaks an answer that forgets it."""

import json
import random
from itertools import product

import torch

from attnlib.check.protocol import from_json
from grading.judge import encoded
from grading.properties import converted, varied
from grading.task import Args, Task


def drawn(
    rng: random.Random, generator: torch.Generator, T: int, d: int, lead: tuple[int, ...]
) -> Args:
    return torch.randn(*lead, T, d, generator=generator), [torch.ones(d), 3]


def cases(**more: object) -> list[Args]:
    """The hidden cases of a task whose texts have a token at least, and vectors two numbers."""
    made = varied(drawn, {"T": 1, "d": 2}, lead=True, **more)  # type: ignore[arg-type]
    return list(made(random.Random(0), torch.Generator().manual_seed(0)))


def test_every_promise_has_its_case() -> None:
    plain = [x.shape for x, _ in cases(dtypes=())]
    assert {len(shape) for shape in plain} == {2, 3, 4, 6}
    assert plain.count((4, 4, 4)) == 2, "all sizes alike, twice"
    assert [shape[-2] for shape in plain].count(1) == 2
    nothing = varied(drawn, {"T": 0, "d": 2}, lead=True, dtypes=())
    sizes = [x.shape[-2] for x, _ in nothing(random.Random(0), torch.Generator().manual_seed(0))]
    assert (sizes.count(0), sizes.count(1)) == (2, 1)
    assert min(max(shape[axis] for shape in plain) for axis in (-1, -2)) > 25, "each size long"
    assert min(shape[-1] for shape in plain) == 2, "no size below what is promised"
    first = list(plain[:4])
    assert all(shape[-1] != shape[-2] for shape in first)


def test_each_size_is_large_alone() -> None:
    made = varied(lambda rng, _, **sizes: tuple(sizes.values()), dict.fromkeys("abc", 1), dtypes=())
    asked = {tuple(n > 1 for n in one) for one in made(random.Random(0), torch.Generator())}
    assert asked == set(product((False, True), repeat=3))


def test_kinds_and_magnitudes_come_on_top() -> None:
    more = cases(dtypes=(torch.float16,), scaled=((0, 1e6),))
    *_, half, large = more
    assert half[0].dtype == half[1][0].dtype == torch.float16
    assert half[1][1] == 3
    assert half[0].shape[:2] == (2, 3), "several rows in each kind of numbers"
    assert large[0].abs().max() > 1e5
    assert cases(also=lambda rng, generator: [("a",)])[-1] == ("a",)


def test_in_double_precision_what_is_large_is_larger_and_what_is_small_is_smaller() -> None:
    large, larger, small, smaller, _ = (x for x, _ in cases(scaled=((0, 1e3), (0, 1e-3)))[-5:])
    assert larger.dtype == smaller.dtype == torch.float64
    assert 1e7 > larger.abs().max() > 1e5 > large.abs().max()
    assert 1e-7 < smaller.abs().max() < 1e-5 < small.abs().max()
    beyond, _ = cases(dtypes=(torch.float64,), scaled=((0, 1e5),))[-2]
    assert beyond.abs().max() < 1e7, "a million times and no more"


def test_all_that_is_scaled_is_small_at_once() -> None:
    def two(rng: random.Random, generator: torch.Generator, n: int) -> Args:
        return torch.ones(n), torch.ones(n), torch.ones(n), torch.ones(n).long()

    made = varied(two, {"n": 1}, scaled=((0, 1e3), (1, 30), (1, 1e-2), (3, 10)))
    *small, other, ids = made(random.Random(0), torch.Generator().manual_seed(0))[-1]
    assert torch.stack([x[0] for x in small]).allclose(torch.tensor([1e-6, 1e-4]).double())
    assert (other[0], ids[0], ids.dtype) == (1, 1, torch.int64)


def test_half_and_double_precision_are_drawn_unless_told() -> None:
    told = [x.dtype for x, _ in cases()]
    assert told[-4:] == [torch.float64, torch.float64, torch.float16, torch.float16]
    assert set(told[:-4]) == {torch.float32}


def test_only_floats_are_converted() -> None:
    ids, (x, *rest) = converted((torch.arange(3), [torch.ones(2), "a"]), torch.float64)
    assert (ids.dtype, x.dtype, rest) == (torch.int64, torch.float64, ["a"])


def test_three_inputs_of_four_are_turned_in_memory() -> None:
    task = Task("f", lambda x, y: x, (), lambda rng, generator: [])
    inputs = [(torch.arange(12.0).reshape(2, 3, 2), [torch.ones(2, 2), 1])] * 5
    data = json.loads(json.dumps(encoded(task, inputs)))
    whole = [from_json(one) for one in data]
    assert [isinstance(one, dict) for one in whole] == [False] * 4 + [True]
    straight, (x, (y, _)), (last, _), _, named = whole
    assert (x.stride(), last.stride()) == ((1, 2, 6), (6, 1, 3)), "all axes reversed, the last two"
    assert [one.is_contiguous() for one in (straight[0], named["x"], y)] == [True, True, False]
    assert x.tolist() == last.tolist() == straight[0].tolist()
