"""The wrapper of a recurrent network, and the helpers around its kernel.

What must stay true: programs wait for each other only where all of them surely run at once; elsewhere the wrapper
launches every step by itself.
"""

from __future__ import annotations

from textwrap import dedent

from autotriton.propose.compiler.templates.rnn_kernel import WAIT, Form, RecurrentKernel, indented

_AT_ONCE = dedent(
    '''\
    def programs_at_once(x):
        """Programs that surely run at the same time and may wait for each other; 0 where there is no such promise."""
        return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 0
    '''
)
_STACKED = dedent(
    '''\
    def stacked(tensors):
        """Several tensors of one shape as one."""
        out = torch.empty((len(tensors), *tensors[0].shape), dtype=tensors[0].dtype, device=tensors[0].device)
        for slot, tensor in zip(out, tensors):
            slot.copy_(tensor)
        return out
    '''
)
_PROJECTION = dedent(
    '''\
    @triton.jit
    def input_gates_kernel(x_ptr, weight_ptr, gates_ptr, steps, batch, features, outputs, x_step_stride, x_batch_stride,
        PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
        """gates[step, row, :] = x[step, row, :] @ weight.T, for all steps at once"""
        m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        rows = x_ptr + (m // batch) * x_step_stride + (m % batch) * x_batch_stride
        m_exists, n_exists = m < steps * batch, n < outputs
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, features, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            x = tl.load(rows[:, None] + k[None, :], mask=m_exists[:, None] & (k[None, :] < features), other=0.0)
            weight_at = weight_ptr + n[None, :] * features + k[:, None]
            weight = tl.load(weight_at, mask=n_exists[None, :] & (k[:, None] < features), other=0.0)
            acc = tl.dot(x, weight, acc, input_precision=PRECISION)
        tl.store(gates_ptr + m[:, None] * outputs + n[None, :], acc, mask=m_exists[:, None] & n_exists[None, :])


    def input_gates(x, weight, gates, precision):
        """Fills gates (steps, batch, outputs) from x (steps, batch, features)."""
        steps, batch, features = x.shape
        outputs = weight.shape[0]
        x = x if x.stride(2) == 1 else x.contiguous()
        grid = (triton.cdiv(steps * batch, 64), triton.cdiv(outputs, 64))
        input_gates_kernel[grid](x, weight, gates, steps, batch, features, outputs, x.stride(0), x.stride(1),
                                 PRECISION=precision, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3)
    '''
)
HELPERS = (WAIT, _AT_ONCE, _STACKED, _PROJECTION)


def wave_text(form: Form) -> str:
    """One-way network of several layers: as many of them at once as there is room for."""
    per = 4 if form.has_bias else 2
    memory = form.cell.has_memory
    lines = [
        *_opening(form),
        "h = torch.empty((layers, steps + 1, batch, hidden), dtype=x.dtype, device=x.device)",
        "h[:, 0].copy_(h0)  # row t + 1 holds the state after step t",
        *(
            ["c = torch.empty((layers, batch, hidden), dtype=torch.float32, device=x.device)", "c.copy_(c0)"]
            if memory
            else []
        ),
        f"gates = torch.empty((steps, batch, {len(form.cell.gates)} * hidden), dtype=torch.float32, device=x.device)",
        "room = programs_at_once(x) // (across * down)  # layers whose programs can wait for each other",
        "in_group = min(layers, room) if room else layers",
        "for first in range(0, layers, in_group):",
        "    last = min(first + in_group, layers)",
        f"    group = [weights[{per} * layer:{per} * (layer + 1)] for layer in range(first, last)]",
        f'    input_gates(x if first == 0 else h[first - 1, 1:], group[0][0], gates, "{form.precision}")',
        "    w_hh = stacked([each[1] for each in group])",
        "    w_ih = stacked([each[0] for each in group[1:]]) if len(group) > 1 else w_hh",
        *(
            [f"    {b} = stacked([each[{i}] for each in group])" for i, b in ((2, "b_ih"), (3, "b_hh"))]
            if form.has_bias
            else []
        ),
        "    ticks = steps + len(group) - 1",
        "    per_launch = ticks if room else 1",
        "    arrived = torch.zeros(1, dtype=torch.int32, device=x.device)",
        "    for tick in range(0, ticks, per_launch):",
        f"        {form.name}_kernel[(across, down, len(group))](",
        f"            {_arguments(form, 'h[first:]', 'c[first:]', 'w_ih')},",
        "            tick, min(tick + per_launch, ticks), steps, batch, hidden, **tiles)",
        *_closing(form, "h[-1, 1:]", "h[:, steps].contiguous()", "c"),
    ]
    return RecurrentKernel(form, wave=True).text(f"{form.name}_kernel") + "\n\n" + _function(form, lines)


def layers_text(form: Form) -> str:
    """Layer by layer, both directions of a layer at once."""
    per = 4 if form.has_bias else 2
    directions, memory = form.directions, form.cell.has_memory
    width, outputs = "hidden" if directions == 1 else "2 * hidden", f"{len(form.cell.gates)} * hidden"
    lines = [
        *_opening(form),
        f"layers = layers // {directions}" if directions == 2 else "",
        "h_n = torch.empty(h0.shape, dtype=x.dtype, device=x.device)",
        *(["c = torch.empty(h0.shape, dtype=torch.float32, device=x.device)", "c.copy_(c0)"] if memory else []),
        f"gates = torch.empty(({directions}, steps, batch, {outputs}), dtype=torch.float32, device=x.device)",
        f"together = programs_at_once(x) >= across * down * {directions}  # then they can wait for each other",
        "below = x",
        "for layer in range(layers):",
        f"    first = {directions} * layer",
        f"    own = [weights[{per} * i:{per} * (i + 1)] for i in range(first, first + {directions})]",
        f"    h = torch.empty((steps + 2, batch, {width}), dtype=x.dtype, device=x.device)",
        "    h[0, :, :hidden].copy_(h0[first])  # row t + 1 holds the state after step t",
        *(["    h[steps + 1, :, hidden:].copy_(h0[first + 1])"] if directions == 2 else []),
        "    for direction, each in enumerate(own):",
        f'        input_gates(below, each[0], gates[direction], "{form.precision}")',
        "    w_hh = stacked([each[1] for each in own])",
        *(
            [f"    {b} = stacked([each[{i}] for each in own])" for i, b in ((2, "b_ih"), (3, "b_hh"))]
            if form.has_bias
            else []
        ),
        "    per_launch = steps if together else 1",
        "    arrived = torch.zeros(1, dtype=torch.int32, device=x.device)",
        "    for tick in range(0, steps, per_launch):",
        f"        {form.name}_kernel[(across, down, {directions})](",
        f"            {_arguments(form, 'h', 'c[first:]', '')},",
        "            tick, min(tick + per_launch, steps), steps, batch, hidden, **tiles)",
        "    h_n[first].copy_(h[steps, :, :hidden])",
        *(["    h_n[first + 1].copy_(h[1, :, hidden:])"] if directions == 2 else []),
        "    below = h[1:steps + 1]",
        *_closing(form, "below", "h_n", "c"),
    ]
    return RecurrentKernel(form, wave=False).text(f"{form.name}_kernel") + "\n\n" + _function(form, lines)


def _opening(form: Form) -> list[str]:
    own_k = 'max(16, triton.next_power_of_2(hidden) // tiles["SPLIT"])'
    return [
        "x = x.transpose(0, 1)  # steps first" if form.batch_first else "",
        "steps, batch, _ = x.shape",
        "layers, _, hidden = h0.shape",
        f'tiles = TILES["{form.name}"]',
        f'tiles = {{**tiles, "BLOCK_K": {own_k}}}  # all of the hidden state' if form.on_chip else "",
        'across, down = triton.cdiv(hidden, tiles["BLOCK_H"]), triton.cdiv(batch, tiles["BLOCK_B"])',
    ]


def _arguments(form: Form, h: str, c: str, w_ih: str) -> str:
    names = ["gates", "w_hh", w_ih, *(["b_ih", "b_hh"] if form.has_bias else []), h]
    names += [c if form.cell.has_memory else "", "arrived"]
    return ", ".join(name for name in names if name)


def _closing(form: Form, output: str, h_n: str, c_n: str) -> list[str]:
    first = f"{output}.transpose(0, 1)" if form.batch_first else output
    return [f"return {first}, {h_n}" + (f", {c_n}.to(x.dtype)" if form.cell.has_memory else "")]


def _function(form: Form, lines: list[str]) -> str:
    states = "h0, c0" if form.cell.has_memory else "h0"
    per = "w_ih, w_hh, b_ih, b_hh" if form.has_bias else "w_ih, w_hh"
    title = f'"""weights: {per} of every layer' + (", forward and backward" if form.directions == 2 else "") + '."""'
    body = indented([title, *(line for line in lines if line)])
    return f"def {form.name}(x, {states}, *weights):\n" + "\n".join(body) + "\n"
