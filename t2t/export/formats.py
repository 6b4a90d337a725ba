"""The formats of exports: what each needs, offers and promises. Loads no TensorFlow."""

import dataclasses
import importlib.util
import math
from pathlib import Path

from t2t.errors import UnknownNameError, UserError, needs_extra
from t2t.files.paths import local_path
from t2t.files.remote.mirror import exists, is_mirrored, names_in

OTHER_INPUTS = "or leave --data_dir out, or give lines of text to try the export on with --parity_file"
"""Advice for data that cannot be read."""

SAVED_MODEL = "saved_model"
FLOAT32, FLOAT16, INT8 = "float32", "float16", "int8"

REPORT, README = "t2t_export.json", "README.md"
"""Files next to those of an export."""
UNFINISHED = ".t2t_unfinished"
"""File in an object store, as long as an export there is not whole."""


@dataclasses.dataclass(frozen=True)
class Promise:
    """What an export promises of its outputs; one that breaks it is not kept."""

    identical_share: float
    """Smallest share of inputs with the same output as the run, in (0, 1]."""
    score_difference: float
    """Largest difference of any score. For float32 it is absolute below 1 and relative above; for other quantizations
    it is the log-probability of the run's output, in nats per token."""

    def __str__(self) -> str:
        """Returns the promise as a sentence for help, documents and messages."""
        if self.identical_share == 1:
            return f"every output is that of the run, id by id; scores are within {self.score_difference:g}"
        return (
            f"at least {self.identical_share:.0%} of the outputs are those of the run, id by id; no line's score is "
            f"off by more than {self.score_difference:g} nats per token"
        )


def finite_or_inf(difference: float) -> float:
    """Returns infinity for NaN, which compares as False with any bound and which `max` may lose."""
    return difference if math.isfinite(difference) else math.inf


def relative_difference(expected: float, found: float) -> float:
    """Returns how far two figures are apart: absolute below 1, relative above; infinite unless both are finite."""
    return finite_or_inf(abs(expected - found) / max(1.0, abs(expected)))


PROMISES = {FLOAT32: Promise(1.0, 1e-3), FLOAT16: Promise(0.9, 0.05), INT8: Promise(0.5, 0.5)}
"""By quantization."""


@dataclasses.dataclass(frozen=True)
class Format:
    """One format of exports."""

    quantizations: tuple[str, ...] = (FLOAT32,)
    packages: tuple[str, ...] = ()
    """Packages that it needs."""
    extra: str = ""
    """The extra of the library that installs them."""


FORMATS = {
    SAVED_MODEL: Format(),
    "ctranslate2": Format((FLOAT32, INT8), ("ctranslate2",), "ctranslate2"),
    "marian": Format(),
    "onnx": Format(packages=("tf2onnx", "onnxruntime"), extra="onnx"),
    "huggingface": Format(packages=("transformers", "torch"), extra="huggingface"),
    "litert": Format((FLOAT32, FLOAT16, INT8), ("ai_edge_litert",), "litert"),
}
"""By name."""


def describe_quantizations() -> str:
    """Describes which formats have which quantizations besides float32."""
    having = {name: [one for one, format in FORMATS.items() if name in format.quantizations] for name in PROMISES}
    return "; ".join(f"{name} for {' and '.join(formats)}" for name, formats in having.items() if name != FLOAT32)


def check_request(format: str, quantization: str, folder: Path) -> None:
    """Checks an export before the run is loaded.

    Raises:
        UserError: an unknown format, a quantization that it lacks, a missing package, or a folder that exists.
    """
    there = names_in(folder) if is_mirrored(folder) else folder.exists()
    if there and not exists(folder / UNFINISHED):
        raise UserError(f"--export_dir={folder}: it is there already; name another, or remove it first")
    if format not in FORMATS:
        raise UnknownNameError(f"--format={format}: there is no such format; ask for one of {', '.join(FORMATS)}")
    asked = FORMATS[format]
    if quantization not in asked.quantizations:
        raise UserError(f"--quantization={quantization}: {format} has {', '.join(asked.quantizations)}; ask for that")
    with needs_extra(asked.extra, f"--format={format}"):
        for package in asked.packages:
            if importlib.util.find_spec(package) is None:  # not imported yet, since some load TensorFlow
                raise ModuleNotFoundError(name=package)


def is_export(folder: Path | str) -> bool:
    """Returns whether a folder holds an export of `t2t-exporter`."""
    return exists(local_path(folder) / REPORT)
