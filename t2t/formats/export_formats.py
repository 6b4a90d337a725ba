"""Export formats: their required packages, quantizations and parity requirements. Does not load TensorFlow."""

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
"""Files that every export has besides those of its format."""
UNFINISHED = ".t2t_unfinished"
"""Marker file in an object store while an export there is incomplete."""


@dataclasses.dataclass(frozen=True)
class Promise:
    """Required agreement of an export with its run; an export that does not meet it is deleted."""

    identical_share: float
    """Smallest share of inputs with the same output as the run, in (0, 1]."""
    score_difference: float
    """Largest difference of any score: for float32, absolute below 1 and relative above; for other quantizations, the
    difference in log-probability of the run's output, in nats per token."""

    def __str__(self) -> str:
        """Returns the requirement as a clause for help, documentation and messages."""
        if self.identical_share == 1:
            return f"every output is that of the run, id by id; scores are within {self.score_difference:g}"
        return (
            f"at least {self.identical_share:.0%} of the outputs are those of the run, id by id; no line's score is "
            f"off by more than {self.score_difference:g} nats per token"
        )


def finite_or_inf(difference: float) -> float:
    """Replaces NaN by infinity, since NaN passes comparisons with bounds unnoticed and may be lost in `max`."""
    return difference if math.isfinite(difference) else math.inf


def relative_difference(expected: float, found: float) -> float:
    """Returns the difference of two numbers, absolute below 1 and relative above; infinite unless both are finite."""
    return finite_or_inf(abs(expected - found) / max(1.0, abs(expected)))


PROMISES = {FLOAT32: Promise(1.0, 1e-3), FLOAT16: Promise(0.9, 0.05), INT8: Promise(0.5, 0.5)}
"""Quantization -> requirement."""


@dataclasses.dataclass(frozen=True)
class ExportFormat:
    """An export format."""

    quantizations: tuple[str, ...] = (FLOAT32,)
    packages: tuple[str, ...] = ()
    """Required packages, by module name."""
    extra: str = ""
    """Extra of this package that installs them."""


FORMATS = {
    SAVED_MODEL: ExportFormat(),
    "ctranslate2": ExportFormat((FLOAT32, INT8), ("ctranslate2",), "ctranslate2"),
    "marian": ExportFormat(),
    "onnx": ExportFormat(packages=("tf2onnx", "onnxruntime"), extra="onnx"),
    "huggingface": ExportFormat(packages=("transformers", "torch"), extra="huggingface"),
    "litert": ExportFormat((FLOAT32, FLOAT16, INT8), ("ai_edge_litert",), "litert"),
}
"""Name -> format."""


def describe_quantizations() -> str:
    """Lists the formats that support each quantization besides float32."""
    having = {name: [one for one, format in FORMATS.items() if name in format.quantizations] for name in PROMISES}
    return "; ".join(f"{name} for {' and '.join(formats)}" for name, formats in having.items() if name != FLOAT32)


def check_request(format: str, quantization: str, folder: Path) -> None:
    """Checks an export request before the run is loaded.

    Raises:
        UserError: an unknown format, an unsupported quantization, a missing package, or an existing folder.
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
            if importlib.util.find_spec(package) is None:  # without importing, since some load TensorFlow
                raise ModuleNotFoundError(name=package)


def is_export(folder: Path | str) -> bool:
    """Returns whether a folder holds an export of `t2t-exporter`."""
    return exists(local_path(folder) / REPORT)
