"""Products: linear, mm, bmm, matmul of all ranks, addmm, baddbmm, and einsum of two tensors.

`matmul_contraction.py` brings them to one form, `matmul_settings.py` chooses among the kernels, each in a file of its
own: tiles (with K split where the output is small), operands split into fp16 parts (large fp32), a large matrix times a
small one, matrix times vector.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.fx

from autotriton.propose.compiler.templates.matmul_contraction import Contraction, Unwritable, contraction_of
from autotriton.propose.compiler.templates.matmul_presplit import presplit_text
from autotriton.propose.compiler.templates.matmul_settings import Path, path_for, settings_for, summed_later
from autotriton.propose.compiler.templates.matmul_stream import stream_text
from autotriton.propose.compiler.templates.matmul_text import own_operands, with_free_names
from autotriton.propose.compiler.templates.matmul_tiled import split_k_text, tiled_text
from autotriton.propose.compiler.templates.matmul_vector import vector_split_text, vector_text
from autotriton.propose.compiler.templates.piece import Family, Piece, Site
from autotriton.propose.compiler.templates.split import PARTS, ROWS

_TEXT: dict[Path, Callable[[Contraction, Site], str]] = {
    Path.VECTOR: vector_text,
    Path.VECTOR_SPLIT: vector_split_text,
    Path.TILED: tiled_text,
    Path.TILED_SPLIT: split_k_text,
    Path.PRESPLIT: presplit_text,
    Path.STREAM: stream_text,
}


class MatmulFamily:
    """Writes every product of two tensors."""

    first = "x"

    def accepts(self, node: torch.fx.Node) -> bool:
        try:
            contraction_of(node)
        except Unwritable:
            return False
        return True

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        return contraction_of(node).output

    def render(self, site: Site) -> Piece:
        product = with_free_names(contraction_of(site.node), site)
        return render_product(product, site, path_for(product, site.tf32, site.options))


def render_product(product: Contraction, site: Site, path: Path) -> Piece:
    return Piece(
        name=site.name,
        text=_TEXT[path](product, site),
        operands=own_operands(product),
        settings=settings_for(product, path, site.tf32, summed_later(site.node)),
        helpers=(PARTS, ROWS) if path in (Path.PRESPLIT, Path.STREAM) else (),
    )


_ATEN = torch.ops.aten
_FAMILY = MatmulFamily()
FAMILIES: dict[torch._ops.OpOverload, Family] = {
    operator.default: _FAMILY
    for operator in (*(_ATEN.linear, _ATEN.matmul, _ATEN.mm, _ATEN.bmm, _ATEN.addmm, _ATEN.baddbmm, _ATEN.einsum),)
}
