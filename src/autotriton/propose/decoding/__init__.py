"""A batched decoder for Qwen2- and Llama-type models: static cache, CUDA graphs, slots refilled as answers end.

`decoder.py` has the order of things; `forward.py` the model; `ops.py` (torch) and `triton_ops.py` (our kernels) its
arithmetic; `state.py` what is known about each slot. Everything but the kernels runs, and is tested, on a CPU.
"""
