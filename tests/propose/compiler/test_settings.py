"""What may be tuned in a kernel of Inductor's: the grid as a formula, and a template's constants as parameters."""

import ast

import pytest

from autotriton.propose.compiler.inductor.helpers import HelperCalls
from autotriton.propose.compiler.inductor.kernels import Comment, Kernel, cut
from autotriton.propose.compiler.inductor.record import Launch
from autotriton.propose.compiler.inductor.settings import settle

MATMUL = """
@triton_heuristics.template(num_stages=2)
@triton.jit
def mm(arg_A, arg_B, out_ptr0):
    ALLOW_TF32 : tl.constexpr = {tf32}
    BLOCK_M : tl.constexpr = 64
    BLOCK_N : tl.constexpr = 32
    BLOCK_K : tl.constexpr = 32
    GROUP_M : tl.constexpr = 8
    M = 70
    N = 90
    K = {k}
    acc = inner(tl.zeros((BLOCK_M, BLOCK_N), tl.float32), arg_A, GROUP_M, M, N, K)
    tl.store(out_ptr0, acc)

@triton.jit
def inner(acc, a, group, m, n, k, last=False):
    BLOCK_K : tl.constexpr = 32
    b = tl.load(a + tl.arange(0, BLOCK_K))
    return tl.dot(acc, b, allow_tf32=ALLOW_TF32)
"""


def matmul(k: int = 50, tf32: bool = False) -> Kernel:
    return cut("mm", MATMUL.format(k=k, tf32=tf32), [], HelperCalls(""), Comment([]))


def launch(grid: str = "6", kind: str = "*fp32", **more: object) -> Launch:
    return Launch(
        config={}, num_warps=4, num_stages=2, grid=(grid, "1", "1"), types={"arg_A": kind, "arg_B": kind}, **more
    )


def test_a_grid_is_a_formula_over_the_settings_with_the_calls_numbers_in_it():
    found = settle(
        matmul(),
        Launch(
            config={"XBLOCK": 4},
            num_warps=1,
            num_stages=1,
            grid=("-((xnumel) // -(XBLOCK))", "y_div", "1"),
            prefix=("y_div = -((ynumel) // -(65535))",),
            alternatives=({"XBLOCK": 8, "num_warps": 2, "num_stages": 1},),
        ),
        {"xnumel": 10, "ynumel": 70000},
    )
    assert found.grid == ('triton.cdiv(10, tiles["XBLOCK"])', "y_div")
    assert found.prefix == ("y_div = triton.cdiv(70000, 65535)",)
    assert found.own == {"XBLOCK": 4, "num_warps": 1, "num_stages": 1}
    assert found.choices == ({"XBLOCK": 8, "num_warps": 2, "num_stages": 1},)


def test_a_templates_tiles_and_precision_become_parameters_of_all_its_functions():
    kernel = matmul()
    found = settle(kernel, launch(), {})
    assert found.grid == ('triton.cdiv(70, tiles["BLOCK_M"]) * triton.cdiv(90, tiles["BLOCK_N"])',)
    assert found.own["PRECISION"] == "bf16x6"
    inner, main = (ast.unparse(ast.fix_missing_locations(function)) for function in kernel.functions)
    assert "def inner(BLOCK_K: tl.constexpr, PRECISION: tl.constexpr, acc, a, group, m, n, k, last=False)" in inner
    assert "input_precision=PRECISION" in inner
    assert "BLOCK_K: tl.constexpr = 32" not in inner + main
    assert "inner(BLOCK_K, PRECISION, tl.zeros(" in main
    assert all(set(choice) == set(found.own) for choice in found.choices)
    assert {choice["PRECISION"] for choice in found.choices} == {"bf16x6", "ieee", "tf32x3"}


def test_only_a_task_that_permits_it_gets_tf32():
    found = settle(matmul(tf32=True), launch(), {})
    assert found.own["PRECISION"] == "tf32"
    assert "tf32" not in {choice["PRECISION"] for choice in settle(matmul(), launch(), {}).choices}


def test_half_precision_has_nothing_to_choose_there():
    assert "PRECISION" not in settle(matmul(), launch(kind="*bf16"), {}).own


def test_a_loop_without_a_check_for_the_rest_of_k_keeps_tiles_that_divide_it():
    found = settle(matmul(k=96), launch(), {})
    assert {96 % int(choice["BLOCK_K"]) for choice in found.choices} == {0}


@pytest.mark.parametrize("grid", ["7", "132"])
def test_a_grid_the_formula_does_not_give_keeps_the_template_as_it_is(grid):
    found = settle(matmul(), launch(grid=grid), {})
    assert found.grid == (grid,)
    assert set(found.own) == {"num_warps", "num_stages", "PRECISION"}
