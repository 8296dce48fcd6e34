"""Why a program is built as it is, in a few paragraphs that are true of it.

Every sentence is there because of something in the program's syntax tree (`facts`): a loop is spoken of where there is
one, a tile size is the one that stands in the code. What cannot be read off is not said.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from autotriton.data.pairs.facts import Facts, Kernel, Launch

_BLOCKS = ("ROWS", "COLS", "TILE", "ROWS_PER_PROGRAM")
"""Names for tile sizes besides those with BLOCK in them."""
_MOST_KERNELS = 4
"""Longer programs are explained by their first kernels and a count of the rest."""


def explain(about: Facts, said: dict[str, tuple[str, str]], draw: Random) -> str:
    """The reasoning. `said` has what each kernel computes and a remark on it, by the name it has in the program."""
    parts = [_plan(about, {name: formula for name, (formula, _) in said.items()}, draw)]
    for kernel in about.kernels[:_MOST_KERNELS]:
        launch = next(launch for launch in about.launches if launch.kernel == kernel.name)
        remark = said.get(kernel.name, ("", ""))[1]
        parts.append(" ".join([*_remark(remark), *_kernel(kernel, launch, draw)]))
    parts += _closing(about, draw)
    parts.append(borrowed_from(about.borrowed))
    return "\n\n".join(part for part in parts if part)


def plan_only(completion: str) -> str:
    """An answer with the kernels it is made of and what they borrow, without the words on grids and tiles: those say
    what the program shows anyway.
    """
    said, fence, program = completion.partition("```")
    paragraphs = said.strip().split("\n\n")
    kept = [paragraphs[0], *(each for each in paragraphs[1:] if each.startswith("`tl` has no "))]
    return "\n\n".join(kept) + "\n\n" + fence + program


def borrowed_from(names: Sequence[str]) -> str:
    """Said before the program: what it imports is decided in its first lines. Empty where nothing is borrowed."""
    if not names:
        return ""
    come = "it comes" if len(names) == 1 else "they come"
    return f"`tl` has no {listed(names)}: {come} from `triton.language.extra.libdevice`."


def listed(names: Sequence[str]) -> str:
    """Names of the program in a sentence."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _plan(about: Facts, formulas: dict[str, str], draw: Random) -> str:
    """What is computed and in how many launches."""
    count = len(about.kernels)
    known = [formulas[kernel.name] for kernel in about.kernels if formulas.get(kernel.name)]
    if count == 1:
        lead = draw.choice(("Everything fits into one kernel", "One kernel does it all", "A single launch is enough"))
        return f"{lead}: `{known[0]}`." if known else f"{lead}."
    leads = ("I split the work into {0} kernels", "{0} kernels, in this order", "The graph becomes {0} kernels")
    lead = draw.choice(leads)
    listed = [
        f"{number}. `{kernel.name}`" + (f": `{formulas[kernel.name]}`" if formulas.get(kernel.name) else "")
        for number, kernel in enumerate(about.kernels[:_MOST_KERNELS], start=1)
    ]
    if count > _MOST_KERNELS:
        listed.append(f"{_MOST_KERNELS + 1}. and {count - _MOST_KERNELS} more of the same kinds")
    return lead.format(count) + ":\n" + "\n".join(listed)


def _remark(text: str) -> list[str]:
    return [text if text.endswith((".", "!", ":")) else f"{text}."] if text else []


def _kernel(kernel: Kernel, launch: Launch, draw: Random) -> list[str]:
    named = f"`{kernel.name}`"
    sentences = [_parallel(kernel, launch, named, draw)]
    if kernel.dots:
        sentences.append(_product(kernel, launch, draw))
    elif kernel.reductions:
        sentences.append(_reduction(kernel, draw))
    elif kernel.scans:
        sentences.append("The running result is computed inside a block by a scan" + (
            ", and a loop carries it from block to block." if kernel.loops else "."))  # fmt: skip
    if kernel.atomics:
        sentences.append("Programs add into the same places, so they use atomics.")
    sentences += _sizes(launch, draw)
    return [sentence for sentence in sentences if sentence]


def _parallel(kernel: Kernel, launch: Launch, named: str, draw: Random) -> str:
    grid = launch.grid
    if kernel.programs <= 1:
        text = draw.choice(
            ("{0} runs on a one-dimensional grid `{1}`", "The grid of {0} is `{1}`", "{0} is launched with `{1}`")
        )
    else:
        text = draw.choice(("{0} runs on a grid of {2} dimensions, `{1}`", "The grid of {0} has {2} dimensions: `{1}`"))
    reads = f"; each program reads {_count(kernel.loads, 'block')} and writes {_count(kernel.stores, 'block')}"
    inside = reads if not kernel.loops and kernel.loads and kernel.stores else ""
    return text.format(named, grid, kernel.programs) + inside + "."


def _product(kernel: Kernel, launch: Launch, draw: Random) -> str:
    loop = "a loop over the inner dimension" if kernel.loops else "one step"
    text = draw.choice((
        "The product is accumulated in fp32 registers by `tl.dot` in {0}",
        "`tl.dot` multiplies tile by tile in {0}, into an fp32 accumulator",
    ))  # fmt: skip
    precision = launch.settings.get("PRECISION", "").strip("'\"")
    if precision == "ieee":
        extra = '; `input_precision="ieee"` keeps full fp32, since TF32 would be too coarse'
    elif precision in ("bf16x6", "tf32x3", "bf16x3"):
        extra = f'; `"{precision}"` splits fp32 operands for the tensor cores without losing fp32 accuracy'
    else:
        extra = ""
    return text.format(loop) + extra + "."


def _reduction(kernel: Kernel, draw: Random) -> str:
    what = " and ".join(kernel.reductions)
    if kernel.loops:
        text = draw.choice((
            "The {0} runs over blocks in a loop, because a row need not fit into registers",
            "A loop walks the reduced dimension block by block and keeps the {0} as it goes",
        ))  # fmt: skip
    else:
        text = draw.choice((
            "The {0} is taken over a block that is wholly in registers",
            "The reduced dimension lies in one block, so the {0} needs no second pass over memory",
        ))  # fmt: skip
    safe = "; the maximum is subtracted before the exponential, so it cannot overflow"
    return text.format(what) + (safe if "maximum" in kernel.reductions and kernel.exponentials else "") + "."


def _sizes(launch: Launch, draw: Random) -> list[str]:
    """The tiles as they stand in the code, and what decides them."""
    settings = launch.settings
    blocks = {
        name: value
        for name, value in settings.items()
        if "BLOCK" in name or name in ("ROWS", "COLS", "TILE", "ROWS_PER_PROGRAM")
    }
    fixed = ", ".join(f"{name}={value}" for name, value in blocks.items() if str(value).isdigit())
    said: list[str] = []
    if fixed:
        warps = settings.get("num_warps")
        with_warps = f" with {warps} warps" if warps is not None else ""
        forms = ("Tiles: {0}{1}.", "I choose {0}{1}.", "Block sizes are {0}{1}.")
        said.append(draw.choice(forms).format(fixed, with_warps))
    powers = [name for name, value in launch.settings.items() if "next_power_of_2" in value]
    if powers:
        said.append(f"`{powers[0]}` is the next power of two, as `tl.arange` wants, and the rest is masked.")
    return said


def _closing(about: Facts, draw: Random) -> list[str]:
    said: list[str] = []
    if any(kernel.masked for kernel in about.kernels):
        said.append(draw.choice((
            "Loads and stores are masked, so sizes that are no multiple of a tile are safe.",
            "Masks keep every access inside its tensor.",
        )))  # fmt: skip
    if any(kernel.wide_offsets for kernel in about.kernels):
        said.append("Offsets into large tensors are 64-bit.")
    if any(kernel.casts_to_fp32 for kernel in about.kernels):
        said.append("Arithmetic is done in fp32 and rounded when it is stored.")
    if about.parameters:
        said.append(f"`forward` hands {_listed(about.parameters[:4])} to the kernels as they are at the call.")
    if about.reads_shapes:
        said.append(draw.choice(("Shapes are read from the tensors at every call.", "Sizes come from the tensors.")))
    return [" ".join(said)]


def _count(count: int, noun: str) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six")
    return f"{words[count] if count < len(words) else count} {noun}{'' if count == 1 else 's'}"


def _listed(names: tuple[str, ...]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]
