"""The text of `--registry_help`."""

import re
from collections.abc import Collection, Iterator, Sequence

from t2t.hparams.base import HParams
from t2t.registry import HPARAMS, PROBLEMS, REGISTRIES, Entry
from t2t.runs.names import get_hparams

_MANY = 8
"""At least so many names that differ only in numbers share a line."""
_NUMBER = re.compile(r"\d+")


def registry_listing(containing: str = "") -> str:
    """Returns a line for each name that contains the text, by kind, without importing models.

    Without a text, names that differ only in numbers share a line. The text `hparams` also lists the fields of all
    sets; the name of a set lists its fields.
    """
    lines = []
    for registry in REGISTRIES:
        rows = [(entry.name, entry.summary) for entry in registry.entries(containing)]
        if not containing:
            rows = list(_with_families(registry.entries()))
        if rows and registry is PROBLEMS:
            what = (
                "of text-to-text problems: sides swapped; inputs as targets; of all with texts as targets: words of "
                "these hidden, for transformer_mlm"
            )
            rows.append(("<name>_rev, <name>_copy, <name>_masked", what))
        if rows:
            width = max(len(name) for name, _ in rows)
            lines += [f"{registry.title}:", *(f"  {name:<{width}}  {summary}".rstrip() for name, summary in rows), ""]
    if containing == "hparams":
        lines += _fields_of_all_sets()
    elif containing in HPARAMS:
        lines += [f"Fields of {containing}:", *_fields_of(get_hparams(containing))]
    if not lines:
        return f"no registered name contains {containing!r}; list all with --registry_help"
    return "\n".join(lines).rstrip()


def _fields_of_all_sets() -> Iterator[str]:
    """Yields the fields of transformer_base, then those that each other class of sets has besides."""
    base = get_hparams("transformer_base")
    common, seen = {name for name, _ in base.items()}, {type(base)}
    yield "Fields of the hparams sets, with the values of transformer_base:"
    yield from _fields_of(base)
    for entry in HPARAMS.entries():
        hparams = get_hparams(entry.name)
        further = [] if type(hparams) in seen else list(_fields_of(hparams, common))
        if further:
            yield f"Further fields of {type(hparams).__name__}, with the values of {entry.name}:"
            yield from further
        seen.add(type(hparams))


def _fields_of(hparams: HParams, excluded: Collection[str] = ()) -> Iterator[str]:
    """Yields a line for each field of a set but those in `excluded`."""
    for name, value in hparams.items():
        if name not in excluded:
            yield f"  {name}={value}  {hparams.document(name)}"


def _with_families(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yields name and summary of each entry, and a single pair for a large family of names."""
    families: dict[str, list[Entry]] = {}
    for entry in entries:
        families.setdefault(_NUMBER.sub("#", entry.name), []).append(entry)
    for entry in entries:
        family = families[_NUMBER.sub("#", entry.name)]
        if len(family) < _MANY:
            yield entry.name, entry.summary
        elif entry is family[0]:
            beginning = _NUMBER.split(entry.name)[0]
            summary = _merged([one.summary for one in family])
            yield _merged([one.name for one in family]), f"{summary} {len(family)}; see --registry_help={beginning}"


def _merged(texts: Sequence[str]) -> str:
    """Merges texts that are equal except for numbers: `a1_5k`, `a2_5k` -> `a{1..2}_5k`; else returns the first."""
    parts = _NUMBER.split(texts[0])
    if any(_NUMBER.split(text) != parts for text in texts):
        return texts[0]
    columns = zip(*map(_NUMBER.findall, texts), strict=True)
    numbers = [_numbers(sorted(set(column), key=int)) for column in columns]
    return "".join(part + number for part, number in zip(parts, [*numbers, ""], strict=True))


def _numbers(values: Sequence[str]) -> str:
    if len(values) == 1:
        return values[0]
    is_range = len(values) > 2 and values == [str(n) for n in range(int(values[0]), int(values[-1]) + 1)]
    return f"{{{values[0]}..{values[-1]}}}" if is_range else f"{{{','.join(values)}}}"
