"""Every escape hatch, spelled several ways, is an error with a line number.

One attack per line; a line that starts with `... ` continues the attack above it.
"""

import pytest

from autotriton.judge.rules import scan
from autotriton.types import Policy, Severity

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.load(x_ptr))

"""
MODEL = """
class ModelNew(nn.Module):
    def __init__(self, n=1):
        super().__init__()

    def forward(self, x):
        kernel[(1,)](x, 1, BLOCK=1)
        return x
"""

ATTACKS = {
    "import": """
import inspect
import gc, ctypes
import threading as math2
from concurrent.futures import ThreadPoolExecutor
import multiprocessing.pool
import importlib.util
import builtins
import types
import operator as o; o.attrgetter('x')
import torch.utils.cpp_extension
import torch._dynamo as d
import torch._C
from torch import _C
from torch import compile as c
from torch import jit
from torch import ops
import torch.ops
import torch.jit as j
from torch.utils import cpp_extension
from torch.cuda import Stream as S
from torch import *
from triton import *
from . import reference
from .reference import Model
from triton import knobs
from triton import testing
import triton.knobs
import triton.compiler as tc
from triton.runtime import cache
from triton.runtime.jit import JITFunction
import os.path
from os import path, system
from os import environ as e; e['X'] = '1'
from sys import modules
from sys import _getframe
from typing import get_type_hints
from typing import ForwardRef
from functools import singledispatch
from functools import update_wrapper
from contextlib import redirect_stdout
from enum import global_enum
from dataclasses import make_dataclass, fields
from time import sleep
from dataclasses import sys
from random import seed
import numpy.ctypeslib
from numpy import load
import cupy
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.modules import module as m; m.torch
from triton.language import core as c; c.builtins
from triton.language.core import wraps
try:
...     import pickle
... except ImportError:
...     pickle = None
def f():
...     import io
class A:
...     import torch
""",
    "dynamic code": """
eval('1')
exec('1')
e = eval
list(map(exec, ['1']))
compile('1', '', 'exec')
__import__('os')
(lambda f: f('os'))(__import__)
globals()['torch']
locals()
vars(nn)['Module'] = 1
open('/tmp/x', 'w')
__builtins__['eval']
__loader__
__file__
__spec__
breakpoint()
exit()
raise SystemExit(0)
x = [eval for _ in range(1)]
def f(a=eval): pass
@eval
... def f(): pass
from typing import *; get_type_hints(f)
""",
    "reflection": """
g = getattr; g(torch, '_C')
getattr(torch, '_C')
getattr(torch, 'comp' + 'ile')
getattr(torch, chr(99) + 'ompile')
getattr(*[torch, '_C'])
getattr(nn.Linear(1, 1), '__dict__')
list(map(getattr, [torch], ['compile']))
setattr(torch, 'randn', None)
setattr(nn.Module, 'forward', None)
setattr(F, 'relu', None)
delattr(torch, 'randn')
n = 'randn'; setattr(torch, n, None)
def f(self, n): return getattr(self, f'{n}')
def f(self): return getattr(self, f'_{"C"}')
def f(self): return getattr(self, f'comp{"ile"}')
(lambda: 0).__globals__
(lambda: 0).__code__
len.__self__
(0).__class__
(0).__class__.__bases__
''.__class__.__mro__[1].__subclasses__()
nn.Linear.mro()
object.__setattr__(torch, 'randn', None)
torch.__dict__['randn'] = None
nn.Module.__dict__
def f(self): self.__dict__['x'] = 1
def f(self): self.__class__ = int
type('X', (object,), {})
T = type; T('X', (), {})
M = type(int); M('X', (torch.Tensor,), {})
type(int)('X', (torch.Tensor,), {})
type(torch.empty(0)).numel
def f(c): c.x = 1; f(type(torch.empty(0)))
'{0.__class__}'.format(1)
t = '{0.__init__.__globals__}'; t.format(kernel)
str.format('{0.__class__}', 1)
'{x}'.format_map({})
def gen(): yield; g = gen(); g.gi_frame.f_back
try: pass
... except ValueError as e: e.__traceback__
try: pass
... except ValueError as e: e.tb_frame
try: torch.nope
... except AttributeError as e: m = e.obj
def __getattr__(name): pass
__name__ = '__main__'
for __name__ in ['__main__']: pass
import math as __name__
def isinstance(a, b): b.numel = 1
def getattr(a, b): pass
torch = 3
def torch(): pass
class triton: pass
match 1:
...     case object(__class__=c): pass
match kernel:
...     case object(fn=c): pass
""",
    "modules and classes as values": """
match torch:
...     case object(compile=c): pass
match torch:
...     case object(_C=c): pass
(lambda m: m.jit)(torch)
def f(m=torch): return m.jit
for m in (torch,): m.jit
x = [m.jit for m in [torch]]
a, b = torch, triton
d = {'t': torch}
d = dict(t=torch)
class A: t = torch
class A: t: object = torch.nn.functional
def f(): return torch
def f(): yield torch
(t := torch).jit
print((t := torch).jit)
with torch as t: t.jit
def f(self): self.t = torch
f'{torch}'
(torch or 1).jit
(torch if 1 else 2).jit
t = torch; t.jit
t = torch; t.compile
a = torch; b = a; c = b; c.jit
def f():
...     global t
...     t = torch
... t.jit
lambda: torch
x = torch, 1
torch == 1
assert 1, torch
raise torch
print(torch)
list(map(lambda m: m.load, [torch]))
d = triton.runtime.driver.active; print(d)
t = torch.Tensor; [t]
def f(c): pass; f(torch.Tensor)
f = [nn.Module]
from typing import Union; T = Union[torch.Tensor]; [T]
from typing import Union; f(Union[torch.Tensor])
f(torch.Tensor | torch.Tensor)
from typing import cast; T = cast(int, torch.Tensor)
raise ValueError(type(f))
raise ValueError(torch.Tensor)
import re; r = re if 0 else nn.Linear(1, 1); r.compile()
t = tl if 0 else torch.empty(1); t.untyped_storage()
t = tl; t = torch.empty(1); t.untyped_storage()
t = torch.float32; t = f(); t == type(f)
class A: T = torch.Tensor
def f(self): self.T = torch.Tensor
def patch(self): self.numel = 1; patch(torch.Tensor)
def f(): return nn.Parameter
class E:
...     def __eq__(self, o): o.x = 1
... E() == torch.Tensor
""",
    "escape": """
torch.compile(f)
c = torch.compile
torch.jit.script(f)
torch.jit.trace(f, 1)
torch._C._jit
torch._dynamo.optimize
torch.ops.aten.relu(1)
torch.library.Library('a', 'DEF')
torch.fx.symbolic_trace
torch.hub.load('a')
torch.utils.cpp_extension.load_inline()
torch.load('x')
torch.save(1, 'x')
torch.serialization.load('x')
torch.multiprocessing.spawn
torch.distributed.init_process_group()
torch.overrides.TorchFunctionMode
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
torch.random.manual_seed(0)
torch.seed()
torch.set_default_dtype(torch.float16)
torch.set_float32_matmul_precision('high')
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
torch.get_device_module('cuda')
torch.from_numpy(1)
torch.frombuffer(b'')
torch.from_dlpack(1)
torch.cuda.Stream()
torch.cuda.stream(None)
torch.cuda.current_stream()
torch.cuda.CUDAGraph()
torch.cuda.graph(1)
torch.cuda.graphs.CUDAGraph
torch.cuda.make_graphed_callables
torch.cuda.jiterator
torch.cuda.memory.caching_allocator_alloc
torch.cuda.caching_allocator_alloc(1)
torch.cuda.cudart()
torch.cuda.Event()
torch.cuda.nccl
torch.Stream()
torch.UntypedStorage(1)
torch.storage
torch.classes
torch.func.vmap
torch.cond(1, 2, 3)
torch.compiler.disable
torch.export.export
torch.testing.assert_close
torch.os.system('x')
torch.sys.modules
torch.nn.functional.torch
F.importlib
F.torch._C
torch.torch.jit
torch.nn.utils.parametrize
torch.nn.parallel.DataParallel
nn.DataParallel(1)
torch.autograd.graph.saved_tensors_hooks
torch.autograd.profiler.profile
torch.autograd.forward_ad
nn.Linear(1, 1).compile()
nn.Linear(1, 1).register_forward_hook(1)
nn.Linear(1, 1).register_forward_pre_hook(1)
nn.Linear(1, 1).register_full_backward_hook(1)
nn.Linear(1, 1).register_state_dict_pre_hook(1)
torch.empty(1).register_hook(1)
torch.empty(1).register_post_accumulate_grad_hook(1)
torch.empty(1).untyped_storage()
torch.empty(1).numpy()
torch.empty(1).tolist()
torch.empty(1).set_(1)
torch.empty(1).share_memory_()
torch.empty(1).as_subclass(1)
torch.empty(1).record_stream(1)
torch.empty(1).apply_(1)
torch.empty(1)._version
torch.empty(1)._make_subclass
torch.Tensor._make_subclass(1, 2)
nn.Linear(1, 1)._parameters
nn.Linear(1, 1)._forward_hooks
nn.Linear(1, 1)._call_impl
nn.Linear(1, 1).get_submodule('a')
def f(self): self._buffers['x'] = 1
def f(self): return self._modules
import time; time.sleep(1)
import time; time.time.sleep
import os; os.system('x')
import os; os.environ['A'] = 'b'
import os; os.environ.update({})
import os; e = os.environ; e['A'] = 'b'
import os; os._exit(0)
import sys; sys.modules['x']
import sys; sys.stdout.write('x')
import sys; sys.settrace(1)
import numpy as np; np.load('x')
import numpy as np; np.matmul(1, 2)
import random; random.seed(0)
import re; re.sys
import re as r; r.functools
import functools; functools.sys
import warnings; warnings.sys.modules
tl.core.builtins
tl.core.ir
tl.core.knobs
tl.math.core.builtins
tl.core.wraps(kernel)
""",
    "kernel internals": """
triton.knobs.runtime
triton.runtime.driver.set_active(1)
triton.runtime.driver.active.launcher_cls
triton.runtime.driver.active.utils.load_binary
triton.runtime.cache
triton.runtime.jit
triton.compiler.compile
triton.compile(kernel)
triton.backends
triton.testing.do_bench(f)
triton.JITFunction
kernel.fn
kernel.run(1)
kernel.warmup(1)
kernel.src
kernel.params
kernel.cache_hook
kernel.add_pre_run_hook(1)
kernel.device_caches
kernel._unsafe_update_src('x')
kernel.run = 1
kernel.x = 1
k = kernel; k.fn
k = kernel; k.anything
k = triton.jit(kernel); k.cache
x = [kernel]; x[0].fn
x = [kernel]; x[0]._unsafe_update_src('x')
def f(self): self._unsafe_update_src('x')
triton.Config({}, ir_override='x')
@triton.autotune(configs=[], key=['''
... def evil(x):
...     pass
... '''])
... @triton.jit
... def k(x): pass
""",
    "monkeypatching": """
torch.randn = 1
torch.nn.functional.relu = 1
nn.Module.forward = 1
nn.Module.__call__ = 1
tl.load = 1
triton.cdiv = 1
t = torch; t.randn = 1
torch.randn += 1
del torch.randn
for torch.randn in [1]: pass
with f() as torch.randn: pass
[torch.randn, x] = 1, 2
torch.Tensor.numel = 1
def f(x): x.numel = 1
def f(x): x.data = 1
def f(self): self.cpu = 1
y = nn.Parameter(f()); y.foo = 1
L = nn.Linear if 0 else f; y = L(1); y.foo = 1
def f(self): self.w.data = 1
def f(self): self.a.b = 1
def f(self): self.a = nn.Linear; self.a.forward = 1
def f(self): self = torch.empty(1); self.x = 1
super().forward = 1
(lambda: 1)().x = 1
[1][0].x = 1
import math; math.pi = 3
import functools; functools.wraps(f)(nn)
import functools; functools.wraps(f)(f)
import functools; w = functools.wraps; w(f)(f)
import functools
... @functools.wraps(f)
... @f
... def g(): pass
import functools
... @functools.wraps(f, assigned=('x',))
... def g(): pass
from dataclasses import dataclass; dataclass(nn.Linear)
from dataclasses import dataclass
... @dataclass
... @f
... class A: pass
from dataclasses import dataclass as d; x = [d]
""",
    "classes": """
class A(torch.Tensor): pass
class A(nn.Parameter): pass
T = torch.Tensor
... class A(T): pass
class A(type(torch.empty(0))): pass
class A(*[torch.Tensor]): pass
class A((lambda: torch.Tensor)()): pass
def f(c):
...     class A(c): pass
class A(nn.Module, metaclass=f): pass
class A(**{'metaclass': f}): pass
class A(type): pass
class A(torch.autograd.Variable): pass
class A(F.Tensor): pass
class A:
...     def __torch_function__(self): pass
class A:
...     def __getattr__(self, n): pass
class A:
...     def __del__(self): pass
class A:
...     def __reduce__(self): pass
class A:
...     def __init_subclass__(cls): pass
class A:
...     def __class_getitem__(cls, i): pass
class A:
...     def __new__(cls): pass
class A:
...     __getattr__ = f
class A:
...     __torch_dispatch__ = classmethod(f)
class A:
...     __match_args__ = ('_C',)
class A:
...     __class__ = int
async def f(): pass
async def f():
...     await g()
async def f():
...     return [x async for x in y]
""",
}


OPEN_OUTSIDE_STRICT = {"torch.ops.aten.relu(1)", "from torch import ops"}


def _cases() -> list[tuple[str, str]]:
    cases = []
    for family, text in ATTACKS.items():
        joined = text.strip("\n").replace("\n... ", "\t")
        cases += [(family, line.replace("\t", "\n")) for line in joined.splitlines() if line]
    return cases


CASES = _cases()


@pytest.mark.parametrize(("family", "attack"), CASES, ids=[attack for _, attack in CASES])
@pytest.mark.parametrize("policy", Policy)
def test_attack_at_module_level_is_rejected(family: str, attack: str, policy: Policy) -> None:
    if policy is not Policy.STRICT and attack in OPEN_OUTSIDE_STRICT:
        pytest.skip("torch.ops is delegation, which the other policies permit")
    found = [f for f in scan(HEAD + attack + MODEL, policy) if f.severity is Severity.ERROR]
    first = HEAD.count("\n") + 1
    assert any(f.line in range(first, first + attack.count("\n") + 1) for f in found), found
    assert "syntax" not in {f.rule for f in found}


def test_program_around_the_attacks_is_green() -> None:
    assert scan(HEAD + MODEL, Policy.STRICT) == []


@pytest.mark.parametrize("length", [1, 30, 3000])
@pytest.mark.parametrize("backwards", [False, True])
def test_alias_chain_of_any_length_is_followed(length: int, backwards: bool) -> None:
    links = [f"a{i + 1} = a{i}\n" for i in range(length)]
    chain = "".join(reversed(links) if backwards else links)
    attack = f"a0 = torch\nfor _ in range({length}):\n" + "".join(f"    {line}\n" for line in chain.splitlines())
    found = scan(f"{HEAD}{attack}a{length}.jit\n{MODEL}", Policy.STRICT)
    assert "escape" in {f.rule for f in found}


def test_alias_that_grows_forever_is_followed_to_an_end() -> None:
    assert "escape" in {f.rule for f in scan(HEAD + "t = torch\nt = t.nn\nt = t.x\nt.utils\n" + MODEL, Policy.STRICT)}


def test_main_block_findings_are_warnings_but_its_else_is_not() -> None:
    guarded = "if __name__ == '__main__':\n    import inspect\n"
    assert {f.severity for f in scan(HEAD + guarded + MODEL, Policy.STRICT)} == {Severity.WARNING}
    otherwise = guarded + "else:\n    import gc\n"
    found = scan(HEAD + otherwise + MODEL, Policy.STRICT)
    assert [f.message.split("`")[1] for f in found if f.severity is Severity.ERROR] == ["gc"]


@pytest.mark.parametrize(
    "test", ["__name__ != '__main__'", "__name__ == '__main__' or True", "not __name__ == '__main__'"]
)
def test_other_conditions_on_the_name_hide_nothing(test: str) -> None:
    found = scan(f"{HEAD}if {test}:\n    import inspect\n{MODEL}", Policy.STRICT)
    assert [f.severity for f in found] == [Severity.ERROR]


@pytest.mark.parametrize(
    "attack",
    [
        "torch.compile(x)",
        "x.untyped_storage()",
        "torch._C",
        "getattr(x, '_base')",
        "[eval][0]",
        "(m := torch).jit",
        "kernel.fn",
    ],
)
def test_attack_inside_a_method_lambda_or_kernel_is_rejected(attack: str) -> None:
    for place in (
        f"class A:\n    def f(self, x):\n        return {attack}\n",
        f"f = lambda x: {attack}\n",
        f"@triton.jit\ndef k(x):\n    return {attack}\n",
        f"def f(x, y={attack.replace('x', 'kernel')}):\n    pass\n",
        f"def f(x):\n    def g():\n        return [{attack} for _ in x]\n",
        f"class A:\n    @staticmethod\n    def f(x: {attack}):\n        pass\n",
        f"def f(x):\n    return f'{{{attack}}}'\n" if "'" not in attack else f"def f(x):\n    assert {attack}\n",
    ):
        assert any(f.severity is Severity.ERROR for f in scan(HEAD + place + MODEL, Policy.STRICT)), place
