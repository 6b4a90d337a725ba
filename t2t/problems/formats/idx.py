"""IDX, the format of MNIST's files: a magic number, the sizes of the axes, then the values.

Source: LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/: two zero bytes, the type (0x08: unsigned byte), the
number of axes, then each size as four bytes, big-endian.
"""

import struct
from pathlib import Path

import numpy as np

from t2t.errors import UserError
from t2t.files.lines import errors_of_reading, gunzipped

_UNSIGNED_BYTES = 0x08
_MOST_BYTES = 1 << 30
"""Largest size of a file, unpacked."""


def read_idx(path: Path | str, axes: int) -> np.ndarray:
    """Reads a file of unsigned bytes, plain or gzip, which is detected from the content.

    Returns:
        A uint8 array with so many axes.

    Raises:
        UserError: the file is missing, or is not a complete IDX file with so many axes; the message names it.
    """
    with errors_of_reading(path):
        content = gunzipped(Path(path).read_bytes(), path, _MOST_BYTES)
    head = 4 + 4 * axes
    if content[:4] != bytes((0, 0, _UNSIGNED_BYTES, axes)) or len(content) < head:
        raise UserError(
            f"{path}: begins with {content[:4].hex(' ') or 'nothing'}, and an IDX file of {axes} axes of bytes with "
            f"00 00 08 {axes:02d}; images have 3 axes and labels 1: give the other file, or download it again"
        )
    shape = struct.unpack(f">{axes}I", content[4:head])
    if len(content) - head != int(np.prod(shape, dtype=np.int64)):
        raise UserError(
            f"{path}: holds {len(content) - head:,} bytes after its head, which says {' x '.join(map(str, shape))}; "
            f"it is cut short or damaged: download it again"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
