"""Kernels cut out of Inductor's wrapper, as text: no torch is needed for any of this."""

import ast

from autotriton.propose.compiler.inductor.helpers import HelperCalls
from autotriton.propose.compiler.inductor.kernels import (
    Comment,
    comments,
    cut,
    kernel_sources,
    name_functions,
    readable,
)

KERNEL = """
import triton
@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0

@triton_heuristics.pointwise(size_hints={'x': 8})
@triton.jit
def triton_poi_fused_add_relu_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 8
    rnumel = xnumel
    ALLOW_TF32 : tl.constexpr = False
    x = tl.load(in_ptr0 + xnumel, eviction_policy='evict_last')
    y, = tl.associative_scan((x,), 0, _triton_helper_fn_add0)
    z = triton_helpers.maximum(tl_math.exp(y), libdevice.tanh(y))
    z = tl.dot(z, z, allow_tf32=ALLOW_TF32)
    tl.store(out_ptr0, z)
"""
HELPERS = """
@triton.jit
def is_floating(x):
    return x.dtype.is_floating()

@triton.jit
def maximum(a, b):
    '''Propagates NaN.'''
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)
"""
WRAPPER = f"""
# Topologically Sorted Source Nodes: [add], Original ATen: [aten.add, aten.relu]
# Graph fragment:
#   %arg0_1 : Tensor "f32[8][1]cuda:0" = PlaceHolder[target=arg0_1]
#   %add : Tensor "f32[8][1]cuda:0"[num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%arg0_1, 1), kwargs = {{}})
#   return %add
triton_poi_fused_add_relu_0 = async_compile.triton('triton_poi_fused_add_relu_0', '''{KERNEL.replace("'", '"')}''', device_str='cuda')
"""  # noqa: E501


def cut_text() -> tuple[str, HelperCalls]:
    helpers = HelperCalls(HELPERS)
    kernel = cut("triton_poi_fused_add_relu_0", KERNEL, ["XBLOCK"], helpers, Comment([]))
    name_functions(kernel, kernel.name)
    assert [function.name for function in kernel.functions] == ["pointwise_add_relu_0_kernel"]
    assert kernel.passed == ["in_ptr0", "out_ptr0", "xnumel"]
    assert kernel.dropped == {"xnumel"}
    return ast.unparse(ast.fix_missing_locations(kernel.main)), helpers


def test_a_cut_kernel_has_no_heuristics_hints_or_unread_values():
    text, _ = cut_text()
    assert text.startswith("@triton.jit\ndef pointwise_add_relu_0_kernel(in_ptr0, out_ptr0, XBLOCK: tl.constexpr):")
    assert "eviction_policy" not in text
    assert "rnumel" not in text


def test_a_scan_that_sums_is_a_cumsum():
    assert "y = tl.cumsum(x, 0)" in cut_text()[0]


def test_tf32_that_is_off_is_spelled_ieee():
    assert "input_precision='ieee'" in cut_text()[0]


def test_helpers_are_inlined_with_what_they_use_and_the_rest_is_triton_or_libdevice():
    text, helpers = cut_text()
    assert "helper_maximum(tl.exp(y), libdevice.tanh(y))" in text
    assert list(helpers.written) == ["is_floating", "maximum"]
    assert "if helper_is_floating(a):" in helpers.written["maximum"]
    assert helpers.libdevice


def test_the_comment_names_what_is_fused_with_real_names():
    found = comments(WRAPPER, {"arg0_1": "linear.weight"})
    assert found["triton_poi_fused_add_relu_0"].lines == ["Fuses add, relu:", "    add = linear.weight + 1"]
    assert found["triton_poi_fused_add_relu_0"].sources == ("add",)
    assert list(kernel_sources(WRAPPER)) == ["triton_poi_fused_add_relu_0"]


def test_names_are_readable():
    assert readable("triton_red_fused__softmax_copy__1") == "reduction_softmax_copy_1"
    assert readable("triton_tem_fused_gelu_mm_3") == "gelu_mm_3"
    assert Comment([], ("view_1", "linear", "gelu_2", "gelu_3")).name == "linear_gelu"


def test_what_a_kernel_calls_comes_before_it_and_carries_its_name():
    source = """
@triton_heuristics.template(num_stages=1)
@triton.jit
def triton_tem_fused_0(arg_Q):
    inner(arg_Q)

@triton.jit
def unused(x):
    return x

@triton.jit
def innermost(x):
    return x

@triton.jit
def inner(x):
    return innermost(x)
"""
    kernel = cut("triton_tem_fused_0", source, [], HelperCalls(""), Comment([], ("attention",)))
    name_functions(kernel, kernel.name)
    names = [function.name for function in kernel.functions]
    assert names == ["attention_innermost", "attention_inner", "attention_kernel"]
    assert "attention_inner(arg_Q)" in ast.unparse(kernel.main)
