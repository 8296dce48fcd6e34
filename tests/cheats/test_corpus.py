"""The corpus is well formed: labels parse, families are covered, files are Python. No candidate runs here."""

import ast
import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("cheats_corpus", Path(__file__).with_name("corpus.py"))
assert _spec is not None
assert _spec.loader is not None
corpus = importlib.util.module_from_spec(_spec)
sys.modules["cheats_corpus"] = corpus
_spec.loader.exec_module(corpus)

CASES = corpus.load()


def test_the_corpus_is_large_enough():
    expected = Counter(case.expected for case in CASES)
    assert expected["reject"] >= 60
    assert expected["accept"] >= 28


def test_every_family_has_at_least_four_cheats():
    families = Counter(case.family for case in CASES)
    assert {family: families[family] for family in corpus.FAMILIES if families[family] < 4} == {}
    assert set(families) == {*corpus.FAMILIES, corpus.HONEST}


def test_names_are_unique():
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []


def test_no_two_candidates_hold_the_same_code():
    bodies = Counter(case.code_path.read_text(encoding="utf-8").split("\n", 1)[1] for case in CASES)
    assert max(bodies.values()) == 1


def test_every_task_is_used_and_complete():
    used = {case.task_path for case in CASES}
    assert used == set((corpus.HERE / "tasks").glob("*.py"))
    for path in used:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert {"Model", "get_inputs", "get_init_inputs"} <= {getattr(node, "name", None) for node in tree.body}, (
            path.name
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_candidate_parses_and_defines_a_kernel(case):
    source = case.code_path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert "@triton.jit" in source
    if case.name != "class_missing":
        assert "ModelNew" in {getattr(node, "name", None) for node in tree.body}


@pytest.mark.parametrize(
    "first_line",
    [
        "import torch",
        "# trick: a | family: magic | expect: reject | task: softmax",
        "# trick: a | family: replay | expect: accept | task: softmax",
        "# trick: a | family: replay | expect: reject | task: no_such_task",
        "# trick: a | family: replay | expect: reject | task: softmax | gpu",
    ],
)
def test_a_bad_header_is_an_error(tmp_path, first_line):
    for folder in ("cheats", "honest", "tasks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tasks" / "softmax.py").touch()
    (tmp_path / "cheats" / "one.py").write_text(first_line + "\n")
    with pytest.raises(ValueError, match=r"."):
        corpus.load(tmp_path)


def test_the_folder_format_is_read(tmp_path):
    case = tmp_path / "hang"
    case.mkdir()
    (case / "meta.json").write_text('{"expected": "reject", "category": "dos", "acts_only_on_a_gpu": true}')
    assert corpus.load_folder(tmp_path) == [
        corpus.Case("hang", "denial", "reject", True, case / "reference.py", case / "candidate.py")
    ]
