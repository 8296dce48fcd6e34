"""Language models as authors of training data: a real server with refinement by verdict, a model of one's own, and a
server that is not there. The judge is real; the tiny model's first answer is a cheat, its second a kernel.
"""

import importlib.util
import socket

import pytest

from autotriton.configs import checked
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.folder import Folder
from autotriton.data.build.proposing import propose
from autotriton.data.build.records import Selected
from autotriton.data.build.verifying import verify
from autotriton.data.records import Difficulty, GatheredTask, SourceKind
from autotriton.tasks.source import load

pytestmark = [pytest.mark.interp, pytest.mark.slow, pytest.mark.timeout(600)]
NEEDED = ("openai", "transformers", "fastapi", "uvicorn", "accelerate")
if missing := [package for package in NEEDED if importlib.util.find_spec(package) is None]:
    pytest.skip(f"needs {', '.join(missing)}", allow_module_level=True)


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def make(tmp_path, examples):
    """A build's folder after selecting: one teaching task, softmax, in as many copies as asked for."""

    def folder(copies: int = 1, **propose: object) -> Folder:
        values = {
            "name": "x",
            "synth": {"count": 1},
            "propose": propose,
            "verify": {"tier": "interpret", "cases": 2},
            "finish": {"pairs": 5, "rl": 5, "held_out": 5},
        }
        made = Folder(tmp_path / "build", checked(BuildConfig, values))
        made.path.mkdir()
        made.selected.replace(_selected(examples, number) for number in range(copies))
        return made

    return folder


def _selected(examples, number: int) -> Selected:
    task = load(examples / "softmax.py")
    task = task.model_copy(update={"id": f"softmax-{number}", "source": f"{task.source}# {number}\n"})
    row = GatheredTask(
        task=task,
        kind=SourceKind.SYNTH,
        origin="a test",
        licence="Apache-2.0",
        ops=("_softmax",),
        families=("softmax",),
        depth=1,
        calls=1,
        difficulty=Difficulty.EASY,
        flops=1,
        bytes=1,
        input_elements=1,
        dtypes=("float32",),
        graph="g",
        shaped_graph=f"s{number}",
    )
    return Selected(task=row, side="sft")


def _language_model(small_model, **more: object) -> dict[str, object]:
    names = {name: str(path) for name, path in small_model.settings.items()}
    return {"share": 1.0, "samples": 1, "max_tokens": 64, "temperature": 0.5, **names, **more}


def test_a_servers_refined_answer_becomes_a_row_with_its_own_words(make, server, small_model):
    part = _language_model(small_model, url=server, model=str(small_model.folder), turns=2)
    with make(distil=part) as folder:
        propose(folder)
        [found] = [line for line in folder.proposals if line.route.startswith("distilled:")]
        assert [candidate.code for candidate in found.candidates] == [small_model.kernel]  # the cheat was refused
        verify(folder, workers=1, device="cpu")
        rows = {line.route: line.example for line in folder.judged}
    row = rows[found.route]
    assert row.completion.startswith("I see: a kernel has to do it.")
    assert row.code == small_model.kernel
    assert rows["templates"].code != row.code


@pytest.mark.extra
def test_what_an_own_model_says_is_rejected_or_kept_by_the_judge(make, small_model):
    part = _language_model(small_model, path=str(small_model.folder))  # asked once, it cheats
    with make(own=part) as folder:
        propose(folder)
        told = verify(folder, workers=1, device="cpu")
        assert told.counts["rejected"] == 1
        assert told.counts["correct"] == told.done - 1
        [refused] = [line for line in folder.judged if line.route.startswith("model:")]
    assert refused.example is None


@pytest.mark.extra
def test_a_server_that_is_not_there_is_one_line_and_loses_nothing(make, small_model):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    part = _language_model(small_model, url=url, model="m", timeout_s=2.0)
    with make(1, distil=part) as folder:
        told = propose(folder)
        assert told.counts["templates"] == 1
        assert "the endpoint failed on 1 tasks" in told.notes[0]
        routes = [line.route for line in folder.proposals]
        assert routes == ["templates"]  # the server's task is asked again next time
