"""Which operators count as compute, by name alone: for the parent, which has no torch to ask, and for the blocks.

One table for both, so that what is refused and what is reported are the same. What must stay true: everything not named
here is compute, and every other namespace than aten is.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOCATIONS = _words(
    """empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones
    ones_like new_ones full full_like new_full zero_ zero fill_ fill arange scalar_tensor lift
    lift_fresh lift_fresh_copy"""
)
VIEWS = _words(
    """alias as_strided broadcast_to expand expand_as permute transpose t mT mH matrix_H adjoint numpy_T squeeze
    unsqueeze squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ select slice slice_inverse narrow split
    split_with_sizes chunk unsafe_split unsafe_split_with_sizes unsafe_chunk hsplit vsplit dsplit tensor_split
    unbind unfold diagonal linalg_diagonal movedim moveaxis swapaxes swapdims unflatten flatten ravel reshape
    reshape_as view view_as view_as_real view_as_complex real imag positive conj resolve_conj resolve_neg
    detach _reshape_alias _unsafe_view"""
)
COPIES = _words(
    """clone copy_ copy _to_copy _copy_from _copy_from_and_resize _pin_memory pin_memory contiguous to _reshape_copy
    _autocast_to_full_precision _autocast_to_reduced_precision alias_copy as_strided_copy detach_copy diagonal_copy
    expand_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unfold_copy unsqueeze_copy view_copy view_as_real_copy view_as_complex_copy _reshape_alias_copy
    as_strided_scatter diagonal_scatter select_scatter slice_scatter"""
)
"""Layout copies and casts."""
BOOKKEEPING = _words(
    """_local_scalar_dense detach_ set_data data requires_grad_ retain_grad is_leaf output_nr _version is_same_size
    is_set_to is_pinned size stride numel sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous
    _has_compatible_shallow_copy_type _assert_async _assert_tensor_metadata"""
)
WRAPPERS = _words(
    """atleast_1d atleast_2d atleast_3d broadcast_tensors meshgrid concat concatenate hstack vstack dstack row_stack
    column_stack pad _pad_enum type_as chalf conj_physical item is_nonzero repeat_interleave.self_int dropout dropout_
    alpha_dropout alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout feature_alpha_dropout_"""
)
"""Nothing by themselves: they call other operators, each of which is judged (dropout in eval mode calls none)."""
HELPERS = _words("cat stack constant_pad_nd")
"""Data movement a candidate may leave to torch unless the reference itself does it."""

_READS_VALUES = _words("tensor_split.tensor_indices_or_sections")
"""Views whose shapes are read out of a tensor, without limit."""
_FREE = ALLOCATIONS | VIEWS | COPIES | BOOKKEEPING | WRAPPERS
_OTHER_NAMESPACES = _words("prim profiler triton")
_COPIED = (COPIES | HELPERS) - _words("contiguous to")


def base(operator: str) -> str:
    """`aten::mm.default` and `aten::mm` are both `mm`."""
    return operator.rpartition("::")[2].split(".")[0]


def is_copy(operator: str) -> bool:
    return base(operator) in _COPIED


def is_compute(operator: str) -> bool:
    """Neither an allocation, a view, a copy nor a cast."""
    return not is_allowed(operator, HELPERS)


def is_allowed(operator: str, helpers: frozenset[str] = HELPERS) -> bool:
    """Whether `ns::name[.overload]` is an allocation, view, copy or cast, or one of these helpers."""
    namespace, _, name = operator.rpartition("::")
    if namespace not in ("", "aten"):
        return namespace in _OTHER_NAMESPACES
    if name in _READS_VALUES:
        return False
    return bool({name, base(name)} & (_FREE | helpers))
