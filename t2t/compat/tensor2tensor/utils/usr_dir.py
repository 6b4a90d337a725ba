"""Tensor2Tensor's `usr_dir`."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.registry.plugins import load_plugins


def import_usr_dir(usr_dir: str | None) -> None:
    """Imports a folder of a plug-in."""
    load_plugins(usr_dir or None)


__getattr__ = placeholders_of(__name__)
