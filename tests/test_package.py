"""The package's own names, whichever import came first."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["", "import autotriton.judge;", "from autotriton import judge_many;"])
def test_judge_can_be_called_whatever_was_imported_before(first):
    call = "task = autotriton.Task(id='t', source='x'); print(autotriton.judge(task, '# nothing').outcome)"
    script = f"{first} import autotriton; {call}"
    done = subprocess.run([sys.executable, "-c", script.strip()], capture_output=True, text=True)
    assert done.stdout.strip() == "no_code", done.stderr


def test_importing_the_package_imports_no_torch():
    script = "import sys, autotriton, autotriton.judge; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
