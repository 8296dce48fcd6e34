"""The Linux calls the sandbox is made of, through ctypes: namespaces, mounts, landlock, seccomp, prctl.

One thing must stay true here: every call that fails raises OSError, so nothing is ever silently left open.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUTS = 0x00020000, 0x08000000, 0x04000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_CLONE_NAMESPACES = 0x7E020000
_CLONE_THREAD = 0x00010000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 4, 38, 22
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def map_user(uid: int, gid: int) -> None:
    """Inside a new user namespace: be root there, and the same unprivileged or privileged user outside."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def mount_private() -> None:
    """Stop mounts made here from reaching the rest of the machine."""
    _checked(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount private")


def mount_tmpfs(where: str, size_bytes: int) -> None:
    options = f"size={size_bytes},nr_inodes=20000,mode=0700".encode()
    _checked(_libc.mount(b"tmpfs", where.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, options), "mount tmpfs")


def mount_proc() -> None:
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount proc")


def die_with_parent(signal_number: int) -> None:
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl pdeathsig")


def forbid_new_privileges() -> None:
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl no_new_privs")


def drop_capabilities() -> None:
    """Give up every capability, inside and outside the user namespace."""
    header = struct.pack("Ii", 0x20080522, 0)
    empty = struct.pack("6I", *([0] * 6))
    _checked(_libc.syscall(126 if platform.machine() == "x86_64" else 91, header, empty), "capset")


# --- landlock: which paths may be read, and which written ----------------------------------------------

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read_file, read_dir
_IOCTL_DEV = 1 << 15
_ALL_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_FILE_ONLY = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | _IOCTL_DEV  # what may be granted on a file rather than a folder


def landlock_abi() -> int:
    """The kernel's landlock version; 0 when there is none."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE, None, 0, 1)))


def landlock(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str]) -> None:
    """From here on, only these paths can be opened. Unknown paths are skipped: what is absent cannot be read."""
    abi = landlock_abi()
    if abi == 0:
        raise OSError("this kernel has no landlock")
    everything = _ALL_BY_ABI[min(abi, 5)]
    # ABI 4 adds TCP bind and connect; ABI 6 adds abstract sockets and signals to processes outside.
    attributes = struct.pack("QQQ", everything, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _checked(_libc.syscall(_LANDLOCK_CREATE, attributes, size, 0), "landlock_create_ruleset")
    try:
        for paths, access in ((readable, _READ), (writable, everything), (devices, everything & (_READ | 2 | _IOCTL_DEV))):
            for path in paths:
                _allow_beneath(ruleset, path, access)
        _checked(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow_beneath(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = access if os.path.isdir(path) else access & _FILE_ONLY
        rule = struct.pack("=Qi", allowed, handle)
        _checked(_libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    finally:
        os.close(handle)


# --- seccomp: which system calls are refused ------------------------------------------------------------

_X86 = {
    "socket": 41, "connect": 42, "bind": 49, "listen": 50, "ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "unshare": 272, "setns": 308, "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321,
    "perf_event_open": 298, "userfaultfd": 323, "kexec_load": 246, "init_module": 175, "finit_module": 313, "reboot": 169,
    "swapon": 167, "io_uring_setup": 425, "process_vm_readv": 310, "process_vm_writev": 311, "open_by_handle_at": 304,
    "name_to_handle_at": 303, "move_mount": 429, "open_tree": 428, "fsopen": 430, "mount_setattr": 442, "acct": 163,
    "settimeofday": 164, "clock_settime": 227, "sethostname": 170, "pidfd_getfd": 438, "pidfd_open": 434,
}  # fmt: skip
_ARM = {
    "socket": 198, "connect": 203, "bind": 200, "listen": 201, "ptrace": 117, "mount": 40, "umount2": 39, "pivot_root": 41,
    "chroot": 51, "unshare": 97, "setns": 268, "keyctl": 219, "add_key": 217, "request_key": 218, "bpf": 280,
    "perf_event_open": 241, "userfaultfd": 282, "kexec_load": 104, "init_module": 105, "finit_module": 273, "reboot": 142,
    "swapon": 224, "io_uring_setup": 425, "process_vm_readv": 270, "process_vm_writev": 271, "open_by_handle_at": 265,
    "name_to_handle_at": 264, "move_mount": 429, "open_tree": 428, "fsopen": 430, "mount_setattr": 442, "acct": 89,
    "settimeofday": 170, "clock_settime": 112, "sethostname": 161, "pidfd_getfd": 438, "pidfd_open": 434,
}  # fmt: skip
_X86_PROCESS = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322}
_ARM_PROCESS = {"execve": 221, "execveat": 281}
_ARCHITECTURES = {
    "x86_64": (0xC000003E, _X86, _X86_PROCESS, 56, 435),
    "aarch64": (0xC00000B7, _ARM, _ARM_PROCESS, 220, 435),
}
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _AF_UNIX = 1, 38, 1


def seccomp(*, processes: bool, unix_sockets: bool) -> None:
    """Refuse the calls above; without `processes` also every new process (threads stay possible).

    CUDA's start-up makes a listening unix socket (measured: driver 580 fails with error 304 otherwise), so a GPU
    process may have those; connecting anywhere stays refused.
    """
    filters = _program(processes, unix_sockets)
    code = b"".join(struct.pack("HBBI", *line) for line in filters)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(buffer))
    _checked(_libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0), "prctl seccomp")


def _program(processes: bool, unix_sockets: bool) -> Sequence[tuple[int, int, int, int]]:
    audit, denied, process_calls, clone, clone3 = _ARCHITECTURES[platform.machine()]
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    lines: list[tuple[int, int, int, int]] = [
        (load, 0, 0, 4), (equal, 1, 0, audit), (answer, 0, 0, _KILL),
        (load, 0, 0, 0), (at_least, 0, 1, 0x40000000), (answer, 0, 0, _ERRNO | _EPERM),
        # clone3 hides its flags behind a pointer a filter cannot follow: glibc falls back to clone on ENOSYS.
        (equal, 0, 1, clone3), (answer, 0, 0, _ERRNO | _ENOSYS),
    ]  # fmt: skip
    if unix_sockets:
        lines += [(equal, 0, 4, denied["socket"]), (load, 0, 0, 16), (equal, 0, 1, _AF_UNIX)]
        lines += [(answer, 0, 0, _ALLOW), (answer, 0, 0, _ERRNO | _EPERM)]
        denied = {name: number for name, number in denied.items() if name not in ("socket", "bind", "listen")}
    for number in [*denied.values(), *([] if processes else process_calls.values())]:
        lines += [(equal, 0, 1, number), (answer, 0, 0, _ERRNO | _EPERM)]
    lines += [(equal, 0, 5 if not processes else 3, clone), (load, 0, 0, 16), (any_bit, 0, 1, _CLONE_NAMESPACES)]
    lines += [(answer, 0, 0, _ERRNO | _EPERM)]
    if not processes:
        lines += [(any_bit, 1, 0, _CLONE_THREAD), (answer, 0, 0, _ERRNO | _EPERM)]
    return [*lines, (answer, 0, 0, _ALLOW)]
