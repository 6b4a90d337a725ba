"""Reads CIFAR's original files: the binary version, and the pickles of the Python version.

Source: Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html. Binary: records of the label (CIFAR-100: coarse,
then fine), then 3,072 bytes of an image, red, green and blue planes of 32 rows each. Python: pickled dicts whose `data`
is an array (images, 3072) of bytes in that order.

Reading a pickle can run any code that its writer put there. Here the few names that these pickles need are replaced by
harmless stand-ins, and any other name is an error.
"""

import io
import pickle
from typing import Any

import numpy as np

from t2t.errors import UserError, one_line
from t2t.files.trust import check_pickle

SIDE = 32
"""Height and width of an image."""
_IMAGE = 3 * SIDE * SIDE


def read_binary(content: bytes, labels: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads a file of the binary version; `labels` bytes come before each image, of which the last is used.

    Returns:
        (images, 32, 32, 3) uint8, and (images,) uint8 labels.

    Raises:
        UserError: the file does not have a whole number of records.
    """
    if not content or len(content) % (labels + _IMAGE):
        raise UserError(
            f"{name}: {len(content):,} bytes are no whole number of records of {labels + _IMAGE:,}; the file is cut "
            f"short or of another data set: download it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, labels + _IMAGE)
    return _images(records[:, labels:]), records[:, labels - 1]


def read_python(content: bytes, key: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads a file of the Python version without running its code; `key` is `labels` or `fine_labels`.

    Returns:
        As `read_binary`.

    Raises:
        UserError: the file is damaged, names other code, or has other contents.
    """
    try:
        stream = io.BytesIO(content)
        check_pickle(stream)
        found = _Reader(stream, encoding="bytes").load()
        data, labels = (found[word.encode()] for word in ("data", key))
        images = np.frombuffer(data.content, np.uint8).reshape(-1, _IMAGE)
        numbers = np.array([int(label) for label in labels])
        if len(images) != len(numbers) or not ((numbers >= 0) & (numbers < 256)).all():
            raise ValueError(f"{len(images)} images and {len(numbers)} labels")
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(
            f"{name}: is none of CIFAR's pickles ({type(error).__name__}: {one_line(error)[:100]}); download it again"
        ) from None
    return _images(images), numbers.astype(np.uint8)


def _images(planes: np.ndarray) -> np.ndarray:
    return planes.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


class _Array:
    """Stand-in for numpy's array: keeps the bytes that were pickled."""

    content = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.content = state[-1]


class _Type:
    """Stand-in for numpy's dtype; CIFAR's pickles have only one."""

    def __init__(self, *_: Any):
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        pass


def _array(*_: Any) -> _Array:
    return _Array()


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """Stand-in for `_codecs.encode`, by which Python 3 pickles bytes for Python 2."""
    return text.encode("latin1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns the stand-in of a name."""
        if (module, name) not in _STAND_INS:
            raise UserError(
                f"the pickle names {module}.{name}, which none of CIFAR's does; it may run any code: not read"
            )
        return _STAND_INS[module, name]
