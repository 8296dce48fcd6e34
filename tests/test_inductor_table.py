"""The table over KernelBench: what is counted, and that a second call goes on where the first stopped."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import inductor_table as table  # noqa: E402

TASK = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def row(name: str, level: int = 1, **more: object) -> dict[str, object]:
    base = {"level": level, "name": name, "emitted": True, "outside": None, "reason": None, "seconds": 2.0}
    return {**base, "variants": [{"name": "default", "kernels": 3, "settings": 4}], **more}


def test_report_counts_and_names_what_is_missing():
    timed = [{"name": "default", "kernels": 1, "accepted": True, "over_compile": {"ratio": 2.0}}]
    rows = [
        row("10_B", variants=timed),
        row("9_A", emitted=False, variants=[], outside="mm", reason="no Triton kernel for mm"),
    ]
    lines = table.report(rows).splitlines()
    assert lines[2] == "| 1 | 2 | 1 | 1 | 1 | 1 | 2.0 | 2.00x (of 1) |"
    assert lines[-1] == "- L1 9_A: no Triton kernel for mm"


def test_a_second_call_goes_on_where_the_first_stopped(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for name in ("1_a", "2_b", "10_c"):
        (folder / f"{name}.py").write_text(TASK)
    seen: list[str] = []

    class Proposer:
        def __init__(self, **_: object) -> None: ...

        def propose(self, task, history):
            seen.append(task.id)
            yield table.Candidate(task_id=task.id, code="def a_kernel():\n    pass\n", proposer="compiler:inductor")

    monkeypatch.setattr(table, "CompilerProposer", Proposer)
    monkeypatch.setattr(table, "_timed", lambda task, candidate: {})
    arguments = ["--root", str(tmp_path), "--level", "1", "--out", str(tmp_path / "out.jsonl")]
    assert table.main([*arguments, "--limit", "2"]) == 0
    assert table.main(arguments) == 0
    assert seen == ["1_a", "2_b", "10_c"]
    assert "| 1 | 3 | 3 | 0 | 3 | 1 |" in capsys.readouterr().out


def test_a_folder_without_the_level_is_one_line(tmp_path, capsys):
    assert table.main(["--root", str(tmp_path), "--level", "7"]) == 2
    assert "has no level 7" in capsys.readouterr().err
