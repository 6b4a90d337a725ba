"""What a service calls the runs and exports that it is given."""

from t2t.export.files import is_export
from t2t.files.paths import local_path


def named_run(argument: str) -> tuple[str, str]:
    """Returns the name and the folder of `RUN` or `NAME=RUN`; the name of a run is its folder's.

    That of an export whose folder is the number of a version, as TensorFlow Serving has it, is the folder's above.
    """
    name, equals, folder = argument.partition("=")
    if equals and not local_path(argument).exists():
        return name, folder
    path = local_path(argument).resolve()
    return (path.parent if path.name.isdigit() and is_export(path) else path).name, argument
