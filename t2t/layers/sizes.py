"""Sizes of tensors as they are computed: int where the size is known, as compilers of fixed shapes want it."""

from typing import Any

from keras import ops


def at_least(least: int, size: Any) -> Any:
    """Returns a size, int or a tensor of int32, or `least` where it is smaller."""
    return max(size, least) if isinstance(size, int) else ops.maximum(size, least)
