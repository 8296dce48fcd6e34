"""What counts as the program in an answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotriton.propose.extract import blocks, extract, without_thoughts

PROGRAM = """import torch
import triton


@triton.jit
def kernel(x_ptr):
    pass


class ModelNew(torch.nn.Module):
    def forward(self, x):
        kernel[(1,)](x)
        return x
"""
REFERENCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"


def fenced(code: str, tag: str = "python", mark: str = "```") -> str:
    return f"{mark}{tag}\n{code}{mark}\n"


@pytest.mark.parametrize(
    "tag", ["python", "py", "Python", "python3", "triton", "", " python", "python title='new.py'", "{.python}"]
)
@pytest.mark.parametrize("mark", ["```", "````", "~~~"])
def test_a_fenced_program_is_found_whatever_its_tag_and_fence(tag, mark):
    assert extract(f"Here it is:\n\n{fenced(PROGRAM, tag, mark)}\nIt is fast.") == PROGRAM


@pytest.mark.parametrize("tag", ["bash", "text", "json", "cpp", "diff"])
def test_other_languages_are_no_program(tag):
    assert extract(fenced("pip install triton\n", tag)) == ""


def test_a_wrong_tag_does_not_hide_the_program():
    assert extract(fenced(PROGRAM, "cuda")) == PROGRAM


def test_the_block_that_defines_the_module_wins_wherever_it_stands():
    usage = "import torch\n\nmodel = ModelNew()\nprint(model(torch.randn(2)))\n"
    for order in ((REFERENCE, PROGRAM, usage), (PROGRAM, usage, REFERENCE), (usage, REFERENCE, PROGRAM)):
        assert extract("\n".join(map(fenced, order))) == PROGRAM


def test_of_two_whole_programs_the_last_counts():
    better = PROGRAM.replace("pass", "return")
    assert extract(f"First try:\n{fenced(PROGRAM)}\nWait, better:\n{fenced(better)}") == better


def test_a_program_that_parses_beats_a_later_one_that_does_not():
    assert (
        extract(fenced(PROGRAM) + fenced(PROGRAM.replace("def forward(self, x):", "def forward(self, x:"))) == PROGRAM
    )


def test_a_module_with_triton_beats_one_without():
    plain = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
    assert extract(fenced(PROGRAM) + fenced(plain)) == PROGRAM


def test_kernels_and_module_in_two_blocks_are_put_together():
    kernels, module = PROGRAM.split("\n\n\nclass ")
    answer = (
        "The kernel:",
        fenced(f"{kernels}\n"),
        "The module:",
        fenced(f"class {module}"),
        "Run:",
        fenced("x = 1\n"),
    )
    assert extract("\n".join(answer)) == PROGRAM


def test_the_last_fence_may_lack_its_end():
    assert extract(f"Sure.\n```python\n{PROGRAM}") == PROGRAM


def test_a_program_cut_off_in_the_middle_is_kept_for_the_judge_to_name():
    torn = PROGRAM[: PROGRAM.index("kernel[(1,)]")] + "kernel[(1"
    assert extract(f"```python\n{torn}") == torn + "\n"


def test_a_fence_at_the_end_of_the_last_line_closes():
    assert extract(f"```python\n{PROGRAM.rstrip()}```\nThat is all.") == PROGRAM


def test_a_stuck_fence_before_another_block_closes_too():
    assert extract(f"```python\n{PROGRAM.rstrip()}```\nThen:\n{fenced('x = 1' + chr(10), 'bash')}") == PROGRAM


def test_a_block_that_was_not_closed_ends_where_the_next_begins():
    assert extract(f"```python\n{REFERENCE}\n```python\n{PROGRAM}```\n") == PROGRAM


def test_fences_in_a_docstring_belong_to_the_program():
    documented = f'"""Usage:\n\n```python\nModelNew()\n```\n"""\n{PROGRAM}'
    assert extract(f"Here:\n{fenced(documented)}Done.") == documented
    assert extract(f"Here:\n```python\n{documented}") == documented


def test_indented_blocks_lose_their_indentation():
    indented = "".join(f"   {line}" if line.strip() else line for line in fenced(PROGRAM).splitlines(keepends=True))
    assert extract(f"1. Write this:\n\n{indented}\n2. Run it.") == PROGRAM


def test_windows_line_ends_are_read():
    assert extract(fenced(PROGRAM).replace("\n", "\r\n")) == PROGRAM


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning", "THINK"])
def test_thoughts_are_dropped(tag):
    draft = fenced(PROGRAM.replace("pass", "draft()"))
    assert extract(f"<{tag}>\nPerhaps\n{draft}</{tag}>\n\n{fenced(PROGRAM)}") == PROGRAM
    assert extract(f"Perhaps\n{draft}</{tag}>\n\n{fenced(PROGRAM)}") == PROGRAM  # opened in the prompt
    assert extract(f"<{tag}>\nPerhaps\n{draft}") == ""  # ran out of tokens while thinking


def test_an_answer_after_which_the_model_thinks_again_is_kept():
    assert extract(f"{fenced(PROGRAM)}<think>Is that right?</think>") == PROGRAM


def test_a_thought_that_mentions_its_own_tag_ends_once():
    assert without_thoughts("<think>a <think> b</think>answer") == "answer"
    assert without_thoughts("<think>a<think>b</think>c</think>answer") == "answer"


def test_an_answer_without_fences_is_code_if_it_parses():
    assert extract(PROGRAM) == PROGRAM
    assert extract(f"\n\n{PROGRAM}\n\n") == PROGRAM


def test_words_around_unfenced_code_are_cut_off():
    assert extract(f"Here is the program you want:\n\n{PROGRAM}\nThis runs one program, and it's fast!\n") == PROGRAM


def test_unfenced_code_that_is_cut_off_is_kept_whole():
    torn = PROGRAM[: PROGRAM.index("kernel[(1,)]")] + "kernel[(1"
    assert extract(torn) == torn + "\n"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        "Sorry",
        "I can't do that.",
        "x",
        "from the above it follows that no kernel is needed",
        "```\n```",
        "```python\n",
    ],
)
def test_an_answer_without_code_gives_nothing(answer):
    assert extract(answer) == ""


def test_another_required_name_is_looked_for():
    function = PROGRAM.replace("class ModelNew(torch.nn.Module)", "def rms_norm_new(x)").replace(
        "    def forward(self, x):\n", ""
    )
    answer = fenced(function) + fenced(PROGRAM)
    assert "def rms_norm_new" in extract(answer, ("rms_norm_new",))
    assert "class ModelNew" in extract(answer)


def test_inline_backticks_are_no_fence():
    assert extract(f"Use ```tl.load``` like so:\n{fenced(PROGRAM)}") == PROGRAM


_PIECES = st.sampled_from(
    [
        "```",
        "```python",
        "~~~",
        "````",
        "<think>",
        "</think>",
        "import triton",
        "class ModelNew:",
        "    pass",
        "x = (",
        "",
        '"""',
        "Sure!",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=12), max_size=30).map("\n".join))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_piece_of_itself_or_nothing(answer):
    code = extract(answer)
    said = {line.strip() for line in without_thoughts(answer.replace("\r\n", "\n").replace("\r", "\n")).split("\n")}
    stuck = {line[:-n].strip() for line in said for n in (3, 4) if len(line) >= n}  # a fence stuck to a line's end
    assert not code or code.endswith("\n")
    assert {line.strip() for line in code.split("\n")} <= said | stuck | {""}


_PROSE = st.text(
    st.characters(codec="utf-8", exclude_characters="`~<\r\x1c\x1d\x1e\x85\u2028\u2029\x0b\x0c"), max_size=60
)


@given(_PROSE, _PROSE, st.sampled_from(["```", "````", "~~~"]), st.sampled_from(["", "python", "py"]))
@settings(max_examples=100, deadline=None)
def test_a_fenced_program_survives_any_words_around_it(before, after, mark, tag):
    assert extract(f"{before}\n{fenced(PROGRAM, tag, mark)}{after}") == PROGRAM


def test_many_fences_take_no_time():
    assert len(blocks("```python\nx = 1\n```\n" * 500)) == 500
    assert extract("```\n" * 4000 + "<think>" * 4000) == ""
