"""Raw files of images and sound in their original formats, small and without an engine."""

import struct
import wave

import numpy as np


def idx(array):
    """Returns an array in the file format of MNIST, as bytes."""
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist_files(images, labels, stems=("train", "t10k")):
    """Returns MNIST's files, name -> content, which are the same for training and test."""
    kinds = {"images-idx3-ubyte": images, "labels-idx1-ubyte": labels}
    return {f"{stem}-{kind}": idx(array) for stem in stems for kind, array in kinds.items()}


def write_files(folder, files):
    """Writes files, relative path -> text or bytes, below a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_wav(path, samples, rate=16_000, width=2, channels=1):
    """Writes a WAV file of samples, as bytes or an array of 16-bit numbers."""
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(samples if isinstance(samples, bytes) else np.asarray(samples, "<i2").tobytes())
