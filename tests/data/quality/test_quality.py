"""What counts as the same program, what is too close to a benchmark, and who goes where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from autotriton.data.quality.decontaminate import Benchmarks, read
from autotriton.data.quality.dedupe import distinct
from autotriton.data.quality.normal import digest
from autotriton.data.quality.sizes import sizes_are_fixed
from autotriton.data.quality.split import HELD_OUT, REINFORCE, TEACH, side
from autotriton.errors import UsageError

PROGRAM = '''import torch
import torch.nn as nn

SIZE = 64


class Model(nn.Module):
    """A block."""

    def __init__(self, width: int):
        super().__init__()
        self.first = nn.Linear(width, SIZE)
        self.second = nn.Linear(SIZE, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))  # a comment
        gate = torch.sigmoid(hidden) * hidden.mean(dim=-1, keepdim=True)
        return self.second(gate) + x


def get_inputs():
    return [torch.randn(8, 32)]


def get_init_inputs():
    return [32]
'''
RENAMED = (
    PROGRAM.replace("hidden", "h")
    .replace("first", "up")
    .replace("second", "down")
    .replace('    """A block."""\n\n', "")
    .replace("  # a comment", "")
    .replace("SIZE", "WIDTH")
    .replace(": torch.Tensor) -> torch.Tensor", ")")
)
DEEP = "x = " + "-" * 3000 + "1\n"
OTHER = PROGRAM.replace("torch.relu", "torch.tanh")


def test_names_comments_and_annotations_do_not_matter_but_numbers_and_operators_do() -> None:
    assert RENAMED != PROGRAM
    assert digest(RENAMED) == digest(PROGRAM)
    assert digest(OTHER) != digest(PROGRAM)
    assert digest(PROGRAM.replace("64", "65")) != digest(PROGRAM)
    assert digest("def (") is None
    assert digest(DEEP) is None


def test_one_of_each_is_kept() -> None:
    reasons: list[tuple[str, str]] = []
    texts = [PROGRAM, RENAMED, PROGRAM.replace("randn(8, 32)", "randn(9, 32)"), "x = 1\n", "no python ("]
    kept = list(distinct(texts, str, lambda text, reason: reasons.append((text, reason)), threshold=0.7))
    assert kept == [PROGRAM, "x = 1\n"]
    assert [reason for _, reason in reasons] == ["exact", "near", "no Python"]


def test_a_benchmark_is_found_in_other_clothes() -> None:
    benchmarks = Benchmarks()
    benchmarks.add("level9/1_Block.py", PROGRAM)
    benchmarks.add_graph("level9/2_Other.py", "abc")
    renamed = benchmarks.find("row", RENAMED)
    assert renamed is not None
    assert (renamed.how, renamed.benchmark) == ("form", "level9/1_Block.py")
    # Only the class is the benchmark's.
    inside = benchmarks.find("row", RENAMED.replace("torch.randn(8, 32)", "torch.rand(5, 32, dtype=torch.float64)"))
    assert inside is not None
    assert inside.how == "form"
    close = benchmarks.find("row", PROGRAM.replace("+ x\n", "- x\n").replace("torch.relu", "torch.tanh"))
    assert close is not None
    assert close.how == "words"
    assert close.overlap is not None
    assert 0.6 <= close.overlap < 1
    graph = benchmarks.find("row", "y = 2\n", "abc")
    assert graph is not None
    assert graph.how == "graph"


def test_what_only_shares_boilerplate_is_clean() -> None:
    benchmarks = Benchmarks()
    benchmarks.add("level9/1_Block.py", PROGRAM)
    harmless = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, image):
        features = self.norm(self.conv(image))
        return torch.clamp(features * 0.5 + 0.5, 0.0, 1.0).amax(dim=(2, 3))


def get_inputs():
    return [torch.randn(8, 32)]


def get_init_inputs():
    return [32]
"""
    assert benchmarks.find("row", harmless, "def") is None
    assert benchmarks.find("row", DEEP) is None, "what cannot be walked costs itself only"


def test_reading_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no benchmark"):
        read([tmp_path])
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1_Block.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "a" / "2_Odd.py").write_bytes(b"\xff\xfe")
    found = read([tmp_path]).find("row", RENAMED)
    assert found is not None
    assert found.benchmark == "a/1_Block.py"


def test_a_graph_goes_to_one_side_and_shares_are_kept() -> None:
    shares = {HELD_OUT: 0.1, "easy": 0.1, "hard": 0.8}
    hard = Counter(side(f"g{number}", "hard", shares) for number in range(4000))
    easy = Counter(side(f"g{number}", "easy", shares) for number in range(4000))
    assert hard[HELD_OUT] == easy[HELD_OUT] == pytest.approx(400, rel=0.2)
    assert hard[REINFORCE] > 5 * easy[REINFORCE]
    assert easy[TEACH] > 3000
    assert side("g1", "easy", shares) == side("g1", "easy", shares)


@pytest.mark.parametrize(
    ("code", "fixed"),
    [
        ("out = torch.empty((1, C, H, W), device=x.device)", True),
        ("out = torch.zeros([4, n])", True),
        ("out = torch.empty((N, C, 1, OH, OW))", True),
        ("out = torch.empty((x.shape[0], 1))", False),
        ("out = torch.empty((1,))", False),
        ("rows = batch + tl.zeros((1, 1), dtype=tl.int64)\nout = torch.empty((B, M, N))", False),
        ("out = torch.empty(shape)\nout = torch.empty_like(x)", False),
    ],
)
def test_a_program_for_one_size_is_known(code: str, fixed: bool) -> None:
    assert sizes_are_fixed(code) is fixed
