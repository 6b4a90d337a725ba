"""Figures side by side, as rows of JSON and as a table."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.turns import Turns
from t2t.files.atomic import write_atomically

Row = dict[str, Any]
"""`work`, `config`, `peer`, `ours`, `theirs`, `ratio` (medians, and ours over theirs), and what they were made of."""


def row(work: str, config: str, ours: Sequence[float], *, unit: str, better: str = "higher", peer: str | None = None,
        theirs: Sequence[float] = (), **more: Any) -> Row:  # fmt: skip
    """Returns one comparison.

    Args:
        work: what was measured.
        config: name of the sizes.
        ours: the figure of each of our turns.
        unit: of the figures.
        better: `higher` or `lower`.
        peer: whom it is compared with, if anyone.
        theirs: the figure of each of their turns.
        more: anything else that is worth keeping.
    """
    middle = statistics.median(ours)
    against = statistics.median(theirs) if theirs else None
    return {
        "work": work,
        "config": config,
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
    return {"work": work, "config": config, "peer": peer, "ours": None, "theirs": None, "ratio": None,
            "reason": reason, "machine": machine()}  # fmt: skip


def machine() -> dict[str, Any]:
    """Returns what the figures depend on: processor, cores, load."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def compared(work: str, config: str, taken: Sequence[Turns], read, **how: Any) -> list[Row]:
    """Returns a row for each peer that gave figures, or one of ours alone where none did.

    Args:
        work: what was measured.
        config: name of the sizes.
        taken: the sides' turns, ours first.
        read: function of a turn's figures that gives the number.
        how: `unit` and what else `row` takes.
    """
    ours, *peers = taken
    common = {
        **how,
        "versions": {"t2t": ours.figures[0].get("versions", {})},
        "ours_load": ours.of(_load),
        "ours_others": ours.of(_others),
    }
    found = []
    for peer in peers:
        if peer.figures:
            more = {**common, "versions": {**common["versions"], peer.name: peer.figures[0].get("versions", {})}}
            found.append(row(work, config, ours.of(read), peer=peer.name, theirs=peer.of(read),
                             theirs_load=peer.of(_load), theirs_others=peer.of(_others), **more))  # fmt: skip
    return found or [row(work, config, ours.of(read), **common)]


def print_table(rows: Sequence[Row]) -> None:
    """Prints the rows as a Markdown table, min / median / max, and below it who could not be measured and why."""
    print("| work | config | peer | unit | ours min / median / max | theirs min / median / max | ours / theirs |")
    print("|---|---|---|---|---|---|---|")
    for one in rows:
        if "reason" in one:
            continue
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.3g}"
        cells = (one["work"], one["config"], one["peer"] or "", one["unit"], _spread(one["ours_turns"]),
                 _spread(one["theirs_turns"]), ratio)  # fmt: skip
        print(f"| {' | '.join(cells)} |")
    here = machine()
    print(f"\n{here['processor']}, {here['cores']} cores, load {here['load']:.2f}")
    for one in rows:
        if "reason" in one:
            print(f"{one['work']}, {one['peer']}: not measured: {one['reason']}")


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Writes the rows as a list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(rows, indent=1) + "\n").encode())


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return " / ".join(_number(value) for value in (min(values), statistics.median(values), max(values)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _load(figures: dict[str, Any]) -> float:
    return figures["load"]


def _others(figures: dict[str, Any]) -> float:
    return figures["others"]


def _processor() -> str:
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    return names[0] if names else platform.machine()
