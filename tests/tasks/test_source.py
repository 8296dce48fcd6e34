"""A file becomes a Task without being run; everything wrong with it is one line that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autotriton.errors import UsageError
from autotriton.tasks.source import load
from autotriton.types import Mode

MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(4)]
def get_init_inputs():
    return []
"""

LIBRARY = """
import torch
class Scale(torch.nn.Module):
    def __init__(self, width, *, bias=True):
        super().__init__()
    def forward(self, x, y=None):
        return x
def add(x, y, *, alpha):
    return x + alpha * y
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes, name: str = "task.py") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_kernelbench_file_is_taken_as_it_is(write):
    task = load(write(MODEL), mode="eval", tf32=True)
    assert task.source == MODEL
    assert (task.id, task.entry, task.mode, task.tf32, task.import_root) == ("task", "Model", Mode.EVAL, True, None)


def test_missing_get_init_inputs_is_filled_in_for_a_class(write):
    task = load(write(MODEL[: MODEL.index("def get_init_inputs")]))
    assert "def get_init_inputs():\n    return []" in task.source


def test_constructor_that_needs_arguments_asks_for_them(write):
    with pytest.raises(UsageError, match=r"no value for width \(give it with --init"):
        load(write(LIBRARY) + ":Scale", inputs=["4"])


def test_class_with_inputs_given_by_flags(write):
    task = load(write(LIBRARY) + ":Scale", inputs=["8x16:bf16"], init=["16", "bias=false"])
    assert task.id == "task:Scale"
    assert task.entry == "Scale"
    assert task.source.startswith(LIBRARY)
    assert "return [torch.randn((8, 16,), dtype=torch.bfloat16)]" in task.source
    assert 'return ([16], {"bias": False})' in task.source


def test_function_with_inputs_given_by_flags_gets_no_constructor_arguments(write):
    task = load(write(LIBRARY) + ":add", inputs=["4:f32", "4:f32", "alpha=0.5"])
    assert "get_init_inputs" not in task.source
    compile(task.source, "task", "exec")


def test_flags_replace_the_files_own_inputs(write):
    assert load(write(MODEL), inputs=["2x2:fp16"]).source.rindex("torch.float16") > len(MODEL)


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        (["4:f32"], "no value for y, alpha"),
        (["4:f32", "4:f32", "4:f32", "alpha=1"], "3 given by --input, at most 2"),
        (["4:f32", "4:f32", "alpha=1", "beta=2"], "unknown name 'beta'"),
    ],
)
def test_flags_that_do_not_fit_the_function_are_told_before_anything_runs(write, inputs, complaint):
    with pytest.raises(UsageError, match=complaint):
        load(write(LIBRARY) + ":add", inputs=inputs)


def test_init_for_a_function_is_a_usage_error(write):
    with pytest.raises(UsageError, match="is a function"):
        load(write(LIBRARY) + ":add", inputs=["1", "2", "alpha=3"], init=["1"])


def test_unknown_name_lists_what_there_is(write):
    with pytest.raises(UsageError, match=r"no 'Scal' \(it has: Scale, add\)"):
        load(write(LIBRARY) + ":Scal")


def test_file_without_model_says_how_to_name_one(write):
    with pytest.raises(UsageError, match=r"no class `Model` \(name one as task.py:Name; it has: Scale, add\)"):
        load(write(LIBRARY))


def test_file_without_inputs_says_how_to_give_them(write):
    with pytest.raises(UsageError, match=r"no `get_inputs` \(.*--input"):
        load(write(LIBRARY) + ":Scale")


@pytest.mark.parametrize(
    "text",
    [
        MODEL.replace("class Model", "class Net") + "Model = Net\n",
        "from model import Model\n" + MODEL.replace("class Model", "class Net"),
        "try:\n    import x\nexcept ImportError:\n    x = None\nif True:\n    from m import Model, get_inputs\n",
        "from everything import *\n",
    ],
)
def test_model_may_be_assigned_or_imported(write, text):
    assert load(write(text)).entry == "Model"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\x7fELF\x00\x00", "not a text file"),
        (b"\xff\xfe\xfd", "not a text file"),
        (b"def f(:\n", "not valid Python: .*line 1"),
        (b"x = 1\nclass\n", "line 2"),
        (b"(" * 5000, "Python|parsed"),
        (b"from . import x\n" + MODEL.encode(), "relative import, line 1"),
    ],
)
def test_file_that_is_no_task_is_one_line_with_a_remedy(write, data, complaint):
    with pytest.raises(UsageError, match=complaint) as error:
        load(write(data))
    assert "\n" not in str(error.value)
    assert error.value.hint


def test_missing_file_folder_and_pipe_are_usage_errors(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, complaint in (("none.py", "does not exist"), ("", "is a folder"), ("pipe", "not a regular file")):
        with pytest.raises(UsageError, match=complaint):
            load(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_a_usage_error(write):
    path = write(MODEL)
    os.chmod(path, 0)
    with pytest.raises(UsageError, match="cannot be read"):
        load(path)


def test_byte_order_mark_and_windows_line_ends_are_fine(write):
    assert load(write(b"\xef\xbb\xbf" + MODEL.replace("\n", "\r\n").encode())).source == MODEL


def test_import_root_is_the_folder_when_a_sibling_is_imported(write, tmp_path):
    write("x = 1\n", "layers.py")
    assert load(write("from layers import x\n" + MODEL)).import_root == str(tmp_path)


def test_import_root_is_none_for_installed_and_standard_modules(write):
    write("x = 1\n", "math.py")
    assert load(write("import math, torch.nn, missing\n" + MODEL)).import_root is None


def test_loading_runs_nothing_and_imports_no_torch(write, tmp_path):
    path = write(f"open({str(tmp_path / 'ran')!r}, 'w')\n" + MODEL)
    code = f"import sys; from autotriton.tasks.source import load; load({path!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["softmax", "layernorm", "matmul_bias_gelu"])
def test_shipped_examples_are_tasks(examples, name):
    assert load(examples / f"{name}.py").id == name
