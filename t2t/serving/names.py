"""Names of served runs and exports."""

import re
from collections.abc import Sequence

from t2t.errors import UserError
from t2t.export.formats import is_export
from t2t.files.paths import local_path

_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*")


def named_runs(arguments: Sequence[str]) -> dict[str, str]:
    """Returns name -> folder of each `RUN` or `NAME=RUN`; raises UserError for wrong and repeated names."""
    found: dict[str, str] = {}
    for name, folder in map(_named_run, arguments):
        if not _NAME.fullmatch(name):
            raise UserError(
                f"model name {name!r}: it is a part of addresses, letters, digits, - _ and . beginning with a letter "
                f"or digit; give another, --output_dir=NAME=RUN"
            )
        if name in found:
            raise UserError(f"two runs have the name {name!r}; name them apart, --output_dir=NAME=RUN")
        found[name] = folder
    return found


def _named_run(argument: str) -> tuple[str, str]:
    """Returns name and folder; by default the folder's name, or its parent's for `<name>/<version>` of an export."""
    name, equals, folder = argument.partition("=")
    if equals and not local_path(argument).exists():
        return name, folder
    path = local_path(argument).resolve()
    return (path.parent if path.name.isdigit() and is_export(path) else path).name, argument
