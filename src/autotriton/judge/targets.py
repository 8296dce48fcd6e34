"""Tier 3: cross-compiles the kernels a candidate launched for named architectures, on a machine that has none of them.

Every compilation runs in a fork of its own, so a compiler that aborts or hangs costs one answer and not the rest, and
no driver is ever touched: the compiler sees a stand-in that knows the target's name. What the compiler refuses is
`Target.error`, one line. What could not be measured (a kernel made inside a function, a constant that does not travel,
a compilation past its deadline) has neither numbers nor an error: see `unmeasured`.

Meant for a sandboxed child that has loaded the candidate without TRITON_INTERPRET. The candidate's own code runs there,
so the numbers are a report and never proof; the later tiers run what was compiled.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import IO, Any

from autotriton.errors import JudgeError, UsageError
from autotriton.judge.launches import CannotRebuild, Launch, launch_key, options_of, rebuild
from autotriton.judge.occupancy import ARCHS, KB, Arch, amdgcn_resources, cubin_resources, occupancy
from autotriton.syntax import parse_literal
from autotriton.types import Kernel, Target

TARGETS: dict[str, Arch] = ARCHS

MESSAGE_LIMIT = 300
"""Characters of a compiler's message that are kept."""


def parse_targets(names: Sequence[str]) -> tuple[str, ...]:
    """Known architecture names without repetition, in the order given."""
    for name in names:
        if name not in TARGETS:
            raise UsageError(f"unknown target {name!r}", hint=f"known targets: {', '.join(TARGETS)}")
    return tuple(dict.fromkeys(names))


def gpu_target(name: str) -> Any:
    """The target as Triton's `GPUTarget`."""
    from triton.backends.compiler import GPUTarget

    arch = TARGETS[name]
    return GPUTarget(arch.backend, arch.triton_arch, arch.warp_size)


def compile_launches(
    module: ModuleType,
    launches: Sequence[Launch],
    targets: Sequence[str],
    *,
    timeout_s: float = 60.0,
    jobs: int | None = None,
) -> list[Kernel]:
    """One record per kernel name, with one `Target` per architecture.

    Launches of one kernel that need different binaries are all compiled; a target then shows the first that fails, or
    else the one with the lowest occupancy. `timeout_s` is for one compilation, `jobs` how many run at once.
    """
    targets = parse_targets(targets)
    distinct = {launch_key(launch): launch for launch in launches}
    counts: dict[str, int] = {}
    for launch in launches:
        counts[launch["kernel"]] = counts.get(launch["kernel"], 0) + 1
    functions = jit_functions(module)
    work = [
        _Job(launch["kernel"], target, functools.partial(_compile, function, launch, target, functions))
        for launch in distinct.values()
        if (function := _find(functions, launch)) is not None
        for target in targets
    ]
    if work:
        warm_up(targets)
    results = _run_forked(work, timeout_s, jobs or min(4, len(os.sched_getaffinity(0))))
    by_place: dict[tuple[str, str], list[Target]] = {}
    for job, result in zip(work, results, strict=True):
        by_place.setdefault((job.kernel, job.target), []).append(result)
    return [
        Kernel(
            name=name,
            launches=count,
            targets=tuple(_worst(by_place[name, target]) for target in targets if (name, target) in by_place),
        )
        for name, count in counts.items()
    ]


def warm_up(targets: Sequence[str] = tuple(TARGETS)) -> None:
    """Computes once what every fork would compute again: the hashes of the compiler, most of a second."""
    from triton.compiler import make_backend
    from triton.runtime.cache import triton_key

    triton_key()
    for target in targets:
        make_backend(gpu_target(target)).hash()


def first_error(kernels: Sequence[Kernel]) -> str | None:
    """The first thing a compiler refused, as one line; None when it refused nothing."""
    for kernel in kernels:
        for target in kernel.targets:
            if target.error is not None:
                return f"{kernel.name} does not compile for {target.arch}: {target.error}"
    return None


def unmeasured(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """What has neither numbers nor an error, in words, for the verdict's notes."""
    notes = [f"{kernel.name} was not cross-compiled" for kernel in kernels if not kernel.targets]
    for kernel in kernels:
        missing = [target.arch for target in kernel.targets if target.error is None and target.registers is None]
        if missing:
            notes.append(f"{kernel.name} was not measured for {', '.join(missing)}")
    return tuple(notes)


def jit_functions(module: ModuleType) -> dict[str, list[Any]]:
    """Every jit function within reach of the module's names, by its own name, out of autotuners and heuristics.

    Looks into classes, closures, containers and objects of the module itself, not into other modules.
    """
    from triton.runtime.jit import JITFunction, KernelInterface

    found: dict[str, list[Any]] = {}
    seen: set[int] = set()
    queue: deque[Any] = deque(vars(module).values())
    while queue:
        item = queue.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, JITFunction):
            found.setdefault(item.fn.__name__, []).append(item)
            queue.extend(_cells(item.fn))
        elif isinstance(item, KernelInterface):
            queue.append(vars(item).get("fn"))
        else:
            queue.extend(_children(item, module.__name__))
    return found


def _children(item: object, module_name: str) -> Iterator[Any]:
    if isinstance(item, dict):
        yield from item.values()
    elif isinstance(item, list | tuple | set | frozenset):
        yield from item
    elif isinstance(item, staticmethod | classmethod):
        yield item.__func__
    elif isinstance(item, functools.partial):
        yield item.func
        yield from item.args
    elif isinstance(item, types.FunctionType):
        yield from _cells(item)
        yield vars(item).get("__wrapped__")
    elif getattr(type(item) if not isinstance(item, type) else item, "__module__", None) == module_name:
        with contextlib.suppress(TypeError):  # no __dict__: nothing inside
            yield from vars(item).values()


def _cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is still empty
            yield cell.cell_contents


def _find(functions: dict[str, list[Any]], launch: Launch) -> Any | None:
    """The jit function of that name; of several, the one whose parameters fit the launch."""
    candidates = functions.get(launch["kernel"], [])
    fitting = [function for function in candidates if set(launch["signature"]) <= set(function.arg_names)]
    return next(iter(fitting), None)


def _worst(results: Sequence[Target]) -> Target:
    failed = [result for result in results if result.error is not None]
    measured = [result for result in results if result.occupancy is not None]
    return failed[0] if failed else min(measured, key=lambda result: result.occupancy or 0.0, default=results[0])


# --- one compilation, inside its fork


def _compile(function: Any, launch: Launch, target: str, functions: dict[str, list[Any]], log: IO[bytes]) -> Target:
    """Numbers or an error line for one kernel on one architecture."""
    try:
        with _quiet(log):
            return _measure(_build(function, launch, target, functions), TARGETS[target])
    except CannotRebuild:
        return Target(arch=target)
    except Exception as error:  # noqa: BLE001 - the compiler raises what it likes; all of it is about this kernel
        own = [one for group in functions.values() for one in group]
        return Target(arch=target, error=_explain(error, function, own, _read(log)))


def _build(function: Any, launch: Launch, target: str, functions: dict[str, list[Any]]) -> Any:
    import triton
    from triton.compiler import ASTSource, make_backend

    def resolve(name: str) -> object:
        if name not in functions:
            raise CannotRebuild(f"the jit function {name} is not within reach of the module")
        return functions[name][0]

    gpu = gpu_target(target)
    _pretend_device(gpu)
    backend = make_backend(gpu)
    source = rebuild(function, launch, resolve)
    options = options_of(launch)
    known = set(vars(backend.parse_options({})))
    for name in options:
        if name not in known:  # the launcher's own rule; the interpreter lets it pass
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    attrs = {path: backend.parse_attr(letters) for path, letters in source.attrs.items()}
    return triton.compile(ASTSource(function, source.signature, source.constexprs, attrs), target=gpu, options=options)


def _measure(compiled: Any, arch: Arch) -> Target:
    """Reads the binary; what the launcher would refuse for want of room is an error here too."""
    metadata, asm = compiled.metadata, compiled.asm
    used = cubin_resources(asm["cubin"]) if arch.backend == "cuda" else amdgcn_resources(asm["amdgcn"])
    threads = metadata.num_warps * arch.warp_size
    columns = getattr(metadata, "tmem_size", None) or 0
    error = None
    if metadata.shared > arch.max_shared_per_block:
        limit = f"{arch.name} has {arch.max_shared_per_block // KB} KB per block"
        error = f"needs {-(-metadata.shared // KB)} KB of shared memory, {limit}"
    elif threads > arch.max_threads_per_block:
        error = f"needs {threads} threads per block, {arch.name} has {arch.max_threads_per_block}"
    elif arch.max_tensor_memory_columns is not None and columns > arch.max_tensor_memory_columns:
        error = f"needs {columns} columns of tensor memory, {arch.name} has {arch.max_tensor_memory_columns}"
    return Target(
        arch=arch.name,
        registers=used.registers,
        spills=used.spills,
        shared_bytes=metadata.shared,
        occupancy=occupancy(arch, used.registers, metadata.shared, metadata.num_warps),
        error=error,
    )


def _pretend_device(gpu: Any) -> None:
    """Parts of the language ask the active driver what the target is; everything else about a device is absent."""
    from triton.runtime import driver

    driver.set_active(types.SimpleNamespace(get_current_target=lambda: gpu))


@contextlib.contextmanager
def _quiet(log: IO[bytes]) -> Iterator[None]:
    """What the compiler says while it works goes to `log`: some of its errors are said only there."""
    sys.stderr.flush()
    os.dup2(log.fileno(), 2)  # not undone: the fork ends with the compilation
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- what went wrong, as one line


def _explain(error: BaseException, function: Any, own: Sequence[Any], said: str) -> str:
    """Error type, line in the candidate's file, the text of that line, and the message."""
    kind, message = _innermost(error)
    place = _place_of(error, own)
    if place is None:
        place, message = _from_output(message, function, said)
    return f"{kind} at line {place[0]} (`{place[1].strip()}`): {_one_line(message)}"


def _from_output(message: str, function: Any, said: str) -> tuple[tuple[int, str], str]:
    """Errors after the front end carry no syntax node: place and reason are in what the compiler or ptxas printed."""
    path = re.escape(function.fn.__code__.co_filename)
    if match := re.search(rf"{path}\"?:(\d+):\d+\)?: error: (.*)", said):
        line, message = int(match[1]), match[2]
    else:
        line = _first_line(function)
        if match := re.search(r"\b(?:error|fatal)\s*: *(.+)", f"{said}\n{message}"):
            message = match[1]
    index = line - int(function.starting_line_number)
    return (line, function.raw_src[index] if 0 <= index < len(function.raw_src) else ""), message


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, outermost first. A compilation error in a helper is wrapped once per call."""
    while error is not None:
        yield error
        error = error.__cause__


def _innermost(error: BaseException) -> tuple[str, str]:
    """Type and message of the root cause; Triton puts some causes into the text only, as `repr(cause)`."""
    cause = list(_chain(error))[-1]
    kind, message = type(cause).__name__, getattr(cause, "error_message", None) or str(cause)
    if isinstance(cause, KeyError) and cause.args:
        message = str(cause.args[0])
    if match := re.fullmatch(r"(\w*(?:Error|Exception|Interrupt|Iteration)\w*)\((.*)\)", message, re.S):
        kind, message = match.groups()
        with contextlib.suppress(ValueError, SyntaxError):
            message = str(parse_literal(message.rstrip(",")))
    return kind, message


def _one_line(message: str) -> str:
    message = re.sub(r" at 0x[0-9a-f]+", "", message)  # addresses differ from run to run
    message = re.sub(r"\s+", " ", message).strip()
    return message if len(message) <= MESSAGE_LIMIT else message[:MESSAGE_LIMIT] + " ..."


def _place_of(error: BaseException, own: Sequence[Any]) -> tuple[int, str] | None:
    """The innermost line of the candidate's own source that the error or its traceback names."""
    by_source = {function.src: function for function in own}
    place = None
    for link in _chain(error):
        function = by_source.get(getattr(link, "src", None))
        line = getattr(getattr(link, "node", None), "lineno", None)
        if function is not None and line is not None:
            place = _line_in_file(function, line)
    return place or _place_in_traceback(error, own)


def _place_in_traceback(error: BaseException, own: Sequence[Any]) -> tuple[int, str] | None:
    """Triton's search for dependencies raises plain errors; its frames still hold the syntax node it was looking at."""
    function: Any = None
    node: Any = None
    frame = error.__traceback__
    while frame is not None:
        local = frame.tb_frame.f_locals
        if any(local.get("self") is one for one in own):
            function, node = local["self"], None
        elif hasattr(local.get("node"), "lineno"):
            node = local["node"]
        frame = frame.tb_next
    return _line_in_file(function, node.lineno) if function is not None and node is not None else None


def _line_in_file(function: Any, line_in_source: int) -> tuple[int, str]:
    """`function.src` begins at `def`, below the decorators; the file has both."""
    return _first_line(function) + line_in_source - 1, function.src.splitlines()[line_in_source - 1]


def _first_line(function: Any) -> int:
    offset = next((i for i, line in enumerate(function.raw_src) if line.strip().startswith("def ")), 0)
    return int(function.starting_line_number) + offset


def _read(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read(1 << 20).decode(errors="replace")


# --- forks


@dataclass(frozen=True)
class _Job:
    kernel: str
    target: str
    compile: Callable[[IO[bytes]], Target]


@dataclass
class _Running:
    index: int
    process: BaseProcess
    log: IO[bytes]
    deadline: float


def _run_forked(work: Sequence[_Job], timeout_s: float, jobs: int) -> list[Target]:
    """Runs every job in a fork, at most `jobs` at once; the answers come in the order of the jobs."""
    results: dict[int, Target] = {}
    waiting = deque(enumerate(work))
    running: dict[Connection, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            index, job = waiting.popleft()
            connection, started = _start(index, job, timeout_s)
            running[connection] = started
        nearest = min(one.deadline for one in running.values())
        ready = wait(list(running), timeout=max(0.0, nearest - time.monotonic()))
        for connection, one in list(running.items()):
            if connection in ready or time.monotonic() >= one.deadline:
                del running[connection]
                results[one.index] = _finish(work[one.index], connection, one, late=connection not in ready)
    return [results[index] for index in range(len(work))]


def _start(index: int, job: _Job, timeout_s: float) -> tuple[Connection, _Running]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `_finish`
    process = context.Process(target=_serve, args=(job, theirs, log), daemon=True)
    try:
        process.start()
    except OSError as error:
        raise JudgeError("cannot fork a compiler process", hint=str(error)) from error
    theirs.close()
    return ours, _Running(index, process, log, time.monotonic() + timeout_s)


def _serve(job: _Job, connection: Connection, log: IO[bytes]) -> None:
    connection.send_bytes(job.compile(log).model_dump_json().encode())


def _finish(job: _Job, connection: Connection, one: _Running, *, late: bool) -> Target:
    try:
        if late:
            return Target(arch=job.target)
        return Target.model_validate(json.loads(connection.recv_bytes()))
    except (EOFError, OSError, ValueError):  # it died, or a function of the candidate wrote into the pipe
        one.process.join(timeout=1.0)
        said = [line for line in _read(one.log).splitlines() if "error" in line.lower()] or ["no message"]
        status = f"the compiler crashed (exit status {one.process.exitcode})"
        return Target(arch=job.target, error=f"{status}: {_one_line(said[0])}")
    finally:
        one.process.kill()
        one.process.join()
        one.log.close()
        connection.close()
