"""TritonBench checkouts as tasks: files of our own in its layout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

from golds import LINE, G, T, checkout

from autotriton.errors import UsageError
from autotriton.tasks import tritonbench


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return checkout(tmp_path / "suite")


@pytest.mark.parametrize(("channel", "wanted"), [("g", G), ("t", T)])
def test_every_gold_is_a_task_with_its_instruction(root: Path, channel: str, wanted: object) -> None:
    for style, word in (("simple", "simp"), ("complex", "comp")):
        tasks, version = tritonbench.load(root, channel, style)
        assert len(tasks) == 1
        assert tasks[0].source == wanted.source  # type: ignore[attr-defined]
        assert tasks[0].id == wanted.id  # type: ignore[attr-defined]
        assert word in (tasks[0].instruction or "")
        assert tasks[0].suite == f"tritonbench-{channel}@{version}"
        assert "script" in tasks[0].tags


def test_the_data_folder_itself_is_a_root_too(root: Path) -> None:
    assert tritonbench.load(root / "data", "g")[0][0].id == "kernels"


def test_version_is_the_commit_of_a_clean_checkout_and_else_a_hash(root: Path) -> None:
    hashed = tritonbench.load(root, "g")[1]
    assert hashed.startswith("sha256-")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert tritonbench.load(root, "g")[1] == commit.stdout[:12]
    gold = root / "data" / "TritonBench_G_v1" / "kernels.py"
    gold.write_text(gold.read_text() + "# changed\n")
    changed = tritonbench.load(root, "g")[1]
    assert changed.startswith("sha256-")
    assert changed != hashed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"def f():\n    pass\n", "no line of 146"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (f"def f(:\n{LINE}\n".encode(), "not valid Python"),
        (f"def f():\n    pass\n{LINE}\nf()\n".encode(), "no instruction"),
    ],
)
def test_damaged_file_is_named_and_the_rest_loads(root: Path, content: bytes, said: str) -> None:
    (root / "data" / "TritonBench_G_v1" / "odd.py").write_bytes(content)
    with pytest.warns(UserWarning, match=r"odd\.py"):
        found = tritonbench.read(root, "g")
    assert [task.id for task in found.tasks] == ["kernels"]
    assert said in found.damaged["odd.py"]


def test_file_the_list_names_and_nobody_has_is_listed(root: Path) -> None:
    listing = root / "data" / "TritonBench_G_v1.json"
    rows = json.loads(listing.read_text())
    listing.write_text(json.dumps([*rows, {"file": "gone.py", "output": "other code"}]))
    said = root / "data" / "TritonBench_G_simp_alpac_v1.json"
    said.write_text(json.dumps([*json.loads(said.read_text()), {"instruction": "x", "output": "other code"}]))
    with pytest.warns(UserWarning, match=r"gone\.py"):
        assert tritonbench.read(root, "g").damaged == {"gone.py": "the file is missing"}


def test_folder_without_a_usable_file_says_which_and_why(root: Path) -> None:
    gold = root / "data" / "TritonBench_G_v1" / "kernels.py"
    gold.write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"no usable task: kernels\.py: it has no line of 146"):
        tritonbench.read(root, "g")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("TritonBench_G_simp_alpac_v1.json", "[{", "is damaged"),
        ("TritonBench_G_simp_alpac_v1.json", '["a"]', "no list of rows"),
        ("TritonBench_G_v1.json", None, "does not exist"),
    ],
)
def test_damaged_or_missing_list_is_one_clear_line(root: Path, name: str, content: str | None, said: str) -> None:
    path = root / "data" / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=said) as raised:
        tritonbench.load(root, "g")
    assert name in str(raised.value)


@pytest.mark.parametrize(
    ("channel", "style", "said"), [("x", "simple", "channel"), ("g", "verbose", "instruction style")]
)
def test_unknown_channel_or_style_is_a_usage_error(root: Path, channel: str, style: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tritonbench.load(root, channel, style)


def test_wrong_root_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        tritonbench.load(tmp_path / "nowhere", "g")
    with pytest.raises(UsageError, match="no checkout of TritonBench"):
        tritonbench.load(tmp_path, "g")


def test_lists_with_one_row_a_line_are_read_too(root: Path) -> None:
    path = root / "data" / "TritonBench_T_v1.jsonl"
    path.write_text('{"file": "scaled_add.py", "description": "Adds two tensors.", "func_inputs": "x"}\n')
    assert tritonbench.load(root, "t")[0][0].id == "scaled_add"
