"""The data card: what is in the set, where it came from, what was left out and why, and ten rows to look at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import autotriton
from autotriton.configs import plain
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.records import Removed
from autotriton.data.build.routes import INDUCTOR
from autotriton.data.rows import Example
from autotriton.judge import JUDGE_VERSION
from autotriton.propose.compiler.inductor.licence import NOTICE

_SHOWN, _LISTED = 10, 200
_GAPS = (
    "The compilers' answers share one hand: their forms vary in names, layout and tiles, not in ideas.",
    "Backward passes, sparse and complex tensors, and random operators are not in it.",
    "Synthesised tasks are small, so that an interpreter can verify them: nothing here says which kernel is fastest.",
    "Benchmark scripts without a `Model` and `get_inputs` were kept out by text only, not by operator graph.",
    "Graphs of benchmark tasks are recorded without running them; attention may be taken apart differently there.",
)


def text(config: BuildConfig, stats: Mapping[str, Any], pairs: Sequence[Example], removed: Sequence[Removed]) -> str:
    build = stats["build"]
    parts = [
        f"# {config.name}",
        "Tasks in PyTorch with answers in Triton, every answer accepted by the judge under the policy "
        f"`{config.verify.policy.value}`. Made by AutoTriton {autotriton.__version__} "
        f"with judge {JUDGE_VERSION}, seed {config.seed}.",
        "## Files",
        _table(
            ("file", "rows", "graphs", "operators", "largest family"),
            [
                (
                    f"`{name}.parquet`",
                    part["rows"],
                    part["graphs"],
                    part["ops"],
                    _share(part["largest_family_share"]),
                )
                for name in ("sft", "rl", "held_out")
                for part in [stats[name]]
            ],
        ),
        _lengths(stats),
        "## Sources and licences",
        _counts(stats, "sources", ("source", "sft", "rl", "held_out")),
        _counts(stats, "licences", ("licence", "sft", "rl", "held_out")),
        _harvest(build["harvest"]),
        _generated(stats),
        "## Families and difficulty",
        _counts(stats, "families", ("family", "sft", "rl", "held_out")),
        _counts(stats, "difficulty", ("difficulty", "sft", "rl", "held_out")),
        f"Of the RL tasks {_share(stats['rl']['harder_than_median_sft'])} are harder than the median pair. "
        f"Held-out tasks whose graph is also in training: {stats['held_out']['graphs_also_in_training']}.",
        "![families](families.png)\n\n![lengths](lengths.png)",
        "## Routes",
        _table(("route", "pairs"), list(stats["sft"]["routes"].items())),
        "## Filters",
        f"{build['gathered']} tasks were admitted. Drafts refused:",
        _table(("reason", "drafts"), list(build["refused"].items())),
        "Proposals, and tasks a route had none for:",
        _table(("result", "tasks"), list(build["proposed"].items())),
        "Answers by the judge's word; only `correct` ones are kept:",
        _table(("outcome", "answers"), list(build["judged"].items())),
        "Tasks and pairs removed:",
        _table(("stage and reason", "rows"), list(build["removed"].items())),
        "## Benchmarks kept out",
        _benchmarks(build["benchmarks"], removed),
        "## Known gaps",
        "\n".join(f"- {gap}" for gap in _GAPS),
        "## How it was made",
        f"```json\n{json.dumps(plain(config), indent=1)}\n```",
        "## Ten rows",
        *_rows(pairs, config.seed),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def front(name: str) -> str:
    """What `datasets` reads to find the three files."""
    files = "".join(
        f"- config_name: {part}\n  data_files:\n  - split: {split}\n    path: {part}.parquet\n"
        for part, split in (("sft", "train"), ("rl", "train"), ("held_out", "test"))
    )
    return f"---\nlicense: apache-2.0\nconfigs:\n{files}---\n\n# {name}\n\nSee [card.md](card.md).\n"


def _generated(stats: Mapping[str, Any]) -> str:
    """What a licence wants to be said once of rows that leave it away."""
    if INDUCTOR not in stats["sft"]["routes"]:
        return ""
    notice = "\n".join(line.removeprefix("#").removeprefix(" ") for line in NOTICE.strip().split("\n"))
    return f"Answers by the route `{INDUCTOR}`:\n\n```text\n{notice}\n```"


def _lengths(stats: Mapping[str, Any]) -> str:
    found = stats["sft"]["answer_characters"]
    if found is None:
        return ""
    return (
        f"Answers have {found['median']} characters in the median; a tenth is shorter than {found['p10']}, a tenth "
        f"longer than {found['p90']} (least {found['least']}, most {found['most']}). {stats['sft']['tasks']} different "
        f"tasks have an answer."
    )


def _harvest(report: Mapping[str, Any]) -> str:
    lines = [f"- {name}: left out, {why}" for name, why in report["refused"].items()]
    lines += [f"- broken file, skipped: {path} ({why})" for path, why in list(report["problems"].items())[:20]]
    taken = ", ".join(report["packages"])
    return "\n".join([*([f"Packages harvested: {taken}."] if taken else []), *lines])


def _benchmarks(about: Mapping[str, Any] | None, removed: Sequence[Removed]) -> str:
    if about is None:
        return "None was named: **this data set is not decontaminated.**"
    found = [row for row in removed if row.reason.startswith(("benchmark", "answer like a benchmark"))]
    rows = [(row.row, row.reason, row.detail) for row in found[:_LISTED]]
    more = f"\n\n{len(found) - _LISTED} more are in `removed.jsonl`." if len(found) > _LISTED else ""
    return (
        f"{', '.join(about['roots'])}: {about['files']} files compared by normal form and by runs of words, "
        f"{about['graphs']} tasks by operator graph with shapes; the graph of {len(about['without_graph'])} could not "
        f"be recorded. Digest of their texts: `{about['digest']}`. Removed: {len(found)}.\n\n"
        + (_table(("row", "how", "like"), rows) if rows else "")
        + more
    ).rstrip()


def _rows(pairs: Sequence[Example], seed: int) -> list[str]:
    chosen = Random(f"{seed}:card").sample(list(pairs), min(_SHOWN, len(pairs)))
    shown = []
    for number, row in enumerate(chosen, start=1):
        facts = row.model_dump(mode="json", exclude={"prompt", "completion", "source", "code"})
        shown.append(
            f"### {number}. {row.id}\n\n`{json.dumps(facts)}`\n\n**Question**\n\n{_quoted(row.prompt)}\n\n"
            f"**Answer**\n\n{_quoted(row.completion)}"
        )
    return shown


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _counts(stats: Mapping[str, Any], key: str, head: tuple[str, ...]) -> str:
    names = Counter[str]()
    for part in head[1:]:
        names.update(stats[part][key])
    return _table(
        head, [(name, *(stats[part][key].get(name, 0) for part in head[1:])) for name, _ in names.most_common()]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return "None."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"
