"""Mixtures, i.e. several problems that one model learns: their names, and the names of their entries.

`a-b` is the mixture of the problems `a` and `b`. Names of entries, such as features, are prefixed: `a.inputs`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from t2t.errors import UserError

T = TypeVar("T")

MEAN = "mean"
"""First part of the names of figures that are means over the problems."""


def split_mixture(name: str) -> tuple[str, ...]:
    """Returns the names of the problems, in order; of a single problem, its own.

    Raises:
        UserError: a name is missing or given twice.
    """
    names = tuple(name.split("-"))
    for one in names:
        if not one and len(names) > 1:
            raise UserError(
                "a name is missing", "give names of problems with one - between two", option="problems", value=name
            )
        if names.count(one) > 1:
            raise UserError(f"{one} is in it twice", "name each problem once", option="problems", value=name)
    return names


def mixture_of(names: Iterable[str]) -> str:
    """Returns the name of the mixture of some problems."""
    return "-".join(names)


def select_problem_entries(entries: Mapping[str, T], problem: str) -> dict[str, T]:
    """Returns the entries of one problem, by name without the prefix."""
    start = f"{problem}."
    return {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}


def merge_problem_entries(by_problem: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Merges the entries of several problems, each name prefixed by its problem; a single problem gets no prefix."""
    if len(by_problem) == 1:
        return dict(next(iter(by_problem.values())))
    return {f"{problem}.{name}": value for problem, entries in by_problem.items() for name, value in entries.items()}
