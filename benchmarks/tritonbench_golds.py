"""TritonBench's own golds as candidates: do both protocols accept what they must?

    python benchmarks/tritonbench_golds.py --root CHECKOUT --channel g [--workers 14] [--out golds-g.jsonl]

One line per gold in `--out`; a run that is interrupted goes on from there. Prints the shares of `official` and
`checked` and names every gold that fails either, with the reason. Golds are trusted: the rules and
Triton's duty are switched off (`--policy` switches them on, to see which golds obey them).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from autotriton.bench.examine import Examined, Job
from autotriton.bench.scripts import ScriptExaminer
from autotriton.errors import AutoTritonError
from autotriton.tasks import tritonbench
from autotriton.types import Candidate, Policy, Task


def row(examined: Examined) -> dict[str, Any]:
    """What is kept of one gold."""
    verdict, official = examined.verdict, examined.official
    return {
        "task": examined.job.task.id,
        "called": bool(official and official.called),
        "executed": bool(official and official.executed),
        "official_detail": official.detail if official else "",
        "checked": bool(verdict and verdict.accepted),
        "outcome": str(verdict.outcome) if verdict else "no verdict",
        "message": verdict.message if verdict else examined.error,
        "calls": len(verdict.checks) if verdict else 0,
        "notes": list(verdict.notes) if verdict else [],
        "seconds": sum(verdict.stage_seconds.values()) if verdict else None,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Shares, then everything that fails."""
    executed = [one for one in rows if one["executed"]]
    checked = [one for one in executed if one["checked"]]
    unjudged = [one for one in rows if any(note.startswith("degenerate task:") for note in one["notes"])]
    lines = [
        f"golds              {len(rows)}",
        f"official, called   {sum(one['called'] for one in rows)}",
        f"official, executed {len(executed)}",
        f"checked, of these  {len(checked)} ({len(checked) / max(len(executed), 1):.1%})",
        f"values not judged  {len(unjudged)}",
    ]
    for title, chosen, reason in (
        ("official fails", [one for one in rows if not one["executed"]], "official_detail"),
        ("checked fails", [one for one in rows if not one["checked"]], "message"),
    ):
        lines += ["", f"{title}:", *(f"  {one['task']:44} {str(one[reason])[:160]}" for one in chosen)]
    lines += ["", "notes:", *(f"  {one['task']:44} {'; '.join(one['notes'])[:160]}" for one in rows if one["notes"])]
    return "\n".join(lines)


def jobs(tasks: list[Task]) -> list[Job]:
    golds = (task.source.rpartition(tritonbench.SEPARATOR)[0] for task in tasks)
    return [
        Job(number, task, Candidate(task_id=task.id, code=code))
        for number, (task, code) in enumerate(zip(tasks, golds, strict=True))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--channel", required=True, choices=tritonbench.CHANNELS)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--step", type=int, default=1, help="every so manieth gold only")
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--policy", choices=[str(policy) for policy in Policy], help="do not trust the golds")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out: Path = given.out or Path(f"golds-{given.channel}.jsonl")
    try:
        tasks, version = tritonbench.load(given.root, given.channel)
        tasks = tasks[:: given.step][: given.limit]
        kept = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        done = {one["task"] for one in kept}
        policy = Policy(given.policy or Policy.STRICT)
        examiner = ScriptExaminer(
            policy, given.device, given.workers, given.timeout, trust_candidate=given.policy is None
        )
    except (AutoTritonError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    started = time.monotonic()
    left = jobs([task for task in tasks if task.id not in done])
    try:
        with out.open("a") as file:
            for count, examined in enumerate(examiner.examine(left), 1):
                kept.append(row(examined))
                file.write(json.dumps(kept[-1]) + "\n")
                file.flush()
                print(f"\r{count}/{len(left)} {examined.job.task.id:50}", end="", file=sys.stderr, flush=True)
    finally:
        examiner.close()
    names = {task.id for task in tasks}
    print(f"\ntritonbench-{given.channel}@{version}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(table(sorted((one for one in kept if one["task"] in names), key=lambda one: str(one["task"]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
