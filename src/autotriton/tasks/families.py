"""Operator families of a task, read from its source: what kind of work it is. Nothing is run.

The leading family comes first: the one that decides how a kernel for the task looks. A convolution with a norm and an
activation behind it is a convolution.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from autotriton.syntax import parse_source

POINTWISE, OTHER = "pointwise", "other"
_NAMES: dict[str, str] = {
    "attention": "multiheadattention scaleddotproductattention flexattention transformerencoderlayer "
    "transformerdecoderlayer",
    "rnn": "rnn lstm gru rnncell lstmcell grucell",
    "transposed convolution": "convtranspose",
    "convolution": "conv unfold fold",
    "matmul": "linear bilinear matmul mm bmm addmm addbmm baddbmm einsum tensordot outer inner dot mv addmv "
    "chainmatmul multidot",
    "norm": "batchnorm syncbatchnorm layernorm groupnorm instancenorm rmsnorm localresponsenorm normalize norm "
    "vectornorm matrixnorm weightnorm spectralnorm",
    "pooling": "maxpool avgpool lppool adaptivemaxpool adaptiveavgpool fractionalmaxpool",
    "softmax": "softmax logsoftmax softmin softmax2d gumbelsoftmax",
    "loss": "crossentropy nllloss binarycrossentropy binarycrossentropywithlogits kldiv mseloss l1loss smoothl1loss "
    "huberloss hingeembeddingloss tripletmarginloss tripletmarginwithdistanceloss cosineembeddingloss ctcloss bceloss "
    "bcewithlogitsloss kldivloss crossentropyloss marginrankingloss gaussiannllloss poissonnllloss softmarginloss "
    "cosinesimilarity",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "reduction": "sum mean amax amin max min argmax argmin prod var std varmean stdmean logsumexp any all median "
    "countnonzero nansum nanmean",
    "sorting": "sort argsort topk kthvalue unique msort",
    "resampling": "interpolate upsample gridsample upsamplingbilinear upsamplingnearest",
    "indexing": "embedding embeddingbag gather scatter scatteradd indexselect indexadd take takealongdim",
    "movement": "cat concat stack transpose permute flip roll pad repeat tile pixelshuffle pixelunshuffle "
    "channelshuffle contiguous",
}
"""Families in the order they lead, with the names of their modules, functions and methods."""
FAMILIES: tuple[str, ...] = (*list(_NAMES)[:-1], POINTWISE, "movement", OTHER)
_FAMILY_OF = {name: family for family, names in _NAMES.items() for name in names.split()}
_POINTWISE_NAMES = (
    "relu relu6 gelu silu swish mish elu selu celu leakyrelu prelu rrelu sigmoid logsigmoid hardsigmoid tanh hardtanh "
    "tanhshrink softplus softsign softshrink hardshrink hardswish threshold glu exp exp2 log log2 log10 log1p expm1 "
    "sqrt rsqrt square pow abs neg sign sin cos tan asin acos atan erf erfc clamp clip clampmin clampmax minimum "
    "maximum where add sub mul div addcmul addcdiv lerp reciprocal floor ceil round trunc fmod remainder dropout "
    "maskedfill"
)
_POINTWISE = frozenset(_POINTWISE_NAMES.split())
_NOT_THE_WORK = ("get_inputs", "get_init_inputs")
_DIMENSIONS = re.compile(r"[123]d$")
_PRODUCTS = ("matmul", "bmm", "einsum", "mm", "baddbmm")


def families(source: str) -> tuple[str, ...]:
    """The families of the work in a task's source, the leading one first; `other` where nothing is recognised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_source(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (OTHER,)
    work = [node for node in tree.body if getattr(node, "name", None) not in _NOT_THE_WORK]
    found = {family for node in work for family in _of(node)}
    return tuple(family for family in FAMILIES if family in found) or (OTHER,)


def _of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_name(_called(node))
        elif isinstance(node, ast.BinOp):
            yield "matmul" if isinstance(node.op, ast.MatMult) else POINTWISE
        elif isinstance(node, ast.FunctionDef) and _is_attention(node):
            yield "attention"


def _of_name(name: str) -> Iterator[str]:
    plain = _DIMENSIONS.sub("", name.lower().replace("_", ""))
    if (family := _FAMILY_OF.get(plain)) is not None:
        yield family
    elif plain in _POINTWISE:
        yield POINTWISE


def _called(call: ast.Call) -> str:
    """The last part of what is called: `Conv2d` of `nn.Conv2d(...)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_attention(function: ast.FunctionDef) -> bool:
    """A softmax between two products, written out."""
    nodes = list(ast.walk(function))
    called = [_called(node).lower() for node in nodes if isinstance(node, ast.Call)]
    products = sum(name in _PRODUCTS for name in called)
    products += sum(isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) for node in nodes)
    return products >= 2 and "softmax" in called
