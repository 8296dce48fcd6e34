"""Graph signatures on graphs written by hand: what must be equal, and what must not."""

from __future__ import annotations

from typing import Any

from autotriton.data.families import profile
from autotriton.data.records import Difficulty
from autotriton.data.signature import canonical, nodes_of, signature

SMALL, OTHER = ["float32", [4, 8]], ["float32", [4, 16]]


def leaf(meta: list[Any] = SMALL) -> list[Any]:
    return ["leaf", [], "", [meta], 0]


def node(name: str, *operands: int, constants: str = "", meta: list[Any] = SMALL, flops: int = 1) -> list[Any]:
    return [name, [[place, 0] for place in operands], constants, [meta], flops]


def graph(*nodes: list[Any], out: int = -1) -> dict[str, Any]:
    last = out if out >= 0 else len(nodes) - 1
    return {"nodes": list(nodes), "outputs": [[last, 0]], "changed": [], "cut": False}


def test_order_of_leaves_and_dead_code_make_no_difference() -> None:
    one = graph(leaf(), leaf(), node("sub", 0, 1))
    two = graph(leaf(), leaf(), node("exp", 0), node("sub", 1, 0))
    assert signature(one) == signature(two)


def test_commuting_operands_may_be_swapped_and_others_not() -> None:
    def of(name: str, *operands: int) -> dict[str, Any]:
        return graph(leaf(), node("exp", 0), leaf(), node(name, *operands))

    assert signature(of("add", 1, 2)) == signature(of("add", 2, 1))
    assert signature(of("sub", 1, 2)) != signature(of("sub", 2, 1))


def test_the_same_leaf_twice_is_not_two_leaves() -> None:
    once = graph(leaf(), node("mul", 0, 0))
    twice = graph(leaf(), leaf(), node("mul", 0, 1))
    assert signature(once).graph != signature(twice).graph


def test_shapes_and_constants_only_count_in_the_shaped_hash() -> None:
    small = graph(leaf(), node("sum", 0, constants="1"))
    wide = graph(leaf(OTHER), node("sum", 0, constants="0", meta=OTHER))
    assert signature(small).graph == signature(wide).graph
    assert signature(small).shaped != signature(wide).shaped


def test_copies_and_backends_and_in_place_forms_make_no_difference() -> None:
    plain = graph(leaf(), node("add", 0, 0))
    copied = graph(leaf(), node("clone", 0), node("add_", 1, 1), node("detach", 2))
    assert signature(plain) == signature(copied)
    assert canonical("_scaled_dot_product_flash_attention_for_cpu") == canonical(
        "_scaled_dot_product_efficient_attention"
    )
    assert canonical("_native_batch_norm_legit") == canonical("cudnn_batch_norm")
    assert canonical("__and__") == "__and__"


def test_another_wiring_differs() -> None:
    chain = graph(leaf(), node("exp", 0), node("relu", 1), node("add", 1, 2))
    other = graph(leaf(), node("exp", 0), node("relu", 1), node("add", 0, 2))
    assert signature(chain).graph != signature(other).graph


def test_long_graphs_do_not_recurse() -> None:
    nodes = [leaf(), *(node("exp", place) for place in range(4000))]
    assert len(signature(graph(*nodes)).graph) == 20


def test_profile_names_the_leading_family_the_depth_and_the_operators() -> None:
    nodes = nodes_of(
        graph(leaf(), leaf(), node("addmm", 0, 0, 1, flops=100), node("gelu", 2), node("view", 3), node("sum", 4))
    )
    found = profile(nodes)
    assert found.ops == ("addmm", "gelu", "sum")
    assert found.families == ("matmul", "reduction", "pointwise")
    assert found.depth == 3
    assert found.difficulty is Difficulty.MEDIUM


def test_a_softmax_between_two_products_is_attention() -> None:
    nodes = nodes_of(graph(leaf(), leaf(), node("bmm", 0, 1), node("_softmax", 2), node("bmm", 3, 1)))
    assert profile(nodes).families[0] == "attention"
    apart = nodes_of(graph(leaf(), leaf(), node("_softmax", 0), node("bmm", 2, 1)))
    assert "attention" not in profile(apart).families


def test_one_operator_is_easy_and_a_deep_mixture_is_hard() -> None:
    easy = profile(nodes_of(graph(leaf(), node("relu", 0))))
    names = ["convolution", "batch_norm", "relu", "max_pool2d_with_indices", "cumsum", "index", "_softmax", "mm", "sum"]
    hard = profile(nodes_of(graph(leaf(), *(node(name, place) for place, name in enumerate(names)))))
    assert (easy.difficulty, hard.difficulty) == (Difficulty.EASY, Difficulty.HARD)
