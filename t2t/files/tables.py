"""Tables of records: for a screen, and as tab-separated values."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


def aligned(records: Sequence[Record]) -> str:
    """Returns a header line and a line for each record, in aligned columns, numbers to the right."""
    if not records:
        return ""
    names = list(records[0])
    rows = [names, *([_shown(record.get(name)) for name in names] for record in records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    are_numbers = [all(_is_number(record.get(name)) for record in records) for name in names]
    lines = []
    for row in rows:
        cells = (
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(row, widths, are_numbers, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def to_tsv(records: Sequence[Record]) -> str:
    """Returns a header line and a line for each record, tab-separated, with all digits; lists are space-separated."""
    if not records:
        return ""
    names = list(records[0])
    rows = [names, *([_plain(record.get(name)) for name in names] for record in records)]
    return "".join("\t".join(row) + "\n" for row in rows)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if type(value) is int else str(value)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return " ".join(text.split())
