"""Reading and rewriting the TILES literal: text in, text out."""

from __future__ import annotations

import ast

import pytest

from autotriton.errors import UsageError
from autotriton.tune import tiles

FILE = """import triton

# sizes of the tiles
TILES = {"a": {"BLOCK": 16, "EVEN": True}, "b": {"PRECISION": "bf16x6"}}  # keep this

def a(x):
    return helper(x, TILES["a"], SCALE)

SCALE = 2

def helper(x, tiles, scale):
    return x  # a comment

def b(x):
    return x
"""


def test_settings_are_read():
    assert tiles.read(FILE) == {"a": {"BLOCK": 16, "EVEN": True}, "b": {"PRECISION": "bf16x6"}}


def test_a_rewritten_file_has_one_entry_per_line_and_says_where_it_was_measured():
    new = tiles.rewrite(FILE, {"a": {"BLOCK": 64, "EVEN": False}}, "NVIDIA H200, triton 3.6.0")
    assert new == FILE.replace(
        'TILES = {"a": {"BLOCK": 16, "EVEN": True}, "b": {"PRECISION": "bf16x6"}}  # keep this\n',
        "# measured on NVIDIA H200, triton 3.6.0\n"
        "TILES = {\n"
        '    "a": {"BLOCK": 64, "EVEN": False},\n'
        '    "b": {"PRECISION": "bf16x6"},\n'
        "}  # keep this\n",
    )


def test_a_second_rewrite_replaces_the_note_of_the_first():
    first = tiles.rewrite(FILE, {}, "NVIDIA A100, triton 3.6.0")
    second = tiles.rewrite(first, {"a": {"BLOCK": 32}}, "NVIDIA H200, triton 3.9.0")
    assert second.count("# measured on") == 1
    assert "# measured on NVIDIA H200, triton 3.9.0" in second
    assert tiles.read(second)["a"] == {"BLOCK": 32}


def test_everything_outside_the_literal_stays_as_it_is():
    file = f"# -*- ü -*-\r\nx = 'ü'\n{FILE}\ny = [\n1,\n]\n"
    new = tiles.rewrite(file, {"a": {"BLOCK": 8}}, "here")
    before, after = file.split('TILES = {"a"')[0], file.split("  # keep this")[1]
    assert new.startswith(before)
    assert new.endswith(after)


def test_a_long_entry_is_broken_into_lines():
    long = {f"CONSTEXPR_NUMBER_{number}": number for number in range(9)}
    new = tiles.rewrite('TILES = {"k": {}}\n', {"k": long}, "")
    assert max(map(len, new.splitlines())) <= 120
    assert tiles.read(new) == {"k": long}


def test_an_annotated_literal_over_several_lines_is_rewritten():
    file = 'TILES: dict[str, dict[str, int]] = {\n    "k": {\n        "B": 1,\n    },\n}\nz = 1\n'
    new = tiles.rewrite(file, {"k": {"B": 2}}, "")
    assert new == 'TILES: dict[str, dict[str, int]] = {\n    "k": {"B": 2},\n}\nz = 1\n'


def test_strings_survive_quoting():
    new = tiles.rewrite('TILES = {"k": {"M": "x"}}', {"k": {"M": 'a"b\\c\nü'}}, "")
    assert tiles.read(new) == {"k": {"M": 'a"b\\c\nü'}}
    ast.parse(new)


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("x = 1\n", "has no TILES"),
        ("TILES = {}\nTILES = {}\n", "2 times"),
        ("TILES = make()\n", "is not a literal"),
        ("TILES = [1]\n", "must map names"),
        ('TILES = {"a": {"b": 1.5}}\n', "must map names"),
        ("TILES = {\n", "cannot be parsed"),
    ],
)
def test_a_file_without_usable_settings_is_a_clear_error(file, problem):
    with pytest.raises(UsageError, match=problem):
        tiles.read(file)


def test_settings_for_an_unknown_wrapper_are_refused():
    with pytest.raises(UsageError, match=r"no entry 'c'.*a, b"):
        tiles.rewrite(FILE, {"c": {"BLOCK": 1}}, "")


def test_files_that_differ_in_their_settings_only_have_one_skeleton():
    tuned = tiles.rewrite(FILE, {"a": {"BLOCK": 512, "EVEN": False}}, "NVIDIA H200, triton 3.6.0")
    assert tiles.skeleton(tuned) == tiles.skeleton(FILE)
    assert tiles.skeleton(FILE.replace("SCALE = 2", "SCALE = 3")) != tiles.skeleton(FILE)


def test_a_wrappers_sources_are_all_it_reaches_and_nothing_else():
    found = tiles.sources(FILE, "a")
    assert "def a" in found
    assert "def helper" in found
    assert "SCALE = 2" in found
    assert "def b" not in found
    assert "BLOCK" not in found
    assert found == tiles.sources(FILE.replace("16", "32").replace("  # a comment", ""), "a")
