"""Reads and writes arrays by name as safetensors files.

https://huggingface.co/docs/safetensors
"""

import os
import re
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

import ml_dtypes  # noqa: F401  (teaches numpy the types below)
import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save_file

from t2t.errors import one_line

Arrays = dict[str, np.ndarray]

_TYPES = {
    "BOOL": "bool", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{kind[0].upper()}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Name of a type in the file -> its name in numpy."""
_OS_ERROR_NUMBER = re.compile(r"(?:os error |code: )(\d+)")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Writes a file of arrays, with metadata for other readers.

    Raises:
        OSError: it cannot be written.
    """
    # safetensors writes the raw buffer, so that a transposed view would be read back scrambled
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        save_file(dense, path, metadata)
    except SafetensorError as error:
        number = _OS_ERROR_NUMBER.search(str(error))
        if not number:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error
    # safetensors makes its files readable by their owner only; make them as readable as the folder
    path.chmod(path.parent.stat().st_mode & 0o666)


def parse_arrays(content: bytes) -> Arrays:
    """Returns the arrays in the content of a safetensors file, sorted by name.

    The library lists them in an order that differs from one process to the next.

    Raises:
        ValueError: it is not a safetensors file, or has arrays of a type that numpy lacks.
    """
    try:
        return {
            name: np.frombuffer(entry["data"], _TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in sorted(deserialize(content), key=itemgetter(0))
        }
    except (SafetensorError, KeyError) as error:
        raise ValueError(one_line(error)) from error
