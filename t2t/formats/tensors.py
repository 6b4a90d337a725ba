"""The tensors of a foreign file, each of which must be used or marked as not needed, and the weights made of them."""

from collections.abc import Iterable, Mapping

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, first_few
from t2t.formats.huggingface.mapping import Kind, MappedModule


class Tensors:
    """The tensors of a foreign file by name; `finish` checks that all have been used or dropped.

    Args:
        arrays: tensors by their names in the file.
        origin: the file or folder, for messages.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], origin: str):
        self._arrays, self.origin = dict(arrays), origin
        self._taken: set[str] = set()
        self._unused: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tensors."""
        return tuple(self._arrays)

    @property
    def taken(self) -> int:
        """Number of tensors that have been used."""
        return len(self._taken)

    def take(self, name: str) -> np.ndarray:
        """Returns a tensor, floating-point ones as float32; it may be taken several times.

        Raises:
            UserError: the file has no such tensor.
        """
        if name not in self._arrays:
            raise UserError(
                f"{self.origin}: it has no tensor {name} among its {len(self._arrays)}; it is incomplete, or of "
                f"another network than its configuration describes; get all files of the model again"
            )
        self._taken.add(name)
        array = self._arrays[name]
        # bfloat16 and other types of ml_dtypes are of kind V
        return array.astype(np.float32) if array.dtype.kind in "fV" else array

    def rename(self, name: str, *others: str) -> None:
        """Gives a tensor that the file lacks the name that it has there, the first of `others` among its names.

        Libraries that store a tensor with several names once keep any one of them.
        """
        there = [other for other in others if other in self._arrays]
        if name not in self._arrays and there:
            self._arrays[name] = self._arrays.pop(there[0])

    def linear(self, name: str, path: str) -> Arrays:
        """Returns the weights of a linear layer of PyTorch, `<name>.weight` (out, in) and the bias, if there is one.

        Keys are `<path>kernel`, transposed to (in, out), and `<path>bias`.
        """
        weights = {f"{path}kernel": self.take(f"{name}.weight").T}
        return weights | ({f"{path}bias": self.take(f"{name}.bias")} if f"{name}.bias" in self else {})

    def norm(self, name: str, path: str) -> Arrays:
        """Returns the weights of a norm, `<path>/gamma`, and `<path>/beta` if it has an offset."""
        weights = {f"{path}/gamma": self.take(f"{name}.weight")}
        return weights | ({f"{path}/beta": self.take(f"{name}.bias")} if f"{name}.bias" in self else {})

    def drop(self, name: str, why: str) -> None:
        """Marks a tensor as not needed, if the file has it."""
        if name in self._arrays:
            self._unused[name] = why

    def drop_copy(self, name: str, original: str) -> None:
        """Marks a tensor as not needed, if the file has it, after checking that it is a copy of `original`.

        Raises:
            UserError: the values differ.
        """
        copied = original in self._arrays and np.array_equal(self._arrays.get(name, ()), self._arrays[original])
        if name in self._arrays and not copied:
            raise UserError(
                f"{self.origin}: tensor {name} is not the same as {original}, which its configuration says; "
                f"such a model cannot be imported"
            )
        self.drop(name, f"the same as {original}")

    def finish(self) -> dict[str, str]:
        """Returns the tensors that are not needed, each with the reason.

        Raises:
            UserError: some tensors have been neither used nor dropped; the message names them.
        """
        left = sorted(self._arrays.keys() - self._taken - self._unused.keys())
        if left:
            raise UserError(
                f"{self.origin}: it has {len(left)} tensors that the model here has no place for: "
                f"{first_few(left, ', ')}; this network cannot be imported"
            )
        return self._unused


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
