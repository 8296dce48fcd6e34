"""The sandbox candidates and references run in. `detect` says which kind this machine gets."""

from __future__ import annotations

import functools
import os
import shutil
import sys

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.judge.sandbox import syscalls
from autotriton.judge.sandbox.limits import Limits

KINDS = ("bwrap", "namespaces", "landlock", "none")

__all__ = ["KINDS", "Limits", "detect", "resolve"]


@functools.cache
def detect() -> str:
    """The strongest kind available here: bwrap, namespaces (with landlock and seccomp), landlock alone, or none."""
    if sys.platform != "linux" or syscalls.landlock_abi() == 0:
        return "none"
    if shutil.which("bwrap") and _works(_try_bwrap):
        return "bwrap"
    return "namespaces" if _works(_try_namespaces) else "landlock"


def resolve(wanted: str) -> str:
    """The kind to use for `--sandbox WANTED`; no sandbox only when asked for by name."""
    if wanted == "auto":
        kind = detect()
        if kind == "none":
            hint = "use Linux 5.13 or newer, or accept the risk with --sandbox none"
            raise PrerequisiteError("no sandbox is available on this machine", hint=hint)
        return kind
    if wanted not in KINDS:
        raise UsageError(f"unknown sandbox {wanted!r}", hint=f"known: auto, {', '.join(KINDS)}")
    available = {"none", "landlock"} | {detect()} | ({"namespaces"} if detect() == "bwrap" else set())
    if wanted not in available or (wanted == "landlock" and detect() == "none"):
        raise PrerequisiteError(f"sandbox {wanted!r} is not available here", hint=f"this machine offers {detect()}")
    return wanted


def _works(attempt: object) -> bool:
    """Try something irreversible in a child process."""
    assert callable(attempt)
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
        except BaseException:  # noqa: BLE001 - any refusal means: not available
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _try_namespaces() -> None:
    flags = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(flags)
    syscalls.map_user(uid, gid)
    pid = os.fork()  # the first process of the new pid namespace can mount its /proc; some containers refuse that
    if pid == 0:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount_private()
        syscalls.mount_readonly()
        syscalls.mount_proc()
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise OSError("mount of /proc refused")


def _try_bwrap() -> None:
    """bwrap is the outer wall; the namespaces of each process are made inside it."""
    source = "from autotriton.judge import sandbox; sandbox._try_namespaces()"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    walls = ["--dev-bind", "/", "/", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--new-session"]
    command = ["bwrap", *walls, "--setenv", "PYTHONPATH", path, sys.executable, "-c", source]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.execvp("bwrap", command)
