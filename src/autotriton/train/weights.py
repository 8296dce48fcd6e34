"""A model, its tokenizer and its adapter, ready to be trained."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from autotriton.adapters import attached, opened
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.line_cache import cache_folder
from autotriton.train import attention, lora, processes
from autotriton.train.config import Config, ModelPart
from autotriton.train.sampling import written

_PACKAGES = ("torch", "transformers", "trl", "peft", "datasets", "accelerate")
_GIB = 2**30
_MODEL = "a folder `autotriton model pull NAME` made, or a name on the hub"


def require_packages(liger: bool = False) -> None:
    needed = (*_PACKAGES, "liger_kernel") if liger else _PACKAGES
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        extra = "liger-kernel" if missing[0] == "liger_kernel" else "'autotriton[train]'"
        raise PrerequisiteError(f"training needs the `{missing[0]}` package", hint=f"pip install {extra}")


def require_model(part: ModelPart) -> None:
    """Paths that cannot be right are told before anything is loaded."""
    for path, file in ((part.path, "config.json"), (part.adapter, "adapter_config.json")):
        if path is None or not (Path(path).exists() or path.startswith((".", "/", "~"))):
            continue  # a name on the hub
        folder = Path(path).expanduser()
        if not (folder / file).is_file():
            raise UsageError(f"{path} holds no {file}", hint="`autotriton model pull NAME` brings a checkpoint")


def load(config: Config) -> tuple[Any, Any]:
    """Model (with its adapter, if one is trained) and tokenizer, on the GPU if there is one."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    cuda = torch.cuda.is_available()
    if config.liger and not cuda:
        raise PrerequisiteError("liger-kernel needs a GPU, and none was found", hint="--set liger=false")
    attention.register()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(config.model.path)
        model, found = transformers.AutoModelForCausalLM.from_pretrained(
            config.model.path,
            dtype=torch.bfloat16 if cuda else torch.float32,
            attn_implementation=config.model.attention,
            output_loading_info=True,
        )
        written(tokenizer, [{"role": "user", "content": "?"}])
    except ImportError as error:
        raise PrerequisiteError(f"model.attention = {config.model.attention}: {' '.join(str(error).split())}") from None
    except Exception as error:  # noqa: BLE001 - each file of a checkpoint, and the hub, has errors of its own
        text = " ".join(str(error).split())[:300]
        raise UsageError(f"the model {config.model.path} cannot be loaded: {text}", hint=_MODEL) from None
    if missing := sorted(found["missing_keys"]):
        many = f"{missing[0]} and {len(missing) - 1} more weights"
        raise UsageError(f"the model {config.model.path} lacks {many}: they would be random", hint=_MODEL)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if cuda:
        _require_memory(torch, model, config)
    if config.liger:
        liger(model)
    if cuda and not processes.sharded():
        model = model.to("cuda")
    return adapted(model, config), tokenizer


def liger(model: Any) -> None:
    """Norm, rotation and gate by liger-kernel. The loss stays TRL's, which makes no logits either."""
    kernels: Any = importlib.import_module("liger_kernel.transformers")
    kernels._apply_liger_kernel_to_instance(model=model, cross_entropy=False, fused_linear_cross_entropy=False)


def adapted(model: Any, config: Config) -> Any:
    """With the adapter that is trained: the one to go on from, or a new one; with rank 0 the model as it is."""
    if config.model.adapter is None and config.lora.rank == 0:
        return model
    model = _with_adapter(model, config)
    if config.lora.fused:
        lora.fuse(model)
    return model


def _with_adapter(model: Any, config: Config) -> Any:
    peft: Any = importlib.import_module("peft")
    if config.model.adapter is not None:
        adapter = Path(config.model.adapter).expanduser()
        if not adapter.is_dir():  # a name on the hub
            return attached(model, config.model.adapter, trainable=True)
        return attached(model, opened(adapter, config.model.path, cache_folder()), trainable=True)
    targets = config.lora.targets
    wanted = peft.LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,
        lora_dropout=config.lora.dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type="CAUSAL_LM",
    )
    # Seeded here: a resumed run makes the same adapter before its checkpoint is loaded into it.
    importlib.import_module("transformers").set_seed(config.optim.seed)
    try:
        return peft.get_peft_model(model, wanted)
    except ValueError as error:
        raise UsageError(f"lora.targets: {' '.join(str(error).split())[:300]}", hint="all-linear fits any") from None


def _require_memory(torch: Any, model: Any, config: Config) -> None:
    """Weights, gradients and optimizer states must fit with room for activations; else what would fit is said."""
    free, _ = torch.cuda.mem_get_info()
    adapter = bool(config.lora.rank) or config.model.adapter is not None
    count = sum(parameter.numel() for parameter in model.parameters())
    full, light = 16 * count, 2 * count + 16 * count // 20  # AdamW in fp32 beside bf16; adapters are a few per cent
    needed = light if adapter else full
    if processes.sharded():
        needed //= processes.count()
    if needed * 1.2 <= free:
        return
    advice = f"an adapter (lora.rank = 64) takes about {light * 1.2 / _GIB:.0f} GiB"
    fits = not adapter and light * 1.2 <= free
    raise PrerequisiteError(
        f"training this model takes about {needed * 1.2 / _GIB:.0f} GiB and {free / _GIB:.0f} GiB of the GPU are free",
        hint=advice if fits else f"a model of about {free / 4.5e9:.0f}B parameters or fewer fits, with an adapter",
    )
