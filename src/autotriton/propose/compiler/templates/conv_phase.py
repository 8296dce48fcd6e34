"""Transposed convolution in gather form: which taps reach an output position.

Output position o = q * STRIDE + phase is reached by the taps k with (o + PADDING - k * DILATION) divisible by STRIDE,
from input position (o + PADDING - k * DILATION) / STRIDE. Within one phase these taps are first, first + STEP, ..., and
their input positions q + start, q + start - BACK, ..., so that each phase is a small dense convolution: no zero is
ever multiplied, whatever stride and dilation share.
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.conv_call import ConvCall

HELPER = '''\
@triton.jit
def phase_taps(place, TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr, STEP: tl.constexpr):
    """First tap k with (place - k * DILATION) % STRIDE == 0, how many follow in steps of STEP, and the quotient."""
    first = place * 0 + TAPS
    for back in tl.static_range(STEP):
        first = tl.where((place - (STEP - 1 - back) * DILATION) % STRIDE == 0, STEP - 1 - back, first)
    return first, tl.maximum(TAPS - first + STEP - 1, 0) // STEP, (place - first * DILATION) // STRIDE


def tap_step(stride, dilation):
    """Taps that reach the same phase are this far apart."""
    return next(step for step in range(1, stride + 1) if step * dilation % stride == 0)
'''


def phase_lines(call: ConvCall) -> list[str]:
    """Kernel statements: the program's phase, its taps per dimension, and how many positions it has."""
    upper = [axis.upper() for axis in call.axes]
    lines = [f"phase = tile % ({' * '.join(f'STRIDE_{axis}' for axis in upper)})"]
    lines.append(f"tile = tile // ({' * '.join(f'STRIDE_{axis}' for axis in upper)})")
    rest = "phase"
    for axis in reversed(call.axes[1:]):
        lines.append(f"phase_{axis} = {rest} % STRIDE_{axis.upper()}")
        rest = f"{rest} // STRIDE_{axis.upper()}"
    lines.append(f"phase_{call.axes[0]} = {rest}")
    for axis, big in zip(call.axes, upper, strict=True):
        lines += [
            f"first_{axis}, taps_{axis}, start_{axis} = phase_taps(",
            f"    phase_{axis} + PADDING_{big}, K{big}, STRIDE_{big}, DILATION_{big}, STEP_{big}",
            ")",
            f"Q{big} = tl.cdiv(O{big}, STRIDE_{big})",
        ]
    return [*lines, f"n_taps = {' * '.join(f'taps_{axis}' for axis in call.axes)}"]


def tap_places(call: ConvCall) -> list[str]:
    """Kernel statements: `tap`, the number of a tap within the phase, taken apart into one number per dimension."""
    lines, rest = [], "tap"
    for axis in reversed(call.axes[1:]):
        lines.append(f"tap_{axis} = {rest} % taps_{axis}")
        rest = f"{rest} // taps_{axis}"
    return [*lines, f"tap_{call.axes[0]} = {rest}"]


def kernel_taps(call: ConvCall) -> list[str]:
    """Kernel statements: `kernel_tap`, the tap's place in the weights."""
    lines, text = [], ""
    for axis in call.axes:
        lines.append(f"kernel_{axis} = first_{axis} + tap_{axis} * STEP_{axis.upper()}")
        text = f"({text} * K{axis.upper()} + kernel_{axis})" if text else f"kernel_{axis}"
    return [*lines, f"kernel_tap = {text}"]


def back(axis: str) -> str:
    """How far the input position goes back from one tap of the phase to the next."""
    big = axis.upper()
    return f"(STEP_{big} * DILATION_{big} // STRIDE_{big})"


def phase_constants(call: ConvCall) -> list[tuple[str, str]]:
    """Constants of compilation and what the wrapper gives for them."""
    upper = [axis.upper() for axis in call.axes]
    return [(f"STEP_{axis}", f"tap_step(stride[{d}], dilation[{d}])") for d, axis in enumerate(upper)]
