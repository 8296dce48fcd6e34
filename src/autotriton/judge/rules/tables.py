"""Names a candidate may not say, whatever object they are said about.

Data only. What must stay true: a name here is denied on *any* base, so it must be one that honest kernels never need.
Words honest code uses (`load`, `seed`, `stream`, `graph`) are denied by module path instead, in `modules.py`.
"""

from __future__ import annotations

from autotriton.judge.rules.modules import words

# Builtins that run text, reach other namespaces or the outside world. Neither used, nor passed on, nor rebound.
DENIED_BUILTINS: dict[str, str] = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "turns text into code",
    "globals": "reaches the module's namespace",
    "locals": "reaches the frame's namespace",
    "vars": "reaches an object's namespace",
    "open": "touches the file system",
    "breakpoint": "starts a debugger",
    "help": "starts a pager",
    "memoryview": "reads raw memory",
    "delattr": "removes attributes by name",
    "exit": "ends the process",
    "quit": "ends the process",
    "license": "reads files",
    "credits": "reads files",
    "copyright": "reads files",
    "SystemExit": "ends the process",
    "KeyboardInterrupt": "ends the process",
    "get_type_hints": "runs annotations as code",
    "ForwardRef": "runs annotations as code",
}

# Builtins whose meaning the rules rely on: calling them is fine, giving the name another meaning is not.
FIXED_BUILTINS = words(
    "getattr setattr hasattr isinstance issubclass type super object staticmethod classmethod property"
)

NAME_DUNDERS = words("__name__ __doc__ __debug__ __version__ __all__ __author__ __slots__ __constants__")
ATTRIBUTE_DUNDERS = words("__init__ __name__ __qualname__ __doc__ __version__ __class__ __call__ __post_init__")
METHOD_DUNDERS = words(
    """__init__ __call__ __repr__ __str__ __len__ __getitem__ __setitem__ __contains__ __iter__ __next__ __enter__
    __exit__ __post_init__ __eq__ __ne__ __hash__ __bool__ __lt__ __le__ __gt__ __ge__ __add__ __mul__ __sub__"""
)

# name -> what it does; the message adds where it was written.
DENIED_ATTRIBUTES: dict[str, str] = {}


def _deny(reason: str, names: str) -> None:
    DENIED_ATTRIBUTES.update(dict.fromkeys(names.split(), reason))


_deny(
    "reads interpreter frames or code objects",
    """f_back f_globals f_locals f_builtins f_code f_lineno f_trace tb_frame tb_next tb_lasti gi_frame gi_code
    gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code co_code co_consts co_names co_filename
    with_traceback settrace setprofile _getframe _current_frames""",
)
_deny("reaches modules or classes the scan cannot see", "obj mro meta_path path_hooks import_module bltns")
_deny(
    "reaches torch's internals",
    """_C _dynamo _inductor _ops _refs _prims _decomp _higher_order_ops _functorch _jit_internal _tensor _utils _VF
    _compile_kernel _parameters _buffers _modules _version _base _cdata _make_subclass _make_wrapper_subclass
    _grad _grad_fn _backward_hooks _backward_pre_hooks _post_accumulate_grad_hooks _forward_hooks
    _forward_pre_hooks _state_dict_hooks _forward_hooks_with_kwargs _forward_hooks_always_called
    _forward_pre_hooks_with_kwargs _is_full_backward_hook _state_dict_pre_hooks _load_state_dict_pre_hooks
    _load_state_dict_post_hooks _non_persistent_buffers_set _call_impl _wrapped_call_impl _compiled_call_impl
    _slow_forward _register_load_state_dict_pre_hook _register_state_dict_hook _python_dispatch _view_func
    _view_func_unsafe _rev_view_func_unsafe _typed_storage _use_count _fix_weakref _reduce_ex_internal
    _lazy_clone _philox_normal_ _philox_uniform_ _dtensor__new__ _is_view""",
)
_deny(
    "reaches Triton's internals",
    """_unsafe_update_src _get_src _set_src _src _do_compile _call_hook _pack_args _fn_name _hash_lock _flatten_ir
    _init_handles _instrumentation _utils _core_semantic cache_hook compiled_hook jit_cache_hook
    jit_post_compile_hook add_pre_run_hook pre_run_hooks device_caches create_binder used_global_vals raw_src
    get_capture_scope knobs check_disk_cache prune_configs launch_enter_hook launch_exit_hook
    add_stages_inspection_hook""",
)
_deny(
    "compiles or delegates outside Triton",
    """compile load_inline cpp_extension load_library jiterator TorchDispatchMode TorchFunctionMode make_fx
    fx_traceback make_graphed_callables CUDAGraph graph_pool_handle capture_begin capture_end apply_ map_ map2_""",
)
_deny(
    "moves work off the measured stream",
    """Stream ExternalStream StreamContext set_stream wait_stream record_stream default_stream current_stream
    wait_event record_event cuda_stream get_stream_from_external get_current_stream""",
)
_deny(
    "changes how memory is allocated",
    """caching_allocator_alloc caching_allocator_delete CUDAPluggableAllocator change_current_allocator MemPool
    use_mem_pool set_per_process_memory_fraction cudart nccl memory_snapshot ipc_collect""",
)
_deny(
    "takes a tensor's memory out of torch's sight",
    """numpy tolist untyped_storage typed_storage UntypedStorage TypedStorage set_ share_memory_ share_memory
    from_numpy frombuffer from_dlpack to_dlpack from_file swap_tensors""",
)
_deny(
    "subclasses or disguises tensors",
    """as_subclass TensorBase DisableTorchFunction DisableTorchFunctionSubclass handle_torch_function DispatchKey
    DispatchKeySet ExcludeDispatchKeyGuard SymInt SymFloat SymBool saved_tensors_hooks forward_ad""",
)
_deny(
    "changes global random state",
    "manual_seed manual_seed_all seed_all fork_rng set_rng_state get_rng_state set_rng_state_all get_rng_state_all",
)
_deny(
    "changes global numerics",
    """set_default_dtype set_default_device set_default_tensor_type set_float32_matmul_precision set_flush_denormal
    use_deterministic_algorithms set_num_threads set_num_interop_threads""",
)
_deny(
    "looks attributes up by a name made at run time", "get_submodule set_submodule attrgetter methodcaller format_map"
)
_deny("waits without working", "sleep")

HOOKS = ("register_module_", "register_multi_grad_hook", "set_multithreading")
"""Prefixes of names that install callbacks; `register_*_hook` is matched as a pattern in attributes.py."""

# Private names honest code reads off inherited classes or named tuples.
PRIVATE_ALLOWED = words("_replace _asdict _fields _make _conv_forward _check_input_dim _get_name _")

# Of a @triton.jit function: what may be asked of it besides launching it.
KERNEL_ATTRIBUTES = words("best_config __name__ __doc__ arg_names")
# Denied on anything but self/cls/ctx, unless the file itself defines an attribute of that name.
KERNEL_WORDS = words("fn run warmup src params")

# Sensitive classes: usable as callee, base, annotation or in isinstance, never handed around as a value.
SENSITIVE_CLASSES = words(
    """torch.Tensor torch.nn.Parameter torch.nn.parameter.Parameter torch.nn.Module torch.nn.modules.Module torch.Size
    torch.nn.modules.module.Module torch.autograd.Function torch.autograd.function.Function
    torch.nn.parameter.Buffer torch.nn.Buffer torch.nn.UninitializedParameter
    torch.nn.parameter.UninitializedParameter torch.autograd.Variable torch.autograd.function.FunctionCtx
    torch.nn.functional.Tensor torch.Generator triton.Config triton.JITFunction triton.runtime.Config
    triton.tools.tensor_descriptor.TensorDescriptor"""
)
NOT_SUBCLASSED = SENSITIVE_CLASSES - words(
    """torch.nn.Module torch.nn.modules.Module torch.nn.modules.module.Module torch.autograd.Function
    torch.autograd.function.Function"""
)
BUILTIN_BASES = words(
    "object Exception ValueError RuntimeError TypeError NotImplementedError dict list tuple str int float"
)

RECEIVERS = words("self cls ctx")
# Tensor methods the judge calls on outputs: never an attribute of a module, so never stored, not even on self.
TENSOR_METHODS = words(
    """cpu cuda to detach clone contiguous numel data_ptr storage is_contiguous element_size storage_offset view float
    double type new_empty copy_"""
)
TENSOR_FIELDS = words("requires_grad grad")
