"""The check under every exercise: what it says to whom, and what it never gives away."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cells import run
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlib import check as checking
from attnlib.check import MIME, NotYet, check, protocol
from attnlib.check.comparison import complaint, difference
from attnlib.check.protocol import (
    Answer,
    Case,
    Raised,
    ask,
    brief,
    from_json,
    read_answers,
    to_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


def through_json(value: Any) -> Any:
    """A value after the way that an answer goes."""
    return from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))


# values as JSON


@given(VALUES)
def test_a_value_survives(value: Any) -> None:
    again = through_json(value)
    assert to_json(again) == to_json(value)
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize("dtype", protocol.DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_a_tensor_survives_to_the_last_bit(dtype: str, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(shape, generator=generator, dtype=torch.float64) * 100).to(
        protocol.DTYPES[dtype]
    )
    again = through_json(x)
    assert again.dtype == x.dtype
    assert again.shape == x.shape
    assert torch.equal(again, x)
    if dtype != "bfloat16":
        array = through_json(x.numpy())
        assert isinstance(array, np.ndarray)
        assert array.dtype == x.numpy().dtype
        assert np.array_equal(array, x.numpy())
        assert array.shape == shape


def test_what_is_not_finite_survives() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.5])
    torch.testing.assert_close(through_json(x), x, equal_nan=True)


def test_a_tensor_with_a_gradient_and_a_view_can_be_encoded() -> None:
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    assert torch.equal(through_json(x.T), x.detach().T)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1: 2},
        {1, 2},
        iter([]),
        1j,
        torch.zeros(1, dtype=torch.complex64),
        torch.relu,
        np.array(["a"]),
        [object()],
        b"bytes",
    ],
)
def test_anything_else_is_refused_with_what_may_be_returned(value: Any) -> None:
    with pytest.raises(TypeError, match="^returned .*; (a task returns None, bool|known dtypes)"):
        to_json(value)


def test_a_complex_answer_is_told_how_to_become_real() -> None:
    told = raised_by("def f(x):\n    return torch.zeros(2, dtype=torch.complex64)", 1)
    assert "it returned a complex64 tensor of shape (2,)" in told
    assert ".real drops" in told
    assert ".real" not in raised_by("def f(x):\n    return np.array(['a'])", 1)


def test_a_huge_tensor_is_refused_before_it_is_written_out() -> None:
    with pytest.raises(ValueError, match="too many"):
        to_json(torch.zeros(1).expand(2_000_000))


@pytest.mark.parametrize(
    "data",
    [
        {"a": 1, "b": 2},
        {"code": "x"},
        {"float": "x"},
        {"tensor": {"dtype": "float32", "shape": [3], "data": [1.0]}},
        {"tensor": {"dtype": "float32", "shape": [-1, -1], "data": [1.0]}},
        {"tensor": {"dtype": "float32", "shape": [10**30, 0, 2], "data": []}},
        {"tensor": {"dtype": "object", "shape": [1], "data": [1]}},
        {"tensor": {"dtype": "int64", "shape": [1], "data": [2**70]}},
        {"tuple": 3},
        {"dict": [1]},
        object(),
    ],
)
def test_forged_data_is_a_value_error_and_nothing_else(data: Any) -> None:
    with pytest.raises(ValueError, match="no encoded value"):
        from_json(data)


def test_data_of_any_depth_is_a_value_error_or_a_value() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="no encoded value"):
        from_json(deep)


# comparing


A, UP = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.tensor([0, 0, 0.5])


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (A, A + 5e-5),
        (1.0, 1),
        (torch.tensor([math.nan]),) * 2,
        (None, None),
        (torch.tensor([math.inf, 1.0]), torch.tensor([math.inf, 1.0])),
        (3, 3),
        ((A, [1]), (A, [1])),
        ({"a": A}, {"a": A}),
        (math.nan, math.nan),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
        (A.numpy(), A.numpy()),
        (1000.0, 1000.05),
        (torch.tensor([True]), torch.tensor([True])),
        (torch.tensor(2), torch.tensor(2)),
        (A, A.double()),
        (A, A.half()),
    ],
)
def test_what_is_right(expected: Any, answer: Any) -> None:
    assert difference(expected, answer, 1e-4) is None


@pytest.mark.parametrize(
    ("expected", "answer", "told"),
    [
        (A, A.T, "the answer has the shape (3, 2), expected (2, 3)"),
        (A, A.long(), "the answer holds whole numbers, expected floats"),
        (A > 1, A, "the answer holds floats, expected True and False"),
        (A, A.numpy(), "is a float32 numpy array of shape (2, 3), expected a float32 tensor"),
        (A, A.tolist(), "the answer is a list of 2, expected a float32 tensor of shape (2, 3)"),
        (A, None, "the answer is None, expected a float32 tensor"),
        (A, A + UP, "2 of 6 values of the answer differ"),
        (A, A + UP, "the largest difference is at [0, 2]: got 3.5, expected 3"),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), "got -inf, expected inf"),
        (torch.tensor([math.inf]), torch.tensor([1e30]), "got 1e+30, expected inf"),
        (torch.tensor([True]), torch.tensor([False]), "got False, expected True"),
        (torch.tensor(2), torch.tensor(3), "the answer is 3, expected 2"),
        (torch.tensor([2**62]), torch.tensor([2**62 + 1]), "1 of 1 values"),
        (0.5, torch.tensor(0.5), "expected a float: .item() makes a number of a single value"),
        (0.5, True, "the answer is a bool, expected a float"),
        (3, 3.0, "the answer is a float, expected an int"),
        (True, 1, "the answer is an int, expected a bool"),
        (3, 4, "the answer is 4, expected 3"),
        ((A, 1), [A, 1], "the answer is a list of 2, expected a tuple of 2"),
        ((A, A), (A, A.T), "answer[1] has the shape"),
        ([1, 2], [1], "the answer has 1 items, expected 2, got [1], expected [1, 2]"),
        ([[1, [2]]], [[1, [3]]], "answer[0][1][0] is 3, expected 2"),
        (math.nan, 1.0, "the answer is 1.0, expected nan"),
    ],
)
def test_what_is_wrong_is_told(expected: Any, answer: Any, told: str) -> None:
    assert told in str(difference(expected, answer, 1e-4))


def test_the_tolerance_is_absolute_and_relative() -> None:
    assert difference(torch.zeros(1), torch.tensor([2e-4]), 1e-4)
    assert not difference(torch.tensor([100.0]), torch.tensor([100.005]), 1e-4)
    assert difference(torch.tensor([100.0]), torch.tensor([100.05]), 1e-4)


def compare(
    expected: Any, answer: Any, before: Any, after: Any, mistakes: Any, tolerance: float
) -> str | None:
    """The complaint about a single case, without the call that is shown behind it."""
    case, answered = Case(before, expected, mistakes), Answer(answer, after)
    told = complaint("f", [case], [answered], tolerance)
    return told and told.partition(" (f(")[0]


def test_a_mistake_that_is_right_in_this_case_is_not_named() -> None:
    assert compare(1.0, 1.0, (), (), {"You add.": 1.0}, 1e-4) is None
    # the mistake is as good as right here, and the answer is as good as the mistake
    told = compare(1.0, 1.0003, (), (), {"You add.": 1.00015}, 1e-4)
    assert told == "the answer is 1.0003, expected 1.0"


def test_a_changed_argument_is_told_though_the_answer_is_right() -> None:
    told = compare(1, 1, (A, A), (A, A + 1), {"You add.": 1}, 1e-4)
    assert "argument 2 in place" in str(told)
    assert "argument 1 in place" in str(compare(1, 1, (A,), (A + 1,), {}, 1e-4))
    assert "in place" in str(compare(1, 1, (A,), (A.double(),), {}, 1e-4))
    assert "in place" in str(compare(1, 1, (A,), None, {}, 1e-4))
    assert compare(1, 1, (A * math.nan,), (A * math.nan,), {}, 1e-4) is None


def test_an_exception_is_told_first() -> None:
    told = compare(1, Raised("ValueError: no"), (1,), None, {"You add.": 1}, 1e-4)
    assert told == "it raised ValueError: no"
    assert "not written yet" in str(compare(1, Raised("NotImplementedError"), (), (), {}, 1e-4))
    torchs = "NotImplementedError: \"softmax_lastdim_kernel_impl\" not implemented for 'Long'"
    assert ".float()" in str(compare(1, Raised(torchs), (), (), {}, 1e-4))
    assert compare(1, Raised("returned a set; a task …"), (), (), {}, 1e-4) == (
        "it returned a set; a task …"
    )


def cases_of(*pairs: tuple[Any, Any], **mistakes: list[Any]) -> list[Case]:
    """Cases from (argument, expected), and a list of values for each mistake."""
    return [
        Case((arg,), expected, {name: values[i] for name, values in mistakes.items()})
        for i, (arg, expected) in enumerate(pairs)
    ]


def answers_of(*outputs: Any) -> list[Answer]:
    return [Answer(output, (i,)) for i, output in enumerate(outputs)]


def test_a_mistake_that_explains_some_cases_only_is_not_named() -> None:
    cases = cases_of((0, 10), (1, 20), (2, 30), half=[1, 9, 9])
    told = complaint("f", cases, answers_of(1, 5, 6), 1e-4)
    assert told == "the answer is 1, expected 10 (f(0))"
    told = complaint("f", cases, answers_of(1, 9, 30), 1e-4)
    assert told == "the answer is 1, expected 10 (f(0))", "right where the mistake is not"
    cases = [*cases_of((0, 10), slip=[7]), *cases_of((1, 20))]
    told = complaint("f", cases, answers_of(7, 8), 1e-4)
    assert told == "the answer is 7, expected 10 (f(0))", "wrong where the mistake is not"


def test_a_mistake_that_cannot_answer_a_case_may_raise_there() -> None:
    cases = [*cases_of((0, 10), slip=[7]), *cases_of((1, 20))]
    assert complaint("f", cases, answers_of(7, Raised("E: x")), 1e-4) == "slip (f(0))"
    assert complaint("f", cases, answers_of(7, 20), 1e-4) == "slip (f(0))"
    told = complaint("f", cases, answers_of(Raised("E: x"), 20), 1e-4)
    assert told == "it raised E: x (f(0))"


def raised_by(source: str, *args: Any) -> str:
    """What is told about a function that raises."""
    answers = read_answers(ask("f", run(source)["f"], [to_json(args)]))
    return str(complaint("f", [Case(args, None)], answers, 1e-4))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("x @ torch.ones(3, 2, dtype=torch.float64)", "dtype=x.dtype"),
        ("torch.stack([x] * 4) @ torch.ones(2, 3).T.double()", "dtype=x.dtype"),
        ("x @ x", "(line 2: `return x @ x`): the shapes do not fit"),
        ("1 if x > 0 else 2", "torch.where chooses entry by entry"),
        ("x.item()", "sum or pick first"),
        ("math.exp(x)", "sum or pick first"),
        ("x[5]", "an index lies outside of its axis"),
        ("x.sum(2)", "this tensor has not so many axes"),
        ("torch.nn.functional.normalize(x[0])", "this tensor has not so many axes"),
        ("x.numpy().sum(2)", "this tensor has not so many axes"),
        ("x.mT.view(-1)", "how a tensor lies in memory, which is no promise: use .reshape"),
        ("x.numpy() @ x.numpy()", "the shapes do not fit"),
        ("np.dot(x.numpy(), x.numpy())", "the shapes do not fit"),
        ("x.numpy() + np.ones(4)", "the shapes do not fit"),
        ("x.numpy().reshape(4, 4)", "the shapes do not fit"),
        ("np.stack([x.numpy(), np.ones(4)])", "the shapes do not fit"),
        ("torch.nn.functional.cross_entropy(x, torch.zeros(3).long())", "the shapes do not fit"),
        ("torch.distributions.Categorical(probs=x * math.nan).entropy()", "such as NaN"),
        ("[1][3]", "an index lies outside of its axis"),
        ("print().sum()", "is a `return` missing"),
        ("'a' + ('b',)", "a string, a list and a tuple are three things"),
        ("torch.nn.functional.cross_entropy(x[None], torch.zeros(1, 2).long())", "on axis 1"),
    ],
)
def test_an_error_of_the_framework_gets_a_sentence(body: str, told: str) -> None:
    found = raised_by(f"def f(x):\n    return {body}\n", A)
    assert found.startswith("it raised ")
    assert told in found, found


def test_the_transpose_of_a_batch_gets_its_own_sentence() -> None:
    x = torch.ones(2, 3, 4)
    told = raised_by("def f(x):\n    return x @ x.T\n", x)
    assert "On a tensor of more than two axes `.T`" in told, "it may be another tensor's .T"
    assert "`.mT` swaps the last two" in told
    assert "the shapes do not fit" in raised_by("def f(x):\n    return x @ x\n", x)


def test_an_error_of_the_students_own_gets_no_sentence() -> None:
    told = raised_by("def f(x):\n    raise ValueError('not like this')\n", 1)
    assert told.startswith("it raised ValueError: not like this (line 2")
    assert told.count(":") == 2, told
    told = raised_by("def f(x):\n    raise ValueError('no shape of mine')  # match\n", 1)
    assert "the shapes do not fit" not in told


def test_an_unexpected_nan_or_infinity_is_explained() -> None:
    one, due = torch.tensor([1.0]), torch.tensor([math.inf, 1.0])
    assert "NaN comes of 0/0" in str(difference(one, one * math.nan, 1e-4))
    assert "NaN" not in str(difference(one, one + 1, 1e-4))
    told = str(difference(one, torch.tensor([-math.inf]), 1e-4))
    assert "got -inf, expected 1 (∞ comes of a division by 0, of log 0" in told
    assert "∞ comes" not in str(difference(due, torch.tensor([math.inf, 2.0]), 1e-4))
    assert "∞ comes" not in str(difference(due, torch.tensor([1.0, 1.0]), 1e-4))


def test_of_two_mistakes_the_one_that_fits_the_right_cases_too_is_named() -> None:
    cases = cases_of((0, 10), (1, 20), first=[1, 2], second=[1, 20])
    assert complaint("f", cases, answers_of(1, 20), 1e-4) == "second (f(0))"
    swapped = cases_of((0, 10), (1, 20), second=[1, 20], first=[1, 2])
    assert complaint("f", swapped, answers_of(1, 20), 1e-4) == "second (f(0))"


def test_a_constant_answer_is_called_one() -> None:
    cases = cases_of((0, 10), (1, 20), (2, 30))
    assert "whatever it is given" in str(complaint("f", cases, answers_of(10, 10, 10), 1e-4))
    assert "is 11, expected 10" in str(complaint("f", cases, answers_of(11, 10, 10), 1e-4))
    cases = cases_of((0, 10), (1, 20), (2, 30), slip=[5, 6, 7])
    assert "whatever it is given" in str(complaint("f", cases, answers_of(5, 5, 5), 1e-4))
    alike = cases_of((0, 10), (1, 10))
    assert "is 9, expected 10" in str(complaint("f", alike, answers_of(9, 9), 1e-4))


def test_a_forgotten_return_is_called_one() -> None:
    cases = cases_of((0, A), (1, A + 1))
    told = str(complaint("f", cases, answers_of(None, None), 1e-4))
    assert told.startswith("the answer is None, expected a float32 tensor of shape (2, 3): is a r")
    told = str(complaint("f", cases, answers_of(None, None), 1e-4, lambda args, x: x.sum()))
    assert told.startswith("the answer is None: is a return missing?")


def test_answers_that_need_not_be_equal_are_accepted_by_a_function() -> None:
    def even(args: tuple[Any, ...], answer: Any) -> str | None:
        return None if answer % 2 == 0 else f"{answer} is odd"

    assert complaint("f", cases_of((0, 2), (1, 2)), answers_of(4, 6), 1e-4, even) is None
    told = complaint("f", cases_of((0, 2), (1, 2)), answers_of(4, 7), 1e-4, even)
    assert told == "7 is odd (f(1))"
    told = complaint("f", cases_of((0, 2)), [Answer(Raised("E: x"), None)], 1e-4, even)
    assert told == "it raised E: x (f(0))"


# asking


def test_asking_calls_with_fresh_arguments_and_reports_what_became_of_them() -> None:
    def f(x: Tensor) -> Tensor:
        return x.add_(1)

    data = to_json((A,))
    bundle = json.loads(json.dumps(ask("f", f, [data, data])))
    one, two = read_answers(bundle)
    assert torch.equal(one.output, A + 1)
    assert torch.equal(two.output, A + 1), "the second call got what the first one changed"
    assert torch.equal(one.after[0], A + 1)
    assert bundle["task"] == "f"


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), AssertionError(), MemoryError])
def test_whatever_is_raised_becomes_an_answer(error: Any) -> None:
    def f(x: int) -> int:
        if x == 1:
            raise error
        return x

    first, second, third = read_answers(ask("f", f, [to_json((i,)) for i in range(3)]))
    assert (first.output, third.output) == (0, 2)
    name = error.__name__ if isinstance(error, type) else type(error).__name__
    assert second.output.error.startswith(name)


def test_an_exception_without_words_does_no_harm() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise Mute

    def f(x: int) -> int:
        raise Mute

    assert "cannot be shown" in read_answers(ask("f", f, [to_json((1,))]))[0].output.error


def test_an_interrupt_ends_the_asking_and_keeps_what_was_answered() -> None:
    calls = []

    def f(x: int) -> int:
        calls.append(x)
        if x == 1:
            raise KeyboardInterrupt
        return x

    answers = read_answers(ask("f", f, [to_json((i,)) for i in range(4)]))
    assert calls == [0, 1]
    assert answers[0].output == 0
    assert [type(a.output) for a in answers[1:]] == [Raised] * 3


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"answers": 3}, {"answers": [3]}, {"answers": [{"output": {"x": 1, "y": 2}}]}],
)
def test_a_forged_bundle_is_a_value_error(data: Any) -> None:
    with pytest.raises(ValueError, match="bundle|no encoded value"):
        read_answers(data)


# the check cell, before the student's eyes


CHECKS = {
    "tasks": {
        "double": {
            "tolerance": 1e-4,
            "cases": [
                {
                    "args": to_json((torch.tensor([1.0, 3.0]),)),
                    "expected": to_json(torch.tensor([2.0, 6.0])),
                    "mistakes": {"You square.": to_json(torch.tensor([1.0, 9.0]))},
                },
                {
                    "args": to_json((A,)),
                    "expected": to_json(2 * A),
                    "mistakes": {"You square.": to_json(A**2)},
                },
            ],
            "forbidden": ["mul", "double"],
        },
        "anything": {"tolerance": 1e-4, "free": True, "cases": [{"args": to_json((1,))}]},
    }
}


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a checks.json, in which the notebook runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    return tmp_path


def own(source: str) -> Callable[..., Any]:
    """A function as a notebook defines it."""
    found: Callable[..., Any] = run(source)["double"]
    return found


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([1.0, -2.0, 0.25]),
        torch.tensor([1.0, 1e6]).double(),
        torch.tensor([1, 2]),
        torch.tensor([True, False]),
        torch.tensor(3.0),
        2.0,
        [1.0, 3],
    ],
)
def test_a_shown_argument_can_be_copied(value: Any) -> None:
    copy = eval(brief(value), {"tensor": torch.tensor, "torch": torch})
    assert to_json(copy) == to_json(value)


def test_a_rounding_error_is_shown_as_zero() -> None:
    for small in (1.28e-16, -1.9e-8):
        told = difference(torch.tensor(small), torch.tensor(0.5), 1e-4)
        assert str(told).endswith("is 0.5, expected 0")
    assert "got 1e-06" in str(difference(torch.ones(1), torch.tensor([1e-6]), 1e-4))


def test_a_right_answer_is_told_so(beside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check("double", own("def double(x):\n    return 2 * x"))
    assert capsys.readouterr().out == (
        "Passed: double answers every visible case. Grading uses other inputs.\n"
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def double(x):\n    return x**2", "double: You square (double(tensor([1.0, 3.0])))"),
        ("def double(x):\n    return x[0]", "has the shape (), expected (2,)"),
        ("def double(x, y):\n    return x", "TypeError: double() missing 1 required"),
        ("def double(x):\n    x *= 2\n    return x", "in place"),
        ("def double(x):\n    return x.tolist()", "a list of 2, expected a float32 tensor"),
        ("def double(x):\n    return {x}", "it returned a set; a task returns"),
        ("def double(x):\n    return torch.ones(1)", "double: the same answer whatever"),
        ("from torch import relu as double", "write your own"),
        ("double = torch.nn.functional.gelu", "write your own"),
        ("double = 3", "wants the function itself, got an int: check('double', double)"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(beside: Path, source: str, told: str) -> None:
    with pytest.raises(NotYet) as caught:
        check("double", own(source))
    assert told in str(caught.value)


REFUSED = {
    "def double(x):\n    return x.mul(2)": "mul",
    "def double(x):\n    return (lambda y: y.mul(2))(x)": "mul",
    "def helper(x):\n    return torch.mul(x, 2)\ndef double(x):\n    return helper(x)": "mul",
    "from torch import mul\ndef double(x):\n    return mul(x, 2)": "mul",
    "def double(x):\n    from torch import mul as times\n    return times(x, 2)": "mul",
    "times = torch.mul\ndef double(x):\n    return times(x, 2)": "mul",
    "class A:\n    def __call__(self, x):\n        return x.mul(2)\ndouble = A()": "mul",
    "from torch import *\ndef double(x):\n    return mul(x, 2)": "mul",
    "@torch.no_grad()\ndef double(x):\n    return x.mul(2)": "mul",
    "def double(x):\n    import attnlib.attention\n    return 2 * x": "attnlib.attention",
    "import attnlib as a\ndef double(x):\n    return a and 2 * x": "attnlib",
    "from attnlib.attention import attention as f\ndef double(x):\n    return f and 2 * x": (
        "attnlib.attention.attention"
    ),
}


@pytest.mark.parametrize(("source", "name"), REFUSED.items())
def test_what_grading_will_refuse_is_said_at_once(beside: Path, source: str, name: str) -> None:
    with pytest.raises(NotYet, match=f"right so far, but it uses {name}, which"):
        check("double", own(source))


@pytest.mark.parametrize(
    "source",
    [
        "def mul(x):\n    return x + x\ndef double(x):\n    return mul(x)",
        "def double(x):\n    mul = 2 * x\n    return mul",
        "def double(x):\n    mul = 2\n    return (lambda: mul * x)()",
        "class mul:\n    def __call__(self, x):\n        return 2 * x\n"
        "def double(x):\n    return mul()(x)",
        "class A:\n    def __init__(self, x):\n        self.mul = x\n"
        "    def all(self):\n        self.mul = 2 * self.mul\n        return self.mul\n"
        "def double(x):\n    return A(x).all()",
        "mul = 2\ndef double(x):\n    return mul * x",
        "class A(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x\ndouble = A()",
        "from functools import partial\ndef f(a, x):\n    return a * x\ndouble = partial(f, 2)\n"
        "double.__module__ = '__main__'",
        "from attnlib.check import check\ndef double(x):\n    return check and 2 * x",
        "def double(x):\n    return 2 * x\nprint(torch.ones(2).mul(2))  # a test of one's own",
        "def double(x):\n    return double(x[:1]) if len(x) > 9 else 2 * x",
    ],
)
def test_a_name_of_the_students_own_is_not_refused(beside: Path, source: str) -> None:
    check("double", own(source))


def test_a_wrong_answer_hears_of_its_mistake_before_its_means(beside: Path) -> None:
    with pytest.raises(NotYet, match="You square"):
        check("double", own("def double(x):\n    return x.mul(x)"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit
def test_an_own_function_may_be_a_partial_or_a_script(beside: Path) -> None:
    many = own("def double(x, times=1):\n    return times * x")
    check("double", partial(many, times=2))
    check("double", torch.jit.script(own("def double(x):\n    return x + x")))
    with pytest.raises(NotYet, match="comes from torch"):
        check("double", partial(torch.mul, other=2))


def test_what_is_not_written_is_told_so_in_one_line(beside: Path) -> None:
    with pytest.raises(NotYet) as caught:
        check("double", own("def double(x):\n    raise NotImplementedError()"))
    assert caught.value._render_traceback_() == [
        "Not yet: double: it is not written yet: replace raise NotImplementedError()"
    ]


def test_an_unknown_task_is_told_the_known_ones(beside: Path) -> None:
    with pytest.raises(NotYet, match="the tasks are anything, double"):
        check("duoble", own("def double(x):\n    return 2 * x"))


def test_a_damaged_or_missing_file_is_told_what_to_do(beside: Path) -> None:
    file = beside / "checks.json"
    for what, change in (("damaged", lambda: file.write_text("{")), ("missing", file.unlink)):
        change()
        with pytest.raises(NotYet, match=f"checks.json is {what}: .* Unpack the whole folder"):
            check("double", own("def double(x):\n    return 2 * x"))


def test_a_solution_finds_the_cases_of_its_exercise(
    beside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exercise, solution = beside / "exercises" / "01_x", beside / "solutions" / "01_x"
    exercise.mkdir(parents=True)
    solution.mkdir(parents=True)
    (beside / "checks.json").rename(exercise / "checks.json")
    monkeypatch.chdir(solution)
    check("double", own("def double(x):\n    return 2 * x"))
    assert "Passed" in capsys.readouterr().out


def test_a_task_with_many_answers_needs_no_expected_one(beside: Path) -> None:
    check("anything", run("def anything(x):\n    return 'whatever'")["anything"])
    with pytest.raises(NotYet, match="it raised ZeroDivisionError"):
        check("anything", run("def anything(x):\n    return 1 / 0")["anything"])
    with pytest.raises(NotYet, match="the answer is None: is a return missing"):
        check("anything", run("anything = lambda x: None")["anything"])


def test_the_notebook_shows_the_message_and_no_frames_of_ours() -> None:
    assert NotYet("double: no")._render_traceback_() == ["Not yet: double: no"]
    lines = NotYet("double: " + "many words " * 40)._render_traceback_()
    assert " ".join(lines) == "Not yet: double: " + ("many words " * 40).strip()
    assert max(map(len, lines)) <= 84, "nbgrader's Validate would cut it"


# the check cell, in grading


def test_the_bundle_is_shown_under_its_own_type(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", lambda *a, **k: shown.append((a, k)))
    checking.show({"task": "f", "answers": []})
    assert shown == [(({MIME: {"task": "f", "answers": []}},), {"raw": True})]
