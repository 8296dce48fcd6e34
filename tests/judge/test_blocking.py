"""Strict policy: after `install`, torch allocates, views and copies, and computes nothing, whatever way it is asked."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

from autotriton.judge import blocking
from autotriton.judge.blocking_names import (
    ALLOCATIONS,
    COPIES,
    HELPERS,
    VIEWS,
    WRAPPERS,
    is_allowed,
    is_compute,
    is_copy,
)
from autotriton.judge.interpreting import Interpreter

pytestmark = pytest.mark.interp
Forked = Callable[..., Any]
Calls = dict[str, Callable[[], Any]]

# --- the table ------------------------------------------------------------------------------------------------------

NOT_VIEWS_FOR_US = {
    "_conj": "a lazy conjugate, computed when it is copied",
    "_neg_view": "a lazy negative, computed when it is copied",
    "_indices _values indices values coalesce": "parts of sparse tensors, which nobody can make",
    "crow_indices col_indices ccol_indices row_indices _sparse_broadcast_to": "the same",
    "_nested_get_values _nested_view_from_buffer _nested_view_from_jagged": "nested tensors, likewise",
    "_make_dual _fw_primal": "forward-mode differentiation",
    "_test_autograd_multiple_dispatch_view": "torch's own tests",
    "tensor_split.tensor_indices_or_sections": "reads its sizes out of a tensor, without limit",
}


def aten() -> list[str]:
    return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]


def is_view(operator: str) -> bool:
    """By its schema: everything it returns aliases an argument, and nothing is written."""
    name, _, overload = operator.partition(".")
    returns = torch._C._get_schema(name, overload).returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def test_every_view_of_torch_is_known_or_refused_for_a_reason() -> None:
    excluded = {name for names in NOT_VIEWS_FOR_US for name in words(names)}
    unknown = {name.removeprefix("aten::") for name in aten() if is_view(name) and is_compute(name)}
    assert unknown <= excluded
    assert not {name for name in excluded if is_allowed(f"aten::{name}")}


def test_names_called_views_are_views() -> None:
    """Apart from views in place, and from splits that hide their aliases from autograd."""
    rest = {n for n in aten() if n.removeprefix("aten::").split(".")[0] in VIEWS and not is_view(n)}
    others = {name.removeprefix("aten::").split(".")[0] for name in rest if not name.endswith("out")}
    assert {name for name in others if not name.endswith("_")} <= {
        *("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"),
    }


def test_parent_and_candidate_agree_on_every_operator() -> None:
    for name in torch._C._dispatch_get_all_op_names():
        assert is_compute(name) is not is_allowed(name)


def test_every_name_in_the_table_is_an_operator() -> None:
    known = {name.removeprefix("aten::") for name in aten()}
    known |= {name.split(".")[0] for name in known}
    assert (ALLOCATIONS | VIEWS | COPIES | WRAPPERS | HELPERS) - known == set()


def test_other_namespaces_are_compute() -> None:
    names = (
        "prims::sum",
        "quantized::linear",
        "mkldnn::_linear_pointwise",
        "inductor::_mm_plus_mm",
        "c10d::allreduce_",
    )
    assert all(is_compute(name) for name in names)
    assert not is_compute("profiler::_record_function_enter")
    assert is_compute("aten::mm.default")
    assert not is_compute("aten::empty.memory_format")


def test_copies_are_told_from_other_free_operators() -> None:
    assert all(is_copy(f"aten::{name}") for name in ("clone", "copy_", "_to_copy", "cat", "slice_scatter"))
    assert not any(is_copy(f"aten::{name}") for name in ("empty", "view", "mm"))


# --- what is refused ------------------------------------------------------------------------------------------------


def install(helpers: frozenset[str] = HELPERS) -> blocking.Blocks:
    return blocking.install(__file__, helpers, gpu=False)


def is_blocked(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, blocking.TorchOpBlocked):
            return True
        error = error.__cause__ or error.__context__
    return False


def leaks(calls: Calls, blocks: blocking.Blocks) -> list[str]:
    """Calls that went through, or failed for another reason, or left no attempt behind."""
    found = []
    for name, call in calls.items():
        blocks.attempts.clear()
        blocks.scalar_reads = 0
        try:
            call()
        except Exception as error:  # noqa: BLE001 - torch may refuse a call in any way
            if is_blocked(error) and blocks.attempts:
                continue
            found.append(f"{name}: {error!r}")
        else:
            found.append(name)
    return found


def words(text: str) -> list[str]:
    return text.split()


def compute_calls() -> Calls:
    """About two hundred ways to have torch compute; tensors and modules are made while that still works."""
    x, y, z = torch.rand(4, 8) + 0.5, torch.rand(4, 8) + 0.5, torch.rand(4, 8)
    m, s = torch.rand(8, 8), torch.eye(8) * 2
    b, image, weight = torch.rand(2, 4, 8), torch.rand(2, 3, 8, 8), torch.rand(5, 3, 3, 3)
    i, mask, labels = torch.tensor([0, 2]), x > 1, torch.tensor([1, 0, 3, 2])
    wide, c = x.double(), torch.rand(4, 8, dtype=torch.complex64)
    quantised, sparse = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), m.to_sparse()
    compressed, nested = m.to_sparse_csr(), torch.nested.nested_tensor([torch.rand(2, 4), torch.rand(3, 4)])
    lstm, gru, rnn, cell = nn.LSTM(8, 6), nn.GRU(8, 6), nn.RNN(8, 6), nn.LSTMCell(8, 6)
    attention, layer = nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2, 16).eval()
    linear, conv, norm = nn.Linear(8, 3), nn.Conv2d(3, 5, 3), nn.BatchNorm2d(3)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(8, 3))
    packed = nn.utils.rnn.pack_sequence([torch.rand(3, 8), torch.rand(2, 8)])
    distribution = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    calls: Calls = {}

    unary = """abs sigmoid tanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square sin cos tan asin acos atan
        sinh cosh asinh erf erfc erfinv floor ceil round trunc frac sign neg reciprocal relu logit isnan isinf isfinite
        digamma lgamma nan_to_num sum mean prod std var amax amin max min argmax argmin all any median mode norm
        unique nonzero count_nonzero fliplr flipud logical_not sort
        argsort msort var_mean std_mean aminmax deg2rad selu celu rad2deg signbit sgn argwhere"""
    for name in words(unary):
        calls[f"torch.{name}"] = lambda name=name: getattr(torch, name)(x)
    binary = """add sub mul div true_divide floor_divide fmod remainder pow maximum minimum fmax fmin atan2 hypot eq ne
        lt gt le ge logical_and logical_or logical_xor copysign heaviside nextafter float_power logaddexp dist cdist
        isclose allclose equal xlogy inner"""
    for name in words(binary):
        calls[f"torch.{name}"] = lambda name=name: getattr(torch, name)(x, y)
    in_place = "add_ sub_ mul_ div_ pow_ clamp_min_ copysign_ lt_ eq_ fmod_ atan2_"
    for name in words(in_place):
        calls[f"in place {name}"] = lambda name=name: getattr(x.clone(), name)(1.5 if "2" not in name else y)
    for name in words("relu_ sigmoid_ tanh_ exp_ neg_ abs_ sqrt_ floor_ clamp_ normal_ uniform_ exponential_ random_"):
        args = (0.0, 1.0) if name == "clamp_" else ()
        calls[f"in place {name}"] = lambda name=name, args=args: getattr(x.clone(), name)(*args)
    functional = """relu relu6 elu gelu silu mish hardtanh hardswish hardsigmoid leaky_relu logsigmoid softplus softsign
        tanhshrink softshrink normalize"""
    for name in words(functional):
        calls[f"F.{name}"] = lambda name=name: getattr(F, name)(x)
    for name in words("mse_loss l1_loss smooth_l1_loss huber_loss kl_div cosine_similarity pairwise_distance"):
        calls[f"F.{name}"] = lambda name=name: getattr(F, name)(x, y)
    for name in words("erf erfcx i0 i1 ndtr ndtri bessel_j0 bessel_y1 gammaln psi entr sinc log_ndtr expit"):
        calls[f"torch.special.{name}"] = lambda name=name: getattr(torch.special, name)(x)
    for name in words("svd qr eigh eigvals inv det cholesky matrix_norm matrix_rank pinv slogdet lu_factor cond"):
        calls[f"torch.linalg.{name}"] = lambda name=name: getattr(torch.linalg, name)(s)
    for name in words("fft rfft fft2 fftn ifft hfft fftshift ihfft rfft2"):
        calls[f"torch.fft.{name}"] = lambda name=name: getattr(torch.fft, name)(x)
    for name in words("add exp sqrt mul addcmul norm maximum lerp copy_ neg clamp_min"):
        args = {
            "addcmul": ([y], [z]),
            "lerp": ([y], 0.5),
            "exp": (),
            "sqrt": (),
            "norm": (),
            "neg": (),
            "copy_": ([y],),
        }
        more = args.get(name, (2.0,) if name != "maximum" else ([y],))
        calls[f"_foreach_{name}"] = lambda name=name, more=more: getattr(torch, f"_foreach_{name}")([x], *more)
    for name in words("rand randn rand_like randn_like randint randperm bernoulli multinomial normal"):
        shape: Any = {
            "rand_like": (x,),
            "randn_like": (x,),
            "randint": (0, 9, (3,)),
            "randperm": (9,),
            "bernoulli": (z,),
        }
        given = shape.get(name, (z, 2) if name == "multinomial" else (0.0, 1.0, (3,)) if name == "normal" else (3, 4))
        calls[f"random {name}"] = lambda name=name, given=given: getattr(torch, name)(*given)

    calls |= {
        "@": lambda: x @ m,
        "mm": lambda: torch.mm(x, m),
        "bmm": lambda: torch.bmm(b, b.mT),
        "addmm": lambda: torch.addmm(x, x, m),
        "baddbmm": lambda: torch.baddbmm(b.new_zeros(2, 4, 4), b, b.mT),
        "matmul": lambda: torch.matmul(b, m),
        "mv dot outer": lambda: (torch.mv(m, x[0]), torch.dot(x[0], x[1]), torch.outer(x[0], x[1])),
        "einsum": lambda: torch.einsum("ij,jk->ik", x, m),
        "tensordot": lambda: torch.tensordot(x, m, 1),
        "chain and multi_dot": lambda: torch.linalg.multi_dot([x, m, m]),
        "kron": lambda: torch.kron(x, y),
        "linear": lambda: F.linear(x, m),
        "bilinear": lambda: F.bilinear(x, y, torch.zeros(2, 8, 8)),
        "conv1d": lambda: F.conv1d(b, torch.zeros(3, 4, 3)),
        "conv2d": lambda: F.conv2d(image, weight),
        "conv3d": lambda: F.conv3d(image[None], torch.zeros(5, 2, 3, 3, 3)),
        "conv_transpose2d": lambda: F.conv_transpose2d(image, torch.zeros(3, 5, 3, 3)),
        "unfold and fold": lambda: F.unfold(image, 3),
        "max_pool2d": lambda: F.max_pool2d(image, 2),
        "avg_pool2d": lambda: F.avg_pool2d(image, 2),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(image, 1),
        "interpolate": lambda: F.interpolate(image, scale_factor=2),
        "grid_sample": lambda: F.grid_sample(image, torch.zeros(2, 4, 4, 2), align_corners=False),
        "pixel_shuffle": lambda: F.pixel_shuffle(torch.zeros(1, 4, 2, 2), 2),
        "reflection pad": lambda: F.pad(image, (1, 1, 1, 1), mode="reflect"),
        "layer_norm": lambda: F.layer_norm(x, (8,)),
        "rms_norm": lambda: F.rms_norm(x, (8,)),
        "group_norm": lambda: F.group_norm(image, 3),
        "instance_norm": lambda: F.instance_norm(image),
        "batch_norm": lambda: F.batch_norm(image, torch.zeros(3), torch.ones(3)),
        "local_response_norm": lambda: F.local_response_norm(image, 2),
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: F.log_softmax(x, -1),
        "softmin and gumbel": lambda: F.softmin(x, -1),
        "logsumexp": lambda: torch.logsumexp(x, 0),
        "glu": lambda: F.glu(x),
        "dropout": lambda: F.dropout(x, 0.5, training=True),
        "attention": lambda: F.scaled_dot_product_attention(image, image, image),
        "cross_entropy": lambda: F.cross_entropy(x, labels),
        "nll_loss": lambda: F.nll_loss(x, labels),
        "binary_cross_entropy": lambda: F.binary_cross_entropy(z, z),
        "ctc_loss": lambda: F.ctc_loss(torch.zeros(5, 2, 4), i[None].expand(2, 2), [5, 5], [2, 2]),
        "embedding": lambda: F.embedding(i, m),
        "embedding_bag": lambda: F.embedding_bag(i[None], m),
        "one_hot": lambda: F.one_hot(labels),
        "index": lambda: x[i],
        "index by mask": lambda: x[mask],
        "index_select": lambda: x.index_select(0, i),
        "gather": lambda: x.gather(0, i[None]),
        "take": lambda: x.take(i),
        "take_along_dim": lambda: torch.take_along_dim(x, i[None], 0),
        "scatter": lambda: x.scatter(0, i[None], 0.0),
        "scatter_add": lambda: x.scatter_add(0, i[None], y),
        "index_add": lambda: x.index_add(0, i, y[:2]),
        "index_copy": lambda: x.index_copy(0, i, y[:2]),
        "index_fill": lambda: x.index_fill(0, i, 1.0),
        "index_put_": lambda: x.clone().index_put_((i,), y[:2], accumulate=True),
        "setitem by mask": lambda: x.clone().__setitem__(mask, 0.0),
        "setitem by index": lambda: x.clone().__setitem__(i, y[:2]),
        "masked_fill": lambda: x.masked_fill(mask, 0.0),
        "masked_select": lambda: x.masked_select(mask),
        "masked_scatter": lambda: x.masked_scatter(mask, y),
        "where": lambda: torch.where(mask, x, y),
        "where by scalar": lambda: torch.where(mask, x, 0.0),
        "tril and triu": lambda: torch.triu(m),
        "flip": lambda: x.flip(0),
        "roll": lambda: x.roll(1),
        "rot90": lambda: torch.rot90(x),
        "repeat": lambda: x.repeat(2, 1),
        "tile": lambda: x.tile(2),
        "diag": lambda: torch.diag(x[0]),
        "diag_embed": lambda: torch.diag_embed(x),
        "topk": lambda: x.topk(2),
        "kthvalue": lambda: x.kthvalue(2),
        "searchsorted": lambda: torch.searchsorted(x[0], y[0]),
        "bucketize": lambda: torch.bucketize(x, y[0]),
        "histc": lambda: torch.histc(x),
        "bincount": lambda: torch.bincount(labels),
        "cumsum": lambda: x.cumsum(0),
        "cumprod": lambda: x.cumprod(0),
        "cummax": lambda: x.cummax(0),
        "diff": lambda: x.diff(),
        "clamp": lambda: x.clamp(0, 1),
        "lerp": lambda: torch.lerp(x, y, 0.5),
        "addcmul": lambda: torch.addcmul(x, y, z),
        "linspace": lambda: torch.linspace(0, 1, 5),
        "eye": lambda: torch.eye(4),
        "logspace": lambda: torch.logspace(0, 1, 5),
        "stft": lambda: torch.stft(x[0], 4, return_complex=True),
        "conj": lambda: c.conj().clone(),
        "conj by view": lambda: torch.view_as_complex(b.reshape(2, 4, 4, 2).contiguous()).conj().imag.clone(),
        "neg view": lambda: torch._neg_view(x).clone(),
        "angle": lambda: c.angle(),
        "complex abs": lambda: c.abs(),
        "complex": lambda: torch.complex(x, y),
        "polar": lambda: torch.polar(x, y),
        "python operators": lambda: -x,
        "augmented": lambda: exec("t += 1", {"t": x.clone()}),
        "reflected": lambda: 1.0 / x,
        "comparison": lambda: x > 0,
        "builtin sum": lambda: sum(x.unbind()),
        "builtin abs": lambda: abs(x),
        "builtin max": lambda: max(x[0].unbind()),
        "out=": lambda: torch.add(x, y, out=torch.empty(4, 8)),
        "out= of mm": lambda: torch.mm(x, m, out=torch.empty(4, 8)),
        "in place on a view": lambda: x.clone().view(-1)[3:9].mul_(2),
        "in place on a transposed view": lambda: x.clone().t().add_(1),
        "method": lambda: torch.Tensor.sum(x),
        "torch.ops": lambda: torch.ops.aten.mm(x, m),
        "torch.ops overload": lambda: torch.ops.aten.add.Tensor(x, y),
        "torch.ops.prims": lambda: torch.ops.prims.add(x, y),
        "torch._VF": lambda: torch._VF.norm(x),
        "torch._refs": lambda: torch._refs.softmax(x, -1),
        "torch._C._nn": lambda: torch._C._nn.gelu(x),
        "vmap": lambda: torch.vmap(lambda t: t * 2)(x),
        "quantize": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        "fake quantize": lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255),
        "dequantize": lambda: quantised.dequantize(),
        "quantized add": lambda: torch.ops.quantized.add(quantised, quantised, 0.1, 0),
        "int8 mm": lambda: torch._int_mm(torch.zeros(32, 32).char(), torch.zeros(32, 32).char()),
        "sparse constructor": lambda: torch.sparse_coo_tensor(i[None], y[0, :2], (8,)).to_dense(),
        "to_sparse": lambda: x.to_sparse(),
        "sparse mm": lambda: torch.sparse.mm(sparse, m),
        "sparse to_dense": lambda: sparse.to_dense(),
        "sparse csr mm": lambda: compressed @ m,
        "coalesce": lambda: sparse.clone().coalesce() * 2,
        "nested constructor": lambda: torch.nested.nested_tensor([x[0], x[1]]),
        "nested matmul": lambda: torch.matmul(nested, nested.transpose(1, 2)),
        "nested to padded": lambda: torch.nested.to_padded_tensor(nested, 0.0),
        "to_mkldnn": lambda: x.to_mkldnn(),
        "lstm": lambda: lstm(b),
        "gru": lambda: gru(b),
        "rnn": lambda: rnn(b),
        "lstm cell": lambda: cell(x),
        "lstm on a packed sequence": lambda: lstm(packed),
        "pack_padded_sequence": lambda: nn.utils.rnn.pack_padded_sequence(b, torch.tensor([4, 4])),
        "pad_sequence": lambda: nn.utils.rnn.pad_sequence([x[0], x[1, :4]]),
        "multihead attention": lambda: attention(b, b, b),
        "transformer layer": lambda: layer(b),
        "linear module": lambda: linear(x),
        "conv module": lambda: conv(image),
        "norm module": lambda: norm(image),
        "weight norm": lambda: normed(x),
        "parameters_to_vector and norm": lambda: nn.utils.clip_grad_norm_(linear.parameters(), 1.0) or x.norm(),
        "distribution": lambda: distribution.log_prob(x[0, :3]),
        "sobol engine": lambda: torch.quasirandom.SobolEngine(2).draw(4),
        "sobol state": lambda: torch._sobol_engine_ff_(torch.zeros(2).long(), 1, torch.zeros(2, 30).long(), 2, 0),
        "rowwise prune": lambda: torch._rowwise_prune(x, mask[:, 0], torch.int32),
        "saturate": lambda: torch._saturate_weight_to_fp16(x),
        "window": lambda: torch.hann_window(8),
        "autocast matmul": lambda: _autocast(x, m),
        "backward": lambda: _backward(x),
        "gradient accumulation": lambda: _accumulated(x),
        "checkpoint": lambda: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=False),
        "print": lambda: str(x),
        "fp64 sum": lambda: wide.sum(),
        "int add": lambda: i + 1,
        "bool and": lambda: mask & mask,
        "half mul": lambda: x.half() * 2,
        "bf16 mul": lambda: x.bfloat16() * 2,
        "shift": lambda: i << 1,
        "resize_": lambda: torch.empty(0).resize_(4),
    }
    return calls


def _autocast(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"):
        return F.linear(x, m)


def _backward(x: torch.Tensor) -> None:
    leaf = x.clone().requires_grad_()
    leaf.expand(3, 4, 8).backward(torch.ones(3, 4, 8))  # the gradient of an expansion is a sum


def _accumulated(x: torch.Tensor) -> None:
    leaf = x.clone().requires_grad_()
    torch.autograd.backward([leaf.view(-1), leaf.t()], [torch.ones(32), torch.ones(8, 4)])  # a gradient of two adds


def all_leaks() -> list[Any]:
    calls = compute_calls()
    blocks = install()
    return [len(calls), leaks(calls, blocks)]


def test_nothing_is_computed_whatever_way_torch_is_asked(forked: Forked) -> None:
    count, found = forked(all_leaks)
    assert found == []
    assert count > 330


def unblocked() -> list[str]:
    """Compute operators that still have a kernel of torch's own behind a key of this machine."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    mine = {name for name in torch._C._dispatch_get_all_op_names() if not is_allowed(name)}
    composite = {name for name in mine if has(name, "CompositeImplicitAutograd") and blocking._makes_tensors(name)}
    expected = {name for name in mine if has(name, "CPU") or has(name, "CompositeExplicitAutograd")} | composite
    install()
    table = {name: torch._C._dispatch_dump_table(name) for name in expected}
    return [name for name, text in table.items() if f"\nCPU: registered at {blocking.__file__}:" not in f"\n{text}"]


def test_every_compute_operator_is_overridden(forked: Forked) -> None:
    assert forked(unblocked) == []


def elsewhere() -> list[Any]:
    x = torch.ones(4)
    blocks = install()
    outcome: list[str] = []

    def work() -> None:
        try:
            outcome.append(str(x + 1))
        except blocking.TorchOpBlocked:
            outcome.append("blocked")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> torch.Tensor:
            return t * 2

    try:
        Twice.apply(x)
    except blocking.TorchOpBlocked as error:
        outcome.append(str(error))
    return [outcome, blocks.attempts]


def test_other_threads_and_autograd_functions_are_covered_and_lines_are_named(forked: Forked) -> None:
    (thread, function), attempts = forked(elsewhere)
    assert thread == "blocked"
    assert "aten::mul.Tensor is torch's work" in function
    with open(__file__, encoding="utf-8") as source:
        lines = source.readlines()
    (first, line), (second, other) = attempts
    assert first == "aten::add.Tensor"
    assert "x + 1" in lines[line - 1]
    assert second == "aten::mul.Tensor"
    assert "t * 2" in lines[other - 1]


# --- what is allowed ------------------------------------------------------------------------------------------------


def allowed_calls() -> Calls:
    x, c, i = torch.arange(32.0).reshape(4, 8), torch.zeros(2, 2, dtype=torch.complex64), torch.tensor(2)
    holder, flatten, still = nn.Parameter(torch.ones(3)), nn.Flatten(), nn.Dropout(0.5).eval()
    return {
        "empty": lambda: (torch.empty(3, 4), torch.empty_like(x), x.new_empty(2), torch.empty_strided((2,), (1,))),
        "zeros": lambda: (
            torch.zeros(3),
            torch.zeros_like(x),
            torch.ones(2),
            torch.full((2,), 7.0),
            x.new_full((2,), 1),
        ),
        "arange": lambda: torch.arange(0, 8, 2),
        "tensor": lambda: torch.tensor([1.0, 2.0]),
        "fill_": lambda: (torch.empty(3).zero_(), torch.empty(3).fill_(2.0)),
        "view": lambda: (x.view(-1), x.view(2, 16), x.reshape(8, 4), x.flatten(), x.unflatten(1, (2, 4)), x.ravel()),
        "permute": lambda: (x.permute(1, 0), x.t(), x.T, x.mT, x.transpose(0, 1), x.movedim(0, 1), x.swapaxes(0, 1)),
        "slices": lambda: (x[1], x[:, 2:4], x[..., None], x[::2], x.narrow(0, 1, 2), x.select(0, 1), x[i]),
        "splits": lambda: (x.split(2), x.chunk(2), x.unbind(), torch.tensor_split(x, 2), x.unfold(1, 2, 2)),
        "expand": lambda: (x[:, None].expand(4, 3, 8), x.expand_as(x), torch.broadcast_to(x, (2, 4, 8))),
        "squeeze": lambda: (x.unsqueeze(0).squeeze(0), x.clone().unsqueeze_(0), x.as_strided((2, 2), (1, 1))),
        "diagonal": lambda: x.diagonal(),
        "complex views": lambda: (torch.view_as_real(c), c.real, c.imag, torch.view_as_complex(torch.zeros(2, 2))),
        "bits": lambda: x.view(torch.int32),
        "contiguous": lambda: (x.t().contiguous(), x.contiguous(memory_format=torch.contiguous_format), x.clone()),
        "casts": lambda: (x.to(torch.float16), x.half(), x.bfloat16(), x.double(), x.int(), x.type_as(c.real), x.cpu()),
        "copy_": lambda: (torch.empty(4, 8).copy_(x), torch.empty(8, 4, dtype=torch.float64).copy_(x.t())),
        "setitem": lambda: (torch.empty(4, 8).__setitem__(slice(1, 3), x[:2]), torch.empty(4).__setitem__(0, 1.0)),
        "scatters of views": lambda: torch.slice_scatter(x, x[:2], 0, 0, 2),
        "cat": lambda: (torch.cat([x, x]), torch.stack([x, x]), torch.hstack([x, x]), torch.concat([x, x])),
        "pad": lambda: F.pad(x, (0, 8)),
        "meshgrid": lambda: torch.meshgrid(x[0], x[1], indexing="ij"),
        "repeat_interleave": lambda: x.repeat_interleave(2, dim=0),
        "queries": lambda: (x.shape, x.stride(), x.numel(), x.is_contiguous(), x.dtype, x.device, len(x), x.data_ptr()),
        "types": lambda: (torch.result_type(x, 1), torch.promote_types(x.dtype, c.dtype), torch.finfo(x.dtype).eps),
        "parameters": lambda: (holder.data, holder.detach(), holder.requires_grad_(False)),
        "layout modules": lambda: (flatten(x), still(x), nn.Identity()(x)),
    }


def refused() -> list[str]:
    calls = allowed_calls()
    blocks = install()
    found = []
    for name, call in calls.items():
        try:
            call()
        except Exception as error:  # noqa: BLE001 - torch may refuse a call in any way
            found.append(f"{name}: {error!r}")
    assert not blocks.attempts, blocks.attempts
    return found


def test_allocations_views_copies_and_casts_work(forked: Forked) -> None:
    assert forked(refused) == []


def contents() -> list[Any]:
    x = torch.arange(6.0).reshape(2, 3)
    blocks = install()
    blocks.scalar_reads = -1000
    got = [x.t().contiguous(), x.to(torch.int32), torch.cat([x, x]), torch.full((2,), 3.0), x.clone()[1]]
    got += [F.pad(x, (1, 0)), torch.arange(3), torch.arange(1, 8, 3), torch.arange(0, 1, 0.25), torch.arange(3, 0, -1)]
    assert [tensor.dtype for tensor in got[-4:]] == [torch.int64, torch.int64, torch.float32, torch.int64]
    assert torch.arange(2, dtype=torch.float16).dtype is torch.float16
    assert torch.arange(3, 3).shape == (0,)
    return [[value.item() for value in tensor.flatten()] for tensor in got]


def test_what_is_allowed_still_gives_the_right_values(forked: Forked) -> None:
    transposed, integers, doubled, full, row, padded, *ranges = forked(contents)
    assert ranges == [[0, 1, 2], [1, 4, 7], [0, 0.25, 0.5, 0.75], [3, 2, 1]]
    assert transposed == [0, 3, 1, 4, 2, 5]
    assert integers == [0, 1, 2, 3, 4, 5]
    assert doubled[6:9] == [0, 1, 2]
    assert full == [3, 3]
    assert row == [3, 4, 5]
    assert padded == [0, 0, 1, 2, 0, 3, 4, 5]


def without_helpers() -> list[str]:
    x = torch.ones(2, 2)
    blocks = install(frozenset({"constant_pad_nd"}))
    F.pad(x, (1, 1))
    calls: Calls = {"cat": lambda: torch.cat([x, x]), "stack": lambda: torch.stack([x, x])}
    calls |= {"vstack": lambda: torch.vstack([x, x]), "concat": lambda: torch.concat([x, x])}
    return leaks(calls, blocks)


def test_a_helper_the_reference_uses_itself_is_refused(forked: Forked) -> None:
    assert forked(without_helpers) == []


# --- values leaving and entering torch ------------------------------------------------------------------------------


def scalars() -> list[Any]:
    values = [torch.tensor(value) for value in (1.5, True, 7, 2 - 3j)]
    values += [torch.tensor(-2.5, dtype=dtype) for dtype in (torch.float16, torch.bfloat16, torch.float64)]
    values += [torch.tensor(200, dtype=dtype) for dtype in (torch.uint8, torch.int16, torch.uint16)]
    many = torch.zeros(40)
    blocks = install()
    got = [value.item() for value in values]
    assert [float(values[0]), int(values[2]), bool(values[1])] == [1.5, 7, True]
    blocks.scalar_reads = 0
    read = 0
    try:
        for value in many:
            read += value.item() == 0
    except blocking.TorchOpBlocked:
        pass
    return [[str(value) for value in got], read, blocks.attempts[0][0]]


def test_a_few_scalars_may_be_read_and_no_more(forked: Forked) -> None:
    got, read, attempt = forked(scalars)
    assert got == ["1.5", "True", "7", "(2-3j)", "-2.5", "-2.5", "-2.5", "200", "200", "200"]
    assert read == 32
    assert "too many values" in attempt


def exits() -> list[str]:
    import numpy as np

    x, array, indices = torch.ones(3), np.ones(3), torch.tensor([1, 2])
    blocks = install()
    calls: Calls = {
        "numpy": lambda: x.numpy(),
        "__array__": lambda: np.asarray(x),
        "ufunc": lambda: np.exp(x),
        "tolist": lambda: x.tolist(),
        "dlpack": lambda: np.from_dlpack(x),
        "torch.utils.dlpack": lambda: torch.utils.dlpack.to_dlpack(x),
        "from_dlpack": lambda: torch.from_dlpack(array),
        "from_numpy": lambda: torch.from_numpy(array),
        "frombuffer": lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
        "storage": lambda: x.storage(),
        "untyped_storage": lambda: x.untyped_storage(),
        "set_": lambda: torch.empty(0).set_(x),
        "apply_": lambda: x.apply_(lambda value: value + 1),
        "map_": lambda: x.map_(x, lambda one, two: one + two),
        "deepcopy": lambda: copy.deepcopy(x),
        "pickle": lambda: x.__reduce_ex__(2),
        "cuda interface": lambda: x.__cuda_array_interface__,
        "sizes that are values": lambda: torch.tensor_split(torch.zeros(9), indices),
        "equal": lambda: torch.equal(x, x),
        "many items": lambda: [float(value) for value in torch.zeros(99)],
        "list of items": lambda: torch.tensor([value for row in torch.zeros(9, 9) for value in row]),
    }
    return leaks(calls, blocks)


def test_tensor_content_leaves_and_enters_by_no_side_door(forked: Forked) -> None:
    assert forked(exits) == []


# --- honest kernels -------------------------------------------------------------------------------------------------


@triton.jit
def scale(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(y_ptr + index, tl.load(x_ptr + index, mask=mask) * factor, mask=mask)


def honest() -> list[float]:
    x = torch.arange(20.0).reshape(4, 5).t()
    witness = Interpreter(__file__)
    blocks = install()
    given = x.contiguous()
    y = torch.empty_like(given)
    scale[(triton.cdiv(20, 8),)](given, y, given.numel(), 2.0, BLOCK=8)
    assert not blocks.attempts
    assert next(iter(witness.launches.values()))["attrs"]["x_ptr"] == "DS"
    return [y.view(-1)[index].item() for index in range(20)]


def test_an_honest_kernel_runs_under_the_blocks(forked: Forked) -> None:
    right = (torch.arange(20.0).reshape(4, 5).t() * 2).flatten().tolist()
    assert forked(honest) == right
