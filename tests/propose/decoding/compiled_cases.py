"""Compiles the decoder's kernels for a GPU this machine need not have, as the 1.5B and 135M models launch them.

python compiled_cases.py sm_90        prints one JSON line per kernel: name, case, registers, spills, shared bytes
"""

from __future__ import annotations

import json
import sys

import triton
from triton.compiler import ASTSource, make_backend
from triton.runtime import driver

from autotriton.judge.occupancy import cubin_resources
from autotriton.judge.targets import gpu_target
from autotriton.propose.decoding.kernels import attention, rows, sampling

BF, F32, I64 = "*bf16", "*fp32", "*i64"


def attend(width: int, group: int, kv_heads: int, splits: int, element: str = BF) -> tuple:
    pointers = dict.fromkeys(("q_ptr", "keys_ptr", "values_ptr", "out_ptr"), element)
    signature = {**pointers, "counts_ptr": I64, "part_ptr": F32, "stat_ptr": F32}
    signature |= {"log2_scale": "fp32", "slot_stride": "i32", "head_stride": "i32"}
    constants = {"KV_HEADS": kv_heads, "GROUP": group, "WIDTH": width, "SPLITS": splits, "BLOCK_G": 16}
    wide = element != BF
    options = {"num_warps": 4, "num_stages": 2 if wide else 3}
    return attention.attend_kernel, signature, {**constants, "BLOCK_N": 32 if wide else 64}, options


def norm(block: int, has_delta: bool) -> tuple:
    signature = {**dict.fromkeys(("x_ptr", "delta_ptr", "weight_ptr", "out_ptr"), BF), "n_cols": "i32", "eps": "fp32"}
    constants = {"HAS_DELTA": has_delta, "BLOCK": block}
    return rows.norm_kernel, signature, constants, {"num_warps": 8 if block >= 2048 else 4}


def rotate_store(heads: int, kv_heads: int, half: int) -> tuple:
    pointers = ("qkv_ptr", "cos_ptr", "sin_ptr", "q_ptr", "keys_ptr", "values_ptr")
    signature = {**dict.fromkeys(pointers, BF), "positions_ptr": I64, "slot_stride": "i32", "head_stride": "i32"}
    return rows.rotate_store_kernel, signature, {"HEADS": heads, "KV_HEADS": kv_heads, "HALF": half}, {"num_warps": 1}


def sample() -> tuple:
    signature = {"logits_ptr": BF, "uniforms_ptr": F32, "temperature_ptr": F32, "top_p_ptr": F32, "top_k_ptr": I64}
    signature |= {"token_ptr": I64, "logprob_ptr": F32, "n_cols": "i32"}
    return sampling.sample_kernel, signature, {"HALVINGS": 24, "BLOCK": 4096}, {"num_warps": 16}


CASES = {
    "attend, 1.5B": attend(128, 6, 2, 2),
    "attend, 1.5B, one split": attend(128, 6, 2, 1),
    "attend, 135M": attend(64, 3, 3, 4),
    "attend, fp32": attend(128, 6, 2, 2, F32),
    "combine": (
        attention.combine_kernel,
        {"part_ptr": F32, "stat_ptr": F32, "out_ptr": BF},
        {"WIDTH": 128, "SPLITS": 2},
        {"num_warps": 2},
    ),
    "combine, 32 splits": (
        attention.combine_kernel,
        {"part_ptr": F32, "stat_ptr": F32, "out_ptr": BF},
        {"WIDTH": 128, "SPLITS": 32},
        {"num_warps": 2},
    ),
    "norm": norm(2048, False),
    "add and norm": norm(2048, True),
    "gated": (rows.gated_kernel, {"gate_up_ptr": BF, "out_ptr": BF, "n_cols": "i32"}, {"BLOCK": 1024}, {}),
    "rotate and store": rotate_store(12, 2, 64),
    "sample": sample(),
}


class Unseen:
    """Stands in for the driver of a GPU that is not here."""

    def __init__(self, target: object) -> None:
        self.get_current_target = lambda: target


def main(arch: str) -> None:
    target = gpu_target(arch)
    driver.set_active(Unseen(target))
    backend = make_backend(target)
    for case, (function, signature, constants, options) in CASES.items():
        # As in a launch: tensors are aligned, and every size of these models is a multiple of 16.
        aligned = [name for name, kind in signature.items() if kind.startswith("*") or kind == "i32"]
        attrs = {(function.arg_names.index(name),): backend.parse_attr("D") for name in aligned}
        whole = {name: signature.get(name, "constexpr") for name in function.arg_names}
        places = {(function.arg_names.index(name),): value for name, value in constants.items()}
        compiled = triton.compile(ASTSource(function, whole, places, attrs), target=target, options=options)
        used = cubin_resources(compiled.asm["cubin"])
        facts = {"registers": used.registers, "spills": used.spills, "shared": compiled.metadata.shared}
        print(json.dumps({"case": case, "kernel": function.fn.__name__, **facts}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
