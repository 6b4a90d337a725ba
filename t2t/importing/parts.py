"""Converts the tensors of modules in a foreign model to weights of the Transformer here."""

from collections.abc import Iterable

from t2t.checkpoints.arrays import Arrays
from t2t.export.huggingface.mapping import Kind, MappedModule
from t2t.importing.tensors import Tensors


def take_parts(tensors: Tensors, parts: Iterable[MappedModule]) -> Arrays:
    """Returns the weights by our paths; raises as `Tensors.take`."""
    weights: Arrays = {}
    for part in parts:
        if part.kind == Kind.TABLE:
            weights[part.ours] = tensors.take(f"{part.theirs}.weight")
        elif part.kind == Kind.NORM:
            weights |= tensors.norm(part.theirs, part.ours)
        else:
            weights |= tensors.linear(part.theirs, part.ours)
    return weights
