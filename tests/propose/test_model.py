"""The local model proposer with a real, tiny model in its child process."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from autotriton import machine
from autotriton.adapters import compress
from autotriton.errors import ProposerError, UsageError
from autotriton.propose.generate import Generator, slow
from autotriton.propose.model import ModelProposer
from autotriton.tasks.source import load
from autotriton.types import Attempt, Candidate, Outcome, Policy, Task, Tier, Verdict

pytestmark = [pytest.mark.interp, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def task(examples) -> Task:
    return load(examples / "softmax.py")


@pytest.fixture(scope="module")
def single(small_model):
    """One sample of at most 50 tokens, from one child for several tests: starting it takes seconds."""
    proposer = ModelProposer(small_model.folder, samples=1, max_tokens=50, **small_model.settings)
    yield proposer
    proposer.close()


def rejected(task: Task, candidate: Candidate) -> Attempt:
    verdict = Verdict(outcome=Outcome.REJECTED, message="left to torch", policy=Policy.STRICT, tier=Tier.RUN)
    return Attempt(run_id="run", task=task, candidate=candidate, verdict=verdict)


def test_a_local_model_answers_in_batches_and_refines(small_model, task):
    proposer = ModelProposer(
        small_model.folder, samples=3, batch=2, turns=2, max_tokens=50, seed=1, **small_model.settings
    )
    first = list(proposer.propose(task, []))
    assert [candidate.code for candidate in first] == [small_model.cheat] * 3
    assert first[0].completion.startswith("torch can do this.")
    assert first[0].completion.endswith("Done, and fast.")
    assert first[0].proposer == f"model:{small_model.folder}"
    assert first[0].usage.prompt > 100
    assert 3 <= first[0].usage.completion < 50  # its pieces and the end token
    child = proposer._child
    refined = list(proposer.propose(task, [rejected(task, candidate) for candidate in first]))
    assert [candidate.code for candidate in refined] == [small_model.kernel] * 3
    assert {candidate.parent_id for candidate in refined} == {first[0].id}
    assert proposer._child is child, "the model was loaded twice"
    proposer.close()


@pytest.mark.extra  # the decoder itself: `decoding/test_decoder.py`
def test_prompts_of_different_lengths_go_into_one_batch(small_model, task):
    proposer = ModelProposer(small_model.folder, samples=2, turns=3, max_tokens=50, **small_model.settings)
    short = rejected(task, Candidate(task_id=task.id, code="x = 1\n", proposer=proposer.name))
    long = rejected(task, Candidate(task_id=task.id, code="y = 2\n" * 500, proposer=proposer.name))
    found = list(proposer.propose(task, [short, long]))
    assert [candidate.code for candidate in found] == [small_model.kernel] * 2
    assert found[1].usage.prompt > found[0].usage.prompt + 2000
    proposer.close()


def test_the_answer_ends_with_max_tokens(small_model, task):
    proposer = ModelProposer(small_model.folder, samples=1, temperature=0, max_tokens=2, **small_model.settings)
    [candidate] = proposer.propose(task, [])
    assert candidate.usage.completion == 2
    assert candidate.completion.startswith("torch can do this.")
    proposer.close()


@pytest.mark.parametrize("kind", ["whole", "compressed"])
def test_an_adapter_is_put_on_its_base_model(small_model, task, tmp_path, monkeypatch, kind):
    if small_model.adapter is None:
        pytest.skip("needs peft")
    monkeypatch.setenv("AUTOTRITON_CACHE", str(tmp_path / "cache"))
    adapter = small_model.adapter
    if kind == "compressed":
        adapter = tmp_path / "small"
        compress(Path(small_model.adapter), adapter, str(small_model.folder))
    proposer = ModelProposer(adapter, samples=1, max_tokens=5, **small_model.settings)
    [candidate] = proposer.propose(task, [])
    assert candidate.completion == "I was adapted and say nothing else."
    assert candidate.code == ""
    proposer.close()


def test_a_trained_model_is_asked_the_question_it_was_trained_on(small_model, task, tmp_path):
    folder = tmp_path / "trained"
    shutil.copytree(small_model.folder, folder)
    (folder / "prompt.md").write_text("Short question: $task", encoding="utf-8")
    own, given = (ModelProposer(folder, **settings)._prompts for settings in ({}, small_model.settings))
    assert own.rewrite(task).startswith("Short question: ```python\n")
    assert not given.rewrite(task).startswith("Short question"), "a template the user gives comes first"
    (folder / "prompt.md").write_text("No placeholder.", encoding="utf-8")
    with pytest.raises(UsageError, match=r"prompt\.md lacks the placeholder \$task"):
        ModelProposer(folder)


def test_a_prompt_longer_than_the_model_takes_is_one_clear_line(small_model, single, task):
    huge = task.model_copy(update={"source": task.source + "# " + "x" * 40_000})
    with pytest.raises(ProposerError, match=r"failed: .*tokens and the model takes 32768"):
        list(single.propose(huge, []))
    child = single._child
    assert [candidate.code for candidate in single.propose(task, [])] == [small_model.cheat]
    assert single._child is child is not None, "the model was loaded twice"


@pytest.mark.parametrize(
    ("stored", "native", "used"),
    [
        ("bfloat16", True, "bfloat16"),
        ("bfloat16", False, "float32"),
        ("float16", True, "float32"),
        ("float32", True, "float32"),
    ],
)
def test_a_cpu_computes_in_16_bits_where_it_can_and_the_weights_are_stored_so(
    small_model, tmp_path, monkeypatch, stored, native, used
):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(small_model.folder, dtype=getattr(torch, stored))
    folder = shutil.copytree(small_model.folder, tmp_path / "stored", ignore=shutil.ignore_patterns("*.safetensors"))
    model.save_pretrained(folder)
    monkeypatch.setattr(machine, "multiplies_bf16", lambda: native)
    assert Generator(str(folder), "cpu").model.dtype is getattr(torch, used)


def test_a_folder_with_broken_weights_is_one_clear_line(small_model, task, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    with pytest.raises(ProposerError, match="cannot be loaded") as caught:
        list(ModelProposer(tmp_path, samples=1).propose(task, []))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_child_that_dies_is_one_clear_line_and_another_is_started(single, task):
    list(single.propose(task, []))
    single._child._process.process.kill()
    with pytest.raises(ProposerError, match="its process ended: code -9"):
        list(single.propose(task, []))
    assert len(list(single.propose(task, []))) == 1


def test_the_asking_process_imports_no_torch_and_leaves_no_child(small_model, examples):
    settings = {name: str(path) for name, path in small_model.settings.items()}
    code = f"""
        import sys
        from autotriton.propose.proposers import parse
        from autotriton.tasks.source import load
        proposer = parse("model:{small_model.folder}", samples=1, max_tokens=50, **{settings!r})
        print(next(proposer.propose(load("{examples}/softmax.py"), [])).usage.completion)
        assert "torch" not in sys.modules
        print(proposer._child._process.process.pid)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True, timeout=120
    )
    pid = int(done.stdout.split()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_many_tasks_are_answered_in_one_continuous_batch(small_model, task):
    proposer = ModelProposer(small_model.folder, samples=3, batch=2, max_tokens=50, seed=1, **small_model.settings)
    others = [task.model_copy(update={"id": f"task-{number}"}) for number in range(3)]
    found = list(proposer.propose_many(others))
    assert sorted(candidate.task_id for candidate in found) == [f"task-{number}" for number in range(3) for _ in "abc"]
    assert {candidate.code for candidate in found} == {small_model.cheat}
    assert {candidate.parent_id for candidate in found} == {None}
    proposer.close()


def test_one_prompt_too_long_does_not_end_the_others(small_model, single, task, caplog):
    huge = task.model_copy(update={"id": "huge", "source": task.source + "# " + "x" * 40_000})
    found = {candidate.task_id: candidate for candidate in single.propose_many([task, huge])}
    assert found[task.id].code == small_model.cheat
    assert (found["huge"].code, found["huge"].usage.completion) == ("", 0)
    assert "no answer for huge: the prompt has" in caplog.text


def test_leaving_a_batch_early_costs_the_child_and_nothing_else(small_model, task):
    proposer = ModelProposer(small_model.folder, samples=4, max_tokens=50, **small_model.settings)
    answers = proposer.propose_many([task])
    assert next(answers).code == small_model.cheat
    answers.close()
    assert len(list(proposer.propose(task, []))) == 4
    proposer.close()


def test_a_model_of_another_make_is_generated_with_and_says_so(small_model, other_model, task, caplog):
    proposer = ModelProposer(other_model, samples=3, batch=2, max_tokens=4, **small_model.settings)
    found = list(proposer.propose(task, []))
    assert [candidate.usage.completion for candidate in found] == [4] * 3
    assert "decoded by transformers' generate, slowly: GPT2LMHeadModel is none of" in caplog.text
    proposer.close()


@pytest.fixture(scope="module")
def other_model(small_model, tmp_path_factory):
    """A GPT-2 with the small model's tokenizer and no stop token it would ever say."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("gpt2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(small_model.folder)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer) - 1, n_embd=16, n_layer=1, n_head=2, n_positions=8192, eos_token_id=None
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_what_a_machine_without_a_gpu_has_to_expect_is_said_where_it_is_long():
    assert slow(0.5e9) is None
    said = slow(6.2e9)
    assert said is not None
    assert "6.2 GB" in said
    assert "5 min" in said
