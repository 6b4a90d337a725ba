"""Names of the modules of a Transformer's stacks in CTranslate2, for reading and for writing its models."""

from collections.abc import Iterator
from typing import NamedTuple

from t2t.hparams.transformer import TransformerHParams

LINEAR, NORM, TABLE = "linear", "norm", "table"


class Module(NamedTuple):
    """A module of CTranslate2 and the weights that it has here."""

    theirs: str
    """Path in a specification and in `model.bin`, such as `decoder/layer_0/attention/linear_1`."""
    ours: tuple[str, ...]
    """Prefixes of the maps that a linear layer stacks; or the path of a norm or a table."""
    kind: str


def stack_modules(hparams: TransformerHParams) -> Iterator[Module]:
    """Yields the modules of both stacks; the layers of a stack share a table of relative biases."""
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            yield from _layer_modules(hparams, side, f"{side}/layer_{number}")
        if hparams.norm_position == "pre":
            yield Module(f"{side}/layer_norm", (f"{side}/final_norm",), NORM)
        if getattr(hparams, "embedding_norm", False):
            positions = "source_positions" if side == "encoder" else "target_positions"
            yield Module(f"{side}/layernorm_embedding", (f"{positions}/norm",), NORM)


def _layer_modules(hparams: TransformerHParams, side: str, layer: str) -> Iterator[Module]:
    stacked: dict[str, list[tuple[str, ...]]] = {
        "self_attention": [("query", "key", "value")],
        "encdec_attention": [("query",), ("key", "value")],
    }
    attentions = {"self_attention": "self_attention"} | ({"attention": "encdec_attention"} if side == "decoder" else {})
    for theirs, ours in attentions.items():
        path = f"{layer}/{ours}"
        maps = [tuple(f"{path}/project/{part}_" for part in parts) for parts in stacked[ours]]
        for number, prefixes in enumerate([*maps, (f"{path}/output/",)]):
            yield Module(f"{layer}/{theirs}/linear_{number}", prefixes, LINEAR)
        yield Module(f"{layer}/{theirs}/layer_norm", (f"{path}_residual/norm",), NORM)
    own = f"{layer}/self_attention"
    if hparams.positions == "relative":
        for kind in ("keys", "values"):
            yield Module(f"{own}/relative_position_{kind}", (f"{own}/relative_positions/{kind}",), TABLE)
    if hparams.positions == "relative_bias":
        yield Module(f"{own}/relative_attention_bias", (f"{side}/relative_bias/table",), TABLE)
    gate = {"linear_0_noact": "linear"} if hparams.gated_feed_forward else {}
    for theirs, ours in {"linear_0": "inner", "linear_1": "outer", **gate}.items():
        yield Module(f"{layer}/ffn/{theirs}", (f"{layer}/ffn/{ours}/",), LINEAR)
    yield Module(f"{layer}/ffn/layer_norm", (f"{layer}/ffn_residual/norm",), NORM)
