"""Memory shared by two processes through a descriptor: the only way tensors travel between them.

On the CPU an arena is a memfd; on a GPU it is a block of device memory exported as a descriptor, so that 8 GB inputs
never touch the host. The trusted side lays tensors out with guard bands between them and refills the same addresses
for every case; the candidate's side maps it and gets plain tensors over it. Nothing secret is ever put in an arena.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

GUARD_BYTES = 4096
ALIGN = 512
GUARD_PATTERN = 0xA5


@dataclass(frozen=True)
class Slot:
    """Where one tensor lies: byte offset of its first element, and how it is strided. JSON-able through `to_json`."""

    offset: int
    span: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str

    def to_json(self) -> list[Any]:
        return [self.offset, self.span, list(self.shape), list(self.stride), self.dtype]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Slot:
        offset, span, shape, stride, dtype = data
        return Slot(int(offset), int(span), tuple(map(int, shape)), tuple(map(int, stride)), str(dtype))


class Arena(Protocol):
    """A flat byte tensor and the descriptor that shares it."""

    bytes: torch.Tensor
    descriptor: int

    def pull(self) -> None:
        """Make the other side's writes visible here."""

    def push(self) -> None:
        """Make writes here visible to the other side."""

    def close(self) -> None: ...


def create(size: int, device: str) -> Arena:
    return CudaArena.create(size) if device == "cuda" else HostArena.create(size)


def attach(descriptor: int, size: int, device: str, *, shared_on: str) -> Arena:
    """The arena as this process sees it on `device`, wherever the other side made it."""
    if shared_on == "cuda":
        return CudaArena.attach(descriptor, size)
    host = HostArena.attach(descriptor, size)
    return host if device == "cpu" else Mirror(host)


def span_bytes(shape: Sequence[int], stride: Sequence[int], itemsize: int) -> int:
    """Bytes from the first to past the last element; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return (sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1) * itemsize


def lay_out(tensors: Sequence[torch.Tensor]) -> tuple[list[Slot], int]:
    """Slots with guard bands before, between and after; and the bytes needed."""
    slots, offset = [], GUARD_BYTES
    for tensor in tensors:
        span = span_bytes(tensor.shape, tensor.stride(), tensor.element_size())
        slots.append(Slot(offset, span, tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype).split(".")[1]))
        offset += -(-span // ALIGN) * ALIGN + GUARD_BYTES
    return slots, offset


def view(arena: Arena, slot: Slot) -> torch.Tensor:
    """The tensor of a slot, backed by the arena. Raises on slots that do not fit (they may come from a candidate)."""
    dtype = getattr(torch, slot.dtype, None)
    if not isinstance(dtype, torch.dtype) or len(slot.shape) != len(slot.stride):
        raise ValueError("bad slot")
    if min((*slot.shape, *slot.stride, 0)) < 0:
        raise ValueError("bad slot")
    span = span_bytes(slot.shape, slot.stride, dtype.itemsize)
    if slot.offset < 0 or slot.offset % dtype.itemsize or slot.offset + span > arena.bytes.numel():
        raise ValueError("slot outside the arena")
    flat = arena.bytes[slot.offset : slot.offset + span].view(dtype)
    return flat.as_strided(slot.shape, slot.stride)


def store(arena: Arena, slot: Slot, tensor: torch.Tensor) -> None:
    """Copy a tensor's content into its slot; dimensions that repeat memory (stride 0) are written once."""
    target, source = view(arena, slot), tensor.detach()
    for dim, stride in enumerate(slot.stride):
        if stride == 0 and slot.shape[dim] > 1:
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    if target.numel():
        target.copy_(source)


def guards(slots: Sequence[Slot], size: int) -> list[tuple[int, int]]:
    """The byte ranges that belong to no tensor."""
    ranges, start = [], 0
    for slot in slots:
        ranges.append((start, slot.offset))
        start = slot.offset + slot.span
    return [*ranges, (start, size)]


class HostArena:
    """A sealed-size memfd, mapped."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        if os.fstat(descriptor).st_size < size:
            raise ValueError("arena is smaller than announced")
        self._map = mmap.mmap(descriptor, size)
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)

    @staticmethod
    def create(size: int) -> HostArena:
        import fcntl

        descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        # Neither side can shrink it under the other (that would be a SIGBUS in the trusted process).
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return HostArena(descriptor, size)

    @staticmethod
    def attach(descriptor: int, size: int) -> HostArena:
        return HostArena(descriptor, size)

    def pull(self) -> None:
        """Shared memory: nothing to do."""

    def push(self) -> None:
        """Shared memory: nothing to do."""

    def close(self) -> None:
        """Give the memory back. The mapping goes when the last tensor over it does."""
        self.bytes = torch.empty(0, dtype=torch.uint8)
        os.close(self.descriptor)


class Mirror:
    """Device memory that stands for a host arena: small tasks need no second process on the GPU."""

    def __init__(self, host: HostArena) -> None:
        self.host, self.descriptor = host, host.descriptor
        self.bytes = torch.empty(host.bytes.numel(), dtype=torch.uint8, device="cuda")

    def pull(self) -> None:
        self.bytes.copy_(self.host.bytes)

    def push(self) -> None:
        self.host.bytes.copy_(self.bytes)

    def close(self) -> None:
        self.host.close()


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _AccessDescriptor(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


_PINNED, _POSIX_DESCRIPTOR, _DEVICE, _READ_WRITE = 1, 1, 1, 3
_GRANULE = 2 << 20


class CudaArena:
    """A block of device memory from the driver's virtual-memory calls, exported as a file descriptor.

    Unlike CUDA IPC handles this works across pid and user namespaces, and shares exactly this block.
    """

    def __init__(self, handle: int, descriptor: int, size: int) -> None:
        self._handle, self.descriptor, self._size = handle, descriptor, size
        self._driver = _driver()
        address = ctypes.c_uint64()
        self._call(
            "cuMemAddressReserve",
            ctypes.byref(address),
            ctypes.c_size_t(size),
            ctypes.c_size_t(0),
            ctypes.c_uint64(0),
            ctypes.c_uint64(0),
        )
        self._address = address.value
        self._call(
            "cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(handle), ctypes.c_uint64(0)
        )
        access = _AccessDescriptor(_Location(_DEVICE, torch.cuda.current_device()), _READ_WRITE)
        self._call("cuMemSetAccess", address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
        self.bytes = torch.as_tensor(_DeviceBytes(self._address, size), device="cuda")

    @staticmethod
    def create(size: int) -> CudaArena:
        size = -(-size // _GRANULE) * _GRANULE
        properties = _AllocationProperties(_PINNED, _POSIX_DESCRIPTOR, _Location(_DEVICE, torch.cuda.current_device()))
        handle, descriptor = ctypes.c_uint64(), ctypes.c_int()
        _check(
            _driver().cuMemCreate(
                ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_uint64(0)
            ),
            "cuMemCreate",
        )
        _check(
            _driver().cuMemExportToShareableHandle(
                ctypes.byref(descriptor), handle, _POSIX_DESCRIPTOR, ctypes.c_uint64(0)
            ),
            "cuMemExport",
        )
        return CudaArena(handle.value, descriptor.value, size)

    @staticmethod
    def attach(descriptor: int, size: int) -> CudaArena:
        size = -(-size // _GRANULE) * _GRANULE
        handle = ctypes.c_uint64()
        _check(
            _driver().cuMemImportFromShareableHandle(
                ctypes.byref(handle), ctypes.c_void_p(descriptor), _POSIX_DESCRIPTOR
            ),
            "cuMemImport",
        )
        return CudaArena(handle.value, descriptor, size)

    def pull(self) -> None:
        """Shared memory: nothing to do."""

    def push(self) -> None:
        """Shared memory: nothing to do."""

    def _call(self, name: str, *arguments: object) -> None:
        _check(getattr(self._driver, name)(*arguments), name)

    def close(self) -> None:
        torch.cuda.synchronize()
        self.bytes = torch.empty(0, dtype=torch.uint8)
        self._call("cuMemUnmap", ctypes.c_uint64(self._address), ctypes.c_size_t(self._size))
        self._call("cuMemRelease", ctypes.c_uint64(self._handle))
        self._call("cuMemAddressFree", ctypes.c_uint64(self._address), ctypes.c_size_t(self._size))
        os.close(self.descriptor)


class _DeviceBytes:
    """What torch needs to wrap foreign device memory without copying."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def _driver() -> ctypes.CDLL:
    torch.cuda.init()  # type: ignore[no-untyped-call]
    torch.cuda.current_stream().synchronize()  # makes the primary context current in this thread
    return ctypes.CDLL("libcuda.so.1")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise RuntimeError(f"{what} failed with CUDA driver error {result}")
