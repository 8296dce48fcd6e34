"""What is asked for a function, and what is said before its answer: several wordings of each."""

from __future__ import annotations

from random import Random

from autotriton.data.pairs import wording
from autotriton.data.pairs.facts import borrowed
from autotriton.data.pairs.reasoning import borrowed_from, listed
from autotriton.data.rows import PROSE
from autotriton.data.wrappers.base import Plan, has_out, signature
from autotriton.propose.prompt import fenced
from autotriton.syntax import parse_source
from autotriton.types import Task

_LEADS = (
    "Write a Triton implementation of the function described below.",
    "You are an expert in Triton. Implement this function with kernels of your own.",
    "Implement the following operator in Triton.",
    "Below is the description of a PyTorch-like function. Write it with Triton kernels.",
    "Here is what a function does and how it is called. Write it in Triton.",
)
_DESCRIBED = ("Functional description", "Description", "What it does", "Functional Description")
_ENTRY = ("Wrapper entry information", "Wrapper Entry Information", "Entry point", "Signature", "Called as")
_MATHS = ("Math", "Formula", "Definition")
_DEFINE = (
    "Define `{name}` with exactly this signature: `def {name}({signature})`.",
    "The file must define a function `{name}({signature})`: this name, these parameters and these defaults.",
    "Your program has to contain the wrapper `def {name}({signature})`; it is called by that name.",
)
_RULES = (
    "All arithmetic is done in Triton kernels; torch only allocates and changes views.",
    "Every computation belongs into a `@triton.jit` kernel; torch may allocate, reshape and make contiguous.",
    "Torch must not compute anything: it allocates and reshapes, kernels do the rest.",
)
_GENERAL = (
    "It must work for any shape and any values of the scalar arguments.",
    "It is called with other shapes and other scalars than any example shows.",
    "",
)
_ENDINGS = (
    "Explain your plan in a few sentences, then give the whole file in one fenced `python` block.",
    "A short plan first, then the complete program in one `python` block.",
    "Say briefly how the work is divided, then answer with one fenced `python` block.",
)


def question(plan: Plan, task: Task, draw: Random) -> tuple[str, str]:
    """The question and its style: mostly the description, sometimes the program itself."""
    if draw.random() < 0.15:
        return wording.rewrite(task, draw, f"\ndef {task.entry}("), "module"
    return described(plan, draw), PROSE


def described(plan: Plan, draw: Random) -> str:
    """The function in words, with its signature, arguments and shapes."""
    given = signature(plan.parameters)
    entry = f"{plan.name}({given}) -> {plan.returns}"
    parts = [f"{draw.choice(_DESCRIBED)}: {plan.summary}"]
    called = f"{draw.choice(_ENTRY)}: {draw.choice(('{}', '`{}`', 'def {}')).format(entry)}"
    rest = [_arguments(plan), _shapes(plan, draw), f"{draw.choice(_MATHS)}: {plan.formula}"]
    if draw.random() < 0.3:
        rest = [rest[2], rest[0], rest[1]]
    parts += [called, *rest] if draw.random() < 0.75 else [*rest[:-1], called, rest[-1]]
    closing = (
        draw.choice(_DEFINE).format(name=plan.name, signature=given),
        draw.choice(_RULES),
        draw.choice(_GENERAL),
        draw.choice(_ENDINGS),
    )
    lead = draw.choice(_LEADS)
    return "\n\n".join([lead, *parts, " ".join(filter(None, closing))])


def _arguments(plan: Plan) -> str:
    lines = []
    for parameter in plan.parameters:
        default = f" Default: {parameter.default}." if parameter.default is not None else ""
        lines.append(f"    {parameter.name} ({parameter.kind}): {parameter.about}.{default}")
    return "Args:\n" + "\n".join(lines)


def _shapes(plan: Plan, draw: Random) -> str:
    if draw.random() < 0.5:
        return "Shape:\n" + "\n".join(f"    {line}" for line in plan.shapes)
    return "Shape: " + "; ".join(plan.shapes) + "."


def completion(plan: Plan, code: str, draw: Random) -> str:
    return f"{reasoning(plan, code, draw)}\n\n{fenced(code)}"


def reasoning(plan: Plan, code: str, draw: Random) -> str:
    """Every sentence rests on the plan or on the program's text."""
    lead = draw.choice(
        (
            "`{0}` computes `{1}`.",
            "What has to be computed: `{1}`.",
            "The function is `{1}`.",
            "`{0}` comes down to `{1}`.",
        )
    ).format(plan.name, plan.formula.split(";")[0])
    parts = [" ".join((lead, *plan.said))]
    parts.append(
        " ".join(
            filter(None, (_numbers(plan, draw), borrowed_from(borrowed(parse_source(code))), _safety(plan, code, draw)))
        )
    )
    return "\n\n".join(part for part in parts if part)


def _numbers(plan: Plan, draw: Random) -> str:
    names = [parameter.name for parameter in plan.parameters if parameter.kind.startswith("float")]
    if not names:
        return ""
    if len(names) == 1:
        return draw.choice(
            (
                "{} is handed to the kernel as an argument, so any value works.",
                "{} is only known at the call, so it is a kernel argument and not a constant.",
                "The scalar {} is a run-time argument of the kernel.",
            )
        ).format(listed(names))
    return draw.choice(
        (
            "{} are handed to the kernel as arguments, so any values work.",
            "{} are only known at the call, so they are kernel arguments and not constants.",
            "The scalars {} are run-time arguments of the kernel.",
        )
    ).format(listed(names))


def _safety(plan: Plan, code: str, draw: Random) -> str:
    said = []
    if "to(tl.float32)" in code:
        said.append(
            draw.choice(
                (
                    "Values are widened to fp32 for the arithmetic and rounded when they are stored.",
                    "The arithmetic is fp32 also for 16-bit tensors; the store rounds.",
                )
            )
        )
    if "tl.int64" in code:
        said.append(draw.choice(("Offsets are 64-bit.", "Offsets are int64, so large tensors are safe.")))
    if has_out(plan.parameters):
        said.append(
            draw.choice(
                (
                    "Where `out` is given, the kernel writes into it.",
                    "The kernel stores into `out` if there is one, else into a new tensor.",
                )
            )
        )
    return " ".join(said)
