"""Attention: masks, causality, grouped heads, lengths and types against torch in double precision."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from further import marked, wanted  # noqa: E402
from one_kernel import Trial, node_of, relative_error, run_all  # noqa: E402
from single_piece import Stored, source_of  # noqa: E402

from autotriton.propose.compiler.templates.attention import FAMILIES, Form, form_for, render_attention  # noqa: E402
from autotriton.propose.compiler.templates.attention_call import attention_of  # noqa: E402
from autotriton.propose.compiler.templates.attention_patterns import merge_attention, softmax_attention  # noqa: E402
from autotriton.propose.compiler.templates.decompositions import table  # noqa: E402
from autotriton.propose.compiler.templates.piece import Piece, Site  # noqa: E402

pytestmark = pytest.mark.interp
SDPA = torch.nn.functional.scaled_dot_product_attention
HALF, BRAIN, DOUBLE = torch.float16, torch.bfloat16, torch.float64


class _Stored(Stored):
    def allocations(self) -> list[str]:
        return [line.replace("x.device", "query.device") for line in super().allocations()]


def _by(form: Form | None = None) -> Callable[[Site], Piece]:
    def render(site: Site) -> Piece:
        call = attention_of(site.node)
        assert call is not None
        site = replace(site, epilogue=_Stored(site.node, site.sizes))
        return render_attention(call, site, form or form_for(call, site.tf32))

    return render


def run_folder(folder: Path) -> dict[str, Any]:
    child = Path(__file__).with_name("run_pieces.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, str(child), str(folder)], env=environment, check=True, timeout=200)
    return dict(torch.load(folder / "results.pt", weights_only=False))


def _x(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def _qkv(*batch: int, queries: int, keys: int, width: int, dtype: Any = torch.float32) -> tuple[Any, Any, Any]:
    sizes = ((queries, 1), (keys, 2), (keys, 3))
    return tuple(_x(*batch, length, width, dtype=dtype, seed=seed) for length, seed in sizes)  # type: ignore[return-value]


def _masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return SDPA(q, k, v, attn_mask=mask if mask.dtype is torch.bool else mask.to(q.dtype))


def _causal(q: Any, k: Any, v: Any) -> Any:
    return SDPA(q, k, v, is_causal=True)


def _grouped(q: Any, k: Any, v: Any) -> Any:
    return SDPA(q, k, v, enable_gqa=True)


def _scaled(q: Any, k: Any, v: Any) -> Any:
    return SDPA(q, k, v, scale=0.3)


BOOLS = _x(2, 1, 20, 33) > 0
BOOLS[0, 0, 3] = False  # a row without any key
FLOATS = torch.where(_x(20, 33) > 1, float("-inf"), _x(20, 33))
FLOATS[5] = float("-inf")
SMALL = {"queries": 20, "keys": 33, "width": 16}
GROUPED = (_x(2, 6, 20, 16), _x(2, 2, 33, 16, seed=1), _x(2, 2, 33, 16, seed=2))


def _permuted(*sizes: int) -> Any:
    return _x(*sizes).transpose(1, 2)


FORMS = {
    "plain": Trial(SDPA, _qkv(2, 3, **SMALL), more=(_qkv(4, 3, **SMALL),)),
    "long": Trial(SDPA, _qkv(1, 1, queries=150, keys=200, width=24)),
    "causal": Trial(_causal, _qkv(2, 1, queries=140, keys=140, width=16)),
    "causal_more_keys": Trial(_causal, _qkv(1, 2, queries=70, keys=100, width=16)),
    "causal_fewer_keys": Trial(_causal, _qkv(1, 2, queries=100, keys=40, width=16)),
    "bools": Trial(_masked, (*_qkv(2, 3, **SMALL), BOOLS)),
    "floats": Trial(_masked, (*_qkv(2, 3, **SMALL), FLOATS)),
    "scaled": Trial(_scaled, _qkv(2, 3, **SMALL)),
    "grouped": Trial(_grouped, GROUPED),
    "one_key_head": Trial(_grouped, (_x(2, 6, 20, 16), _x(2, 1, 33, 16, seed=1), _x(2, 1, 33, 16, seed=2))),
    "three_dimensions": Trial(SDPA, _qkv(3, **SMALL)),
    "odd_width": Trial(SDPA, _qkv(1, 2, queries=17, keys=19, width=37)),
    "other_value_width": Trial(SDPA, (*_qkv(1, 2, **SMALL)[:2], _x(1, 2, 33, 40))),
    "broadcast": Trial(SDPA, (_x(2, 3, 20, 16), _x(2, 1, 33, 16), _x(2, 1, 33, 16, seed=3))),
    "permuted": Trial(SDPA, (_permuted(2, 20, 3, 16), _permuted(2, 33, 3, 16), _permuted(2, 33, 3, 16))),
    "large": Trial(SDPA, tuple(40 * x for x in _qkv(1, 2, **SMALL))),
}
TYPES = {
    "half": Trial(SDPA, _qkv(2, 3, **SMALL, dtype=HALF)),
    "brain": Trial(_causal, _qkv(2, 3, **SMALL, dtype=BRAIN)),
    "double": Trial(_masked, (*_qkv(2, 3, **SMALL, dtype=DOUBLE), FLOATS.double())),
    "two_dimensions": Trial(SDPA, _qkv(**SMALL)),
    "wide": Trial(_causal, _qkv(1, 2, queries=40, keys=40, width=300)),
    "wide_half": Trial(SDPA, _qkv(1, 2, queries=40, keys=50, width=300, dtype=HALF)),
    "wide_two_dimensions": Trial(SDPA, _qkv(queries=40, keys=50, width=300)),
    "one_query": Trial(SDPA, _qkv(2, 3, queries=1, keys=50, width=200)),
}
TRIALS = {
    **{f"{name}_flash": replace(trial, render=_by(Form.FLASH)) for name, trial in FORMS.items()},
    **{f"{name}_split": replace(trial, render=_by(Form.SPLIT_FLASH)) for name, trial in FORMS.items()},
    **{f"{name}_wide": replace(trial, render=_by(Form.WIDE)) for name, trial in FORMS.items()},
    **{f"{name}_split_wide": replace(trial, render=_by(Form.SPLIT_WIDE)) for name, trial in FORMS.items()},
    **{name: replace(trial, render=_by()) for name, trial in TYPES.items()},
}
# Every form of call is tried with the plain kernel, and with the others where they treat it in a way of their own.
MORE = frozenset(
    f"{name}_{form}"
    for form, names in {
        "split": "long causal_more_keys causal_fewer_keys scaled one_key_head three_dimensions broadcast",
        "wide": "long causal_more_keys scaled one_key_head three_dimensions permuted",
        "split_wide": "long causal causal_more_keys bools scaled grouped one_key_head three_dimensions "
        "other_value_width permuted",
    }.items()
    for name in names.split()
)
LIMITS = {HALF: 2e-3, BRAIN: 1.6e-2, DOUBLE: 1e-13}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(wanted(TRIALS, MORE, request), FAMILIES, tmp_path_factory.mktemp("attention"))


@pytest.mark.parametrize("name", marked(TRIALS, MORE))
def test_attention_agrees_with_torch(name: str, results: dict[str, Any]) -> None:
    trial = TRIALS[name]
    for inputs, found in zip((trial.inputs, *trial.more), results[name], strict=True):
        assert isinstance(found, torch.Tensor), found
        widened = [x.double() if x.is_floating_point() else x for x in inputs]
        expected = trial.function(*widened)
        assert found.shape == expected.shape
        assert found.dtype is inputs[0].dtype
        assert torch.isfinite(expected).all()
        assert relative_error(found, expected) < LIMITS.get(found.dtype, 4e-5 if "large" in name else 2e-6)


def test_a_row_without_keys_is_zero(results: dict[str, Any]) -> None:
    for name in ("bools_flash", "bools_split", "bools_wide"):
        assert (results[name][0][0, :, 3] == 0).all()
    for name in ("floats_flash", "floats_split", "floats_split_wide"):
        assert (results[name][0][:, :, 5] == 0).all()


def test_dropout_is_not_accepted() -> None:
    node, _ = node_of(Trial(lambda q, k, v: SDPA(q, k, v, dropout_p=0.5), _qkv(1, 2, **SMALL)), FAMILIES)
    assert not FAMILIES[node.target].accepts(node)


# batch, heads, queries, width -> the form for it. KernelBench's shapes among them; no memory is touched.
@pytest.mark.parametrize(
    ("shape", "dtype", "form"),
    [
        ((32, 32, 512, 1024), torch.float32, Form.SPLIT_WIDE),
        ((2, 4, 16384, 32), torch.float32, Form.SPLIT_FLASH),
        ((2, 8, 197, 64), torch.float32, Form.FLASH),
        ((8, 16, 2048, 128), HALF, Form.FLASH),
        ((8, 16, 2048, 512), BRAIN, Form.WIDE),
    ],
)
def test_the_shape_chooses_the_form(shape: tuple[int, ...], dtype: Any, form: Form) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    graph = torch.fx.Graph()
    nodes = tuple(graph.placeholder(name) for name in "qkv")
    with FakeTensorMode():
        for node in nodes:
            node.meta["val"] = torch.empty(shape, dtype=dtype)
    call = attention_of(graph.call_function(torch.ops.aten.scaled_dot_product_attention.default, nodes))
    assert call is not None
    assert form_for(call, tf32=False) is form


# --- attention written with products and a softmax ------------------------------------------------------------------


def _explicit(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.25, dim=-1) @ v


def _explicit_bools(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.softmax((q @ k.mT / 4).masked_fill(mask, float("-inf")), dim=-1) @ v


def _explicit_floats(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.softmax(mask + (q * 0.25) @ k.mT, dim=-1) @ v


def _explicit_causal(q: Any, k: Any, v: Any) -> Any:
    later = torch.triu(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool), diagonal=1)
    return torch.softmax((q @ k.mT * 0.25).masked_fill(later, float("-inf")), dim=-1) @ v


def _explicit_causal_sum(q: Any, k: Any, v: Any) -> Any:
    later = torch.triu(torch.full((q.shape[-2], k.shape[-2]), float("-inf")), diagonal=1)
    return torch.softmax(q @ k.mT * 0.25 + later, dim=-1) @ v


def _explicit_band(q: Any, k: Any, v: Any) -> Any:
    later = torch.triu(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool), diagonal=2)
    return torch.softmax((q @ k.mT * 0.25).masked_fill(later, float("-inf")), dim=-1) @ v


def _explicit_grouped(q: Any, k: Any, v: Any) -> Any:
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return torch.softmax(q @ k.mT, dim=-1) @ v


def _weights_returned(q: Any, k: Any, v: Any) -> Any:
    weights = torch.softmax(q @ k.mT, dim=-1)
    return weights @ v, weights


def _other_dimension(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.mT, dim=-2) @ v


def _merged(function: Any, inputs: tuple[Any, ...]) -> tuple[int, torch.fx.Graph]:
    program = torch.export.export(_Called(function), inputs, strict=False).run_decompositions(table())
    return merge_attention(program.graph), program.graph


class _Called(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


WRITTEN = {
    "scaled": (_explicit, _qkv(2, 3, **SMALL)),
    "three dimensions": (_explicit, _qkv(3, **SMALL)),
    "grouped": (_explicit_grouped, GROUPED),
    "causal": (_explicit_causal, _qkv(2, 3, **SMALL)),
    "causal sum": (_explicit_causal_sum, _qkv(2, 3, **SMALL)),
    "bools": (_explicit_bools, (*_qkv(2, 3, **SMALL), BOOLS)),
    "floats": (_explicit_floats, (*_qkv(2, 3, **SMALL), FLOATS)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_written_out_attention_becomes_one_operator(name: str) -> None:
    function, inputs = WRITTEN[name]
    count, graph = _merged(function, inputs)
    assert count == 1
    assert ("causal" in name) == any(node.args[5] for node in graph.nodes if node.target is softmax_attention)
    (node,) = [node for node in graph.nodes if node.target is softmax_attention]
    assert FAMILIES[node.target].accepts(node)
    assert [each.name for each in node.args[:3]] == ["inputs_0", "inputs_1", "inputs_2"]
    (found,) = torch.fx.Interpreter(torch.fx.GraphModule(torch.nn.Module(), graph)).run(*inputs)
    torch.testing.assert_close(found, function(*inputs), equal_nan=True)


@pytest.mark.parametrize("function", [_weights_returned, _other_dimension, _explicit_band])
def test_other_forms_stay_as_they_are(function: Any) -> None:
    assert _merged(function, _qkv(2, 3, **SMALL))[0] == 0


WITHOUT_KEYS = (*_qkv(2, 3, **SMALL), ~BOOLS)


@pytest.fixture(scope="module")
def written_out(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By the name of the form: all of them in one child process."""
    folder = tmp_path_factory.mktemp("written")
    _, graph = _merged(_explicit_bools, WITHOUT_KEYS)
    (node,) = [node for node in graph.nodes if node.target is softmax_attention]
    call = attention_of(node)
    assert call is not None
    for form in Form:
        piece = render_attention(call, Site(node, form.name, _Stored(node, call.output), call.output), form)
        (folder / f"{form.name}.py").write_text(source_of(piece))
    torch.save({form.name: [(*WITHOUT_KEYS[:3], BOOLS)] for form in Form}, folder / "jobs.pt")
    return run_folder(folder)


@pytest.mark.parametrize("form", list(Form))
def test_written_out_rows_without_keys_are_nan(form: Form, written_out: dict[str, Any]) -> None:
    found = written_out[form.name][0]
    assert isinstance(found, torch.Tensor), found
    expected = _explicit_bools(*WITHOUT_KEYS)
    assert expected[0, 0, 3].isnan().all()
    torch.testing.assert_close(found, expected, equal_nan=True)
