"""Ways to a function that a task forbids, and to other submissions: each must lead nowhere.

Each route is the source of a cell that defines the task's function, rightly if the route is open.
All routes to one task run in one kernel, one after the other, each followed by its check cell.
"""

from pathlib import Path

JUDGE = Path(__file__).parents[2] / "grading" / "judge.py"
assert JUDGE.exists(), "else this door would be shut by its absence"
NAME = "scaled_dot_product_attention"
HALVES = "'scaled_dot_' + 'product_attention'"


def attention(*lines: str) -> str:
    """A cell whose last line makes `f`, the library's attention."""
    made = "\n".join(lines)
    both = "f(q, k, v), f(q, k, torch.eye(k.shape[-2], dtype=k.dtype))"
    return f"attend = f = None\n{made}\n\ndef attend(q, k, v):\n    return {both}\n"


# a module of attention whose matrices are all the identity
IDENTITY = """
def f(q, k, v):
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    d, w = q.shape[-1], v.shape[-1]
    module = make(d, kdim=d, vdim=w, dtype=q.dtype)
    return module(q, k, v)[0]
"""
FORKED = """
import os, pickle
def f(*args):
    reader, writer = os.pipe()
    if not os.fork():
        try:
            {act}
        finally:
            os._exit(0)
    os.close(writer)
    return pickle.loads(os.fdopen(reader, 'rb').read())
"""
CLEAN = f"""
import pickle
CODE = '''
import pickle, sys, torch
args = pickle.load(sys.stdin.buffer)
out = torch.nn.functional.{NAME}(*args)
sys.stdout.buffer.write(pickle.dumps(out))
'''
def f(*args):
    return pickle.loads(run(pickle.dumps(args)))
"""

ATTENTION: dict[str, str] = {
    "by its name": attention(f"f = torch.nn.functional.{NAME}"),
    "imported under another name": attention(f"from torch.nn.functional import {NAME} as f"),
    "class pattern": attention(
        f"match torch.nn.functional:\n    case object({NAME}=f):\n        pass"
    ),
    "C entry point": attention(f"from torch import _C\nf = _C._nn.{NAME}"),
    "variable functions": attention(
        "g = torch._scaled_dot_product_attention_math\nf = lambda q, k, v: g(q, k, v)[0]"
    ),
    "attrgetter": attention(
        f"from operator import attrgetter\nf = attrgetter('nn.functional.' + {HALVES})(torch)"
    ),
    "reduce": attention(
        f"from functools import reduce\nf = reduce(getattr, ['nn', 'functional', {HALVES}], torch)"
    ),
    "another name of getattr": attention(
        f"look = getattr\nf = look(torch.nn.functional, {HALVES})"
    ),
    "getattr in a list": attention(f"f = [getattr][0](torch.nn.functional, {HALVES})"),
    "map": attention(f"f, = map(getattr, [torch.nn.functional], [{HALVES}])"),
    "pydoc": attention(f"import pydoc\nf = pydoc.locate('torch.nn.functional.' + {HALVES})"),
    "pkgutil": attention(
        f"import pkgutil\nf = pkgutil.resolve_name('torch.nn.functional:' + {HALVES})"
    ),
    "string.Formatter": attention(
        f"import string\nf = string.Formatter().get_field('0.' + {HALVES}, "
        "[torch.nn.functional], {})[0]"
    ),
    "timeit": attention(
        "import timeit\nspace = {}\n"
        f"timeit.timeit('space[0] = torch.nn.functional.' + {HALVES}, number=1, "
        "globals={'torch': torch, 'space': space})\nf = space[0]"
    ),
    "sys.modules": attention(
        f"from sys import modules\nf = vars(modules['torch.nn.functional'])[{HALVES}]"
    ),
    "logging.config": attention(
        "import logging.config\n"
        f"f = logging.config.BaseConfigurator({{}}).resolve('torch.nn.functional.' + {HALVES})"
    ),
    "unittest.mock": attention(
        f"from unittest import mock\nf = mock._importer('torch.nn.functional.' + {HALVES})"
    ),
    "eval": attention(f"f = eval('torch.nn.functional.' + {HALVES})"),
    "exec": attention(f"exec('f = torch.nn.functional.' + {HALVES})"),
    "a code object": attention(
        f"code = compile('torch.nn.functional.' + {HALVES}, '', 'eval')\n"
        "import types\nf = types.FunctionType(code, {'torch': torch})()"
    ),
    "importlib": attention(
        f"import importlib\nf = vars(importlib.import_module('torch.nn.functional'))[{HALVES}]"
    ),
    "a module reloaded": attention(
        f"import importlib\nf = getattr(importlib.reload(torch.nn.functional), {HALVES})"
    ),
    "a module imported anew": attention(
        "import sys, importlib\nheld = sys.modules.pop('torch.nn.functional')\n"
        f"f = getattr(importlib.import_module('torch.nn.functional'), {HALVES})\n"
        "sys.modules['torch.nn.functional'] = held"
    ),
    "a module read from its file": attention(
        "import importlib.util as u\ns = u.spec_from_file_location('own', "
        "torch.nn.functional.__file__)\nm = u.module_from_spec(s)\ns.loader.exec_module(m)\n"
        f"f = getattr(m, {HALVES})"
    ),
    "C extension loaded anew": attention(
        "from importlib.machinery import ExtensionFileLoader as L, ModuleSpec as S\n"
        "l = L('torch._C', torch._C.__file__)\nm = l.create_module(S('torch._C', l, "
        f"origin=torch._C.__file__))\nf = getattr(m._nn, {HALVES})"
    ),
    "operator": attention(f"f = torch.ops.aten.{NAME}.default"),
    "operator decomposed": attention(f"f = torch.ops.aten.{NAME}.default.decompose"),
    "operator below its key": attention(
        "K = torch._C.DispatchKey.CompositeImplicitAutograd\n"
        f"f = lambda *a: torch.ops.aten.{NAME}.default._op_dk(K, *a)"
    ),
    "operator redispatched": attention(
        "K = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)\n"
        f"f = lambda *a: torch.ops.aten.{NAME}.default.redispatch(K, *a)"
    ),
    "operator for the processor": attention(
        "f = lambda *a: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(*a)[0]"
    ),
    "operator found in a list": attention(
        f"f = torch._C._jit_get_operation('aten::' + {HALVES})[0]"
    ),
    "schema": attention(
        f"f = lambda *a: torch._C._get_operation_overload('aten::' + {HALVES}, '')[0](*a)"
    ),
    "below autograd": attention(
        f"def f(*a):\n    with torch._C._AutoDispatchBelowAutograd():\n"
        f"        return torch.ops.aten.{NAME}.default(*a)"
    ),
    "inference mode": attention(
        "def f(*a):\n    with torch.inference_mode():\n"
        f"        return torch.nn.functional.{NAME}(*[x.clone() for x in a])"
    ),
    "dispatch mode": attention(
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "class M(TorchDispatchMode):\n    def __torch_dispatch__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\n"
        f"def f(*a):\n    with M():\n        return torch.nn.functional.{NAME}(*a)"
    ),
    "vmap": attention(f"f = torch.func.vmap(torch.nn.functional.{NAME})"),
    "functionalised": attention(f"f = torch.func.functionalize(torch.nn.functional.{NAME})"),
    "nested tensors": attention(
        "def f(*a):\n    n = [torch.nested.nested_tensor(list(x.reshape(-1, 1, *x.shape[-2:]))) "
        f"for x in a]\n    out = torch.nn.functional.{NAME}(*n)\n"
        "    return torch.stack(out.unbind()).reshape(*a[0].shape[:-1], a[2].shape[-1])"
    ),
    "another thread": attention(
        "from concurrent.futures import ThreadPoolExecutor as P\n"
        f"f = lambda *a: P(1).submit(torch.nn.functional.{NAME}, *a).result()"
    ),
    "jit.script": attention(
        "from torch import Tensor\nimport tempfile, importlib.util as u\n"
        "path = tempfile.mktemp(suffix='.py')\nopen(path, 'w').write('import torch\\n"
        "def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):\\n"
        f"    return torch.nn.functional.{NAME}(q, k, v)\\n')\n"
        "s = u.spec_from_file_location('own2', path)\nm = u.module_from_spec(s)\n"
        "s.loader.exec_module(m)\nf = torch.jit.script(m.f)"
    ),
    "jit graph": attention(
        "g = torch._C.parse_ir('graph(%q : Tensor, %k : Tensor, %v : Tensor):\\n  %n : None = "
        "prim::Constant()\\n  %z : float = prim::Constant[value=0.]()\\n  %b : bool = "
        f"prim::Constant[value=0]()\\n  %o : Tensor = aten::{NAME}(%q, %k, %v, %n, %z, %b, %n, %b)"
        "\\n  return (%o)')\nf = torch._C._create_function_from_graph('own', g)"
    ),
    "torch.compile": attention(
        f"f = torch.compile(lambda *a: torch.nn.functional.{NAME}(*a), backend='eager')"
    ),
    "torch.fx": attention(
        f"f = torch.fx.symbolic_trace(lambda q, k, v: torch.nn.functional.{NAME}(q, k, v))"
    ),
    "overrides": attention(
        "from torch.overrides import get_testing_overrides\n"
        f"f, = [x for x in get_testing_overrides() if getattr(x, '__name__', '') == {HALVES}]"
    ),
    "pickle": attention(
        "import pickle\n"
        f"f = pickle.loads(b'ctorch.nn.functional\\n' + ({HALVES}).encode() + b'\\n.')"
    ),
    "flex_attention": attention(
        "from torch.nn.attention.flex_attention import flex_attention\n"
        "def f(*a):\n    a = [x.reshape(-1, 1, *x.shape[-2:]) for x in a]\n"
        "    return flex_attention(*a)[:, 0]"
    ),
    "decompositions": attention(
        "import torch._decomp.decompositions as d\n"
        "f = lambda *a: d.scaled_dot_product_flash_attention_for_cpu(*a)[0]"
    ),
    "decomposition table": attention(
        "from torch._decomp import decomposition_table as t\n"
        "f, = [x for o, x in t.items() if 'flash_attention_for_cpu' in str(o)][:1]"
    ),
    "the module": attention("make = torch.nn.MultiheadAttention" + IDENTITY),
    "a class from the module": attention(
        "class make(torch.nn.MultiheadAttention):\n    pass" + IDENTITY
    ),
    "the module without __init__": attention(
        "def make(d, **k):\n    m = object.__new__(torch.nn.MultiheadAttention)\n"
        "    torch.nn.Module.__init__(m)\n    return m" + IDENTITY
    ),
    "the module's function": attention(
        "f = lambda q, k, v: torch.nn.functional.multi_head_attention_forward(q, k, v, 4, 1, "
        "torch.eye(4).repeat(3, 1), None, None, None, False, 0, torch.eye(4), None)[0]"
    ),
    "the module of a layer": attention(
        "make = lambda *a, **k: torch.nn.TransformerEncoderLayer(4, 1).self_attn" + IDENTITY
    ),
    "a kernel of one's own": attention(
        "l = torch.library.Library('aten', 'IMPL')\n"
        f"l.impl({HALVES}, lambda *a: torch._scaled_dot_product_attention_math(*a)[0], 'CPU')\n"
        f"l._destroy()\nf = torch.nn.functional.{NAME}"
    ),
    "all libraries ended": attention(
        "import torch.library as l\nfor one in list(l._impls):\n    pass\nl._impls.clear()\n"
        f"f = torch.nn.functional.{NAME}"
    ),
    "code put back": attention(
        "import gc\ncodes = [c for c in gc.get_objects() if getattr(c, 'co_name', '') == "
        f"{HALVES}]\nf = lambda *a: exec(codes[0])"
    ),
    "audit hook found": attention(
        f"import gc\nhooks = gc.get_referrers(gc)\nhooks.clear()\nf = torch.nn.functional.{NAME}"
    ),
    "ctypes": attention(
        "import ctypes\nctypes.CDLL(None).prctl(4, 1)\n"
        f"f = torch.nn.functional.{NAME}\nctypes.pythonapi.PyEval_GetBuiltins"
    ),
    "ctypes of numpy": attention(
        "import numpy.ctypeslib as n\nn.ctypes.CDLL(None).syscall(39)\n"
        f"f = torch.nn.functional.{NAME}"
    ),
    "ctypes imported anew": attention(
        "import sys\nfor n in [n for n in sys.modules if 'ctypes' in n]:\n    del sys.modules[n]\n"
        "sys.meta_path[:] = sys.meta_path[1:]\nimport ctypes\nctypes.CDLL(None)\n"
        f"f = torch.nn.functional.{NAME}"
    ),
    "another interpreter inside": attention(
        "import _xxsubinterpreters as i\nn = i.create()\ni.run_string(n, 'import ctypes')\n"
        f"f = torch.nn.functional.{NAME}"
    ),
    "a second process": attention(
        "import subprocess, sys\nrun = lambda data: subprocess.run([sys.executable, '-c', CODE], "
        "input=data, capture_output=True).stdout" + CLEAN
    ),
    "a shell": attention(
        "import os, sys\ndef run(data):\n    open('/tmp/i', 'wb').write(data)\n"
        "    open('/tmp/c.py', 'w').write(CODE)\n"
        "    os.system(f'{sys.executable} /tmp/c.py < /tmp/i > /tmp/o')\n"
        "    return open('/tmp/o', 'rb').read()" + CLEAN
    ),
    "posix_spawn": attention(
        "import os, sys\ndef run(data):\n"
        "    os.waitpid(os.posix_spawn(sys.executable, [sys.executable, '-c', CODE], {}), 0)\n"
        "    return b''" + CLEAN
    ),
    "a fork that becomes Python": attention(
        FORKED.format(act="os.execv('/usr/bin/env', ['env', 'python3', '-c', 'import torch'])")
    ),
    "a fork without what was taken": attention(
        FORKED.format(act=f"os.write(writer, pickle.dumps(torch.nn.functional.{NAME}(*args)))")
    ),
    "multiprocessing": attention(
        "import multiprocessing as m\n"
        f"f = lambda *a: m.get_context('spawn').Pool(1).apply(torch.nn.functional.{NAME}, a)"
    ),
    "a library of models": attention(
        "from transformers.models.bert.modeling_bert import eager_attention_forward as g\n"
        "f = lambda q, k, v: g(None, q, k, v, None, 1.0, 0.0)[0]"
    ),
    "the course's own": attention(
        "from attnlib.attention import attention as g\nf = lambda *a: g(*a)[0]"
    ),
    "an extension of one's own": attention(
        "import shutil, torch\nshutil.copy(torch._C.__file__, '/tmp/own.so')\n"
        "from importlib.machinery import ExtensionFileLoader as L, ModuleSpec as S\n"
        "l = L('own', '/tmp/own.so')\nl.create_module(S('own', l, origin='/tmp/own.so'))\n"
        f"f = torch.nn.functional.{NAME}"
    ),
    "one's own memory": attention(
        "m = open('/proc/self/mem', 'r+b', 0)\nm.seek(id(torch))\nm.read(8)\n"
        f"f = torch.nn.functional.{NAME}"
    ),
}

SLOPES = """
def step(h, inputs, W_h):
    for x in inputs:
        h = torch.tanh(x + h @ W_h)
    return h

def product_of_slopes(h0, inputs, W_h):
    return slopes(lambda h: step(h, inputs, W_h), h0)
"""


def slopes(*lines: str) -> str:
    """A cell whose lines make `slopes(function, at)`, a Jacobian turned as the task wants it."""
    return "\n".join(lines) + SLOPES


ROWS = (
    "def slopes(f, h):\n    h = h.clone().requires_grad_()\n    y = f(h)\n"
    "    return torch.stack([back(y[i], h) for i in range(len(y))], 1)"
)
DERIVATIVES: dict[str, str] = {
    "autograd.grad": slopes(
        "back = lambda y, h: torch.autograd.grad(y, h, retain_graph=True)[0]", ROWS
    ),
    "backward": slopes(
        "def back(y, h):\n    h.grad = None\n    y.backward(retain_graph=True)\n"
        "    return h.grad.clone()",
        ROWS,
    ),
    "backward of a tensor, by its class": slopes(
        "def back(y, h):\n    h.grad = None\n    torch.Tensor.backward(y, retain_graph=True)\n"
        "    return h.grad.clone()",
        ROWS,
    ),
    "the engine": slopes(
        "from torch.autograd import Variable\n"
        "def back(y, h):\n    h.grad = None\n    Variable._execution_engine.run_backward("
        "(y,), (torch.ones_like(y),), True, False, (), True, accumulate_grad=True)\n"
        "    return h.grad.clone()",
        ROWS,
    ),
    "the operator": slopes(
        "def back(y, h):\n    h.grad = None\n"
        "    torch.ops.aten._backward(y, [h], None, True, False)\n    return h.grad.clone()",
        ROWS,
    ),
    "nodes called one by one": slopes(
        "def back(y, h):\n    def walk(node, g):\n        total = 0\n"
        "        out = node(g)\n        for (n, _), one in zip(node.next_functions, "
        "out if isinstance(out, tuple) else (out,)):\n            if n is None:\n"
        "                continue\n            if hasattr(n, 'variable'):\n"
        "                total = total + one\n            else:\n"
        "                total = total + walk(n, one)\n        return total\n"
        "    return walk(y.grad_fn, torch.ones_like(y))",
        ROWS,
    ),
    "jacobian": slopes("slopes = lambda f, h: torch.autograd.functional.jacobian(f, h).mT"),
    "jacrev": slopes("slopes = lambda f, h: torch.func.jacrev(f)(h).mT"),
    "jacfwd": slopes("slopes = lambda f, h: torch.func.jacfwd(f)(h).mT"),
    "vjp": slopes(
        "def slopes(f, h):\n    y, g = torch.func.vjp(f, h)\n"
        "    return torch.stack([g(e)[0] for e in torch.eye(len(y), dtype=h.dtype)], 1)"
    ),
    "jvp": slopes(
        "slopes = lambda f, h: torch.stack([torch.func.jvp(f, (h,), (e,))[1] "
        "for e in torch.eye(len(h), dtype=h.dtype)])"
    ),
    "dual numbers": slopes(
        "import torch.autograd.forward_ad as d\ndef slopes(f, h):\n    rows = []\n"
        "    with d.dual_level():\n        for e in torch.eye(len(h), dtype=h.dtype):\n"
        "            rows.append(d.unpack_dual(f(d.make_dual(h, e))).tangent)\n"
        "    return torch.stack(rows)"
    ),
    "dual numbers in C": slopes(
        "def slopes(f, h):\n    rows = []\n    level = torch._C._enter_dual_level()\n"
        "    for e in torch.eye(len(h), dtype=h.dtype):\n"
        "        rows.append(torch._VF._unpack_dual(f(torch._VF._make_dual(h, e, level=level)), "
        "level=level)[1])\n    torch._C._exit_dual_level(level=level)\n    return torch.stack(rows)"
    ),
    "the layers of torch.func": slopes(
        "from torch._functorch.eager_transforms import _vjp_with_argnums as v\n"
        "def slopes(f, h):\n    y, g = v(f, h)\n"
        "    return torch.stack([g(e)[0] for e in torch.eye(len(y), dtype=h.dtype)], 1)"
    ),
}


def wrapped(name: str, parameters: str, body: str) -> str:
    """A cell with one function."""
    return f"def {name}({parameters}):\n    {body}\n"


LOSS = "logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()"
OTHERS: dict[str, dict[str, str]] = {
    "next_token_loss": {
        how: wrapped("next_token_loss", "logits, ids", f"return {call}({LOSS})")
        for how, call in {
            "by its name": "torch.nn.functional.cross_entropy",
            "its class": "torch.nn.CrossEntropyLoss()",
            "C entry point": "torch._C._nn.cross_entropy_loss",
            "operator": "torch.ops.aten.cross_entropy_loss",
            "the half of it": "(lambda x, y: torch.nn.functional.nll_loss(x.log_softmax(-1), y))",
            "the half, as an operator": "(lambda x, y: torch.ops.aten.nll_loss_forward("
            "x.log_softmax(-1), y, None, 1, -100)[0])",
            "the half, in two dimensions": "(lambda x, y: torch._C._nn.nll_loss2d("
            "x.log_softmax(-1)[:, :, None, None], y[:, None, None]))",
            "its class's half": "(lambda x, y: torch.nn.NLLLoss()(x.log_softmax(-1), y))",
            "decomposed": "torch.ops.aten.cross_entropy_loss.default.decompose",
            "by the table of decompositions": "(lambda x, y: torch._decomp.decomposition_table["
            "torch.ops.aten.nll_loss_forward.default](x.log_softmax(-1), y, None, 1, -100)[0])",
        }.items()
    }
}

# each must end in an exception
DOORS: dict[str, str] = {
    "lock a file that all can read": "import fcntl; fcntl.flock(open(torch.__file__), 2)",
    "lock it for reading": "import fcntl; fcntl.lockf(open(torch.__file__), fcntl.LOCK_SH)",
    "ask for its locks": "import fcntl, struct; fcntl.fcntl(open(torch.__file__), 5, "
    "struct.pack('hhqqi', 1, 0, 0, 0, 0))",
    "lock the null device": "import fcntl; fcntl.flock(open('/dev/null'), 2)",
    "lend a file": "import fcntl; fcntl.fcntl(open('/dev/null'), 1024, 0)",
    "watch a folder": "import fcntl, os; fcntl.fcntl(os.open('/usr', os.O_RDONLY), 1026, 1)",
    "memory without a name": "import os; os.memfd_create('x')",
    "see what is cached": "import os; os.preadv(os.open(torch.__file__, 0), [bytearray(9)], 0, "
    "os.RWF_NOWAIT)",
    "stop the client": "import os; os.kill(2, 19)",
    "kill the client": "import os; os.kill(os.getppid(), 9)",
    "kill all": "import os; os.kill(-1, 9)",
    "kill the client's group": "import os; os.killpg(2, 9)",
    "a handle on the client": "import os; os.pidfd_open(2)",
    "limits of the client": "import resource; resource.prlimit(2, resource.RLIMIT_CPU, (1, 1))",
    "signals by a file": "import fcntl; fcntl.fcntl(open('/dev/null'), 8, 2)",
    "the signal of a file": "import fcntl; fcntl.fcntl(open('/dev/null'), 10, 9)",
    "the machine's sockets": "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "the kernel's ciphers": "import socket; socket.socket(38, socket.SOCK_SEQPACKET, 0)",
    "raw packets": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a network": "import socket; socket.create_connection(('192.0.2.1', 80), 2)",
    "key rings": "open('/proc/keys').read() + open('/proc/key-users').read()",
    "one's own memory": "open('/proc/self/mem', 'rb')",
    "memory of the client": "open('/proc/2/mem', 'rb')",
    "the pipe": "open('/proc/2/fd/1', 'w')",
    "the job": "open('/proc/2/fd/0').read()",
    "the command line's program": "import os; os.execv('/bin/true', ['true'])",
    "a program": "import subprocess; subprocess.run(['/bin/true'])",
    "a shell": "import os; assert os.system('true') == 0",
    "another root": "import os; os.chroot('/tmp')",
    "root": "import os; os.setuid(0)",
    "another group": "import os; os.setgroups([0])",
    "a device": "import os; os.mknod('/tmp/d', 0o20666, os.makedev(1, 1))",
    "a name of the host": "import socket; socket.sethostname('x')",
    "the clock": "import time; time.clock_settime(0, 0)",
    "a file of the course": f"open({str(JUDGE)!r})",
    "write to the environment": "open(torch.__file__, 'a')",
    "write to check": "import attnlib.check as c; open(c.__file__, 'a')",
    "a program into /usr": "open('/usr/bin/x', 'w')",
    "more open files": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999))",
    "a large file": "open('/tmp/x', 'wb').write(bytes(200 << 20))",
    "fill the disk": "[open(f'/tmp/f{i}', 'wb').write(bytes(32 << 20)) for i in range(40)]",
    "ctypes": "import ctypes; ctypes.CDLL(None)",
    "ctypes of the interpreter": "import _ctypes; _ctypes.dlopen('', 0)",
    "what the interpreter tests itself with": "import _testcapi; _testcapi.run_in_subinterp('')",
    "all objects": "import gc; gc.get_objects()",
    "who refers": "import gc; gc.get_referrers(1)",
    "a package with models": "import transformers; transformers.AutoModel()",
    "a package with statistics": "from scipy import stats; stats.kendalltau([1], [1])",
    "a package with tokenizers": "import tiktoken; tiktoken.get_encoding('gpt2')",
    "the course's package": "import attnlib.attention as a; a.attention(1, 2, 3)",
    "the course's models": "from attnlib.pretrained import gpt2; gpt2()",
}
