"""Operator families by canonical aten name, and how hard a task is. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from autotriton.data.records import Difficulty
from autotriton.data.signature import Node
from autotriton.judge.blocking_names import is_compute

_FAMILIES: dict[str, str] = {
    "convolution": "convolution col2im im2col",
    "matmul": """mm bmm mv dot vdot addmm addmv baddbmm addbmm addr _cdist_forward _trilinear linear
        _euclidean_dist outer kron""",
    "attention": "sdpa _native_multi_head_attention _transformer_encoder_layer_fwd",
    "recurrent": """lstm gru rnn_tanh rnn_relu _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell
        quantized_lstm""",
    "norm": """native_layer_norm batch_norm native_group_norm _fused_rms_norm instance_norm renorm
        _weight_norm_interface""",
    "softmax": "_softmax _log_softmax softmax log_softmax logsumexp",
    "loss": """nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss binary_cross_entropy
        multi_margin_loss multilabel_margin_loss_forward soft_margin_loss _ctc_loss kl_div""",
    "pooling": """max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d adaptive_avg_pool2d
        adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d max_pool2d mkldnn_max_pool2d
        fractional_max_pool2d avg_pool1d adaptive_avg_pool1d max_pool1d""",
    "resampling": """upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
        upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact2d _upsample_bilinear2d_aa
        grid_sampler_2d grid_sampler_3d pixel_shuffle pixel_unshuffle channel_shuffle
        native_channel_shuffle""",
    "scan": "cumsum cumprod _cummax_helper _cummin_helper cummax cummin _logcumsumexp logcumsumexp",
    "reduction": """sum mean amax amin max min prod var std var_mean std_mean norm linalg_vector_norm any all argmax
        argmin count_nonzero nansum nanmean aminmax trace dist std_mean median nanmedian mode bincount
        histc _linalg_det linalg_matrix_norm""",
    "sorting": "sort topk kthvalue argsort msort unique_dim _unique2 searchsorted bucketize",
    "indexing": """index index_select gather embedding _embedding_bag _embedding_bag_forward_only scatter scatter_add
        scatter_reduce index_add index_copy index_fill index_put _index_put_impl take masked_select
        masked_scatter nonzero index_reduce embedding_renorm one_hot put""",
    "view": """cat stack constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d roll flip repeat repeat_interleave tril triu diag_embed rot90
        tile unfold_copy tril_indices triu_indices block_diag""",
}
_OF: dict[str, str] = {name: family for family, names in _FAMILIES.items() for name in names.split()}
FAMILIES = (
    "attention",
    "recurrent",
    "convolution",
    "matmul",
    "loss",
    "norm",
    "softmax",
    "scan",
    "sorting",
    "pooling",
    "resampling",
    "indexing",
    "reduction",
    "view",
    "pointwise",
)
"""All of them. The one that says most about a task comes first: what leads, what is only fused behind it."""
_RARE = frozenset(("scan", "sorting", "indexing", "recurrent", "attention", "resampling"))


def family_of(name: str) -> str:
    """The family of a canonical operator name; everything unknown is element-wise or close to it."""
    return _OF.get(name, "pointwise")


@dataclass(frozen=True)
class Profile:
    """What a graph is made of."""

    ops: tuple[str, ...]
    families: tuple[str, ...]
    depth: int
    calls: int
    difficulty: Difficulty


def profile(nodes: list[Node], hints: tuple[str, ...] = ()) -> Profile:
    """`hints` are families the source knows of and a trace cannot show (a recurrence that was unrolled)."""
    compute = [is_compute(node.name) or family_of(node.name) == "view" for node in nodes]
    compute = [flag and node.name != "leaf" for flag, node in zip(compute, nodes, strict=True)]
    ops = sorted({node.name for node, counts in zip(nodes, compute, strict=True) if counts})
    found = {family_of(node.name) for node, counts in zip(nodes, compute, strict=True) if counts}
    found |= {hint for hint in (*(("attention",) if _attends(nodes) else ()), *hints) if hint in FAMILIES}
    families = sorted(found, key=FAMILIES.index)
    depth, calls = _depth(nodes, compute), sum(compute)
    return Profile(tuple(ops), tuple(families), depth, calls, _difficulty(ops, families, depth, calls))


def _depth(nodes: list[Node], compute: list[bool]) -> int:
    depths: list[int] = []
    for node, counts in zip(nodes, compute, strict=True):
        depths.append(max((depths[source] for source, _ in node.operands), default=0) + counts)
    return max(depths, default=0)


def _attends(nodes: list[Node]) -> bool:
    """A softmax of a product that goes into a product."""
    kinds: list[int] = []  # 0: nothing, 1: after a product, 2: after a softmax of one
    for node in nodes:
        before = max((kinds[source] for source, _ in node.operands), default=0)
        if node.name in ("bmm", "mm", "baddbmm"):
            if before == 2:
                return True
            kinds.append(1)
        else:
            kinds.append(2 if node.name == "_softmax" and before == 1 else before)
    return False


def _difficulty(ops: list[str], families: list[str], depth: int, calls: int) -> Difficulty:
    """By depth, by how many families meet, and by rare ones; a model's own solve rate says more where there is one."""
    heavy = sum(family in ("convolution", "matmul", "attention", "recurrent") for family in families)
    score = min(depth, 12) + 1.5 * max(len(families) - 1, 0) + 1.5 * sum(family in _RARE for family in families) + heavy
    score += 1.0 if calls > 12 else 0.0
    if score < 4.0:
        return Difficulty.EASY
    return Difficulty.MEDIUM if score < 9.0 else Difficulty.HARD
