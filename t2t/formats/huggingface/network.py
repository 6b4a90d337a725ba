"""A network converted for transformers, its configuration and tensors, and the parts shared by Marian's and T5's.

Legend: D width, E channels of a layer's output.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.formats.huggingface.mapping import Kind, MappedModule
from t2t.hparams.transformer import TransformerHParams
from t2t.models.base import SequenceModel
from t2t.models.transformer import Transformer


@dataclasses.dataclass(frozen=True)
class Network:
    """A model in transformers' terms."""

    config: Mapping[str, Any]
    """Content of `config.json`."""
    tensors: Arrays
    """Tensors by their names in transformers."""
    start: int
    """Id that the decoder starts with; an added one if padding cannot be used."""
    longest: int | None
    """Number of positions of inputs and outputs; None for no limit."""


def complaints(hparams: TransformerHParams, wanted: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Returns a text for each setting whose value is not among the `wanted` ones."""
    return [
        f"{name}={getattr(hparams, name)} (known: {', '.join(map(str, values))})"
        for name, values in wanted.items()
        if getattr(hparams, name) not in values
    ]


def model_complaints(model: SequenceModel) -> list[str]:
    """Returns the properties that neither Marian's nor T5's network in transformers supports."""
    if type(model) is not Transformer:
        return [f"it is a {type(model).__name__}"]
    hparams, found = model.hparams, []
    found += complaints(hparams, {"decoder_layer": ("self_attention",), "self_attention_window": (0,)})
    heads = {hparams.num_heads, hparams.of_decoder.num_heads}
    known = (0, *heads) if len(heads) == 1 else (0,)
    found += complaints(hparams, {"num_kv_heads": known, "target_space_embedding": (False,)})
    found += complaints(hparams, {"input_end": (True,)})
    if hparams.key_channels != hparams.value_channels:
        found.append(
            f"attention_key_channels={hparams.key_channels}, attention_value_channels={hparams.value_channels}"
        )
    if model.source_embedding is not model.target_embedding:
        found.append("inputs and targets have tables of their own")
    return found


def weights_of(model: Transformer) -> Arrays:
    """Returns the weights by path, without the model's name."""
    return {v.path.partition("/")[2]: np.asarray(v) for v in model.variables}


def part_tensors(parts: Iterable[MappedModule], weights: Arrays) -> Arrays:
    """Returns the tensors of modules, with biases only where the weights here have them."""
    tensors: Arrays = {}
    for part in parts:
        found: dict[str, np.ndarray | None]
        if part.kind == Kind.TABLE:
            found = {"weight": weights[part.ours]}
        elif part.kind == Kind.NORM:
            found = {"weight": weights[f"{part.ours}/gamma"], "bias": weights.get(f"{part.ours}/beta")}
        else:
            found = {"weight": weights[f"{part.ours}kernel"].T, "bias": weights.get(f"{part.ours}bias")}
        tensors |= {f"{part.theirs}.{name}": array for name, array in found.items() if array is not None}
    return tensors
