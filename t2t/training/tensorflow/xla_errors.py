"""What a user meets where XLA cannot compile a model."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from t2t.errors import UserError, one_line, shapes_of

_SHOWN = 300
_COMPILING = (
    tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError, tf.errors.NotFoundError,
    tf.errors.FailedPreconditionError,
)  # fmt: skip
"""What TensorFlow raises for an operation that XLA does not have, a size that it must know and does not, a compiler of
the device that is missing or fails."""
_TELLS = re.compile("xla|compil|local_gradient|libdevice|ptxas", re.IGNORECASE)
"""What such an error mentions; others of these kinds are of other parts of an update, e.g. a worker that has ended."""


@contextlib.contextmanager
def xla_errors(enabled: bool, batch: Mapping[str, Any]) -> Iterator[None]:
    """Turns a failure to compile or run the program for a batch into a line that says what to do.

    It never goes on without XLA: a run that is slower than expected for a reason long scrolled away helps nobody.
    """
    try:
        yield
    except _COMPILING as error:
        if not (enabled and _TELLS.search(error.message or "")):
            raise
        reason = re.sub(r"\{\{.*?\}\}", "", (error.message or "").partition("\n")[0])
        raise UserError(
            f"hparam xla=on: XLA cannot compile or run the model for {shapes_of(batch)} "
            f"({one_line(reason)[:_SHOWN]}); use --hparams=xla=off"
        ) from error
