"""One-token changes of the model solutions, and whether the judge would pay them.

`changes` makes the changes: another number, operator, comparison, name, method or keyword, a
condition or a call dropped. `paid` runs a changed answer on the hidden cases of one seed, in this
process and under a limit of time. A change is known by the line that it makes, as `ast.unparse`
writes it; the bank of an exercise lists in `EQUIVALENT` those that are right, with the reason.
"""

import ast
import contextlib
import copy
import signal
import time
from collections.abc import Iterator
from typing import Any

from cells import run

from attnlib.check.comparison import complaint
from attnlib.check.protocol import Case, ask, read_answers, to_json
from grading.task import Task

SECONDS = 0.15  # of computing that an answer may take in any case, and
TIMES = 10  # times as long as the solution
OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
METHODS = {
    "softmax": ("log_softmax", "sigmoid"),
    "log_softmax": ("softmax",),
    "sum": ("mean", "amax"),
    "mean": ("sum", "median"),
    "amax": ("amin", "sum"),
    "argmax": ("argmin",),
    "max": ("min",),
    "min": ("max",),
    "tanh": ("sigmoid", "sin"),
    "sigmoid": ("tanh",),
    "any": ("all",),
    "all": ("any",),
    "cos": ("sin",),
    "sin": ("cos",),
    "exp": ("exp2", "expm1"),
    "log": ("log2", "log1p"),
    "sqrt": ("square",),
    "square": ("abs",),
    "abs": ("square",),
    "triu": ("tril",),
    "cat": ("stack",),
    "stack": ("cat",),
    "mT": ("T",),
    "T": ("mT",),
    "zeros": ("ones",),
    "ones": ("zeros",),
    "floor": ("ceil",),
    "ceil": ("floor",),
    "round": ("floor", "ceil"),
    "relu": ("abs",),
}
FREE = {"torch", "math", "np", "range", "len", "zip", "enumerate", "float", "int", "sum", "list"}


def changes(source: str) -> Iterator[tuple[str, str]]:
    """Each one-token change of an answer cell: the changed line, and the whole source.

    >>> [line for line, _ in changes("def f(x):\\n    return x < 1")]
    ['return x <= 1', 'return x >= 1', 'return x < 2', 'return x < 0']
    """
    tree = ast.parse(source)
    for text in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        if ast.get_docstring(text) is not None:
            text.body = text.body[1:]
    before, seen = ast.unparse(tree), {ast.unparse(tree)}
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        names = _names(function)
        for parent in _inside(function):
            if isinstance(parent, ast.Attribute) and parent.attr == "dtype":
                continue  # all arguments of a task have one
            for field, value in ast.iter_fields(parent):
                held = value if isinstance(value, list) else [value]
                for place, child in enumerate(held):
                    if not isinstance(child, ast.AST):
                        continue
                    for new in _others(child, names):
                        _put(parent, field, place, new)
                        after = _unparsed(tree)
                        _put(parent, field, place, child)
                        if after and after not in seen:
                            seen.add(after)
                            yield _lines(before, after), after


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body and its defaults, but no imports, types and messages."""
    queue: list[ast.AST] = [*function.args.defaults, function]
    while queue:
        node = queue.pop(0)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.arguments):
            continue
        yield node
        queue += ast.iter_child_nodes(node)


def _names(function: ast.FunctionDef) -> list[str]:
    """The names that a function's body could use by mistake: its arguments and what it makes."""
    made = [a.arg for a in ast.walk(function) if isinstance(a, ast.arg)]
    made += [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and _stored(n)]
    return list(dict.fromkeys(made))


def _stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _put(parent: ast.AST, field: str, place: int, new: ast.AST) -> None:
    held = getattr(parent, field)
    if isinstance(held, list):
        held[place] = new
    else:
        setattr(parent, field, new)


def _unparsed(tree: ast.AST) -> str | None:
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        compile(text, "changed", "exec")
    except (SyntaxError, TypeError, ValueError):
        return None
    return text


def _lines(before: str, after: str) -> str:
    """The lines that are new, on one line."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return " ⏎ ".join(new.strip() for old, new in pairs if old != new)


def _others(node: ast.AST, names: list[str]) -> Iterator[ast.AST]:
    """What could stand in the place of a node by one slip."""
    for kind in OPERATORS.get(type(node), ()):
        yield kind()
    if isinstance(node, ast.Constant):
        yield from map(ast.Constant, _numbers(node.value))
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BinOp):
        if not isinstance(node.op, ast.Add | ast.Mult):
            yield ast.BinOp(node.right, node.op, node.left)
        yield node.left
        yield node.right
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Name) and not _stored(node) and node.id not in FREE:
        yield from (ast.Name(name, ast.Load()) for name in names if name != node.id)
    elif isinstance(node, ast.Attribute):
        yield from (ast.Attribute(node.value, m, ast.Load()) for m in METHODS.get(node.attr, ()))
        if node.attr != "dtype":  # x.to(y) is x.to(y.dtype)
            yield node.value
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Slice):
        for part in ("lower", "upper", "step"):
            if getattr(node, part) is not None:
                less = copy.copy(node)
                setattr(less, part, None)
                yield less
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)
    elif isinstance(node, ast.If | ast.While):
        yield from _conditions(node)
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Break | ast.Continue):
        yield ast.Pass()


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value * 2, value / 2] if value else [1.0]
    return [value + "x", ""] if isinstance(value, str) and value else []


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """A call without one of its arguments, with two of them swapped, or left out."""
    for i in range(len(node.args)):
        yield ast.Call(node.func, node.args[:i] + node.args[i + 1 :], node.keywords)
    for i in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    if len(node.args) > 1:
        yield ast.Call(node.func, [*node.args[1::-1], *node.args[2:]], node.keywords)
    if isinstance(node.func, ast.Attribute):
        yield node.func.value
    if len(node.args) == 1:
        yield node.args[0]


def _conditions(node: ast.If | ast.While) -> Iterator[ast.AST]:
    tests = [ast.UnaryOp(ast.Not(), node.test), ast.Constant(False)]
    tests += [ast.Constant(True)] if isinstance(node, ast.If) else []
    for test in tests:
        changed = copy.copy(node)
        changed.test = test
        yield changed


class _Late(KeyboardInterrupt):
    """The time is up."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupts what is inside after some seconds of computing, and again if it goes on."""

    def ring(number: int, frame: Any) -> None:
        step = frame
        while step is not None:  # not where pytest notes what a destructor raised: ring again
            if step.f_code.co_filename.endswith("unraisableexception.py"):
                return
            step = step.f_back
        raise _Late

    old = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds / 4)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def limit(task: Task, solution: str, cases: list[Case]) -> float:
    """Seconds that a changed solution may take.

    Raises:
        AssertionError: if the solution itself is not paid.
    """
    began = time.process_time()
    assert paid(task, solution, cases, 60), f"the solution of {task.name} is wrong"
    return SECONDS + TIMES * (time.process_time() - began)


def paid(task: Task, source: str, cases: list[Case], seconds: float) -> bool:
    """Whether an answer is right in every case, as the judge says it; stops at the first wrong."""
    try:
        with limited(seconds):
            answer = run(source)[task.name]
            return all(_right(task, answer, case) for case in cases)
    except (_Late, Exception):
        return False


def _right(task: Task, answer: Any, case: Case) -> bool:
    asked = Case(case.args, case.expected)  # why it is wrong is not asked here
    answers = read_answers(ask(task.name, answer, [to_json(case.args)]))
    wrong = complaint(task.name, [asked], answers, task.tolerance, task.accepts)
    return wrong is None
