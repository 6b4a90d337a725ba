"""Draws the floors of the package and their imports: `python docs/draw_floors.py` writes docs/images/floors.svg.

The floors are read from the table in docs/architecture.md, the imports from the code. Each package or top-level module
is a room, whose width grows with its lines of code. A curve leads from a room to a lower one that it imports, and is
thicker if more modules import it.
"""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/floors.svg"
WIDTH, FLOOR, ROOM, MARGIN, GAP = 1000, 92, 40, 90, 14
"""Pixels: width of the picture, distance between floors, height of a room, left margin, gap between rooms."""
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1d2733; }
  .name { text-anchor: middle; font-weight: 600; }
  .lines { text-anchor: middle; font-size: 10px; fill: #5b6b7c; }
  .floor { fill: #5b6b7c; }
  rect { fill: #eaf1fb; stroke: #3b6fb6; }
  path { fill: none; stroke: #3b6fb6; stroke-opacity: 0.22; }
  @media (prefers-color-scheme: dark) { text { fill: #e8eef5; } .lines, .floor { fill: #9fb0c2; }
    rect { fill: #1f2f45; stroke: #79a6e3; } path { stroke: #79a6e3; stroke-opacity: 0.3; } }
"""


def read_floors() -> dict[str, list[str]]:
    """Returns the rooms of each floor, with keys such as `0 names`, from the top floor down."""
    table = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d \w+) \| ([^|]*) \| [^|]*\|$", table, re.M)
    return {name: re.findall(r"`(\w+)`", rooms) for name, rooms in sorted(rows, reverse=True)}


def read_code(rooms: list[str]) -> tuple[Counter, Counter]:
    """Returns the lines of code of each room, and (room, imported room) -> number of importing modules."""
    lines, imports = Counter(), Counter()
    for path in sorted((ROOT / "t2t").rglob("*.py")):
        room = path.relative_to(ROOT / "t2t").with_suffix("").parts[0]
        if room not in rooms:
            continue  # `t2t/__init__.py`
        source = path.read_text(encoding="utf-8")
        lines[room] += source.count("\n")
        names = (node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
        imported = {name.split(".")[1] for name in names if name.startswith("t2t.")}
        imports.update((room, other) for other in imported - {room} if other in rooms)
    return lines, imports


def place_rooms(floors: dict[str, list[str]], lines: Counter) -> dict[str, tuple[float, float, float]]:
    """Returns room -> (left, top, width); the space that names leave is shared in proportion to lines of code."""
    places = {}
    widest = max(sum(lines[room] for room in rooms) for rooms in floors.values())
    for number, rooms in enumerate(floors.values()):
        least = [12 + 8 * len(room) for room in rooms]
        free = WIDTH - MARGIN - sum(least) - GAP * len(rooms)
        left = float(MARGIN)
        for room, width in zip(rooms, least, strict=True):
            width += free * lines[room] / widest
            places[room] = (left, 10.0 + FLOOR * number, width)
            left += width + GAP
    return places


def draw() -> str:
    """Returns the picture as SVG."""
    floors = read_floors()
    lines, imports = read_code([room for rooms in floors.values() for room in rooms])
    places = place_rooms(floors, lines)
    height = FLOOR * len(floors) - FLOOR + ROOM + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">']
    parts.append(f"<title>Floors of the package and their imports</title><style>{STYLE}</style>")
    for (user, used), count in sorted(imports.items()):
        (x1, y1, w1), (x2, y2, w2) = places[user], places[used]
        if y1 == y2:
            continue  # on one floor: the order of the rooms shows it
        start, end = (x1 + w1 / 2, y1 + ROOM), (x2 + w2 / 2, y2)
        bend = (end[1] - start[1]) / 2
        curve = f"M{start[0]:.0f} {start[1]:.0f}c0 {bend:.0f} {end[0] - start[0]:.0f} {bend:.0f} "
        parts.append(
            f'<path stroke-width="{1 + count**0.5 / 2:.1f}" d="{curve}{end[0] - start[0]:.0f} {2 * bend:.0f}"/>'
        )
    for number, name in enumerate(floors):
        parts.append(f'<text class="floor" x="4" y="{35 + FLOOR * number}">{name}</text>')
    for room, (left, top, width) in places.items():
        middle = left + width / 2
        parts.append(f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{ROOM}" rx="5"/>')
        parts.append(f'<text class="name" x="{middle:.0f}" y="{top + 18:.0f}">{room}</text>')
        parts.append(f'<text class="lines" x="{middle:.0f}" y="{top + 32:.0f}">{round(lines[room], -2):,} lines</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
