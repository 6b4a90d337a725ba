"""Comparisons as rows of JSON and as a Markdown table."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import machine
from benchmarks.harness.turns import MOST_OTHERS, Figures, Turns
from t2t.files.atomic import write_atomically

Row = dict[str, Any]
"""One comparison: `work`, `config`, `peer`, the medians `ours` and `theirs`, their `ratio`, and the underlying figures.

`ours_others` and `theirs_others`, if present: mean number of cores that other processes kept busy in each turn."""

SIDES = ("ours", "theirs")

OURS = "t2t"
"""Name of the project's side that uses TensorFlow."""


def row(work: str, config: str, ours: Sequence[float], *, unit: str, better: str = "higher", side: str = OURS,
        peer: str | None = None, theirs: Sequence[float] = (), **more: Any) -> Row:  # fmt: skip
    """Returns the row of one comparison.

    Args:
        work: name of the measurement, e.g. `training.loss`.
        config: name of the model sizes.
        ours: our figure in each turn.
        unit: unit of the figures.
        better: `higher` or `lower`.
        side: name of our side.
        peer: name of the other side, or None.
        theirs: the peer's figure in each turn.
        more: additional fields of the row.
    """
    middle = statistics.median(ours)
    against = statistics.median(theirs) if theirs else None
    return {
        "work": work,
        "config": config,
        "side": side,
        "peer": peer,
        "ours": middle,
        "theirs": against,
        "ratio": middle / against if against else None,
        "unit": unit,
        "better": better,
        "ours_turns": list(ours),
        "theirs_turns": list(theirs),
        **more,
        "machine": machine(),
    }


def unavailable(work: str, config: str, peer: str, reason: str) -> Row:
    """Returns the row of a peer that could not be measured."""
    return {"work": work, "config": config, "side": OURS, "peer": peer, "ours": None, "theirs": None, "ratio": None,
            "reason": reason, "machine": machine()}  # fmt: skip


def compared(work: str, config: str, taken: Sequence[Turns], read, **how: Any) -> list[Row]:
    """Returns a row for each peer with figures, or a row with our figures only if there is none.

    Args:
        work: name of the measurement.
        config: name of the model sizes.
        taken: the turns of all sides, ours first.
        read: function of the figures of a turn that returns the number to compare.
        how: `unit` and further arguments of `row`.
    """
    ours, *peers = taken
    common = {
        **how,
        "side": ours.name,
        "versions": {ours.name: ours.figures[0].get("versions", {})},
        "ours_load": ours.of(_load),
        "ours_others": ours.of(_others),
        "about": _about(taken),
    }
    found = []
    for peer in peers:
        if peer.figures:
            more = {**common, "versions": {**common["versions"], peer.name: peer.figures[0].get("versions", {})}}
            found.append(row(work, config, ours.of(read), peer=peer.name, theirs=peer.of(read),
                             theirs_load=peer.of(_load), theirs_others=peer.of(_others), **more))  # fmt: skip
    return found or [row(work, config, ours.of(read), **common)]


def best_variants(
    taken: Sequence[Turns], programs: Mapping[str, str], read: Callable[[Figures], float], better: str = "higher"
) -> list[Turns]:
    """Returns the variant with the best turn for each program.

    Args:
        taken: the turns of all variants, ours first.
        programs: name of a variant -> name of its program.
        read: function of the figures of a turn that returns the number to compare.
        better: `higher` or `lower`.
    """
    best: dict[str, Turns] = {}
    choose = max if better == "higher" else min
    for one in taken:
        if one.figures:
            rivals = [one, *(best[name] for name in [programs[one.name]] if name in best)]
            best[programs[one.name]] = choose(rivals, key=lambda rival: choose(rival.of(read)))
    return list(best.values())


def table(rows: Sequence[Row]) -> list[str]:
    """Returns the lines of a Markdown table, followed by notes on peers that were not measured and on engines."""
    lines = [
        "| work | config | side | unit | min / median / max | peer | its min / median / max | side / peer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        if "reason" in one:
            continue
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.3g}"
        cells = (one["work"], one["config"], one["side"], one["unit"], _spread(one, "ours"), one["peer"] or "",
                 _spread(one, "theirs"), ratio)  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- {one['work']}, {one['peer']}: not measured: {one['reason']}" for one in rows if "reason" in one]
    about = {name: text for one in rows for name, text in one.get("about", {}).items()}
    notes += [f"- {name}: {text}" for name, text in about.items()]
    return [*lines, "", *notes] if notes else lines


def print_table(rows: Sequence[Row]) -> None:
    """Prints the table of rows and a line about the machine."""
    print("\n".join(table(rows)))
    here = machine()
    print(f"\n{here['processor']}, {here['cores']} cores, load {here['load']:.2f}")


def without_disturbed(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows recomputed from undisturbed turns; a side without such turns has no figures."""
    return [one if "reason" in one else _quiet(one) for one in rows]


def is_disturbed(one: Row) -> bool:
    """Whether a side of a row from `without_disturbed` has no undisturbed turn."""
    return any(one.get(f"{side}_disturbed") and not one[f"{side}_turns"] for side in SIDES)


def _quiet(one: Row) -> Row:
    found = dict(one)
    for side in SIDES:
        others = one.get(f"{side}_others")
        if others is None:  # a count or a probability: other processes do not affect it
            continue
        pairs = zip(one[f"{side}_turns"], others, strict=True)
        found[f"{side}_turns"] = quiet = [value for value, busy in pairs if busy <= MOST_OTHERS]
        found[f"{side}_disturbed"] = len(others) - len(quiet)
        found[side] = statistics.median(quiet) if quiet else None
    found["ratio"] = found["ours"] / found["theirs"] if found["ours"] is not None and found["theirs"] else None
    return found


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Writes the rows as a JSON list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(rows, indent=1) + "\n").encode())


def _spread(one: Row, side: str) -> str:
    values = one[f"{side}_turns"]
    if not values:
        return "disturbed" if one.get(f"{side}_disturbed") else ""
    return " / ".join(_number(value) for value in (min(values), statistics.median(values), max(values)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _about(taken: Sequence[Turns]) -> dict[str, str]:
    return {one.name: one.figures[0]["about"] for one in taken if one.figures and one.figures[0].get("about")}


def _load(figures: dict[str, Any]) -> float:
    return figures["load"]


def _others(figures: dict[str, Any]) -> float:
    return figures["others"]
