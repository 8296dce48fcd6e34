"""Exported operators on a device: under torch.compile with Inductor, in CUDA graphs, and in training.

The whole file is meant to take about a minute and a half on an H200.
"""

from __future__ import annotations

import copy
import importlib
import sys

import pytest
import torch

from autotriton.export import export_package
from autotriton.judge import Judge, JudgeOptions
from autotriton.propose.compiler import CompilerProposer
from autotriton.types import Task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

HEAD = "import torch\nfrom torch import nn\n"
MLP = """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))
def get_inputs():
    return [torch.randn(96, 64)]
def get_init_inputs():
    return [64]
"""
NORM = """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
    def forward(self, x):
        return torch.relu(self.norm(x))
def get_inputs():
    return [torch.randn(96, 64)]
def get_init_inputs():
    return [64]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Name -> the imported package of a task's first accepted kernel."""
    made = {}
    with Judge(JudgeOptions()) as judge:

        def make(name, source):
            if name not in made:
                task = Task(id=name, source=HEAD + source)
                tried = ((c, judge.judge(task, c.code)) for c in CompilerProposer().propose(task, []))
                candidate, verdict = next(pair for pair in tried if pair[1].accepted)
                folder = export_package(task, candidate, verdict, tmp_path_factory.mktemp(name), f"{name}_gpu_op")
                sys.path.insert(0, str(folder))
                made[name] = importlib.import_module(f"{name}_gpu_op")
            return made[name]

        yield make


def models(package):
    torch.manual_seed(0)
    model = package.Model(64).cuda()
    reference = package.reference.Model(64).cuda()
    reference.load_state_dict(model.state_dict())
    return model, reference


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_inductor_compiles_it_in_one_graph(package):
    model, reference = models(package("mlp", MLP))
    x = torch.randn(96, 64, device="cuda")
    compiled = torch.compile(lambda x: model(x * 2) + 1, fullgraph=True)
    close(compiled(x), reference(x * 2) + 1)


def test_training_under_inductor_has_the_references_gradients(package):
    model, reference = models(package("mlp", MLP))
    x, same = (torch.linspace(-1, 1, 96 * 64, device="cuda").reshape(96, 64).requires_grad_() for _ in range(2))
    torch.compile(model, fullgraph=True)(x).square().mean().backward()
    reference(same).square().mean().backward()
    close(x.grad, same.grad)
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        close(one.grad, other.grad)


@torch.no_grad()
def test_it_can_be_captured_in_a_cuda_graph(package):
    model, reference = models(package("mlp", MLP))
    x = torch.randn(96, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(x)  # compiles the kernels
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    for _ in range(2):
        x.normal_()
        model.up.weight.mul_(0.9)
        reference.up.weight.mul_(0.9)
        graph.replay()
        close(y, reference(x))


@torch.no_grad()
def test_reduce_overhead_uses_cuda_graphs_around_it(package):
    model, reference = models(package("mlp", MLP))
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        x = torch.randn(96, 64, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        close(compiled(x).clone(), reference(x))


def test_buffers_are_updated_under_inductor_with_and_without_gradients(package):
    model, reference = models(package("norm", NORM))
    compiled = torch.compile(model, fullgraph=True)
    for wants_gradients in (False, True):
        x = torch.randn(96, 64, device="cuda") * 3 + 1
        with torch.set_grad_enabled(wants_gradients):
            close(compiled(x), reference(x))
    for one, other in zip(model.state_dict().values(), reference.state_dict().values(), strict=True):
        close(one, other)


def test_opcheck_on_the_device(package):
    made = package("mlp", MLP)
    model = made.Model(64).cuda()
    x = torch.randn(96, 64, device="cuda", requires_grad=True)
    arguments = (x, *copy.copy(list(model.parameters())))
    torch.library.opcheck(made.op.forward, arguments)
