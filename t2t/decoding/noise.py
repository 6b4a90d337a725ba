"""Random numbers for sampling, from a counter-based generator.

Each row has a separate random stream, so that a sentence's samples do not depend on its batch; `keras.random` takes
one seed for a whole tensor.

Legend: N rows.
"""

from typing import Any

from keras import ops

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 20


def threefry_2x32(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds: Salmon et al. 2011 (Parallel random numbers: as easy as 1, 2, 3), section 3.3.

    Args:
        key: two uint32 tensors of shapes that broadcast.
        counter: two uint32 tensors of shapes that broadcast.

    Returns:
        Two uint32 tensors of random bits.
    """
    parity = ops.bitwise_xor(ops.bitwise_xor(key[0], key[1]), _word(_PARITY))
    keys = (key[0], key[1], parity)
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(_ROUNDS // 4):
        for distance in _ROTATIONS[group % 2]:
            x = x + y
            y = ops.bitwise_xor(x, _rotate_left(y, distance))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + _word(group + 1)
    return x, y


def uniform(seed: Any, row_seeds: Any, position: Any, draw: Any) -> Any:
    """Returns a number in [0, 1) for each row, a function of the four arguments.

    Args:
        seed: () integer, the run's seed, of which the lower 32 bits are used.
        row_seeds: (N,) int32, identifies the sentence.
        position: () int32, number of the token.
        draw: (N,) int32, number of the sample of that sentence.

    Returns:
        (N,) float32, multiples of 2^-24.
    """
    bits_N, _ = threefry_2x32((_word(seed), _word(row_seeds)), (_word(position), _word(draw)))
    return ops.cast(ops.cast(ops.right_shift(bits_N, 8), "int32"), "float32") * 2.0**-24


def _word(value: Any) -> Any:
    if isinstance(value, int):
        return ops.convert_to_tensor(value % 2**32, dtype="uint32")
    return ops.cast(value, "uint32")


def _rotate_left(word: Any, distance: int) -> Any:
    return ops.bitwise_or(ops.left_shift(word, distance), ops.right_shift(word, 32 - distance))
