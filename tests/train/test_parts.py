"""Configs, rewards, the guard, the curriculum, the journal, rows: the parts that need no model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from autotriton.data.rows import Example, TaskRow
from autotriton.errors import UsageError
from autotriton.train.config import CurriculumPart, DataPart, GrpoConfig, GuardPart, RewardPart, SftConfig, load
from autotriton.train.curriculum import Curriculum
from autotriton.train.dataset import apart, chosen, read, write
from autotriton.train.guard import Guard
from autotriton.train.journal import Journal
from autotriton.train.reward import reward
from autotriton.types import Finding, Outcome, Policy, Severity, Speedup, Tier, Verdict

BASE = '[model]\npath = "m"\n[data]\ntrain = ["d.jsonl"]\n'


def _config(folder: Path, text: str) -> Path:
    path = folder / "c.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_config_with_changes(tmp_path: Path) -> None:
    changes = ["lora.rank=8", "optim.learning_rate=2e-5", "model.path=other", "reward.rule=false"]
    config = load(GrpoConfig, _config(tmp_path, BASE), changes)
    assert (config.lora.rank, config.optim.learning_rate, config.model.path) == (8, 2e-5, "other")
    assert not config.reward.rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE + "[optim]\nlerning_rate = 1\n", r"unknown key optim.lerning_rate \(did you mean learning_rate\?\)"),
        ("stepz = 3\n" + BASE, r"unknown key stepz \(did you mean steps\?\)"),
        (
            BASE + "plain = ['norm', 'convlution']\n",
            r"data.plain: unknown family convlution \(did you mean convolution\?\)",
        ),
        (BASE + "plain = ['rnn']\n", r"unknown family rnn \(known: attention, recurrent, .*, pointwise\)"),
        (BASE + "[reward]\nrule = false\nexecution = false\n", "cannot both be off"),
        (BASE + "[reward]\nspeed = 0.5\n", "needs judge.tier"),
        ("[model\n", "is no TOML"),
        ("[model]\npath = 'm'\n", "data: Field required"),
        (BASE + "[optim]\nlearning_rate = nan\n", "learning_rate"),
        (BASE + "[optim]\nclip_norm = inf\n", "clip_norm: Input should be a finite number"),
        (BASE + "[solve]\nevery = 5\n", "solve.every needs data.held_out"),
        ("[model]\npath = 'm'\n[data]\ntrain = []\n", "data.train: .*at least 1"),
        ("micro_batch = 3\n" + BASE, "micro_batch = 3 does not divide the 512 answers of a step"),
    ],
)
def test_a_wrong_config_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(GrpoConfig, _config(tmp_path, text))


def test_the_shipped_configs_are_right() -> None:
    folder = Path(__file__).parents[2] / "configs" / "train"
    found = sorted(folder.glob("*.toml"))
    assert found
    for path in found:
        load(SftConfig if "sft" in path.stem else GrpoConfig, path)


def _verdict(outcome: Outcome, **more: Any) -> Verdict:
    return Verdict(outcome=outcome, message="", policy=Policy.STRICT, tier=Tier.RUN, **more)


REFUSED = (Finding(rule="r", severity=Severity.ERROR, message=""),)
NO_RULE, NO_EXECUTION = RewardPart(rule=False), RewardPart(execution=False)


@pytest.mark.parametrize(
    ("verdict", "paper", "without_rule", "without_execution"),
    [
        (_verdict(Outcome.CORRECT), 1.0, 1.0, 1.0),
        (_verdict(Outcome.WRONG), 0.0, 0.0, 1.0),
        (_verdict(Outcome.CRASHED), 0.0, 0.0, 1.0),
        (_verdict(Outcome.REJECTED, findings=REFUSED), 0.0, 0.0, 0.0),
        (_verdict(Outcome.NO_CODE), 0.0, 0.0, 0.0),
        (_verdict(Outcome.SUSPECT), 0.0, 0.0, 0.0),
        (_verdict(Outcome.NO_WORK), 0.0, 0.0, 1.0),
        (None, None, None, None),
    ],
)
def test_rewards(verdict: Any, paper: Any, without_rule: Any, without_execution: Any) -> None:
    assert reward(verdict, RewardPart()).value == paper
    assert reward(verdict, NO_RULE).value == without_rule
    assert reward(verdict, NO_EXECUTION).value == without_execution


@pytest.mark.parametrize(("low", "value"), [(0.5, 1.0), (1.0, 1.0), (1.5, 1.25), (2.0, 1.5), (50.0, 1.5)])
def test_the_speed_term_is_bounded_and_counts_the_lower_end(low: float, value: float) -> None:
    fast = _verdict(Outcome.CORRECT, speedups={"eager": Speedup(ratio=60.0, low=low, high=70.0)})
    wrong = _verdict(Outcome.WRONG, speedups={"eager": Speedup(ratio=60.0, low=low, high=70.0)})
    assert reward(fast, RewardPart(speed=0.5)).value == pytest.approx(value)
    assert reward(wrong, RewardPart(speed=0.5)).value == 0.0


def test_the_guard() -> None:
    guard = Guard(GuardPart(window=3))
    assert [guard.look({"loss": loss}) for loss in (1.0, 0.9, 0.8, 0.9)] == [None] * 4
    assert "rose to 9" in str(guard.look({"loss": 9.0}))
    assert guard.look({"loss": math.nan}) == "loss is nan"
    assert guard.look({"grad_norm": math.inf}) == "grad_norm is inf"
    collapsing = {"reward": 0.0, "loss": 0.0, "completions/mean_length": 3.0, "entropy": 0.5}
    assert [guard.look(collapsing) for _ in range(3)][:2] == [None, None]
    assert "mean length stayed below 16" in str(guard.look(collapsing))
    assert Guard(GuardPart(window=2)).look({"reward": 1.0, "loss": 900.0}) is None, "GRPO's loss says nothing"


def _rows(count: int) -> list[TaskRow]:
    return [TaskRow(id=f"t{n}", prompt="p", source="s", origin="test", licence="MIT") for n in range(count)]


def test_the_curriculum_prefers_what_is_sometimes_solved_and_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Curriculum(_rows(40), CurriculumPart(rare=0.01), seed=3)
    for number in range(20):
        first.learn(f"t{number}", 0.0 if number % 2 else 1.0)
    drawn = {row.id for _ in range(10) for row in first.draw(10)}
    hopeless = {f"t{number}" for number in range(20)}
    assert len(drawn & hopeless) < len(drawn - hopeless) / 3
    first.save(tmp_path)
    second = Curriculum(_rows(40), CurriculumPart(rare=0.01), seed=99)
    second.restore(tmp_path)
    assert [row.id for row in first.draw(15)] == [row.id for row in second.draw(15)]
    assert not {row.id for row in first.draw(5, {"t20"})} & {"t20"}
    first.learn("t39", 1.0)
    first.learn("t39", 0.0)
    assert first.rates["t39"] == pytest.approx(0.7)


def test_the_journal_forgets_what_came_after_a_checkpoint(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(1, 5):
        journal.write(step, {"loss": float(step)})
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{"step": 5, "lo')
    journal.rewind(2)
    assert [row["step"] for row in journal.rows()] == [1, 2]


def test_rows_with_a_missing_column_are_one_line(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([{"id": "a", "prompt": "p"}]), path)
    with pytest.raises(UsageError, match="lacks the column source"):
        read(TaskRow, [path])
    row = _rows(1)[0].model_dump(mode="json")
    pq.write_table(pa.Table.from_pylist([{**row, "surplus": 1}]), path)
    assert read(TaskRow, [path]) == _rows(1)
    with pytest.raises(UsageError, match="lacks the column completion"):
        read(Example, [path])
    with pytest.raises(UsageError, match="does not exist"):
        read(TaskRow, [tmp_path / "none.parquet"])
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(UsageError, match="is no Parquet file"):
        read(TaskRow, [tmp_path / "bad.parquet"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[1, 2]\n", r"line 1 is no row: \[1, 2\]"),
        (b"null\n", "line 1 is no row: None"),
        (b'{"id": "a"\n', "line 1 is no JSON"),
        (b"\n\xff\xfe\n", "line 2 is no JSON: 'utf-8' codec"),
        (b"", "no rows in"),
    ],
)
def test_lines_that_are_no_rows_are_one_line(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes(text)
    with pytest.raises(UsageError, match=words):
        read(TaskRow, [tmp_path / "rows.jsonl"])


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write(_rows(2), path)
    path.write_text(path.read_text(encoding="utf-8").replace("\n", "\n\n"), encoding="utf-8")
    assert read(TaskRow, [path]) == _rows(2)


def test_a_parquet_file_damaged_inside_is_one_line(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "rows.PARQUET"
    pq.write_table(pa.Table.from_pylist([row.model_dump(mode="json") for row in _rows(50)]), path)
    assert read(TaskRow, [path]) == _rows(50), "whatever case its name is written in"
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(byte ^ 0x5A for byte in data[4:60])  # the first page's header
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"rows.PARQUET is damaged: .* \(copy it again"):
        read(TaskRow, [path])


def test_rows_of_which_none_is_left_are_one_line(tmp_path: Path) -> None:
    held_out = tmp_path / "held_out.jsonl"
    rows = [row.model_copy(update={"graph": "a"}) for row in _rows(2)]
    write(rows, held_out)
    with pytest.raises(UsageError, match="all 2 rows share a program with a task of"):
        apart(rows, held_out)
    with pytest.raises(UsageError, match="the config leaves out every row"):
        apart([], held_out)


def test_a_task_in_two_data_sets_is_one_task() -> None:
    drawn = Curriculum(_rows(3) * 2, CurriculumPart(), seed=0).draw(6)
    assert sorted(row.id for row in drawn) == ["t0", "t1", "t2"]


def test_rows_of_held_out_programs_are_not_trained_on(tmp_path: Path) -> None:
    first, second, third = _rows(3)
    held_out = tmp_path / "held_out.jsonl"
    write([first.model_copy(update={"graph": "a"}), second.model_copy(update={"graph": ""})], held_out)
    rows = [row.model_copy(update={"graph": graph}) for row, graph in ((second, "a"), (third, "b"), (first, ""))]
    assert apart(rows, held_out) == rows[1:], "rows without a graph say nothing"
    assert apart(rows, None) == rows


def test_a_config_may_leave_out_the_words_on_grids_and_tiles() -> None:
    said = {"id": "a/templates-ab12cd-0", "prompt": "p", "source": "s", "origin": "o", "licence": "l", "code": "c"}
    plan = "One kernel does it all: `tanh(x)`."
    borrowed = "`tl` has no `tanh`: it comes from `triton.language.extra.libdevice`."
    program = "```python\nx = 1\n\ny = 2\n```"
    grid, masks = "The grid of `tanh_kernel` is `(1,)`.", "Masks keep every access inside."
    told = "\n\n".join((plan, grid, masks, borrowed, program))
    row = Example(completion=told, route="templates", **said)

    def taught(reasoning: str) -> str:
        part = DataPart.model_validate({"train": ["x"], "reasoning": reasoning})
        return next(chosen([row], part)).completion

    assert taught("full") == told
    assert taught("plan") == "\n\n".join((plan, borrowed, program))


def test_a_config_chooses_forms_and_questions() -> None:
    def row(id: str, style: str, route: str, families: tuple[str, ...] = (), way: str = "") -> Example:
        said = {"prompt": "p", "source": "s", "origin": "o", "licence": "l", "completion": "c", "code": "c"}
        return Example(id=id, style=style, route=route, families=families, way=way, **said)

    rows = [
        row("synth-1/templates-ab12cd-0", "module", "templates"),
        row("synth-1/templates-ab12cd-1", "module", "templates"),
        row("synth-2/templates-ab12cd-0", "prose", "templates"),
        row("wrappers-3/wrappers-ab12cd-0", "prose", "wrappers"),
        row("mine", "module", "by hand"),
        row("synth-4/templates-ab12cd-0", "module", "templates", ("norm", "matmul")),
        row("synth-5/templates-ab12cd-0", "module", "templates", ("norm",), "plain"),
        row("wrappers-6/wrappers-ab12cd-0", "prose", "wrappers", ("norm",)),
    ]

    def kept(**wanted: Any) -> list[int]:
        return [rows.index(one) for one in chosen(rows, DataPart(train=(Path("x"),), **wanted))]

    assert kept() == list(range(8))
    assert kept(forms=1) == [0, 2, 3, 4, 5, 6, 7]
    assert kept(forms=1, prose=False) == [0, 3, 4, 5, 6, 7]
    assert kept(forms=1, prose=False, plain=("norm",)) == [0, 3, 4, 6, 7]
    assert 5 in kept(plain=("matmul",)), "the leading family counts"
