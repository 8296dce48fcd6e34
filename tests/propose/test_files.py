"""Replayed answers: which file answers which task."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autotriton.errors import ProposerError, UsageError
from autotriton.propose import Proposer
from autotriton.propose.files import FilesProposer
from autotriton.types import Attempt, Candidate, Task

SOFTMAX = Task(id="23_Softmax", source="")


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., FilesProposer]:
    """A folder with these files, each holding its own name."""

    def make(*names: str) -> FilesProposer:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"answer = {name!r}\n", encoding="utf-8")
        return FilesProposer(tmp_path)

    return make


def names(proposer: Proposer, task: Task = SOFTMAX) -> list[str]:
    return [candidate.code.split("'")[1] for candidate in proposer.propose(task, [])]


def test_a_task_is_answered_by_the_file_of_its_name(store):
    proposer = store("23_Softmax.py", "24_LogSoftmax.py", "23_Softmax_wide.py", "123_Softmax.py")
    [candidate] = proposer.propose(SOFTMAX, [])
    assert candidate.code == "answer = '23_Softmax.py'\n"
    assert candidate.task_id == "23_Softmax"
    assert candidate.proposer.startswith("files:")


def test_samples_come_in_the_order_of_their_numbers(store):
    proposer = store(
        "23_Softmax_10.py", "23_Softmax_2.py", "23_Softmax.py", "23_Softmax.1.py", "23_Softmax_sample_3.py"
    )
    expected = ["23_Softmax.py", "23_Softmax.1.py", "23_Softmax_2.py", "23_Softmax_sample_3.py", "23_Softmax_10.py"]
    assert names(proposer) == expected


def test_a_folder_of_the_task_holds_its_samples(store):
    proposer = store(
        "23_Softmax/sample_10.py", "23_Softmax/sample_9.py", "23_Softmax/.hidden.py", "23_Softmax/log.json"
    )
    assert names(proposer) == ["23_Softmax/sample_9.py", "23_Softmax/sample_10.py"]


def test_the_folders_of_kernelbench_are_read(store):
    wanted = [f"level_1_problem_23_sample_{n}_kernel.py" for n in (0, 2, 10)]
    proposer = store(*wanted, "level_1_problem_2_sample_0_kernel.py", "level_1_problem_123_sample_0_kernel.py")
    assert names(proposer) == wanted


def test_levels_are_told_apart_where_the_task_names_its_own(store):
    proposer = store("level_1_problem_23_sample_0_kernel.py", "level_2_problem_23_sample_0_kernel.py")
    of_suite = SOFTMAX.model_copy(update={"suite": "kernelbench-l2@abc"})
    assert names(proposer, of_suite) == ["level_2_problem_23_sample_0_kernel.py"]
    assert names(proposer, Task(id="level1/23_Softmax", source="")) == ["level_1_problem_23_sample_0_kernel.py"]
    with pytest.raises(ProposerError, match="levels 1 and 2"):
        names(proposer)


def test_a_function_of_a_file_is_found_by_both_names(store):
    task = Task(id="mine:rms_norm", source="", entry="rms_norm")
    assert names(store("mine.py"), task) == ["mine.py"]
    assert names(store("mine_rms_norm.py"), task) == ["mine_rms_norm.py"]


def test_a_task_without_an_answer_says_where_it_was_looked_for(store):
    proposer = store("24_LogSoftmax.py")
    with pytest.raises(ProposerError, match="no answer to task 23_Softmax") as caught:
        list(proposer.propose(SOFTMAX, []))
    assert "23_Softmax.py" in str(caught.value)
    assert "level_*_problem_23_sample_*_kernel.py" in str(caught.value)


def test_a_name_with_odd_characters_is_taken_literally(store):
    proposer = store("a+b [1].py", "aab 1.py")
    assert names(proposer, Task(id="a+b [1]", source="")) == ["a+b [1].py"]


def test_a_task_cannot_reach_outside_the_folder(store, tmp_path):
    (tmp_path / "secret.py").write_text("secret = 1\n", encoding="utf-8")
    store("answers/other.py")
    with pytest.raises(ProposerError, match="no answer"):
        list(FilesProposer(tmp_path / "answers").propose(Task(id="../secret", source=""), []))


@pytest.mark.parametrize("name", ["23_Softmax.md", "23_Softmax.txt", "23_Softmax.py"])
def test_a_whole_answer_of_a_model_is_cut_out(tmp_path, name):
    answer = "Here you are!\n```python\nclass ModelNew:\n    pass\n```\n"
    (tmp_path / name).write_text(answer, encoding="utf-8")
    [candidate] = FilesProposer(tmp_path).propose(SOFTMAX, [])
    assert candidate.code == "class ModelNew:\n    pass\n"
    assert candidate.completion == answer


def test_an_empty_answer_is_a_candidate_without_code(tmp_path):
    (tmp_path / "23_Softmax.py").write_text("", encoding="utf-8")
    [candidate] = FilesProposer(tmp_path).propose(SOFTMAX, [])
    assert candidate.code == ""


def test_what_was_tried_is_not_replayed_but_equal_answers_all_count(tmp_path):
    for number, text in enumerate(("a = 1\n", "a = 1\n", "b = 1\n")):
        (tmp_path / f"23_Softmax_{number}.py").write_text(text, encoding="utf-8")
    proposer = FilesProposer(tmp_path)
    everything = list(proposer.propose(SOFTMAX, []))
    assert [candidate.code for candidate in everything] == ["a = 1\n", "a = 1\n", "b = 1\n"]
    tried = [_attempt(candidate) for candidate in everything]
    assert [candidate.code for candidate in proposer.propose(SOFTMAX, tried[:1])] == ["a = 1\n", "b = 1\n"]
    assert list(proposer.propose(SOFTMAX, tried)) == []


def test_a_file_that_is_no_text_is_one_clear_line(tmp_path):
    (tmp_path / "23_Softmax.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProposerError, match="not UTF-8"):
        list(FilesProposer(tmp_path).propose(SOFTMAX, []))


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        FilesProposer(tmp_path / "nowhere")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a folder"):
        FilesProposer(tmp_path / "file")


def _attempt(candidate: Candidate) -> Attempt:
    return Attempt(run_id="run", task=SOFTMAX, candidate=candidate, verdict=None, error="none")
