"""The KernelBench speed benchmark: its counting by hand, its resuming, and a few tiny problems from end to end."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from autotriton.errors import UsageError
from autotriton.types import Candidate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import kernelbench_proposals as proposals  # noqa: E402
import kernelbench_speed as speed  # noqa: E402
import kernelbench_table as table  # noqa: E402


def row(name: str, status: str = "correct", level: int = 1, **more) -> table.Row:
    known = {"level": level, "name": name, "status": status, "engine": "auto", "family": "matmul", "notes": []}
    return {**known, "seconds": {"all": 1.0}, **more}


def sped(compile_ratio: float, eager_ratio: float, margin: float = 0.1) -> dict[str, dict[str, float]]:
    def one(ratio: float) -> dict[str, float]:
        return {"ratio": ratio, "low": ratio - margin, "high": ratio + margin}

    return {"compile": one(compile_ratio), "eager": one(eager_ratio)}


# --- counting ---------------------------------------------------------------------------------------------


def test_a_failed_problem_counts_as_run_eagerly():
    rows = [
        row("1_a", speedups=sped(2.0, 4.0)),
        row("2_b", "failed", baselines_ms={"eager": 2.0, "compile": 1.0}, reason="wrong: no"),
        row("3_c", "excluded", reason="random by itself"),
        row("4_d", speedups=sped(1.05, 1.0)),
    ]
    found = table.Summary.of(rows)
    assert (found.count, found.correct, found.excluded) == (3, 2, ("3_c",))
    # 2.0 and 1.05 ours, and 0.5 where torch.compile is twice as fast as eager.
    assert found.means["compile"] == pytest.approx((2.0 * 1.05 * 0.5) ** (1 / 3))
    assert found.means["eager"] == pytest.approx((4.0 * 1.0 * 1.0) ** (1 / 3))
    # 1.05 - 0.1 is below one: not certainly faster.
    assert found.faster == {"compile": 1, "eager": 1}


def test_without_a_baseline_a_problem_is_in_no_mean_but_named():
    rows = [
        row("2_b", speedups=sped(1, 3)),
        row("1_a", speedups={"eager": sped(1, 3)["eager"]}, notes=["baseline compile could not be measured: x"]),
    ]
    found = table.Summary.of(rows)
    assert found.means == pytest.approx({"compile": 1.0, "eager": 3.0})
    assert found.counted == {"compile": 1, "eager": 2}
    assert "baseline compile could not be measured: x" in table.report(rows)


def test_the_report_names_failures_exclusions_degenerate_tasks_and_memory():
    rows = [
        row("10_late", "failed", reason="wrong: values\nare off"),
        row("2_early", "failed", reason="no candidate: unsupported"),
        row("3_random", "excluded", reason="task 3_random is random by itself"),
        row("4_flat", speedups=sped(1.5, 2.0), notes=["degenerate task: output is constant"]),
        row(
            "5_big",
            speedups=sped(1.5, 2.0),
            notes=["peak memory is 1.30 times eager's"],
            family="norm",
            peak_memory_bytes=13,
            baseline_memory_bytes={"eager": 10},
            cached_baselines=True,
        ),
    ]
    text = table.report(rows)
    assert "| 1 | 2 of 4 | 0 | 1.50x (of 2) | 2.00x (of 2) | 2 | 2 | 1.30x (of 1) |" in text
    assert text.index("2_early: no candidate: unsupported") < text.index("10_late: wrong: values are off")
    assert "## Left out: 1" in text
    assert "4_flat: degenerate task" in text
    assert "5_big: peak memory is 1.30 times eager's" in text
    assert "| norm | 1 | 1 | 1.50x | 2.00x | 1 | 0.0% | 5_big (1.50x) |" in text
    assert "## Times of torch.compile from an earlier run: 1" in text


def test_what_a_family_loses_by_hand():
    rows = [row("1_a", speedups=sped(0.5, 1.0)), row("2_b", speedups=sped(2.0, 2.0)), row("3_c", "excluded")]
    # Without the 0.5 the mean of two would be 2 ** (1/2) higher.
    assert table.lost(rows, 2) == pytest.approx(2**0.5 - 1)
    assert table.lost(rows[1:], 2) == 0.0


def test_engines_are_reported_apart():
    rows = [row("1_a", speedups=sped(2, 2)), row("1_a", "failed", engine="templates", reason="no")]
    text = table.report(rows)
    assert "# engine auto" in text
    assert "# engine templates" in text
    assert table.report([]) == "no results"


@pytest.mark.parametrize(
    ("name", "code", "family"),
    [
        ("1_MLP", "nn.Linear(1, 2)", "matmul"),
        ("7_x", "A @ B", "matmul"),
        ("9_x", "nn.ConvTranspose2d(1, 2, 3); nn.Conv2d(1, 2, 3)", "transposed convolution"),
        ("9_x", "nn.Conv2d(1, 2, 3); nn.Linear(1, 2); x.max()", "convolution"),
        ("35_LSTM", "nn.LSTM(1, 2); nn.Linear(1, 2)", "recurrent"),
        ("43_MinGPTCausalAttention", "nn.Linear(1, 2)", "attention"),
        ("36_RMSNorm_", "torch.sqrt(torch.mean(x ** 2))", "norm"),
        ("98_KLDivLoss", "torch.mean(x)", "loss"),
        ("51_Argmax", "torch.argmax(x, dim=1); '''nn.Conv2d'''", "arg-reduction"),
        ("47_Sum", "torch.sum(x)  # matmul", "reduction"),
        ("89_cumsum", "torch.cumsum(x, 1)", "scan"),
        ("19_ReLU", "torch.relu(x)", "pointwise"),
    ],
)
def test_problems_have_families(name, code, family):
    assert table.family(name, code) == family


# --- resuming ---------------------------------------------------------------------------------------------


def test_the_last_line_of_a_problem_counts_and_torn_lines_do_not(tmp_path):
    path = tmp_path / "results.jsonl"
    lines = [{"run": {}}, row("1_a", "failed"), row("2_b"), row("1_a"), row("1_a", "failed", engine="templates")]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"level": 1, "na')
    rows = table.load(path)
    assert sorted((one["engine"], one["name"], one["status"]) for one in rows) == [
        ("auto", "1_a", "correct"),
        ("auto", "2_b", "correct"),
        ("templates", "1_a", "failed"),
    ]
    assert table.load(tmp_path / "none") == []


def test_what_is_done_is_skipped_what_broke_is_done_again():
    rows = [
        row("1_a"),
        row("2_b", "failed"),
        row("3_c", "error"),
        row("4_d", "excluded"),
        row("5_e", engine="templates"),
    ]
    problems = [(1, name) for name in ("1_a", "2_b", "3_c", "4_d", "5_e", "6_f")]
    todo = table.pending(problems, rows, "auto", retry_failed=False)
    assert [name for _, name in todo] == ["3_c", "5_e", "6_f"]
    todo = table.pending(problems, rows, "auto", retry_failed=True)
    assert [name for _, name in todo] == ["2_b", "3_c", "5_e", "6_f"]


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "bench" / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for name in ("10_Tanh", "2_ReLU", "1_Sum_of_rows", "3_Softmax"):
        (folder / f"{name}.py").write_text("x = 1\n")
    return tmp_path / "bench"


def test_problems_are_found_in_their_order_by_number_or_name(checkout):
    def names(only=(), limit=None, root=checkout):
        return [problem.name for problem in speed.find(root, [1], list(only), limit)]

    assert names() == ["1_Sum_of_rows", "2_ReLU", "3_Softmax", "10_Tanh"]
    assert names(limit=2, root=checkout / "KernelBench") == ["1_Sum_of_rows", "2_ReLU"]
    assert names(["1", "soft"]) == ["1_Sum_of_rows", "3_Softmax"]
    with pytest.raises(UsageError, match="no level 2"):
        speed.find(checkout, [2], [], None)


def test_the_checkouts_commit_is_named(checkout):
    assert speed.suite_of(checkout) == "kernelbench@unknown"
    (checkout / ".git" / "refs" / "heads").mkdir(parents=True)
    (checkout / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (checkout / ".git" / "refs" / "heads" / "main").write_text("423217d0123456789\n")
    assert speed.suite_of(checkout) == "kernelbench@423217d01234"


def test_bad_calls_are_one_line(tmp_path, capsys):
    assert speed.main(["--out", str(tmp_path / "r")]) == 2
    assert "--root is missing" in capsys.readouterr().err
    assert speed.main(["--root", str(tmp_path)]) == 2
    assert "--out is missing" in capsys.readouterr().err
    assert speed.main(["--root", str(tmp_path), "--propose-only"]) == 2
    assert "--proposals DIR" in capsys.readouterr().err
    assert speed.main(["--out", str(tmp_path / "r"), "--root", str(tmp_path), "--proposer", f"files:{tmp_path}"]) == 2
    assert "has no level 1" in capsys.readouterr().err
    assert speed.main(["--out", str(tmp_path / "r"), "--report"]) == 0
    assert capsys.readouterr().out == "no results\n"


# --- proposals made ahead -----------------------------------------------------------------------------------


def test_proposals_are_made_once_kept_and_used(checkout, tmp_path, capsys):
    asked = []

    class Counting:
        def propose(self, task, history):
            asked.append(task.id)
            if task.id == "2_ReLU":
                raise ZeroDivisionError("a bug")
            yield Candidate(task_id=task.id, code=f"code of {task.id}", proposer="p", choices={"w": ({"B": 1},)})

    more = ("--proposals", str(tmp_path / "shelf"), "--propose-only", "--workers", "2")
    args = arguments(checkout, tmp_path / "r.jsonl", *more)
    assert speed.propose(args, Counting()) == 0
    assert sorted(asked) == ["10_Tanh", "1_Sum_of_rows", "2_ReLU", "3_Softmax"]
    assert speed.propose(args, Counting()) == 0
    assert len(asked) == 4
    assert "0 of 4 problems to propose for" in capsys.readouterr().out
    tasks = {problem.name: problem.task("s") for problem in speed.find(checkout, [1], [], None)}
    shelf = proposals.Shelf(tmp_path / "shelf", "auto")
    found = proposals.gather(proposals.ShelfProposer(shelf, 1, None), tasks["3_Softmax"], 4)
    assert [(one.code, one.choices) for one in found.candidates] == [("code of 3_Softmax", {"w": ({"B": 1},)})]
    broken = proposals.gather(proposals.ShelfProposer(shelf, 1, None), tasks["2_ReLU"], 4)
    assert (broken.candidates, broken.complaint) == ((), "ZeroDivisionError: a bug")
    changed = tasks["3_Softmax"].model_copy(update={"source": "x = 2"})
    assert "no proposals" in proposals.gather(proposals.ShelfProposer(shelf, 1, None), changed, 4).complaint
    assert proposals.gather(proposals.ShelfProposer(shelf, 1, Counting()), changed, 4).candidates


def test_no_time_makes_no_proposals(checkout, tmp_path):
    args = arguments(checkout, tmp_path / "r", "--proposals", str(tmp_path / "s"), "--propose-only", "--seconds", "1")
    assert speed.propose(args, NOBODY) == 1
    assert not (tmp_path / "s").exists()


class Nobody:
    def propose(self, task, history):
        return iter(())


NOBODY = Nobody()


class SlowSolver:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def solve(self, task, proposer):
        assert list(proposer.propose(task, ())) == []
        time.sleep(self.seconds)
        if task.id == "2_ReLU":
            raise ZeroDivisionError("a bug")
        return {"status": "correct", "proposer": "test", "speedups": {}, "code": task.source, "seconds": {"judge": 1.0}}


def arguments(checkout: Path, out: Path, *more: str):
    args = speed.parser().parse_args(["--root", str(checkout), "--out", str(out), "--levels", "1", *more])
    args.suite = "kernelbench@test"
    return args


def test_a_bug_costs_its_problem_only_and_is_a_line(checkout, tmp_path, capsys):
    args = arguments(checkout, tmp_path / "r.jsonl", "--workers", "2", "--save", str(tmp_path / "kernels"))
    board = speed.Board(args.out, 4)
    assert speed.work_through(speed.find(checkout, [1], [], None), SlowSolver(0.0), NOBODY, board, args, None)
    rows = {one["name"]: one for one in table.load(args.out)}
    assert len(rows) == 4
    assert rows["2_ReLU"]["status"] == "error"
    assert "ZeroDivisionError: a bug (test_kernelbench_speed.py:" in rows["2_ReLU"]["reason"]
    assert rows["3_Softmax"]["seconds"].keys() == {"judge", "all"}
    assert "code" not in rows["3_Softmax"]
    assert (tmp_path / "kernels" / "level1" / "3_Softmax.py").read_text() == "x = 1\n"
    assert "[4/4]" in capsys.readouterr().out


def test_the_deadline_leaves_the_rest_for_the_next_call(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "_LAST_WORDS_S", 0.2)
    args = arguments(checkout, tmp_path / "r.jsonl", "--workers", "1", "--only", "sum", "soft", "tanh")
    board = speed.Board(args.out, 3)
    problems = speed.find(checkout, [1], args.only, None)
    started = time.monotonic()
    assert not speed.work_through(problems, SlowSolver(0.4), NOBODY, board, args, started + 1.0)
    board.close()
    assert time.monotonic() - started < 1.0
    time.sleep(0.5)  # whatever is still running then has no place to write to
    assert len(table.load(args.out)) == 1


def test_however_little_time_there_is_something_gets_done(checkout, tmp_path):
    args = arguments(checkout, tmp_path / "r.jsonl", "--workers", "1", "--only", "sum", "soft")
    board = speed.Board(args.out, 2)
    problems = speed.find(checkout, [1], args.only, None)
    deadline = time.monotonic() + speed._LAST_WORDS_S + 0.5
    assert not speed.work_through(problems, SlowSolver(0.3), NOBODY, board, args, deadline)
    assert board.done == 1


# --- from end to end --------------------------------------------------------------------------------------

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {expression}

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return []
"""
CODE = """
import torch
import triton
import triton.language as tl

TILES = {"relu": {"BLOCK": 16, "num_warps": 4}}

@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)

def relu(x):
    y, n = torch.empty_like(x), x.numel()
    relu_kernel[(triton.cdiv(n, TILES["relu"]["BLOCK"]),)](x, y, n, **TILES["relu"])
    return y

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return relu(x)
"""


class TunableProposer:
    """Answers relu to everything."""

    def propose(self, task, history):
        choices = {"relu": tuple({"BLOCK": block, "num_warps": 4} for block in (16, 512))}
        yield Candidate(task_id=task.id, code=CODE, proposer="test", choices=choices)


@pytest.mark.interp
@pytest.mark.slow
def test_tiny_problems_from_end_to_end(tmp_path, capsys):
    folder = tmp_path / "bench" / "level1"
    folder.mkdir(parents=True)
    for name, expression in (
        ("1_ReLU", "torch.relu(x)"),
        ("2_Sum", "x.sum(dim=1)"),
        ("3_Dropout", "torch.nn.functional.dropout(x, 0.5)"),
    ):
        (folder / f"{name}.py").write_text(TASK.replace("{expression}", expression))
    more = (
        "--device",
        "cpu",
        "--workers",
        "2",
        "--tune-on-cpu",
        "--tune-seconds",
        "30",
        "--cache",
        str(tmp_path / "c"),
    )
    args = arguments(tmp_path / "bench", tmp_path / "out" / "r.jsonl", *more)
    assert speed.run(args, TunableProposer()) == 0
    rows = {one["name"]: one for one in table.load(args.out)}
    assert rows["1_ReLU"]["status"] == "correct"
    assert rows["1_ReLU"]["proposer"] == "test+tuned", rows["1_ReLU"]["tuning"]
    assert rows["1_ReLU"]["seconds"].keys() == {"propose", "wait", "judge", "tune", "all"}
    assert rows["2_Sum"]["status"] == "failed"
    assert rows["2_Sum"]["reason"].startswith("wrong: ")
    assert rows["3_Dropout"]["status"] == "excluded"
    first = json.loads(args.out.read_text().splitlines()[0])["run"]
    assert first["options"]["levels"] == [1]
    assert first["commit"]
    size = len(args.out.read_text().splitlines())
    assert speed.run(args, TunableProposer()) == 0
    assert len(args.out.read_text().splitlines()) == size + 1  # only what made the run
    assert "0 of 3 problems to do" in capsys.readouterr().out
