"""Reads settings from the `model_description.py` of an OpenNMT-tf model, without executing it.

The file selects a model of OpenNMT-tf's catalogue by name, or defines a class that passes settings to `Transformer`.
"""

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.errors import UserError, one_line


@dataclasses.dataclass(frozen=True)
class Description:
    """Settings of a Transformer."""

    heads: int = 8
    activation: str = "relu"
    """Activation, by our name."""
    has_sinusoids: bool = True
    """Whether sinusoids are added to embeddings; tables of positions are recognized by their weights."""
    dropout: float = 0.1
    attention_dropout: float = 0.1
    ffn_dropout: float = 0.1
    ends_inputs: bool = False
    """Whether inputs have an end of sequence by default; the configuration may override it."""


_SCALING = Description(heads=16, dropout=0.3, ffn_dropout=0.0, ends_inputs=True)
CATALOGUE: Mapping[str, Description] = {
    **dict.fromkeys(("Transformer", "TransformerBase", "TransformerBaseSharedEmbeddings"), Description()),
    **dict.fromkeys(("TransformerRelative", "TransformerBaseRelative"), Description(has_sinusoids=False)),
    **dict.fromkeys(("TransformerBig", "TransformerBigSharedEmbeddings"), Description(heads=16)),
    "TransformerBigRelative": Description(heads=16, has_sinusoids=False),
    "TransformerTiny": Description(heads=2),
    "ScalingNmtEnDe": _SCALING,
    "ScalingNmtEnFr": dataclasses.replace(_SCALING, dropout=0.1, attention_dropout=0.0),
}
"""Transformers of OpenNMT-tf's catalogue, by name."""

_ARGUMENTS = ("source_inputter", "target_inputter", "num_layers", "num_units", "num_heads", "ffn_inner_dim", "dropout",
              "attention_dropout", "ffn_dropout", "ffn_activation")  # fmt: skip
"""Arguments of `Transformer`, in order."""
_ACTIVATIONS = {
    "tf.nn.relu": "relu", "tf.nn.gelu": "gelu", "tf.nn.silu": "silu", "tf.nn.swish": "silu",
    **{f"{module}.gelu": "gelu_tanh" for module in ("opennmt.layers", "onmt.layers", "layers", "common")},
}  # fmt: skip
_SINUSOIDS = "SinusoidalPositionEncoder"
_NUMBERS = {"num_heads": "heads", "dropout": "dropout", "attention_dropout": "attention_dropout",
            "ffn_dropout": "ffn_dropout"}  # fmt: skip


def parse_description(text: str, path: Path) -> Description:
    """Returns the settings in a description.

    Args:
        text: content of the file.
        path: path of the file, for messages.

    Raises:
        UserError: the file is not Python, or describes an unsupported model.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is no description of a model ({one_line(error)}); get it again") from error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    own = [given for call in calls if "num_heads" in (given := _arguments(call))]
    if len(own) == 1:
        return _described(own[0], path)
    named = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in CATALOGUE]
    named += [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in CATALOGUE]
    if own or len(set(named)) != 1:
        raise UserError(
            f"{path} names neither one Transformer of the catalogue ({', '.join(CATALOGUE)}) nor the num_heads of one; "
            f"it cannot be imported"
        )
    return CATALOGUE[named[0]]


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """Returns the arguments of a call of `Transformer(...)` or `super().__init__(...)`; empty for other calls."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name not in ("Transformer", "__init__"):
        return {}
    given = dict(zip(_ARGUMENTS, call.args, strict=False))
    return given | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _described(given: Mapping[str, ast.expr], path: Path) -> Description:
    values: dict[str, Any] = {}
    for theirs, ours in _NUMBERS.items():
        if theirs in given:
            number = given[theirs].value if isinstance(given[theirs], ast.Constant) else None  # type: ignore[attr-defined]
            if type(number) not in (int, float) or (theirs == "num_heads" and type(number) is not int):
                raise UserError(
                    f"{path} has {theirs}={ast.unparse(given[theirs])}, which is no number; write the number there"
                )
            values[ours] = number
    if "ffn_activation" in given:
        name = ast.unparse(given["ffn_activation"])
        if name not in _ACTIVATIONS:
            raise UserError(
                f"{path} has ffn_activation={name}; known here are {', '.join(_ACTIVATIONS)}; it cannot be imported"
            )
        values["activation"] = _ACTIVATIONS[name]
    if "position_encoder_class" in given:
        values["has_sinusoids"] = ast.unparse(given["position_encoder_class"]).rpartition(".")[2] == _SINUSOIDS
    return Description(**values)
