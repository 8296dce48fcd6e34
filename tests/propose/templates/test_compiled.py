"""What the compiler makes of emitted kernels for an H200: nothing spilled, wide accesses, lanes along neighbours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample  # noqa: E402

_CHILD = Path(__file__).with_name("compile_files.py")
SAMPLES = {
    "conv": Sample(
        "return F.relu(self.c(x))", "torch.randn(16, 64, 64, 56)", init="self.c = nn.Conv2d(64, 64, 3, padding=1)"
    ),
    "conv_few": Sample("return self.c(x)", "torch.randn(16, 3, 64, 64, 64)", init="self.c = nn.Conv3d(3, 64, 3)"),
    "conv_light": Sample(
        "return F.relu(self.c(x) + y)",
        "torch.randn(2, 64, 14, 14), torch.randn(2, 64, 14, 14)",
        "x, y",
        init="self.c = nn.Conv2d(64, 64, 3, padding=1)",
    ),
    "conv_up": Sample(
        "return torch.tanh(self.c(x))",
        "torch.randn(16, 64, 64, 64)",
        init="self.c = nn.ConvTranspose2d(64, 64, 3, stride=2, padding=1)",
    ),
    "light_conv_up_wide": Sample(
        "return self.c(x)", "torch.randn(4, 4, 4, 4, 4)", init="self.c = nn.ConvTranspose3d(4, 8, 5, padding=1)"
    ),
    "light_conv_wide": Sample(
        "return self.c(x)", "torch.randn(4, 8, 64, 56)", init="self.c = nn.Conv2d(8, 24, 5, padding=2)"
    ),
    "conv_to_a_point": Sample(
        "return self.c(x)", "torch.randn(2, 96, 3, 3)", init="self.c = nn.Conv2d(96, 96, 3, groups=96, bias=False)"
    ),
    "conv_to_a_column": Sample(
        "return F.relu(self.c(x))", "torch.randn(2, 96, 9, 3)", init="self.c = nn.Conv2d(96, 96, 3, groups=96)"
    ),
    "pool_to_a_column": Sample("return F.max_pool2d(x, 3, 1) * 2", "torch.randn(4, 16, 9, 3)"),
    "light_conv_to_a_column": Sample(
        "return F.relu(self.c(x))", "torch.randn(2, 64, 14, 3)", init="self.c = nn.Conv2d(64, 64, 3)"
    ),
    "pool": Sample("return F.max_pool3d(x, 3, 2, 1)", "torch.randn(4, 16, 64, 64, 64)"),
    "middle": Sample("return x.sum(1), x.argmax(1)", "torch.randn(16, 1024, 512)"),
    "channels": Sample("return torch.softmax(x, 1) + y", "torch.randn(16, 64, 64, 64), torch.randn(64, 1, 1)", "x, y"),
    "long_rows": Sample("return torch.softmax(x, 1)", "torch.randn(1024, 65536)"),
    "nothing": Sample("return x[:, :1].repeat(1, 0, 1)", "torch.randn(4, 5, 6)"),
    "joined_with_nothing": Sample("return torch.cat((x[:, :1].repeat(1, 0, 1), x), 1) * 2", "torch.randn(4, 5, 6)"),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("compiled")
    for name, sample in SAMPLES.items():
        (folder / f"{name}_task.py").write_text(sample.source)
        (folder / f"{name}.py").write_text(sample.emitted().code)
    done = subprocess.run(
        [sys.executable, str(_CHILD), str(folder)],
        env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def _last(kernels: dict[str, list[dict[str, Any]]], name: str) -> dict[str, Any]:
    """The kernel that makes the result; what it reads may be packed by others before."""
    return kernels[name][-1]


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_spilled_at_the_first_settings(kernels: dict[str, list[dict[str, Any]]], name: str):
    assert [(k["kernel"], k["spills"], k["error"]) for k in kernels[name] if k["spills"] or k["error"]] == []


@pytest.mark.parametrize("name", ["conv_light", "light_conv_wide", "light_conv_up_wide", "light_conv_to_a_column"])
def test_taps_are_not_added_in_pairs_of_16_bits(kernels: dict[str, Any], name: str):
    """Which ptxas 12.8 does wrongly: see `conv_gather.py`."""
    assert not _last(kernels, name)["paired"]


@pytest.mark.parametrize("name", ["conv", "channels", "long_rows"])
def test_results_are_stored_four_at_a_time_where_sizes_are_multiples_of_it(kernels: dict[str, Any], name: str):
    assert set(_last(kernels, name)["stores"]) == {128}


@pytest.mark.parametrize("name", ["middle", "long_rows"])
def test_inputs_are_loaded_four_at_a_time_where_sizes_are_multiples_of_it(kernels: dict[str, Any], name: str):
    assert set(_last(kernels, name)["loads"]) == {128}


@pytest.mark.parametrize("name", ["conv_light", "conv_up", "pool"])
def test_lanes_are_told_where_to_run_when_neighbours_in_the_tile_are_none_in_memory(kernels: dict[str, Any], name: str):
    assert _last(kernels, name)["steered"]


def test_a_softmax_over_long_rows_reads_them_twice(kernels: dict[str, Any]):
    found = _last(kernels, "long_rows")
    assert len(found["loads"]) == 2 * len(found["stores"])


@pytest.mark.parametrize("name", ["conv", "conv_few", "conv_light", "conv_up"])
def test_convolutions_multiply_on_tensor_cores(kernels: dict[str, Any], name: str):
    assert _last(kernels, name)["tensor_core"]
