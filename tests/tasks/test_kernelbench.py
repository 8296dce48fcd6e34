"""KernelBench's layout, and folders of tasks in its style, with small tasks of our own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from autotriton.errors import UsageError
from autotriton.tasks import checkout, folder, kernelbench

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A checkout with three problems of level 1."""
    level = tmp_path / "checkout" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name in ("10_Ten", "2_Two", "1_One"):
        (level / f"{name}.py").write_text(TASK)
    (level / "__init__.py").write_text("")
    return tmp_path / "checkout"


def test_tasks_come_by_problem_number_with_the_suite_and_its_version(suite):
    tasks, version = kernelbench.load(suite, 1)
    assert [task.id for task in tasks] == ["1_One", "2_Two", "10_Ten"]
    assert {task.suite for task in tasks} == {f"kernelbench-l1@{version}"}
    assert tasks[0].source == TASK
    assert version.startswith("files-")


def test_the_root_may_be_the_folder_of_levels_or_the_level_itself(suite):
    everywhere = [
        kernelbench.load(root, 1) for root in (suite, suite / "KernelBench", suite / "KernelBench" / "level1")
    ]
    assert everywhere[0] == everywhere[1] == everywhere[2]


def test_a_wrong_root_is_one_clear_line(suite, tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        kernelbench.load(tmp_path / "nowhere", 1)
    with pytest.raises(UsageError, match="is not a folder"):
        kernelbench.load(suite / "KernelBench" / "level1" / "1_One.py", 1)
    with pytest.raises(UsageError, match="has no level2"):
        kernelbench.load(suite, 2)
    (suite / "KernelBench" / "level3").mkdir()
    with pytest.raises(UsageError, match="no problem files"):
        kernelbench.load(suite, 3)


def test_damaged_files_are_listed_and_cost_only_themselves(suite):
    level = suite / "KernelBench" / "level1"
    (level / "3_Syntax.py").write_text("class Model(:\n")
    (level / "4_NoModel.py").write_text("x = 1\n")
    (level / "5_Latin.py").write_bytes(b"# caf\xe9\n")
    (level / "6_Empty.py").write_text("")
    found = kernelbench.read(suite, 1)
    assert [task.id for task in found.tasks] == ["1_One", "2_Two", "10_Ten"]
    assert list(found.damaged) == ["3_Syntax", "4_NoModel", "5_Latin", "6_Empty"]
    assert "not valid Python" in found.damaged["3_Syntax"]
    assert "no class `Model`" in found.damaged["4_NoModel"]
    assert "not a text file" in found.damaged["5_Latin"]
    assert all("\n" not in reason for reason in found.damaged.values())


def test_a_level_of_nothing_but_damage_is_an_error(suite):
    for path in (suite / "KernelBench" / "level1").glob("*_*.py"):
        path.write_text("(")
    with pytest.raises(UsageError, match="every file of"):
        kernelbench.load(suite, 1)


# --- the version ------------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_folder(root: Path, head: str) -> Path:
    git = root / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text(head + "\n")
    return git


def test_a_detached_checkout_is_named_by_its_commit(suite):
    git_folder(suite, COMMIT)
    assert kernelbench.load(suite, 1)[1] == COMMIT


def test_a_branch_is_followed_to_its_commit(suite):
    git = git_folder(suite, "ref: refs/heads/main")
    (git / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    assert kernelbench.load(suite, 1)[1] == COMMIT
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("f" * 40 + "\n")
    assert kernelbench.load(suite, 1)[1] == "f" * 40, "a loose ref is newer than a packed one"


def test_a_worktree_is_followed_to_its_repository(suite, tmp_path):
    real = tmp_path / "real" / "worktrees" / "one"
    real.mkdir(parents=True)
    (real / "HEAD").write_text("ref: refs/heads/topic\n")
    (real / "commondir").write_text("../..\n")
    (tmp_path / "real" / "packed-refs").write_text(f"{COMMIT} refs/heads/topic\n")
    (suite / ".git").write_text(f"gitdir: {real}\n")
    assert kernelbench.load(suite, 1)[1] == COMMIT


def test_somebody_elses_repository_further_up_is_not_the_suites(suite):
    git_folder(suite.parent, COMMIT)
    assert kernelbench.load(suite, 1)[1].startswith("files-")


def test_a_head_that_makes_no_sense_falls_back_to_the_contents(suite):
    git_folder(suite, "garbage")
    assert kernelbench.load(suite, 1)[1].startswith("files-")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_changed_task_files_are_not_passed_off_as_the_commit(suite):
    git = ["git", "-C", str(suite), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "tasks"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert kernelbench.load(suite, 1)[1] == head
    (suite / "KernelBench" / "level1" / "1_One.py").write_text(TASK + "# changed\n")
    assert kernelbench.load(suite, 1)[1] == f"{head}+changed"


def test_the_contents_version_changes_with_any_file(suite):
    level = suite / "KernelBench" / "level1"
    paths = sorted(level.glob("*_*.py"))
    before = checkout.version(level, paths)
    assert checkout.version(level, paths[::-1]) == before
    paths[0].write_text(TASK + "\n")
    assert checkout.version(level, paths) != before


# --- any folder -------------------------------------------------------------------------------------------


def test_a_folder_of_tasks_leaves_files_without_a_model_out(tmp_path):
    (tmp_path / "b_task.py").write_text(TASK)
    (tmp_path / "a_task.py").write_text(TASK)
    (tmp_path / "a_task_triton.py").write_text("class ModelNew:\n    pass\n")
    (tmp_path / "broken.py").write_text("(")
    found = folder.read(tmp_path)
    assert [task.id for task in found.tasks] == ["a_task", "b_task"]
    assert found.tasks[0].suite == f"tasks@{found.version}"
    assert found.ignored == ("a_task_triton",)
    assert list(found.damaged) == ["broken"]


def test_a_folder_without_tasks_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no Python files"):
        folder.read(tmp_path)
    (tmp_path / "answer.py").write_text("class ModelNew:\n    pass\n")
    with pytest.raises(UsageError, match="has a class `Model`"):
        folder.read(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        folder.read(tmp_path / "nowhere")
