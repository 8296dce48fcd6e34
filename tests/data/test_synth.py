"""The generator of PyTorch programs: the same everywhere, valid, wide. No torch runs here."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from autotriton.data.synth import RECIPES, TABLE, stream, synthesise
from autotriton.data.synth.builder import Builder
from autotriton.data.synth.recipes import BY_NAME
from autotriton.data.synth.sizes import draw_shape, sizes_for
from autotriton.data.synth.values import DOMAINS
from autotriton.errors import UsageError


@pytest.fixture(scope="module")
def drafts() -> list[object]:
    return [synthesise(3, number) for number in range(1500)]


def test_same_seed_gives_the_same_text_in_another_process() -> None:
    code = (
        "from autotriton.data.synth import synthesise;"
        "import hashlib;"
        "print(hashlib.sha256(''.join(synthesise(5, n).task.source for n in range(60)).encode()).hexdigest())"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


def test_other_numbers_and_seeds_give_other_texts() -> None:
    texts = [synthesise(seed, number).task.source for seed in (1, 2) for number in range(20)]
    assert len(set(texts)) == 40


def test_no_torch_is_imported_by_synthesis() -> None:
    code = "import sys; from autotriton.data.synth import synthesise; synthesise(1, 1); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_text_parses_and_defines_its_entry_and_inputs(drafts: list) -> None:
    for draft in drafts:
        tree = ast.parse(draft.task.source)
        names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        assert {draft.task.entry, "get_inputs"} <= names
        assert (draft.task.entry == "Model") == ("get_init_inputs" in names)


def test_no_text_uses_a_name_it_does_not_bind(drafts: list) -> None:
    for draft in drafts[:400]:
        tree = ast.parse(draft.task.source)
        bound = {"super", "float", "int", "bool", "tuple", "torch", "nn", "F", "math"}
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif isinstance(node, ast.ClassDef | ast.FunctionDef):
                bound.add(node.name)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert used <= bound, (draft.task.id, used - bound)


def test_every_argument_of_forward_is_used(drafts: list) -> None:
    for draft in drafts[:400]:
        tree = ast.parse(draft.task.source)
        entry = next(node for node in tree.body if getattr(node, "name", "") == draft.task.entry)
        if isinstance(entry, ast.ClassDef):
            entry = next(node for node in entry.body if getattr(node, "name", "") == "forward")
        given = {arg.arg for arg in entry.args.args} - {"self"}
        used = {node.id for node in ast.walk(entry) if isinstance(node, ast.Name)}
        assert given <= used, draft.task.id


def test_the_table_is_wide_and_nearly_all_of_it_is_met(drafts: list) -> None:
    assert len(TABLE) >= 250
    met = {name for draft in drafts for name in draft.ops}
    assert len(met & set(TABLE)) >= 300


def test_every_recipe_can_be_asked_for() -> None:
    for recipe in RECIPES:
        assert synthesise(2, 0, recipe=recipe.name).recipe == recipe.name


def test_compositions_weigh_more_than_soup(drafts: list) -> None:
    counts = Counter(draft.recipe for draft in drafts)
    assert counts["soup"] < counts["conv_chain"]
    assert counts["soup"] < counts["matmul_chain"]


def test_styles_differ(drafts: list) -> None:
    texts = [draft.task.source for draft in drafts]
    for mark in ("nn.Module", "F.", '"""', "super(Model, self)", "super().__init__()", ": torch.Tensor", "\ndef "):
        share = sum(mark in text for text in texts) / len(texts)
        assert share > 0.02, mark
    functions = sum(draft.task.entry != "Model" for draft in drafts) / len(drafts)
    assert 0.1 < functions < 0.6


def test_dtypes_include_half_precision_integers_and_booleans(drafts: list) -> None:
    texts = "".join(draft.task.source for draft in drafts)
    for dtype in ("float16", "bfloat16", "float64", "int32", "int8", "randint", "> 0.5"):
        assert dtype in texts


def test_laptop_tensors_are_small_and_gpu_tensors_are_not() -> None:
    rng = random.Random(1)
    for kind in ("matrix", "sequence", "image", "volume", "heads"):
        laptop = [_product(draw_shape(rng, sizes_for("laptop"), kind)) for _ in range(200)]
        gpu = [_product(draw_shape(rng, sizes_for("gpu"), kind)) for _ in range(200)]
        assert max(laptop) <= sizes_for("laptop").elements
        assert sum(gpu) / sum(laptop) > 50


def test_long_rows_are_few() -> None:
    rng = random.Random(1)
    drawn = [draw_shape(rng, sizes_for("long"), "matrix") for _ in range(200)]
    assert max(map(_product, drawn)) <= sizes_for("long").elements
    assert sum(shape[-1] > 4096 for shape in drawn) > 50


def test_layers_one_behind_the_other_stand_in_a_sequential_where_the_style_says_so() -> None:
    texts = [synthesise(7, number, scale="small", recipe="mlp_stack").task.source for number in range(40)]
    at_once, gathered = (
        ["nn.Sequential(\n" in text for text in texts],
        ["nn.Sequential(*modules)" in text for text in texts],
    )
    assert any(at_once)
    assert any(gathered)
    assert not all(one or other for one, other in zip(at_once, gathered, strict=True)), "some write their layers apart"


def test_operators_that_need_to_be_told_how_are_drawn_where_they_are_named_only(drafts: list) -> None:
    named = {op.name for op in TABLE.values() if op.named}
    assert "gru_stack" in named
    assert not named & {name for draft in drafts for name in draft.ops}
    asking = ("recurrent_stack", "product_of_inputs")
    assert named == {
        name for n in range(80) for name in synthesise(7, n, recipe=asking[n % 2]).ops if TABLE[name].named
    }


def test_only_the_named_recipes_in_turns() -> None:
    found = list(stream(3, 8, scale="long", recipes=("norm_act", "mlp")))
    assert [draft.recipe for draft in found] == ["norm_act", "mlp"] * 4
    assert [draft.task.source for draft in found] == [
        draft.task.source for draft in stream(3, 8, scale="long", recipes=("norm_act", "mlp"))
    ]


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def test_an_operand_outside_an_operators_domain_is_guarded() -> None:
    builder = Builder(random.Random(1), table=TABLE)
    x = builder.input((4, 8))
    builder.apply("log", x)
    assert [step.op.name for step in builder.steps] == ["guard", "log"]
    positive = builder.input((4, 8), domain="pos")
    builder.apply("log", positive)
    assert builder.steps[-2].op.name == "log"


def test_a_jump_never_follows_a_computed_value() -> None:
    builder = Builder(random.Random(1), table=TABLE)
    x = builder.input((4, 8))
    computed = builder.apply("exp", x)
    assert builder.attempt("floor", computed) is None
    assert builder.attempt("floor", x) is not None


def test_domains_named_by_the_table_exist() -> None:
    for op in TABLE.values():
        assert op.takes in {*DOMAINS, "any", "integer", "bool"}, op.name
        assert op.gives is None or op.gives in DOMAINS, op.name
        assert op.spellings or op.layer, op.name


def test_a_stream_has_no_text_twice() -> None:
    hashes = [draft.task.hash for draft in stream(9, 300)]
    assert len(set(hashes)) == 300


@pytest.mark.parametrize("wrong", [{"scale": "huge"}, {"recipe": "nothing"}])
def test_an_unknown_scale_or_recipe_is_one_clear_line(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="known: "):
        synthesise(1, 1, **wrong)


# --- modules that are told everything ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def configured() -> list[object]:
    names = [name for name in BY_NAME if name.endswith(("_layer", "_tail", "_along", "pooled", "normalised"))]
    told = {"scale": "small", "configured": 1.0}
    return [synthesise(9, number, recipe=names[number % len(names)], **told) for number in range(400)]


def test_only_who_asks_gets_configured_modules() -> None:
    asked = [synthesise(9, number, configured=0.5).task.source for number in range(60)]
    plain = [synthesise(9, number).task.source for number in range(60)]
    assert 0 < sum(one != other for one, other in zip(asked, plain, strict=True)) < 60
    assert "configured 0.5" in synthesise(9, 0, configured=0.5).origin


def test_what_a_constructor_is_not_given_has_a_default(configured: list) -> None:
    left_out = 0
    for draft in configured:
        tree = ast.parse(draft.task.source)
        model = next((node for node in tree.body if isinstance(node, ast.ClassDef)), None)
        made = next((node for node in model.body if getattr(node, "name", "") == "__init__"), None) if model else None
        if made is None:
            continue
        makers = next(node for node in tree.body if getattr(node, "name", "") == "get_init_inputs")
        given = len(makers.body[0].value.elts)
        taken, defaults = len(made.args.args) - 1, len(made.args.defaults)
        assert taken - defaults <= given <= taken, draft.task.source
        left_out += given < taken
    assert left_out > 50


def test_every_setting_of_a_layer_may_be_an_argument(configured: list) -> None:
    text = "\n".join(draft.task.source for draft in configured)
    for setting in ("stride", "padding", "output_padding", "dilation", "groups", "bias", "eps", "dim"):
        assert f"{setting}={setting}" in text or f"self.{setting} = {setting}" in text, setting
    assert "bias: bool = " in text
    assert "dim=self.dim" in text
    assert not {"\x06", "\x07"} & set(text)


def test_dimensions_are_plain_numbers_elsewhere(drafts: list) -> None:
    assert not any(mark in draft.task.source for draft in drafts for mark in "\x01\x02\x03\x04\x05\x06\x07")
