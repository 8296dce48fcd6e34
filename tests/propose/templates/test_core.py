"""The parts of the templates engine without a judge: axes, walks through memory, names, clusters, the file's text."""

from __future__ import annotations

import ast
import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample  # noqa: E402

from autotriton.propose.compiler.inductor.program import Unsupported  # noqa: E402
from autotriton.propose.compiler.templates.access import access, grouped, offset, stored  # noqa: E402
from autotriton.propose.compiler.templates.axes import Axis, Dims, flat, refreshed, regrouped, viewed  # noqa: E402
from autotriton.propose.compiler.templates.cluster import Cluster  # noqa: E402
from autotriton.propose.compiler.templates.expressions import Inexpressible, literal  # noqa: E402
from autotriton.propose.compiler.templates.families import family_of  # noqa: E402
from autotriton.propose.compiler.templates.names import Names, identifier  # noqa: E402
from autotriton.propose.compiler.templates.plan import Plan  # noqa: E402
from autotriton.propose.compiler.templates.simplify import simplify  # noqa: E402
from autotriton.propose.compiler.templates.sizes import Sizes, Unreadable  # noqa: E402
from autotriton.propose.compiler.templates.titles import title_of  # noqa: E402

pytestmark = pytest.mark.interp


def _dims(*sizes: int) -> Dims:
    return tuple((Axis(size, True),) if size != 1 else () for size in sizes)


def _sizes_of(dims: Dims) -> list[list[int]]:
    return [[axis.size for axis in axes] for axes in dims]


# --- axes ----------------------------------------------------------------------------------------------------------


def test_flattening_puts_two_axes_into_one_dimension():
    dims = _dims(4, 6, 5)
    found = regrouped(dims, (4, 30))
    assert found is not None
    assert _sizes_of(found) == [[4], [6, 5]]
    assert flat(found) == flat(dims)


def test_a_split_dimension_splits_its_axis_for_everybody():
    dims = _dims(4, 6)
    other = (dims[1],)
    found = regrouped(dims, (4, 3, 2))
    assert found is not None
    assert _sizes_of(found) == [[4], [3], [2]]
    assert refreshed(other) == ((*found[1], *found[2]),)


def test_dimensions_of_size_one_come_and_go():
    assert _sizes_of(regrouped(_dims(4, 1, 6), (1, 4, 6, 1)) or ()) == [[], [4], [6], []]


def test_a_shape_that_cuts_across_axes_is_not_a_view():
    assert regrouped(_dims(4, 6), (3, 8)) is None


def test_a_symbolic_axis_is_never_split():
    assert regrouped(((Axis(8, False),),), (2, 4)) is None


def test_views_move_axes():
    graph = Sample("return x.permute(2, 0, 1).transpose(0, 1) * 1", "torch.randn(4, 6, 5)").exported().graph
    views = [node for node in graph.nodes if "permute" in str(node.target) or "transpose" in str(node.target)]
    dims = start = _dims(4, 6, 5)
    for node in views:
        dims = viewed(node, dims) or ()
    assert dims == (start[0], start[2], start[1])


# --- access --------------------------------------------------------------------------------------------------------


def test_dense_tensors_walked_alike_need_one_index():
    dims = _dims(4, 6)
    walks = [access(name, torch.empty(4, 6), dims) for name in ("x", "y")]
    (group,) = grouped(flat(dims), walks, set())
    group.index, group.size_name = "i", "n"
    assert group.size == 24
    assert offset(walks[0], [group]) == "i"


def test_a_broadcast_operand_keeps_the_axes_apart():
    rows, columns = _dims(4, 6)
    walks = [access("x", torch.empty(4, 6), (rows, columns)), access("bias", torch.empty(6), (columns,))]
    groups = grouped((*rows, *columns), walks, set())
    for group, name, size in zip(groups, ("row", "col"), ("n_rows", "n_cols"), strict=True):
        group.index, group.size_name = name, size
    assert [offset(walk, groups) for walk in walks] == ["row * n_cols + col", "col"]


def test_a_transposed_operand_is_walked_by_its_strides():
    dims = _dims(4, 6)
    walk = access("x", torch.empty(6, 4).t(), dims, natural=True)
    groups = grouped(flat(dims), [walk], set())
    for group, name in zip(groups, ("row", "col"), strict=True):
        group.index = name
    assert not walk.dense
    assert offset(walk, groups) == "row * x_stride_0 + col * x_stride_1"


def test_an_output_has_no_gaps_whatever_was_traced():
    dims = _dims(4, 3)
    assert stored("out", torch.empty(4, 6)[:, ::2], dims).dense
    assert [axis.size for axis, _ in stored("out", torch.empty(3, 4).t(), dims).steps] == [3, 4]


# --- sizes ---------------------------------------------------------------------------------------------------------


def test_sizes_are_read_off_the_operands():
    dims = _dims(4, 6)
    sizes = Sizes([("x", torch.empty(4, 6), dims)])
    assert sizes.shape(dims) == "(x.shape[0], x.shape[1])"
    assert sizes.product(flat(dims)) == "x.numel()"
    split = regrouped(dims, (4, 3, 2)) or ()
    assert Sizes([("x", torch.empty(4, 6), dims)]).shape(split) == "(x.shape[0], 3, x.shape[1] // 3)"


def test_a_computed_size_is_bracketed_in_a_product():
    rows, columns = _dims(4, 6)
    sizes = Sizes([("x", torch.empty(4), (rows,))], computed={columns[0]: "x.shape[1] + 2"})
    assert sizes.product((*rows, *columns)) == "x.shape[0] * (x.shape[1] + 2)"
    assert sizes.product(columns) == "x.shape[1] + 2"


def test_a_symbolic_size_nobody_has_is_never_written_as_a_number():
    with pytest.raises(Unreadable):
        Sizes([("x", torch.empty(4), _dims(4))]).axis(Axis(8, False))


# --- names ---------------------------------------------------------------------------------------------------------


def test_names_are_distinct_and_legal():
    names = Names(taken={"x"})
    assert [names.unique("x"), names.unique("x"), names.unique("row")] == ["x_2", "x_3", "row_2"]
    assert [identifier(text) for text in ("given['a']", "lambda", "2d", "")] == [
        "given_a",
        "value_lambda",
        "value_2d",
        "value",
    ]


def test_numbers_that_are_not_finite_are_written_as_triton_reads_them():
    assert [literal(value) for value in (float("-inf"), float("nan"), 1.5)] == ['float("-inf")', 'float("nan")', "1.5"]


# --- clusters ------------------------------------------------------------------------------------------------------


def _clusters(forward: str, drawn: str, **more: str) -> list[Cluster]:
    exported = Sample(forward, drawn, **more).exported()
    simplify(exported)
    return Plan(exported.graph).clusters


@pytest.mark.parametrize(
    ("forward", "init", "titles"),
    [
        ("return F.softmax(x, 1)", "pass", ["softmax"]),
        ("return F.layer_norm(F.gelu(x), (32,))", "pass", ["gelu_layer_norm"]),
        ("return F.gelu(self.l(x))", "self.l = nn.Linear(32, 8)", ["linear_gelu"]),
        ("y = self.l(x)\nreturn F.softmax(y, 1) + y", "self.l = nn.Linear(32, 8)", ["linear", "softmax_add"]),
        ("return x.max()", "pass", ["max_reduction"]),
    ],
)
def test_what_hangs_together_is_one_kernel(forward: str, init: str, titles: list[str]):
    assert [title_of(cluster) for cluster in _clusters(forward, "torch.randn(4, 32)", init=init)] == titles


@pytest.mark.parametrize(
    ("forward", "operands"),
    [
        ("return torch.cat([x, x * 2, x * 3], 1)", [3]),
        (
            "f = [x]\nfor k in range(5):\n    f.append(torch.cat(f, 1).sum(1, keepdim=True))\nreturn f[-1]",
            [1, 2, 3, 2, 2],
        ),
        ("return torch.cat([x * k for k in range(40)])", [16, 16, 8, 3]),
        ("return torch.cat([x.half() if k else x for k in range(20)])", [20]),
    ],
)
def test_concatenations_have_few_operands(forward: str, operands: list[int]):
    exported = Sample(forward, "torch.randn(4, 3)").exported()
    simplify(exported)
    assert [len(node.args[0]) for node in exported.graph.nodes if "aten.cat" in str(node.target)] == operands


def test_clusters_run_in_an_order_in_which_operands_are_made():
    clusters = _clusters(
        "y = self.a(x)\nz = y * 2\ns = z.sum(1, keepdim=True)\nw = self.b(z / s)\nreturn w + y * s, z - w",
        "torch.randn(4, 32)",
        init="self.a = nn.Linear(32, 32)\nself.b = nn.Linear(32, 32)",
    )
    made: set[Any] = set()
    owned = {member for cluster in clusters for member in cluster.dims}
    for cluster in clusters:
        made |= set(cluster.dims)
        for member in cluster.members:
            assert set(member.all_input_nodes) & owned <= made


def test_every_family_is_found():
    graph = Sample("return self.l(x).cumsum(1)", "torch.randn(4, 3)", init="self.l = nn.Linear(3, 3)").exported().graph
    found = [family_of(node) is not None for node in graph.nodes if node.op == "call_function"]
    assert found == [True, True]


# --- the file ------------------------------------------------------------------------------------------------------


def _definitions(code: str) -> list[str]:
    return [node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


LAYERS = "self.s = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 24))"
BLOCK = Sample("return F.layer_norm(self.s(x), (24,)).max(), x.sum(1)", "torch.randn(4, 24)", init=LAYERS)


def test_equal_layers_share_one_piece_and_different_ones_do_not():
    emitted = BLOCK.emitted()
    assert "linear_relu" in emitted.choices
    assert "linear" in emitted.choices
    assert "linear_relu_2" not in emitted.choices
    forward = emitted.code.rpartition("def forward")[2]
    assert forward.count(" = linear_relu(") == 2


def test_equal_layers_of_very_different_size_are_written_apart_for_their_tiles_differ():
    layers = "self.a = nn.Linear(24, 4096)\nself.b = nn.Linear(4096, 24)"
    choices = Sample("return self.b(self.a(x))", "torch.randn(512, 24)", init=layers).emitted().choices
    assert set(choices) == {"linear", "linear_2"}
    assert choices["linear"] != choices["linear_2"]


def test_where_tiles_are_the_same_at_every_size_equal_layers_of_any_size_share_one_piece():
    """Or a deep network becomes a long file of equal kernels, which is what a model would learn."""
    layers = "self.a = nn.Linear(24, 4096)\nself.b = nn.Linear(4096, 24)\nself.c = nn.Linear(24, 8)"
    plain = Sample("return self.c(self.b(self.a(x)))", "torch.randn(512, 24)", init=layers, way="plain").emitted()
    assert set(plain.choices) == {"linear"}
    assert plain.code.count("@triton.jit") == 1


def test_tiles_are_a_literal_with_the_first_choice_of_every_wrapper():
    emitted = BLOCK.emitted()
    (tiles,) = [n for n in ast.parse(emitted.code).body if isinstance(n, ast.Assign)]
    assert ast.literal_eval(tiles.value) == {name: settings[0] for name, settings in emitted.choices.items()}
    assert set(emitted.choices) <= set(_definitions(emitted.code))


def test_the_file_imports_torch_and_triton_only_and_shadows_no_builtin():
    code = BLOCK.emitted().code
    tree = ast.parse(code)
    roots = {alias.name.partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    roots |= {(n.module or "").partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert roots <= {"torch", "triton"}
    assert not [name for name in _definitions(code) if hasattr(builtins, name)]
    assert _definitions(code)[-1] == "ModelNew"


def test_equal_tasks_give_equal_files():
    assert BLOCK.emitted() == BLOCK.emitted()


def test_a_formula_is_the_docstring_of_its_kernel():
    code = Sample("return torch.sigmoid(x) * y + 1", "torch.randn(4, 3), torch.randn(3)", "x, y").emitted().code
    assert '"""sigmoid(x) * y + 1"""' in code


def test_a_file_for_one_shape_only_says_so_when_given_another():
    from autotriton.propose.compiler.templates import engine

    sample = Sample("return x * 2", "torch.randn(4, 3)")
    exported = engine.export(sample.request, symbolic=False)
    code = engine.emit(exported, sample.source, "Model", "sample", False).code
    assert "if tuple(x.shape) != (4, 3):\n            raise ValueError(" in code


@pytest.mark.parametrize(
    ("forward", "drawn", "said"),
    [
        ("return torch.fft.fft(x).real", "torch.randn(8, 8)", "operator aten._fft_r2c.default"),
        ("return torch.linalg.qr(x)[1]", "torch.randn(8, 8)", "operator aten.linalg_qr.default"),
        ("return x[x > 0]", "torch.randn(8)", "operator aten.index.Tensor"),
        ("return x.t()", "torch.randn(8, 3)", "nothing to compute"),
        ("return torch.pow(x, 5)", "torch.randint(0, 3, (8,))", "an integer to the power 5"),
        ("return x.to(torch.float8_e4m3fn)", "torch.randn(8)", "type torch.float8_e4m3fn"),
    ],
)
def test_what_is_not_supported_is_named(forward: str, drawn: str, said: str):
    with pytest.raises((Unsupported, Inexpressible), match=said):
        Sample(forward, drawn).emitted()
