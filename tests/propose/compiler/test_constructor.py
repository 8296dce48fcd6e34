"""The task's constructor, sliced out of its source without running it."""

import pytest

from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.constructor import slice_constructor

SOURCE = """
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from typing import Optional, List

WIDTH = 4
UNUSED = 5

class Block(nn.Module):
    def __init__(self, n: Optional[int]):
        super().__init__()
        self.linear = nn.Linear(n, WIDTH)
    def forward(self, x):
        return F.relu(self.linear(x))

class Model(nn.Module):
    '''Two blocks.'''
    def __init__(self, n):
        super(Model, self).__init__()
        self.block = self.make(n)
    def make(self, n):
        return Block(n)
    def forward(self, x):
        return self.helper(self.block(x))
    def helper(self, x):
        return os.path.join(x)
"""


def test_only_what_the_constructor_reaches_is_kept():
    found = slice_constructor(SOURCE, "Model", "ModelNew")
    assert found.imports == ["from typing import Optional", "import torch.nn as nn"]
    assert [text.splitlines()[0] for text in found.definitions] == ["WIDTH = 4", "class Block(nn.Module):"]
    assert not any("forward" in text for text in [*found.definitions, *found.members])
    assert [text.splitlines()[0] for text in found.members] == ["def __init__(self, n):", "def make(self, n):"]
    assert "super(ModelNew, self)" in found.members[0]


def test_a_parameter_hides_the_constant_of_its_name():
    source = (
        "import torch\nwidth = 4\ndepth = 5\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self, width, twice=lambda depth: depth + depth):\n"
        "        super().__init__()\n        self.linear = torch.nn.Linear(width, width)\n"
    )
    assert slice_constructor(source, "Model", "ModelNew").definitions == []
    used = source.replace("Linear(width, width)", "Linear(width, depth)")
    assert slice_constructor(used, "Model", "ModelNew").definitions == ["depth = 5"]


def test_a_constructor_that_needs_a_foreign_module_is_refused_by_name():
    source = (
        "import torch.nn as nn\nimport timm\nclass Model(nn.Module):\n    def __init__(self):\n        timm.new()\n"
    )
    with pytest.raises(ProposerError, match="import timm"):
        slice_constructor(source, "Model", "ModelNew")


def test_a_function_has_no_constructor():
    assert slice_constructor("def f(x): return x", "f", "ModelNew").members == []


def test_numbers_of_numpy_become_those_of_math():
    source = (
        "import numpy as np\nimport torch.nn as nn\nclass Model(nn.Module):\n"
        "    def __init__(self, n):\n        super().__init__()\n        self.scale = np.log2(8) / np.sqrt(n)\n"
    )
    found = slice_constructor(source, "Model", "ModelNew")
    assert found.imports == ["import math", "import torch.nn as nn"]
    assert "math.log2(8) / math.sqrt(n)" in found.members[0]


def test_arrays_of_numpy_are_still_refused():
    source = "import numpy as np\nclass Model:\n    def __init__(self):\n        self.table = np.zeros(3)\n"
    with pytest.raises(ProposerError, match="import numpy as np"):
        slice_constructor(source, "Model", "ModelNew")
