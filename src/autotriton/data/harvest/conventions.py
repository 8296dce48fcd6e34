"""What people call things, and what to give them: constructor arguments, configuration fields and tensors by name."""

from __future__ import annotations

import ast
import re

WIDTH, BATCH, LENGTH, SIDE, HEADS = 32, 2, 16, 8, 4
# First match wins; sizes agree with each other: heads * head = width.
_NUMBERS: tuple[tuple[str, str], ...] = (
    (
        r"(.*_)?(num|n|number_of)_?(attention_|key_value_|kv_|q_|query_|attn_)?(heads?|head_?count)|heads|nhead|n_head|num_heads_.*",
        "4",
    ),
    (r"(.*_)?(head_dim|dim_head|head_size|attention_head_dim|d_head|d_k|d_v|d_kv|key_dim|qk_dim)", "8"),
    (
        r"(.*_)?(intermediate|ffn|mlp|feed_?forward|ff)_?(size|dim|hidden|features|channels|hidden_size)?|d_ff|hidden_features|inner_dim|dim_feedforward|dim_ffn",
        "64",
    ),
    (r"(.*_)?(groups?|num_groups|norm_groups|norm_num_groups|group_size|n_groups)", "4"),
    (r"(.*_)?(vocab_size|num_embeddings|num_tokens|n_token|vocabulary_size|type_vocab_size|num_buckets)", "50"),
    (r"(.*_)?(num_classes|num_labels|n_classes|num_actions|num_queries|out_classes)", "10"),
    (r"(.*_)?(kernel_size|kernel|ks|conv_kernel|kernel_sizes|k_size|conv_kernel_size)", "3"),
    (
        r"(.*_)?(stride|dilation|strides|multiplier|expand_ratio|mult|expansion|num_experts_per_tok|repeats?|in_frames)",
        "1",
    ),
    (r"(.*_)?(padding|pad)", "1"),
    (r"(.*_)?(patch_size|window_size|block_size|chunk_size|pool_size|local_window|win_size|patch)", "4"),
    (
        r"(.*_)?(img_size|image_size|resolution|input_resolution|feat_size|grid_size|sample_size)|size|height|width",
        "8",
    ),
    (
        r"(.*_)?(num_layers?|depth|n_layers?|num_blocks?|num_hidden_layers|layers|num_experts|num_local_experts|n_experts|num_branches)",
        "2",
    ),
    (
        r"(.*_)?(max_len|max_length|max_position_embeddings|max_seq_len|n_positions|seq_len|sequence_length|max_source_positions|num_patches|num_positions|max_positions)",
        "64",
    ),
    (
        r"(.*_)?(reduction|ratio|reduction_ratio|squeeze_factor|rd_ratio|downscale|upscale_factor|scale_factor|factor|rank|r|lora_rank|bottleneck)",
        "2",
    ),
    (r"(.*_)?(eps|epsilon|layer_norm_eps|rms_norm_eps|layernorm_epsilon|variance_epsilon|norm_eps)", "1e-5"),
    (
        r"(.*_)?(dropout|drop|drop_rate|drop_path|p|prob|.*dropout.*|.*_drop|pdrop|.*_pdrop|dropout_rate|drop_prob|dropout_prob)",
        "0.0",
    ),
    (r"(.*_)?(rope_theta|theta|rotary_base)", "10000.0"),
    (
        r"(.*_)?(scale|alpha|beta|gamma|temperature|init_values?|init_value|momentum|logit_scale|slope|layer_scale_init_value|softcap|.*_multiplier|scaling)",
        "0.5",
    ),
    (r"(.*_)?(initializer_range|std|init_std|initializer_factor)", "0.02"),
    (
        r"(.*)(hidden|embed|model|dim|width|channels?|chs|chan|planes|features?|inp|oup|out|size|normalized_shape|n_embd|d_model|nf|ch|filters|c1|c2|c|cond|in_c|out_c|embd|units).*",
        "32",
    ),
)
_SWITCHES = re.compile(
    r"(use|has|is|with|add|apply|enable|return|output|do|inplace|bias|causal|affine|qkv|requires|gradient|tie|scale_attn|normalize|pre_norm|training|.*_bias|.*_flag|.*norm_first).*"
)
_CALLABLES: tuple[tuple[str, str], ...] = (
    (
        r"(act|activation|act_fn|act_layer|activation_layer|act_func|nonlinearity|non_linearity|activation_fn|gate_layer|gate_fn)",
        "nn.GELU",
    ),
    (r"(norm|norm_layer|norm_cls|norm_class|norm_func|layer_norm)", "nn.LayerNorm"),
)
_STRINGS = (
    (r"(.*_)?(hidden_act|hidden_activation|activation_function|act_fn|activation|hidden_act_fn|act)", "'gelu'"),
    (r"(.*_)?(attn_implementation|_attn_implementation)", "'eager'"),
    (r"(.*_)?(position_embedding_type)", "'absolute'"),
    (r"(.*_)?(padding_mode)", "'zeros'"),
    (r"(.*_)?(mode)", "'nearest'"),
)
_TABLES = [(re.compile(pattern), text) for pattern, text in _NUMBERS]
_ANNOTATED = {"bool": "False", "float": "0.5", "int": "4"}


def number(name: str) -> str | None:
    """A number for an argument of this name; None where the name says nothing."""
    return next((text for pattern, text in _TABLES if pattern.fullmatch(name.lower())), None)


def field(name: str) -> str:
    """A value for a field of a configuration object."""
    lower = name.lower()
    for pattern, text in _STRINGS:
        if re.fullmatch(pattern, lower):
            return text
    if lower in ("pad_token_id", "padding_idx"):
        return "0"
    if _SWITCHES.fullmatch(lower) and number(lower) in (None, "32"):
        return "False"
    return number(lower) or "None"


def argument(name: str, annotation: ast.expr | None) -> str | None:
    """A value for a constructor argument without default; None where nobody can know."""
    lower = name.lower().lstrip("_")
    told = ast.unparse(annotation) if annotation is not None else ""
    for pattern, text in _CALLABLES:
        if re.fullmatch(pattern, lower) and "str" not in told and "bool" not in told:
            return text
    if told.split("[")[0].strip() == "bool" or (
        not told and _SWITCHES.fullmatch(lower) and number(lower) in (None, "32")
    ):
        return "False"
    for pattern, text in _STRINGS:
        if re.fullmatch(pattern, lower) and ("str" in told or not told):
            return text
    found = number(lower) or _ANNOTATED.get(told)
    if "Callable" in told or "Module" in told or "Config" in told:
        return None
    if found is not None and re.match(r"(typing\.)?(List|list|Sequence|Tuple|tuple|Iterable)\[", told):
        return f"[{found}, {found}]"
    return found


def is_tensor_name(name: str) -> bool:
    return (
        re.fullmatch(
            r"x\d?|y|z|inputs?|hidden(_states?)?|features?|feats?|query|key|value|q|k|v|tensor|t|src|tgt|residual|identity|skip|image|images|img|embeddings?|emb|temb|sample|logits|pred|preds|predictions?|target|targets|weight|cos|sin|mask|attention_mask|tokens|input_ids|input_tensor|position_ids|timesteps?|boxes\d?|box\d?|a|b|u|data|out|output|scores|attn|memory|context|encoder_hidden_states|states|mat|gate|up|freqs|pos|positions?|x_in|keys|values|queries",
            name.lower(),
        )
        is not None
    )


# The layouts a first tensor may have, likeliest first.
LAYOUTS: tuple[tuple[int, ...], ...] = (
    (BATCH, LENGTH, WIDTH),
    (BATCH, WIDTH, SIDE, SIDE),
    (BATCH, WIDTH),
    (BATCH, HEADS, LENGTH, 8),
    (BATCH, SIDE, SIDE, WIDTH),
    (BATCH, WIDTH, LENGTH),
    (BATCH, WIDTH, 4, SIDE, SIDE),
    (BATCH, 3, SIDE, SIDE),
    (LENGTH, WIDTH),
    (BATCH, 3, 16, 16),
)


def draw(name: str, layout: tuple[int, ...]) -> str:
    """The expression for a tensor argument of this name, where the first tensor has this layout."""
    lower = name.lower()
    batch = layout[0]
    if re.fullmatch(r"input_ids|tokens|token_ids|token_type_ids|ids|idx|indices|labels", lower):
        return f"torch.randint(0, 10, ({batch}, {LENGTH}))"
    if re.fullmatch(r"position_ids|positions?", lower):
        return f"torch.arange({LENGTH}).unsqueeze(0)"
    if re.fullmatch(r"timesteps?|t", lower):
        return f"torch.rand({batch}) * 10.0"
    if re.fullmatch(r"temb|time_emb.*|cond|conditioning.*|class_emb.*|pooled.*", lower):
        return f"torch.randn({batch}, {WIDTH})"
    if re.fullmatch(r"cos|sin|freqs_cos|freqs_sin", lower):
        return f"torch.rand({batch}, {LENGTH}, {layout[-1]}) * 2 - 1"
    if re.fullmatch(r"boxes\d?|box\d?", lower):
        return f"torch.cat([torch.rand({SIDE}, 2), torch.rand({SIDE}, 2) + 1.5], dim=1)"
    if "mask" in lower:
        return f"torch.zeros({batch}, 1, {LENGTH}, {LENGTH})" if len(layout) == 3 else f"torch.rand({layout}) > 0.3"
    if re.fullmatch(r"encoder_hidden_states|memory|context", lower):
        return f"torch.randn({batch}, {LENGTH // 2}, {WIDTH})"
    return f"torch.randn{layout}"
