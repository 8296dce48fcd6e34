"""Which modules a candidate may import, and which of their attributes it may name.

Data only. What must stay true: no attribute reachable through these tables is itself a module that is not in `MODULES`,
so a module object can only ever be written as a dotted name the scanner can resolve.

A module maps to the attributes it offers. `None` means the namespace is wide (torch, torch.nn, triton.language) and
`DENIED` and `SHUT_WORDS` list the exceptions instead.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TYPING = words(
    """Any Optional Union List Dict Tuple Set FrozenSet Callable Iterable Iterator Sequence Mapping MutableMapping
    NamedTuple TypedDict Literal Final ClassVar Type TypeVar Generic Protocol NoReturn Generator cast overload
    Annotated TYPE_CHECKING Hashable Sized Collection Container Deque DefaultDict OrderedDict Counter Text
    AnyStr Self TypeAlias ParamSpec Concatenate NewType Never Required NotRequired Unpack TypeVarTuple
    LiteralString assert_never override runtime_checkable SupportsInt SupportsFloat SupportsIndex Awaitable
    ContextManager Pattern Match Number"""
)
_OPERATOR = words("add sub mul truediv floordiv mod pow neg and_ or_ xor lt le gt ge eq ne itemgetter index")
_NUMPY = words(
    """prod ceil floor log log2 log10 exp sqrt abs pi e inf nan float16 float32 float64 int8 int16 int32 int64 uint8
    uint16 uint32 uint64 bool_ dtype iinfo finfo gcd lcm maximum minimum isnan isinf integer floating cbrt power
    sign"""
)
_CUDA = words(
    """device device_of device_count current_device set_device get_device_properties get_device_name get_arch_list
    get_device_capability is_available is_initialized init is_bf16_supported is_tf32_supported synchronize
    empty_cache amp memory_allocated max_memory_allocated memory_reserved max_memory_reserved
    reset_peak_memory_stats mem_get_info OutOfMemoryError FloatTensor HalfTensor BFloat16Tensor DoubleTensor
    LongTensor IntTensor ShortTensor ByteTensor CharTensor BoolTensor"""
)
_AMP = words("autocast custom_fwd custom_bwd GradScaler autocast_mode is_autocast_available")
_TRITON = words(
    """jit autotune heuristics Config cdiv next_power_of_2 language runtime tools set_allocator reinterpret errors
    constexpr_function must_use_result aggregate OutOfResources CompilationError TritonError __version__"""
)

MODULES: dict[str, frozenset[str] | None] = {
    "__future__": words("annotations division print_function absolute_import generator_stop unicode_literals"),
    "typing": _TYPING,
    "typing_extensions": _TYPING,
    "math": None,
    "cmath": None,
    "numbers": words("Number Integral Real Complex Rational"),
    "functools": words("partial lru_cache cache reduce wraps cached_property cmp_to_key"),
    "itertools": None,
    "operator": _OPERATOR,
    "dataclasses": words("dataclass field asdict astuple replace is_dataclass KW_ONLY FrozenInstanceError"),
    "enum": words("Enum IntEnum StrEnum Flag IntFlag auto unique"),
    "collections": words("OrderedDict defaultdict namedtuple deque Counter ChainMap abc"),
    "collections.abc": words(
        """Callable Iterable Iterator Sequence Mapping MutableMapping MutableSequence Hashable Sized Collection
        Container Generator Set KeysView ItemsView ValuesView"""
    ),
    "contextlib": words(
        "contextmanager nullcontext suppress ExitStack closing ContextDecorator AbstractContextManager"
    ),
    "abc": words("ABC abstractmethod"),
    "copy": words("copy deepcopy"),
    "random": words("random randint randrange uniform choice choices sample shuffle gauss normalvariate"),
    "warnings": words("warn filterwarnings simplefilter catch_warnings"),
    "logging": words("getLogger DEBUG INFO WARNING ERROR debug info warning error"),
    "time": words("time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time strftime localtime"),
    "string": words("ascii_letters ascii_lowercase ascii_uppercase digits hexdigits punctuation"),
    "re": words(
        """compile match fullmatch search sub subn split findall finditer escape Pattern Match error I IGNORECASE M
        MULTILINE S DOTALL X VERBOSE"""
    ),
    "packaging": words("version"),
    "packaging.version": words("Version parse InvalidVersion"),
    "os": words("environ getenv cpu_count"),
    "sys": words("version_info maxsize platform version"),
    "numpy": _NUMPY,
    "torch": None,
    "torch.nn": None,
    "torch.nn.functional": None,
    "torch.nn.init": None,
    "torch.nn.parameter": words("Parameter UninitializedParameter Buffer"),
    "torch.nn.modules": None,
    # How a layer's weight is made; what they compute with torch is seen like any other operator.
    "torch.nn.utils": words("parametrizations weight_norm spectral_norm"),
    "torch.nn.utils.parametrizations": words("weight_norm spectral_norm orthogonal"),
    "torch.autograd": words(
        "Function Variable grad backward no_grad enable_grad set_grad_enabled inference_mode gradcheck function"
    ),
    "torch.autograd.function": words("Function FunctionCtx once_differentiable"),
    "torch.cuda": _CUDA,
    "torch.cuda.amp": _AMP,
    "torch.amp": _AMP,
    "torch.amp.autocast_mode": _AMP,
    "torch.cuda.amp.autocast_mode": _AMP,
    "torch.types": words("Device Number Size"),
    "torch.version": words("cuda hip __version__ git_version"),
    "torch.linalg": None,
    "torch.fft": None,
    "torch.special": None,
    "torch.functional": None,
    "torch.ops": None,
    "triton": _TRITON,
    "triton.errors": words("TritonError"),
    "triton.language": None,
    "triton.language.core": None,
    "triton.language.standard": None,
    "triton.language.math": None,
    "triton.language.random": None,
    "triton.language.target_info": None,
    "triton.language.extra": words("libdevice cuda hip"),
    "triton.language.extra.libdevice": None,
    "triton.language.extra.cuda": None,
    "triton.language.extra.cuda.libdevice": None,
    "triton.language.extra.hip": None,
    "triton.language.extra.hip.libdevice": None,
    "triton.tools": words("tensor_descriptor"),
    "triton.tools.tensor_descriptor": words("TensorDescriptor"),
    "triton.runtime": words("driver autotune Config heuristics errors OutOfResources autotuner"),
    "triton.runtime.errors": words("OutOfResources"),
    "triton.runtime.autotuner": words("Config autotune heuristics OutOfResources"),
    # `driver` and what hangs off it are objects, listed as modules so that only these dotted chains can be written.
    "triton.runtime.driver": words("active"),
    "triton.runtime.driver.active": words(
        "utils get_current_device get_active_torch_device get_current_target get_device_capability"
    ),
    "triton.runtime.driver.active.utils": words("get_device_properties"),
}

STAR_IMPORTS = words("math typing collections.abc")

# Importable one level deeper without a row each: torch.nn.modules.batchnorm, ...
MODULE_FAMILIES = ("torch.nn.modules.",)

# Words that are modules somewhere below a wide namespace, or lead to one. Rejected as an attribute of any wide module.
SHUT_WORDS = words(
    """builtins ctypes glob importlib inspect os platform sys textwrap threading torch traceback warnings dataclasses
    np operator pkgutil typing itertools functools hooks ir knobs runtime tl F triton numpy types signal module
    collections random utils testing backends compiler math core extra standard language weakref wraps
    update_wrapper dataclass make_dataclass total_ordering"""
)

DENIED: dict[str, frozenset[str]] = {
    "torch": words(
        """compile jit library fx overrides hub package distributed multiprocessing load save ops classes storage
        serialization profiler monitor futures export func accelerator ao cpp cpu mps mtia xpu masked nested
        optim quantization quasirandom return_types torch_version windows cond while_loop get_device_module
        get_file_path seed manual_seed initial_seed get_rng_state set_rng_state fork_rng default_generator fork
        wait import_ir_module import_ir_module_from_buffer parse_ir parse_schema parse_type_comment
        merge_type_from_type_comment unify_type_list from_numpy frombuffer from_dlpack from_file to_dlpack
        set_anomaly_enabled set_default_device set_default_dtype set_default_tensor_type
        set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads
        set_num_threads set_warn_always use_deterministic_algorithms init_num_threads autocast_increment_nesting
        set_autocast_cache_enabled distributions sparse read_vitals set_vital vitals_enabled vmap
        thread_safe_generator prepare_multiprocessing_environment"""
    ),
    "torch.nn": words("attention common_types grad intrinsic parallel qat quantizable quantized DataParallel"),
    "torch.nn.functional": words(
        """grad boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary
        has_torch_function_variadic"""
    ),
    "torch.functional": words("boolean_dispatch handle_torch_function has_torch_function"),
    "torch.ops": words("load_library import_module loaded_libraries higher_order profiler"),
    "triton.language.extra.cuda": words("module"),
}

# Capitalised names of torch that a program needs; the rest are compiler, storage and dispatcher classes.
TORCH_CLASSES = words(
    """Tensor Size Generator OutOfMemoryError FloatTensor HalfTensor BFloat16Tensor DoubleTensor LongTensor IntTensor
    ShortTensor ByteTensor CharTensor BoolTensor"""
)

WHY_NOT_IMPORTED: dict[str, str] = {
    "inspect": "reads frames and sources",
    "gc": "finds other people's objects",
    "ctypes": "reads and writes raw memory",
    "threading": "runs work outside the measured call",
    "concurrent": "runs work outside the measured call",
    "asyncio": "runs work outside the measured call",
    "multiprocessing": "starts processes",
    "subprocess": "starts processes",
    "socket": "opens the network",
    "pickle": "executes code while loading",
    "marshal": "executes code while loading",
    "importlib": "imports what the scan cannot see",
    "builtins": "replaces the language's own functions",
    "types": "builds code and classes at run time",
    "weakref": "runs callbacks outside the measured call",
    "atexit": "runs code after the verdict",
    "signal": "interferes with the deadline",
    "tempfile": "touches the file system",
    "pathlib": "touches the file system",
    "shutil": "touches the file system",
    "io": "touches the file system",
    "mmap": "touches the file system",
    "cupy": "computes outside Triton",
    "numba": "computes outside Triton",
    "jax": "computes outside Triton",
    "tensorflow": "computes outside Triton",
    "scipy": "computes outside Triton",
    "traceback": "reads frames",
    "linecache": "replaces source text",
    "torch.utils": "holds extension loaders and dispatch hooks",
    "torch.jit": "compiles torch programs",
    "torch.fx": "compiles torch programs",
    "torch.compiler": "compiles torch programs",
    "torch.library": "registers operators",
    "torch.overrides": "intercepts torch calls",
    "torch.multiprocessing": "starts processes",
    "torch.distributed": "starts processes",
    "torch.backends": "changes global numerics",
    "torch.profiler": "interferes with the measurement",
    "torch.hub": "downloads code",
    "triton.testing": "interferes with the measurement",
    "triton.knobs": "changes how Triton compiles and launches",
    "triton.compiler": "replaces compiled kernels",
    "triton.backends": "replaces the driver",
}
