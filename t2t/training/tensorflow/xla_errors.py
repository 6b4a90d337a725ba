"""Error messages for models that XLA cannot compile."""

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
"""What TensorFlow raises for an operation that XLA lacks, a size that XLA must know but does not, or a device compiler
that is missing or fails."""
_TELLS = re.compile("xla|compil|local_gradient|libdevice|ptxas", re.IGNORECASE)
"""Found in the messages of such errors; other errors of these types have other causes, e.g. a worker that has ended."""


@contextlib.contextmanager
def xla_errors(enabled: bool, batch: Mapping[str, Any]) -> Iterator[None]:
    """Turns a failure to compile or run the program for a batch into a UserError that says what to do.

    There is no fallback without XLA: a run must not be slow for a reason that has long scrolled off the screen.
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
