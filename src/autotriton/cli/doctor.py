"""`autotriton doctor`: what this machine can do, and live proof that the sandbox holds. Exit 3 when a probe fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False) -> None:
    """Show the machine, the versions and the sandbox, and check that the sandbox holds."""
    from autotriton import machine
    from autotriton.judge.sandbox import detect, selfcheck

    found = machine.describe()
    versions = machine.versions()
    kind = detect()
    if not as_json:
        _show_machine(found.model_dump(), versions, kind, machine.uncompiled())
    probes = []
    for probe in selfcheck.run():
        probes.append({"name": probe.name, "passed": probe.passed, "detail": probe.detail})
        if not as_json:
            _show_probe(probe.name, probe.passed, probe.detail)
    passed = bool(probes) and all(probe["passed"] for probe in probes)
    if as_json:
        result = {"machine": found.model_dump(mode="json"), "versions": versions, "sandbox": kind}
        result["uncompiled"] = [str(folder) for folder in machine.uncompiled()]
        print(json.dumps({**result, "probes": probes, "passed": passed}))
    raise typer.Exit(0 if passed else 3)


def _show_machine(found: dict[str, object], versions: dict[str, str], kind: str, uncompiled: Sequence[Path]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    gpu = found["gpu"] or "none: kernels run in Triton's interpreter, nothing is timed"
    if found["gpu"]:
        gpu = f"{gpu}, compute capability {found['compute_capability']}, {found['gpu_memory_gib']} GiB"
    table.add_row("GPU", str(gpu))
    if found["driver"]:
        table.add_row("driver", str(found["driver"]))
    table.add_row("CPU", f"{found['cpu']}, {found['cores']} cores")
    table.add_row("system", str(found["platform"]))
    table.add_row("python", str(found["python"]))
    for name, version in versions.items():
        table.add_row(name, version)
    table.add_row("sandbox", kind)
    Console().print(table, soft_wrap=True)
    if uncompiled:
        names, folders = " and ".join(path.name for path in uncompiled), " ".join(str(path) for path in uncompiled)
        told = (
            f"{names} not compiled: every process takes seconds longer. To mend it: python -m compileall -q {folders}"
        )
        Console().print("[yellow]slow[/]", escape(told), soft_wrap=True)


def _show_probe(name: str, passed: bool, detail: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    mark = "[green]passed[/]" if passed else "[red]failed[/]"
    Console().print(f"{mark}  {escape(name)}" + (f": {escape(detail)}" if detail else ""), soft_wrap=True)
