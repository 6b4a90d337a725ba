"""Lines of columns with TAB between them."""

from collections.abc import Sequence

from t2t.errors import UserError


def split_columns(line: str, names: Sequence[str], file: str, number: int) -> list[str]:
    """Returns the columns of a line.

    Args:
        line: without its end.
        names: what the columns are; there must be as many.
        file: its name, for the message.
        number: of the line, from 1, for the message.

    Raises:
        UserError: too few or too many.
    """
    found = line.split("\t")
    if len(found) != len(names):
        raise UserError(
            f"{file}: line {number:,} has {len(found)} column{'s' * (len(found) != 1)}; a line needs {len(names)}, "
            f"{' TAB '.join(names)}; correct the file"
        )
    return found
