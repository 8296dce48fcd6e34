"""Occupancy worked by hand, and the parsing of what the compilers write."""

from __future__ import annotations

import struct

import pytest

from autotriton.judge.occupancy import ARCHS, KB, Resources, amdgcn_resources, cubin_resources, occupancy

SM_80, SM_90, GFX942 = ARCHS["sm_80"], ARCHS["sm_90"], ARCHS["gfx942"]


def test_small_kernel_fills_the_core() -> None:
    # 32 registers x 32 threads = 1024 a warp; 16384 / 1024 = 16 warps in each of 4 partitions = 64.
    assert occupancy(SM_80, registers=32, shared_bytes=0, warps_per_block=4) == 1.0


def test_registers_are_rounded_up_to_eight_a_thread() -> None:
    # 33 -> 40 registers: 1280 a warp, 12 warps a partition, 48 warps, 12 blocks of 4.
    assert occupancy(SM_80, registers=33, shared_bytes=0, warps_per_block=4) == 48 / 64
    assert occupancy(SM_80, registers=40, shared_bytes=0, warps_per_block=4) == 48 / 64


def test_255_registers_leave_eight_warps() -> None:
    # 256 x 32 = 8192 a warp, 2 warps a partition.
    assert occupancy(SM_80, registers=255, shared_bytes=0, warps_per_block=8) == 8 / 64


def test_block_that_needs_more_registers_than_there_are_does_not_fit() -> None:
    assert occupancy(SM_80, registers=255, shared_bytes=0, warps_per_block=16) == 0.0


def test_one_warp_blocks_are_limited_by_the_number_of_blocks() -> None:
    assert occupancy(SM_80, registers=16, shared_bytes=0, warps_per_block=1) == 32 / 64


def test_shared_memory_counts_the_reserved_kilobyte() -> None:
    # 32 KB + 1 KB: four blocks in 164 KB, six in 228 KB.
    assert occupancy(SM_80, registers=32, shared_bytes=32 * KB, warps_per_block=4) == 4 * 4 / 64
    assert occupancy(SM_90, registers=32, shared_bytes=32 * KB, warps_per_block=4) == 6 * 4 / 64


@pytest.mark.parametrize(("name", "limit_kb"), [("sm_80", 163), ("sm_90", 227), ("sm_100", 227), ("gfx942", 64)])
def test_largest_block_fits_once_and_one_byte_more_does_not(name: str, limit_kb: int) -> None:
    arch = ARCHS[name]
    assert occupancy(arch, 32, limit_kb * KB, 4) == 4 / arch.max_warps
    assert occupancy(arch, 32, limit_kb * KB + 1, 4) == 0.0


def test_amd_wave_takes_registers_from_one_simd() -> None:
    # 128 of 512: 4 waves on each of 4 SIMDs, 16 of 32.
    assert occupancy(GFX942, registers=128, shared_bytes=0, warps_per_block=4) == 16 / 32
    # 129 -> 136: 3 waves a SIMD, 12 of 32.
    assert occupancy(GFX942, registers=129, shared_bytes=0, warps_per_block=4) == 12 / 32
    # 64 and fewer: the limit of 8 waves a SIMD.
    assert occupancy(GFX942, registers=20, shared_bytes=0, warps_per_block=4) == 1.0


def test_amd_shared_memory_and_blocks() -> None:
    # 20 KB: three blocks of 4 waves in 64 KB.
    assert occupancy(GFX942, registers=32, shared_bytes=20 * KB, warps_per_block=4) == 12 / 32
    assert occupancy(GFX942, registers=32, shared_bytes=0, warps_per_block=1) == 1.0


def test_amd_block_of_more_than_1024_threads_does_not_fit() -> None:
    assert occupancy(GFX942, registers=16, shared_bytes=0, warps_per_block=32) == 0.0


def test_amd_assembly_names_registers_and_spills() -> None:
    text = """
    .amdhsa_next_free_vgpr 128
  - .agpr_count:     16
    .sgpr_count:     24
    .sgpr_spill_count: 3
    .vgpr_count:     128
    .vgpr_spill_count: 7
"""
    assert amdgcn_resources(text) == Resources(registers=128, spills=7)


def test_cubin_attributes_give_the_largest_function() -> None:
    info = _attribute(0x2F, 1, 40) + _attribute(0x11, 1, 0) + _attribute(0x2F, 2, 96) + _attribute(0x12, 2, 24)
    assert cubin_resources(_elf(info)) == Resources(registers=96, spills=6)


@pytest.mark.parametrize("data", [b"", b"not an elf file"])
def test_something_else_is_not_a_cubin(data: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        cubin_resources(data)


def test_binary_without_counts_is_an_error_and_not_zero() -> None:
    with pytest.raises(ValueError, match="register count"):
        cubin_resources(_elf(b""))
    with pytest.raises(ValueError, match="register count"):
        amdgcn_resources("s_endpgm")


def _attribute(kind: int, symbol: int, value: int) -> bytes:
    return struct.pack("<BBHII", 0x04, kind, 8, symbol, value)


def _elf(info: bytes) -> bytes:
    """Header, the bytes of `.nv.info`, the section names, the section table (null, `.nv.info`, names)."""
    names = b"\0.nv.info\0.nv.info.kernel\0"
    at_info, at_names = 64, 64 + len(info)
    table = at_names + len(names)
    header = b"\x7fELF\x02".ljust(0x28, b"\0") + struct.pack("<Q", table)
    header = header.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, 3, 2)
    sections = [(0, 0, 0), (1, at_info, len(info)), (0, at_names, len(names))]
    return (
        header
        + info
        + names
        + b"".join(struct.pack("<IIQQQQIIQQ", n, 0, 0, 0, a, s, 0, 0, 0, 0) for n, a, s in sections)
    )
