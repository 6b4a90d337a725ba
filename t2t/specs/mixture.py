"""Several problems that one model learns, a mixture: how they are named together.

`a-b` is the mixture of the problems `a` and `b`; what is `inputs` to b is `b.inputs` where there are others beside it.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from t2t.errors import UserError

T = TypeVar("T")

MEAN = "mean"
"""Beginning of the names of figures that are means over the problems."""


def split_mixture(name: str) -> tuple[str, ...]:
    """Returns the names of the problems, in order; of a single problem, its own.

    Raises:
        UserError: a name is missing, or stands there twice.
    """
    names = tuple(name.split("-"))
    for one in names:
        if not one and len(names) > 1:
            raise UserError(f"--problems={name}: a name is missing; give names of problems with one - between two")
        if names.count(one) > 1:
            raise UserError(f"--problems={name}: {one} stands in it twice; name each problem once")
    return names


def mixture_of(names: Iterable[str]) -> str:
    """Returns the name of the problems together."""
    return "-".join(names)


def select_problem_entries(entries: Mapping[str, T], problem: str) -> dict[str, T]:
    """Returns what belongs to one problem, under the names that it has there."""
    start = f"{problem}."
    return {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}


def merge_problem_entries(by_problem: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Returns what belongs to several problems, under names that tell them apart; of a single one, as it is."""
    if len(by_problem) == 1:
        return dict(next(iter(by_problem.values())))
    return {f"{problem}.{name}": value for problem, entries in by_problem.items() for name, value in entries.items()}
