"""The sinusoids of positions (section 3.5) in numpy, for those who load no Keras."""

import numpy as np


def sinusoids(length: int, width: int, layout: str = "interleaved", first: int = 0) -> np.ndarray:
    """Returns sines and cosines of each position, (length, width) float32.

    Args:
        length: number of positions.
        width: number of channels D, even.
        layout: `interleaved`, section 3.5 of the paper: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) the cosine
            of the same. `halves`, that of transformers: the same waves, all sines before all cosines. `split`, that of
            Tensor2Tensor and Marian: PE(pos, i) = sin(pos / 10000^(i/(D/2-1))) for i < D/2, PE(pos, D/2+i) the cosine,
            whose slowest waves are 10000 times as long as the fastest; the paper's are a little shorter.
        first: the number of the first position.
    """
    angles = np.arange(first, first + length, dtype=np.float64)[:, None] * wave_frequencies(width, layout)[None, :]
    waves = [np.sin(angles), np.cos(angles)]
    table = np.stack(waves, axis=-1) if layout == "interleaved" else np.stack(waves, axis=-2)
    return table.reshape(length, width).astype(np.float32)


def wave_frequencies(width: int, layout: str) -> np.ndarray:
    """Returns the increase of each of D/2 angles from one position to the next, float64."""
    pairs = width // 2
    steps = max(pairs - 1, 1) if layout == "split" else pairs
    return np.power(10000.0, -np.arange(pairs, dtype=np.float64) / steps)
