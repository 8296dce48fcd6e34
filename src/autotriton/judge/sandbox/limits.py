"""What one sandboxed process may use, and the paths it may see. Plain data, sent to the fork server as JSON."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/sys", "/opt/rocm")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "passwd", "group", "nsswitch.conf", "alternatives")
# Of the machine's own /proc: what C libraries, torch and the CUDA driver read, and nothing of any other process.
_PROC = ("self", "cpuinfo", "meminfo", "stat", "version", "filesystems", "devices", "modules", "driver", "loadavg",
         "sys/kernel/osrelease", "sys/vm/overcommit_memory", "sys/vm/max_map_count", "sys/kernel/random")  # fmt: skip
_HOME = Path(os.path.expanduser("~")).resolve()  # at import: later, inside the sandbox, HOME names another folder
_DEVICES = ("null", "zero", "full", "random", "urandom", "kfd", "dri")


@dataclass(frozen=True)
class Limits:
    """Defaults are generous for an honest kernel and small for a bomb."""

    deadline_s: float = 60.0
    memory_bytes: int = 6 << 30
    """Memory beyond what the fork server already holds, mapped shared memory included."""
    disk_bytes: int = 512 << 20
    """Size of the private tmpfs: the only place that can be written."""
    processes: int = 64
    """Most processes at once where any are allowed at all."""
    output_bytes: int = 16 << 10
    """How much of stdout and stderr is kept; the rest is read and thrown away."""
    allow_processes: bool = False
    """Triton on a GPU starts ptxas and a C compiler; the interpreter starts nothing."""
    devices: bool = False
    """GPU device files are visible."""
    triton_seed: str | None = None
    """A folder with parts of a Triton cache that every process would build anew; copied, never shared."""
    readable: tuple[str, ...] = ()
    """Folders readable besides the Python runtime; the reference's own imports."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Limits:
        return Limits(**{**data, "readable": tuple(data["readable"])})


def runtime_paths() -> list[str]:
    """The Python runtime: interpreter, standard library, site-packages and the packages already imported."""
    paths = {*_SYSTEM, *(f"/etc/{name}" for name in _ETC), sys.base_prefix, str(Path(sys.executable).resolve().parent)}
    for key in ("stdlib", "platstdlib", "purelib", "platlib", "include"):
        paths.add(sysconfig.get_path(key))
    if sys.prefix != sys.base_prefix:
        paths.add(sys.prefix)
    for name in ("torch", "triton", "numpy", "pydantic", "pydantic_core", "typing_extensions", "autotriton", "sympy"):
        module = sys.modules.get(name)
        location = getattr(module, "__file__", None)
        if location is not None:
            paths.add(str(Path(location).parent if Path(location).name == "__init__.py" else Path(location)))
    paths.update(_site_folders())
    paths.update(_compiler_folders())
    return sorted(path for path in paths if path)


def _compiler_folders() -> list[str]:
    """Where the C compiler lives that Triton builds its launchers with, when that is outside the system folders."""
    found = [shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "cc", "clang", "as", "ld") if name]
    folders = {Path(tool).resolve().parent for tool in found if tool} | {Path(tool).parent for tool in found if tool}
    folders = {folder.parent if folder.name == "bin" and folder.parent != Path("/") else folder for folder in folders}
    return [str(folder) for folder in folders if not _HOME.is_relative_to(folder)]  # a gcc in ~/bin must not open ~


def proc_paths(alone: bool) -> list[str]:
    """All of /proc where it shows no process from outside; else only its own entry and facts about the machine."""
    return ["/proc"] if alone else [f"/proc/{name}" for name in _PROC]


def _site_folders() -> list[str]:
    """Folders on sys.path that hold installed packages (`pip install --target` makes such too), never the current
    folder or a checkout.
    """
    folders = [Path(entry) for entry in sys.path if entry]
    named = ("site-packages", "dist-packages")
    return [str(folder) for folder in folders if folder.name in named or _installed(folder)]


def _installed(folder: Path) -> bool:
    return any(folder.glob("*.dist-info")) and folder.resolve() != Path.cwd()


def device_paths(gpu: bool) -> list[str]:
    """Device files a process needs: the harmless ones always, the GPU's only where it is used."""
    if not gpu:
        return [f"/dev/{name}" for name in _DEVICES[:5]]
    nvidia = [str(path) for path in Path("/dev").glob("nvidia*")]
    return [f"/dev/{name}" for name in _DEVICES] + nvidia
