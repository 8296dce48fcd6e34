"""How a process of this package is started."""

from __future__ import annotations

import os
import subprocess

from autotriton.child import child_command, python_path


def test_a_child_finds_this_package_and_nothing_in_the_current_folder(tmp_path):
    (tmp_path / "string.py").write_text("raise SystemExit('imported from the current folder')")
    environment = {**os.environ, "PYTHONPATH": python_path()}
    ended = subprocess.run(
        child_command("autotriton", "--version"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()[0]) == (0, "autotriton"), ended.stderr


def test_what_the_user_has_set_is_kept(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "mine")
    assert python_path().split(os.pathsep)[-1] == "mine"
    monkeypatch.delenv("PYTHONPATH")
    assert os.pathsep not in python_path()
