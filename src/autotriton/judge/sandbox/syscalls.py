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
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = 442, -100, 0x8000, 1, 2
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


def mount_readonly() -> None:
    """Every mount seen from here becomes read-only. Landlock alone leaves chmod, chown and utime of files outside."""
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    result = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, len(attributes))
    _checked(result, "mount_setattr")


def mount_tmpfs(where: str, size_bytes: int) -> None:
    options = f"size={size_bytes},nr_inodes=20000,mode=0700".encode()
    _checked(_libc.mount(b"tmpfs", where.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, options), "mount tmpfs")


def mount_proc() -> None:
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount proc")


def die_with_parent(signal_number: int) -> None:
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl pdeathsig")


def adopt_orphans() -> None:
    """Whatever is started below this process and loses its parent becomes a child of this process."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl child_subreaper")


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
        device = everything & (_READ | 2 | _IOCTL_DEV)
        for paths, access in ((readable, _READ), (writable, everything), (devices, device)):
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

# Always refused.
_X86 = {
    "connect": 42, "ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272,
    "setns": 308, "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "reboot": 169, "swapon": 167, "swapoff": 168, "io_uring_setup": 425, "process_vm_readv": 310,
    "process_vm_writev": 311, "open_by_handle_at": 304, "name_to_handle_at": 303, "move_mount": 429, "open_tree": 428,
    "fsopen": 430, "mount_setattr": 442, "acct": 163, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159,
    "clock_adjtime": 305, "sethostname": 170, "setdomainname": 171, "pidfd_getfd": 438, "pidfd_open": 434,
    "pidfd_send_signal": 424, "fanotify_init": 300,
}  # fmt: skip
_ARM = {
    "connect": 203, "ptrace": 117, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97,
    "setns": 268, "keyctl": 219, "add_key": 217, "request_key": 218, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273,
    "delete_module": 106, "reboot": 142, "swapon": 224, "swapoff": 225, "io_uring_setup": 425, "process_vm_readv": 270,
    "process_vm_writev": 271, "open_by_handle_at": 265, "name_to_handle_at": 264, "move_mount": 429, "open_tree": 428,
    "fsopen": 430, "mount_setattr": 442, "acct": 89, "settimeofday": 170, "clock_settime": 112, "adjtimex": 171,
    "clock_adjtime": 266, "sethostname": 161, "setdomainname": 162, "pidfd_getfd": 438, "pidfd_open": 434,
    "pidfd_send_signal": 424, "fanotify_init": 262,
}  # fmt: skip
# Refused unless GPU devices are used: CUDA's start-up makes a listening unix socket.
_X86_LISTEN = {"bind": 49, "listen": 50}
_ARM_LISTEN = {"bind": 200, "listen": 201}
# Refused where no processes are allowed. The last two are memory that neither RLIMIT_DATA nor a resident size shows.
_X86_PROCESS = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "memfd_create": 319, "shmget": 29}
_ARM_PROCESS = {"execve": 221, "execveat": 281, "memfd_create": 279, "shmget": 194}
# Refused where processes outside are visible (no pid and mount namespace): other processes' priorities and memory, and
# the metadata of files landlock lets nobody open. `truncate` is landlock's own from ABI 3 on.
_X86_SHARED = {
    "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203,
    "sched_setattr": 314, "ioprio_set": 251, "migrate_pages": 256, "move_pages": 279, "chmod": 90, "fchmod": 91,
    "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "setxattr": 188,
    "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "removexattrat": 466, "file_setattr": 469, "utime": 132, "utimes": 235, "futimesat": 261,
    "utimensat": 280, "truncate": 76,
}  # fmt: skip
_ARM_SHARED = {
    "setpriority": 140, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122,
    "sched_setattr": 274, "ioprio_set": 30, "migrate_pages": 238, "move_pages": 239, "fchmod": 52, "fchmodat": 53,
    "fchmodat2": 452, "fchown": 55, "fchownat": 54, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
    "setxattrat": 463, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "removexattrat": 466,
    "file_setattr": 469, "utimensat": 88, "truncate": 45,
}  # fmt: skip
# Looked at by argument.
_X86_PARTLY = {"clone": 56, "socket": 41, "socketpair": 53, "mmap": 9, "prctl": 157, "prlimit64": 302, "kill": 62,
               "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297}  # fmt: skip
_ARM_PARTLY = {"clone": 220, "socket": 198, "socketpair": 199, "mmap": 222, "prctl": 167, "prlimit64": 261, "kill": 129,
               "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240}  # fmt: skip
_CLONE3 = 435
_ARCHITECTURES = {
    "x86_64": (0xC000003E, _X86, _X86_LISTEN, _X86_PROCESS, _X86_SHARED, _X86_PARTLY),
    "aarch64": (0xC00000B7, _ARM, _ARM_LISTEN, _ARM_PROCESS, _ARM_SHARED, _ARM_PARTLY),
}
_EPERM, _ENOSYS, _AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SHARED_ANONYMOUS = 1, 38, 1, 1, 5, 0x21

_Line = tuple[int, int, int, int]
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW: _Line = (_ANSWER, 0, 0, 0x7FFF0000)
_KILL: _Line = (_ANSWER, 0, 0, 0x80000000)
_DENY: _Line = (_ANSWER, 0, 0, 0x00050000 | _EPERM)
_ABSENT: _Line = (_ANSWER, 0, 0, 0x00050000 | _ENOSYS)


def seccomp(*, processes: bool, unix_sockets: bool, alone: bool = True) -> None:
    """Refuse the calls above; without `processes` also every new process (threads stay possible).

    CUDA's start-up makes a listening unix socket (measured: driver 580 fails with error 304 otherwise), so a GPU
    process may have those; connecting anywhere stays refused. `alone` says that no process and no writable file
    outside can be seen, thanks to namespaces; otherwise more is refused.
    """
    filters = _program(processes, unix_sockets, alone)
    code = b"".join(struct.pack("HBBI", *line) for line in filters)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(buffer))
    _checked(_libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0), "prctl seccomp")


def _program(processes: bool, unix_sockets: bool, alone: bool) -> Sequence[_Line]:
    audit, denied, listen, process, shared, partly = _ARCHITECTURES[platform.machine()]
    # A datagram socket could send to any unix socket of the machine without connecting.
    kinds = [*_if_equal(_SOCK_STREAM, _ALLOW), *_if_equal(_SOCK_SEQPACKET, _ALLOW)]
    connected = [_load(1), (_MASK, 0, 0, 0xF), *kinds, _DENY]
    lines: list[_Line] = [
        (_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), _KILL,
        (_LOAD, 0, 0, 0), (_AT_LEAST, 0, 1, 0x40000000), _DENY,
        # clone3 hides its flags behind a pointer a filter cannot follow: glibc falls back to clone on ENOSYS.
        *_if_equal(_CLONE3, _ABSENT),
        *_call(partly["socketpair"], connected),
        # It would outlive its monitor.
        *_call(partly["prctl"], [_load(0), *_if_equal(_PR_SET_PDEATHSIG, _DENY), _ALLOW]),
    ]  # fmt: skip
    numbers = [*denied.values()]
    if unix_sockets:
        lines += _call(partly["socket"], [_load(0), (_EQUAL, 1, 0, _AF_UNIX), _DENY, *connected])
    else:
        numbers += [partly["socket"], *listen.values()]
    if not processes:
        numbers += process.values()
        shared_memory = [(_MASK, 0, 0, _SHARED_ANONYMOUS), *_if_equal(_SHARED_ANONYMOUS, _DENY)]
        lines += _call(partly["mmap"], [_load(3), *shared_memory, _ALLOW])
    if not alone:
        numbers += shared.values()
        lines += _call(partly["prlimit64"], [_load(0), *_if_equal(0, _ALLOW), _DENY])
        lines += _signals_to_itself(partly) if landlock_abi() < 6 else []
    for number in numbers:
        lines += _if_equal(number, _DENY)
    new = [_load(0), (_ANY_BIT, 0, 1, _CLONE_NAMESPACES), _DENY]
    lines += _call(partly["clone"], new if processes else [*new, (_ANY_BIT, 1, 0, _CLONE_THREAD), _DENY])
    return [*lines, _ALLOW]


def _signals_to_itself(partly: dict[str, int]) -> list[_Line]:
    """For kernels whose landlock does not confine signals; children cannot be signalled then either."""
    names = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
    body = [_load(0), *_if_equal(os.getpid(), _ALLOW), _DENY]
    lines = [line for name in names for line in _call(partly[name], body)]
    return [*lines, *_if_equal(partly["tkill"], _DENY)]


def _load(argument: int) -> _Line:
    return (_LOAD, 0, 0, 16 + 8 * argument)


def _if_equal(value: int, then: _Line) -> list[_Line]:
    return [(_EQUAL, 0, 1, value), then]


def _call(number: int, body: list[_Line]) -> list[_Line]:
    """What happens on one system call. The body must decide, or be the last: it leaves something else loaded."""
    return [(_EQUAL, 0, len(body), number), *body]
