"""Which operators count as compute, by name alone: for the parent, which has no torch to ask for schemas."""

from __future__ import annotations

COPY_NAMES = frozenset("clone copy_ copy _to_copy cat stack constant_pad_nd".split())
_FREE = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like "
    "new_ones full full_like new_full zero_ zero fill_ fill arange scalar_tensor lift lift_fresh lift_fresh_copy "
    "_local_scalar_dense detach detach_ set_data requires_grad_ alias view _unsafe_view _reshape_alias reshape view_as "
    "as_strided expand expand_as permute transpose t mT squeeze unsqueeze select slice narrow split split_with_sizes chunk "
    "unbind unfold diagonal movedim swapaxes unflatten flatten view_as_real view_as_complex real imag numel size stride "
    "sym_size sym_stride sym_numel sym_storage_offset is_pinned _pin_memory contiguous set_ resize_".split()
)


def base(operator: str) -> str:
    """`aten::mm.default` and `aten::mm` are both `mm`."""
    return operator.rpartition("::")[2].split(".")[0]


def is_copy(operator: str) -> bool:
    return base(operator) in COPY_NAMES


def is_compute(operator: str) -> bool:
    """Neither an allocation, a view, a copy nor a cast."""
    return base(operator) not in _FREE and not is_copy(operator)
