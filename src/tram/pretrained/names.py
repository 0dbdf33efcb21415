"""Names of tensors: tram's, and those of BART, which Marian, mBART, M2M100, NLLB and the paper's authors share.

foreign_names("encoder.layers.0.self_attention.attention.key_value.weight", LAYER_NAMES)
# → ("model.encoder.layers.0.self_attn.k_proj.weight", "model.encoder.layers.0.self_attn.v_proj.weight")
"""

from collections.abc import Mapping

SHARED = "model.shared.weight"  # the token table of both sides and of the output, where they share one
ENCODER_TOKENS = "model.encoder.embed_tokens.weight"
DECODER_TOKENS = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"

# Inside a layer.
LAYER_NAMES = {
    "self_attention.attention": "self_attn",
    "self_attention.residual.norm": "self_attn_layer_norm",
    "cross_attention.attention": "encoder_attn",
    "cross_attention.residual.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "residual.norm": "final_layer_norm",
}
# Around the layers of a stack.
STACK_NAMES = {
    "embeddings.positions": "embed_positions.weight",
    "embeddings.norm.weight": "layernorm_embedding.weight",
    "embeddings.norm.bias": "layernorm_embedding.bias",
    "norm.weight": "layer_norm.weight",
    "norm.bias": "layer_norm.bias",
}
PROJECTIONS = {"query": ("q_proj",), "key_value": ("k_proj", "v_proj"), "output": ("out_proj",)}


def foreign_names(name: str, layer_names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the foreign names of the tensors that are stacked in tram's parameter `name` of an encoder or decoder."""
    stack, _, rest = name.partition(".")
    if not rest.startswith("layers."):
        return (f"model.{stack}.{STACK_NAMES[rest]}",)
    _, layer, rest = rest.split(".", 2)
    ours = next(part for part in layer_names if rest.startswith(part))
    theirs = f"model.{stack}.layers.{layer}.{layer_names[ours]}"
    end = rest.removeprefix(ours)
    for projection, parts in PROJECTIONS.items():
        if end.startswith(f".{projection}."):
            return tuple(theirs + end.replace(projection, part, 1) for part in parts)
    return (theirs + end,)
