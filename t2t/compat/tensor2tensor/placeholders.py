"""Stand-ins for names of Tensor2Tensor that do not exist here: they can be imported and subclassed, but not used."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from t2t.errors import UserError


class _Refusing(type):
    """Metaclass of placeholders: calling one, or a subclass, is an error that says what there is instead."""

    _of_tensor2tensor: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise UserError(f"{described(cls)}", f"{advice_on(cls)}")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(f"{cls._of_tensor2tensor}.{name}")


class Placeholder(metaclass=_Refusing):
    """A class or function of Tensor2Tensor that does not exist here."""

    _of_tensor2tensor = "tensor2tensor"


def placeholder(dotted: str) -> _Refusing:
    """Returns the placeholder of a name of Tensor2Tensor."""
    return _Refusing(dotted.rpartition(".")[2], (Placeholder,), {"_of_tensor2tensor": dotted})


def module_with(name: str, known: Mapping[str, Any], find: Callable[[str], Any]) -> ModuleType:
    """Returns a module with some names, and with others as `find` makes them when they are first looked up."""
    module = ModuleType(name, f"{name}: names of Tensor2Tensor.")
    vars(module).update(known)

    def find_once(asked: str) -> Any:
        if asked.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {asked!r}")
        value = find(asked)
        setattr(module, asked, value)  # so that it stays the same class
        return value

    module.__getattr__ = find_once  # type: ignore[method-assign]
    return module


def is_placeholder(value: Any) -> bool:
    """Returns whether a value is a placeholder, or a class derived from one."""
    return isinstance(value, _Refusing)


def described(value: _Refusing) -> str:
    """Returns what a placeholder, or a class derived from one, is, for a message."""
    theirs = value._of_tensor2tensor
    own = f"{value.__module__}.{value.__qualname__}"
    derived = Placeholder not in value.__bases__
    return f"{own} is derived from {theirs}, which does not exist here" if derived else f"{theirs} does not exist here"


def advice_on(value: _Refusing) -> str:
    """Returns what to do instead of using a placeholder."""
    if ".multi_problem" in value._of_tensor2tensor:
        return "several problems are trained together by --problem=a-b-c"
    nearest = [model for part, model in _MODELS.items() if f".{part}" in value._of_tensor2tensor]
    if nearest:
        return f"networks are written for TensorFlow 2 and JAX (docs/new_model.md); the nearest model is {nearest[0]}"
    return (
        "problems, hparams sets and their helpers do (docs/coming_from.md), networks and training code of TensorFlow 1 "
        "do not; use a model of this project, see --registry_help"
    )


_MODELS = {
    "research.universal_transformer": "universal_transformer",
    "evolved_transformer": "evolved_transformer",
    "bytenet": "byte_net",
    "image_transformer": "image_transformer",
    "lstm": "lstm_seq2seq_attention",
    "neural_gpu": "neural_gpu",
    "resnet": "resnet",
    "shake_shake": "shake_shake",
    "slicenet": "slice_net",
    "xception": "xception",
    "attention_lm": "transformer_lm",
    "transformer": "transformer",
    "t2t_model": "transformer",
}
"""Module of Tensor2Tensor -> its model here, the special ones first."""
