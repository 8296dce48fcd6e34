"""What a compiled kernel needs of one core of the GPU, and how much of that core it can therefore fill.

Pure arithmetic and byte parsing: no torch, no triton, no device. The limits and the granularities are the hardware's,
from NVIDIA's occupancy calculator (CUDA C++ Programming Guide, "Compute Capabilities") and AMD's CDNA3 ISA guide.
Covered: registers, shared memory, blocks and warps per core. Not covered: clusters (`num_ctas` above 1), tensor memory.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

KB = 1024


@dataclass(frozen=True)
class Arch:
    """One architecture: how Triton names it, and the limits of one core (an NVIDIA SM, an AMD CU)."""

    name: str
    backend: str
    triton_arch: int | str
    warp_size: int
    max_warps: int
    max_blocks: int
    max_threads_per_block: int
    simds: int
    """Partitions of the core; a warp lives in one of them and takes its registers from there."""
    registers_per_simd: int
    """In units of one register of one thread, so that both vendors count alike."""
    register_granularity: int
    """A thread's registers are rounded up to a multiple of this."""
    shared_bytes: int
    max_shared_per_block: int
    shared_granularity: int
    shared_reserved_per_block: int
    max_tensor_memory_columns: int | None = None


def _nvidia(capability: int, shared_kb: int, tensor_memory: int | None = None) -> Arch:
    return Arch(
        name=f"sm_{capability}",
        backend="cuda",
        triton_arch=capability,
        warp_size=32,
        max_warps=64,
        max_blocks=32,
        max_threads_per_block=1024,
        simds=4,
        registers_per_simd=65536 // 4,
        register_granularity=256 // 32,
        shared_bytes=shared_kb * KB,
        max_shared_per_block=(shared_kb - 1) * KB,
        shared_granularity=128,
        shared_reserved_per_block=1 * KB,  # the system's own, from compute capability 8.0 on
        max_tensor_memory_columns=tensor_memory,
    )


ARCHS: dict[str, Arch] = {
    arch.name: arch
    for arch in (
        _nvidia(80, shared_kb=164),
        _nvidia(90, shared_kb=228),
        _nvidia(100, shared_kb=228, tensor_memory=512),
        Arch(
            name="gfx942",
            backend="hip",
            triton_arch="gfx942",
            warp_size=64,
            max_warps=32,
            max_blocks=16,  # barriers per CU; a block of one wave needs none, see `occupancy`
            max_threads_per_block=1024,
            simds=4,
            registers_per_simd=512 * 64,
            register_granularity=8,
            shared_bytes=64 * KB,
            max_shared_per_block=64 * KB,
            shared_granularity=512,
            shared_reserved_per_block=0,
        ),
    )
}


@dataclass(frozen=True)
class Resources:
    """Per thread, as the binary says."""

    registers: int
    spills: int
    """Registers (of 32 bits) kept in memory for want of room, counted as Triton's own `n_spills`."""


def occupancy(arch: Arch, registers: int, shared_bytes: int, warps_per_block: int) -> float:
    """Resident warps over the architecture's maximum; 0.0 when not even one block fits."""
    if warps_per_block > arch.max_threads_per_block // arch.warp_size or shared_bytes > arch.max_shared_per_block:
        return 0.0
    per_warp = _round_up(max(registers, 1), arch.register_granularity) * arch.warp_size
    warps_by_registers = arch.registers_per_simd // per_warp * arch.simds
    per_block = _round_up(shared_bytes + arch.shared_reserved_per_block, arch.shared_granularity)
    max_blocks = arch.max_warps if arch.backend == "hip" and warps_per_block == 1 else arch.max_blocks
    blocks = min(
        max_blocks,
        arch.max_warps // warps_per_block,
        warps_by_registers // warps_per_block,
        arch.shared_bytes // per_block if per_block else max_blocks,
    )
    return blocks * warps_per_block / arch.max_warps


def cubin_resources(cubin: bytes) -> Resources:
    """Registers and stack of a cubin, the largest over its functions.

    Read from the attributes in `.nv.info`: the register count in the text section's header, which older tools use, is
    zero in what current ptxas writes for sm_90 and newer.
    """
    registers, stack_bytes = 0, 0
    for attribute, value in _nv_info(cubin):
        if attribute == _REGCOUNT:
            registers = max(registers, value)
        elif attribute == _MIN_STACK_SIZE:
            stack_bytes = max(stack_bytes, value)
    if registers == 0:
        raise ValueError("the cubin names no register count")
    return Resources(registers, stack_bytes // 4)


def amdgcn_resources(assembly: str) -> Resources:
    """Vector registers (accumulation registers included, they share one file) and spills of an AMD kernel."""
    counts = {name: int(value) for name, value in re.findall(r"^\s+(?:- )?\.(\w+_count):\s+(\d+)", assembly, re.M)}
    if "vgpr_count" not in counts:
        raise ValueError("the assembly names no register count")
    return Resources(counts["vgpr_count"], counts.get("vgpr_spill_count", 0))


_REGCOUNT, _MIN_STACK_SIZE = 0x2F, 0x12  # EIATTR_*, as `cuobjdump -elf` prints them
_SIZED_VALUE = 0x04  # EIFMT_SVAL: the payload follows, here the function's symbol and one number


def _nv_info(cubin: bytes) -> list[tuple[int, int]]:
    """(attribute, value) of every per-function entry in the section `.nv.info` of a 64-bit ELF file."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    names = sections[names_index][4]
    entries: list[tuple[int, int]] = []
    for name, _, _, _, start, length in sections:
        if not cubin.startswith(b".nv.info\0", names + name):
            continue
        at = start
        while at < start + length:
            form, attribute, payload = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if form == _SIZED_VALUE:
                if payload == 8:
                    entries.append((attribute, struct.unpack_from("<II", cubin, at)[1]))
                at += payload
    return entries


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
