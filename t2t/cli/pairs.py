"""Reads translations and references, and waits for those that are still being made."""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from t2t.files.lines import LineSource, unequal_lengths

log = logging.getLogger("t2t")


def read_pairs(translation: str, reference: str) -> tuple[list[str], list[str]]:
    """Returns the lines of both files.

    Raises:
        UserError: no such file, or unequal numbers of lines.
    """
    translations, references = read_all(translation), read_all(reference)
    if len(translations) != len(references):
        raise unequal_lengths(translation, len(translations), reference, len(references))
    return translations, references


def split_references(names: str) -> list[str]:
    """Returns the files of one or several references; the name of an existing file is not split at its commas."""
    return [names] if os.path.exists(names) else [name for part in names.split(",") if (name := part.strip())]


def read_with_references(translation: str, references: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Returns the lines of the translations, of the first reference, and of each other one.

    Raises:
        UserError: no such file, or unequal numbers of lines.
    """
    first, *more = split_references(references)
    translations, lines = read_pairs(translation, first)
    others = [read_all(path) for path in more]
    for path, read in zip(more, others, strict=True):
        if len(read) != len(translations):
            raise unequal_lengths(translation, len(translations), path, len(read))
    return translations, lines, others


def read_all(path: str) -> list[str]:
    """Returns the lines of a file; logs warnings about repaired lines."""
    repaired: Counter = Counter()
    source = LineSource(path)
    lines = list(source.lines(repaired))
    warn_of_repairs(repaired, f"{source}: ")
    return lines


def warn_of_repairs(repaired: Counter, where: str = "") -> None:
    """Warns about lines that were repaired while reading, by kind of repair; `where` precedes each warning."""
    for what, count in sorted(repaired.items()):
        log.warning("%s%s in %s lines", where, what, f"{count:,}")


PAUSE_S = 10.0
"""Seconds between polls."""


def steps_as_they_appear(
    list_steps: Callable[[], Iterable[int]], min_steps: int = 0, wait_minutes: float = 0.0, pause_s: float = PAUSE_S
) -> Iterator[int]:
    """Yields each step once, always the smallest pending one, until none has appeared for `wait_minutes`."""
    done: set[int] = set()
    deadline = time.monotonic() + 60 * wait_minutes
    while True:
        new = [step for step in list_steps() if step >= min_steps and step not in done]
        if new:
            done.add(min(new))
            yield min(new)
            deadline = time.monotonic() + 60 * wait_minutes
        elif time.monotonic() >= deadline:
            return
        else:
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
