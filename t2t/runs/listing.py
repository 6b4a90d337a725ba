"""What is registered, a line each, as `--registry_help` shows it."""

import re
from collections.abc import Iterator, Sequence

from t2t.registry import HPARAMS, MODALITIES, MODELS, PROBLEMS, Entry
from t2t.runs.names import get_hparams

_MANY = 8
"""Names that differ in their numbers alone are listed together from so many on."""
_NUMBER = re.compile(r"\d+")


def registry_listing(containing: str = "") -> str:
    """Returns all names with one line each, by kind; only those that contain the text, where one is given.

    Without a text, names that differ in their numbers alone share a line. `hparams` alone also lists the fields that
    sets have. No model is imported for it.
    """
    lines = []
    kinds = {"Models": MODELS, "HParams": HPARAMS, "Modalities": MODALITIES, "Problems": PROBLEMS}
    for title, registry in kinds.items():
        rows = [(entry.name, entry.summary) for entry in registry.entries(containing)]
        if not containing:
            rows = list(_with_families(registry.entries()))
        if rows and title == "Problems":
            rows.append(("<name>_rev, <name>_copy", "of every problem: sides swapped; inputs as targets"))
        if rows:
            width = max(len(name) for name, _ in rows)
            lines += [f"{title}:", *(f"  {name:<{width}}  {summary}".rstrip() for name, summary in rows), ""]
    if containing == "hparams":
        lines += _field_listing()
    if not lines:
        return f"no registered name contains {containing!r}; list all with --registry_help"
    return "\n".join(lines).rstrip()


def _with_families(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yields name and summary of each entry, those of a family as one, where its first name stands."""
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
    """Returns one text for several that differ in their numbers: `a1_5k`, `a2_5k` -> `a{1..2}_5k`; else the first."""
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


def _field_listing() -> list[str]:
    lines = ["Fields of the hparams sets, with the values of transformer_base:"]
    hparams = get_hparams("transformer_base")
    for name, value in hparams.items():
        lines.append(f"  {name}={value}  {hparams.document(name)}")
    return lines
