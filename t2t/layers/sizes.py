"""Arithmetic on sizes of tensors that stay int where they are static, as compilers of fixed shapes need."""

from typing import Any

from keras import ops


def at_least(least: int, size: Any) -> Any:
    """Returns a size, int or a tensor of int32, or `least` where it is smaller."""
    return max(size, least) if isinstance(size, int) else ops.maximum(size, least)


def missing_to_multiple(size: Any, of: int) -> Any:
    """Returns what a size of 0 or more, int or a tensor of int32, lacks to a multiple of `of`."""
    # Not `-size % of`: converted programs compute negative remainders of negative numbers.
    return (of - size % of) % of


def at_most(most: Any, size: Any) -> Any:
    """Returns a size, or `most` where it is larger; each an int or a tensor of int32."""
    return min(size, most) if isinstance(size, int) and isinstance(most, int) else ops.minimum(size, most)
