"""Exported packages: what is written, what is refused, and that the operators hold what they promise.

The kernels are the compiler proposer's, accepted by the judge; they run in Triton's interpreter, in processes of their
own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from autotriton.errors import UsageError
from autotriton.export import export_package, package_name
from autotriton.judge import Judge, JudgeOptions
from autotriton.propose.compiler import CompilerProposer
from autotriton.types import Candidate, Outcome, Task, Tier

HEAD = "import torch\nfrom torch import nn\n"
TASKS = {
    "linear_gelu": """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 12)
        self.scale = torch.linspace(1, 2, 12)
    def forward(self, x, slope=2.0, mask=None):
        y = torch.nn.functional.gelu(self.fc(x)) * self.scale
        return y * slope if mask is None else y * mask
def get_inputs():
    return [torch.randn(6, 8)]
def get_init_inputs():
    return [8]
""",
    "batch_norm": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
    def forward(self, x):
        return torch.relu(self.norm(x))
def get_inputs():
    return [torch.randn(8, 6)]
def get_init_inputs():
    return []
""",
    "tied": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, ids):
        y = self.head(self.embed(ids))
        return {"y": y, "largest": (y.amax(-1), None)}
def get_inputs():
    return [torch.randint(0, 10, (3, 5))]
def get_init_inputs():
    return []
""",
    "argmax": """
class Model(nn.Module):
    def forward(self, x):
        return torch.argmax(x, dim=-1)
def get_inputs():
    return [torch.randn(6, 9)]
def get_init_inputs():
    return []
""",
    "detached": """
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x).detach()
def get_inputs():
    return [torch.randn(6, 9)]
def get_init_inputs():
    return []
""",
    "in_place": """
class Model(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1
def get_inputs():
    return [torch.randn(6, 9)]
def get_init_inputs():
    return []
""",
    "scaled_sum": """
def scaled_sum(x, y, factor, *, power=2):
    return (x * factor + y) ** power
def get_inputs():
    return [torch.randn(4, 6), torch.randn(6), 0.5]
""",
}


@pytest.fixture(scope="module")
def judge():
    options = JudgeOptions(tier=Tier.INTERPRET, cases=3, admit=False, late_calls_s=0.0)
    with Judge(options) as one:
        yield one


def task_of(name):
    entry = name if name == "scaled_sum" else "Model"
    return Task(id=name, source=HEAD + TASKS[name], entry=entry)


@pytest.fixture(scope="module")
def exported(judge, tmp_path_factory):
    """Name -> the folder of its package, made on demand."""
    made = {}

    def export(name):
        if name not in made:
            task = task_of(name)
            tried = ((c, judge.judge(task, c.code)) for c in CompilerProposer().propose(task, []))
            candidate, verdict = next(pair for pair in tried if pair[1].accepted)
            made[name] = export_package(task, candidate, verdict, tmp_path_factory.mktemp(name), f"{name}_op")
        return made[name]

    return export


def run(folder, *command, interpret=True):
    environment = {**os.environ, "TRITON_INTERPRET": str(int(interpret)), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def script(folder, text, **how):
    return run(folder, "-c", "import torch\n" + text, **how)


QUICK = ("batch_norm",)
"""Parameters, buffers and gradients in one."""


@pytest.mark.interp
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.extra) for name in TASKS]
)
def test_package_passes_its_own_tests(exported, name):
    """Results, state, gradients, torch's opcheck, and torch.compile in one graph."""
    folder = exported(name)
    said = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder))
    expected = {"argmax": "3 passed, 2 skipped", "detached": "3 passed, 2 skipped", "in_place": "3 passed, 2 skipped"}
    assert expected.get(name, "6 passed" if name == "batch_norm" else "5 passed") in said


@pytest.mark.interp
@pytest.mark.slow
def test_batch_is_free_in_one_compiled_graph(exported):
    text = """
import linear_gelu_op as package
model, counts = package.Model(8), []
reference = package.reference.Model(8)
reference.load_state_dict(model.state_dict())
def backend(graph, _):
    counts.append(graph)
    return graph
compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
for size in (6, 3, 11):
    x = torch.randn(size, 8)
    torch.testing.assert_close(compiled(x), reference(x), rtol=1e-4, atol=1e-5)
print(len(counts))
"""
    assert script(exported("linear_gelu"), text).split() == ["1"]


@pytest.mark.interp
@pytest.mark.slow
def test_what_the_kernels_are_not_for_is_left_to_the_reference(exported):
    text = """
import linear_gelu_op as package
model, reference = package.Model(8), package.reference.Model(8)
reference.load_state_dict(model.state_dict())
x, mask = torch.randn(6, 8), torch.randn(12)
assert torch.equal(model(x, mask=mask), reference(x, mask=mask))
assert torch.equal(model(x, 3.0), reference(x, 3.0))
"""
    script(exported("linear_gelu"), text)
    norm = """
import batch_norm_op as package
model = package.Model().eval()
x = torch.randn(1, 6)
assert torch.equal(model(x), package.reference.Model().eval()(x))
"""
    script(exported("batch_norm"), norm)


@pytest.mark.interp
@pytest.mark.slow
def test_without_a_gpu_the_operator_runs_the_reference(exported):
    text = """
import linear_gelu_op as package
model, reference = package.Model(8), package.reference.Model(8)
reference.load_state_dict(model.state_dict())
x = torch.randn(6, 8)
assert torch.equal(model(x), reference(x))
"""
    script(exported("linear_gelu"), text, interpret=False)


@pytest.mark.interp
@pytest.mark.extra
@pytest.mark.slow
def test_backward_through_an_operator_without_gradients_says_so(exported):
    text = """
import detached_op as package
result = package.forward(torch.randn(6, 9, requires_grad=True))
try:
    result.sum().backward()
except RuntimeError as error:
    print(error)
"""
    assert "detached_op::forward is for inference: no result" in script(exported("detached"), text)


@pytest.mark.interp
@pytest.mark.slow
def test_inputs_that_change_are_declared(exported):
    folder = exported("in_place")
    assert 'mutates_args=("x",)' in (folder / "in_place_op" / "op.py").read_text()
    text = """
import in_place_op as package
x = torch.ones(6, 9)
result = torch.compile(package.Model(), backend="aot_eager", fullgraph=True)(x)
assert (x == 2).all() and (result == 3).all()
"""
    script(folder, text)


@pytest.mark.interp
@pytest.mark.slow
def test_package_can_be_described_and_read(exported):
    folder = exported("batch_norm")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "batch_norm_op"
    readme = (folder / "README.md").read_text()
    assert "norm_running_mean" in readme
    assert "$" not in readme
    operators = (folder / "batch_norm_op" / "op.py").read_text()
    assert 'mutates_args=(\n    "norm_running_mean"' in operators
    assert "autotriton" not in operators
    assert (folder / "batch_norm_op" / "kernels.py").read_text().count("@triton.jit")


@pytest.mark.parametrize("name", ["Fused", "my-op", "class", "aten", "1st", ""])
def test_names_that_cannot_be_an_operators_are_refused(name, make_verdict, tmp_path):
    with pytest.raises(UsageError, match="cannot be the name"):
        export_package(task_of("argmax"), Candidate(task_id="t", code=""), make_verdict(), tmp_path / "p", name)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("12_Gemm_Multiply", "op_12_gemm_multiply"),
        ("mine.py:RMSNorm", "mine_py_rmsnorm"),
        ("aten", "aten_op"),
        ("!", "kernels"),
    ],
)
def test_a_name_can_be_made_of_any_title(title, name):
    assert package_name(title) == name


def test_only_accepted_kernels_are_exported(make_verdict, tmp_path):
    verdict = make_verdict(Outcome.WRONG)
    with pytest.raises(UsageError, match="was not accepted"):
        export_package(task_of("argmax"), Candidate(task_id="t", code=""), verdict, tmp_path / "p", "argmax")


def test_other_peoples_folders_are_left_alone(make_verdict, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"):
        export_package(task_of("argmax"), Candidate(task_id="t", code=""), make_verdict(), tmp_path, "argmax")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_task_that_imports_its_neighbours_is_refused(make_verdict, tmp_path):
    task = task_of("argmax").model_copy(update={"import_root": str(Path.cwd())})
    with pytest.raises(UsageError, match="lie beside it"):
        export_package(task, Candidate(task_id="t", code=""), make_verdict(), tmp_path / "p", "argmax")
