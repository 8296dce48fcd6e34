"""Inductor's `call` as the body of `forward`, from text alone."""

import pytest

from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.emit import emit
from autotriton.propose.compiler.inductor.record import Argument, Capture, Launch, Origin
from autotriton.tune import tiles

KERNEL = """@triton.jit
def k(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 10
    tl.store(out_ptr0, tl.load(in_ptr0))
"""
WRAPPER = """
k = async_compile.triton('k', '''{kernel}''', device_str='cuda')
def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        arg1_1 = copy_if_misaligned(arg1_1)
        buf0 = empty_strided_cuda((2, 5), (5, 1), torch.float32)
        raw_stream0 = get_raw_stream(0)
        {statement}
        del arg1_1
    return (reinterpret_tensor(buf0, (5, ), (1, ), 5), )
"""
LAUNCHED = Launch(config={"XBLOCK": 4}, num_warps=1, num_stages=1, grid=("-(xnumel // -XBLOCK)", "1", "1"))
LAUNCH = "k.run(arg1_1, buf0, 10, stream=raw_stream0)"
SOURCE = "import torch.nn as nn\nclass Model(nn.Module):\n    pass\n"


def capture(statement: str) -> Capture:
    def argument(origin: Origin, name: str, expression: str) -> Argument:
        return Argument(
            origin=origin, name=name, expression=expression, shape=(10,), stride=(1,), dtype="torch.float32"
        )

    return Capture(
        wrapper=WRAPPER.format(kernel=KERNEL, statement=statement),
        helpers="",
        launches={
            "k": Launch(config={"XBLOCK": 4}, num_warps=1, num_stages=1, grid=("-(xnumel // -XBLOCK)", "1", "1"))
        },
        arguments=(argument(Origin.PARAMETER, "a.weight", "self.a.weight"), argument(Origin.INPUT, "x", "x")),
        signature="x, mode='sum'",
        fixed={"mode": "'sum'"},
        output="(_out0, )",
        torch_version="2.13.0",
    )


def test_the_body_is_allocation_views_and_launches_with_real_names():
    text = emit(capture(LAUNCH), SOURCE, "Model", "task").code
    compile(text, "emitted", "exec")
    body = text[text.index("    def forward") : text.index("# Kernel bodies")]
    assert "def forward(self, x, mode='sum'):" in body
    assert "if mode != 'sum':" in body
    assert "buf0 = torch.empty_strided((2, 5), (5, 1), dtype=torch.float32, device=device)" in body
    assert "\n        k(x, buf0)\n" in body
    assert '    k_kernel[(triton.cdiv(10, tiles["XBLOCK"]),)](x, buf0, **tiles)' in text
    assert tiles.read(text) == {"k": {"XBLOCK": 4, "num_warps": 1, "num_stages": 1}}
    assert "return (torch.as_strided(buf0, (5,), (1,), buf0.storage_offset() + 5), )" in body
    assert "def k_kernel(x_ptr, buf0_ptr, XBLOCK: tl.constexpr):" in text
    assert "self.a.weight" not in body  # not read by any kernel
    assert "_inductor" not in text


@pytest.mark.parametrize("statement", ["extern_kernels.mm(arg0_1, arg1_1, out=buf0)", "buf1 = torch.ops.aten.mm(buf0)"])
def test_a_call_left_to_torch_is_refused_by_its_name(statement):
    with pytest.raises(ProposerError, match=r"no Triton kernel for (aten\.)?mm"):
        emit(capture(statement), SOURCE, "Model", "task")


def test_the_docstring_says_which_variants_did_not_come_out():
    text = emit(capture(LAUNCH), SOURCE, "Model", "task", ('attention: heads of """8""" numbers\\',)).code
    compile(text, "emitted", "exec")
    assert "Not made: attention: heads of '''8''' numbers/" in text
