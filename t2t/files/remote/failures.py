"""Kinds of failures of requests to object stores, and their error messages."""

from typing import Any

from t2t.errors import MachineError, T2TError, UserError

PACKAGE, CREDENTIALS, REFUSED, NO_BUCKET, UNANSWERED, LOCAL, LOST, FAILED = (
    "package", "credentials", "refused", "no_bucket", "unanswered", "local", "lost", "failed"
)  # fmt: skip
"""Kinds of failures."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hdfs": "hdfs"}
"""Scheme to the extra of this project that installs its package."""


class StoreError(Exception):
    """A failed request to a store; `kind` is one of the constants above."""

    def __init__(self, kind: str, text: str, address: str = "", **details: Any):
        super().__init__(text)
        self.kind, self.address, self.details = kind, address, details


def to_error(kind: str, text: str, address: str = "", **details: Any) -> T2TError | OSError:
    """Returns the error to show to the user for a `StoreError` with these values."""
    scheme, _, rest = address.partition("://")
    if kind == LOCAL:
        return OSError(details["errno"], text, details["filename"])
    if kind == PACKAGE:
        extra = _EXTRAS.get(scheme)
        cure = f"pip install 't2t-keras[{extra}]'" if extra else "install the package that fsspec names"
        return UserError(f"{address}: {text}", cure)
    if kind == NO_BUCKET:
        return UserError(
            f"{address}: there is no {rest.partition('/')[0]!r} in that store", "make it or correct its name"
        )
    if kind == CREDENTIALS:
        return MachineError(
            f"{address}: no credentials for {scheme}:// ({text})", "set them as its own tools read them"
        )
    if kind == REFUSED:
        return MachineError(f"{address}: the store refuses it ({text})", "get permission there")
    if kind == LOST:
        return MachineError(
            f"{address}: process {text} has taken over, since the renewals of this one had stopped",
            "this one ends and writes nothing more there",
        )
    if kind == UNANSWERED:
        return MachineError(f"{address}: the store does not answer ({text})", "run the same command again when it does")
    return MachineError(f"{address or 'object store'}: {text}", "correct the address, or use another store")
