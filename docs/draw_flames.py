"""Draws where a command spends its time, as a flame graph: `python docs/draw_flames.py STACKS SVG SECONDS TITLE`.

STACKS are samples of [py-spy](https://github.com/benfred/py-spy), one every SECONDS; the main thread is drawn:

    py-spy record --idle --threads --function --rate 50 --format raw --output stacks -- t2t-trainer ... --train_steps=1
    python docs/draw_flames.py stacks docs/images/start_tensorflow.svg 0.02 "t2t-trainer, TensorFlow"

A box is a function of this package, as wide as the time in which it or what it called ran; below it are those that it
called. Calls into a library are one box with its name.
"""

import html
import re
import sys
from pathlib import Path

WIDTH, ROW, LEAST = 1000, 17, 4
"""Pixels: width of the picture, height of a box, width below which boxes are left out."""
STYLE = """
  text { font: 11px system-ui, sans-serif; fill: #1d2733; }
  rect { fill: #eaf1fb; stroke: #3b6fb6; stroke-width: 0.5; }
  .library { fill: #f6e8d5; }
  @media (prefers-color-scheme: dark) { text { fill: #e8eef5; } rect { fill: #1f2f45; stroke: #79a6e3; }
    .library { fill: #4a3a24; } }
"""
Tree = dict[str, "Node"]


class Node:
    """A function, or a library, within what called it."""

    def __init__(self):
        self.samples, self.calls = 0, Tree()


def read_stack(line: str) -> tuple[list[str], int]:
    """Returns the functions of this package and the libraries that they call, outermost first, and the samples."""
    stack, count = re.fullmatch(r"(.*) (\d+)\n?", line).groups()
    found: list[str] = []
    for frame in stack.split(";"):
        name, path = re.fullmatch(r"(.*?)(?: \((.*?)(?::\d+)?\))?", frame).groups()
        package, *rest = Path(path or "?").parts  # from where it is imported
        package = "import" if package.startswith("<frozen importlib") else package
        if package == "t2t":
            if found and found[-1].startswith("["):
                found.pop()  # a library that calls back, such as one that traces a function
            found.append(f"{name.replace('.<locals>', '')} ({'/'.join(rest)})")
        elif found and not found[-1].startswith("["):
            found.append(f"[{package.removesuffix('.py')}]")
    return found, int(count)


def read_tree(path: Path) -> Node:
    """Returns the calls of the main thread."""
    root = Node()
    for line in path.read_text(encoding="utf-8").splitlines():
        if "MainThread" not in line:
            continue
        functions, count = read_stack(line)
        node = root
        node.samples += count
        for function in functions:
            node = node.calls.setdefault(function, Node())
            node.samples += count
    return root


def boxes(node: Node, left: float, depth: int, scale: float, seconds: float) -> list[tuple[int, str]]:
    """Returns the depth and the SVG of what a function calls, the longest first."""
    found: list[tuple[int, str]] = []
    for name, called in sorted(node.calls.items(), key=lambda item: -item[1].samples):
        width = called.samples * scale
        if width < LEAST:
            continue
        label, kind = html.escape(name), ' class="library"' if name.startswith("[") else ""
        shown = html.escape(name.partition(" (")[0][: int(width / 6.2)]) if width > 30 else ""
        top = depth * ROW + 22
        box = f'<rect{kind} x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 1}"/>'
        text = f'<text x="{left + 3:.1f}" y="{top + 12}">{shown}</text>'
        found.append((depth, f"<g><title>{label}: {called.samples * seconds:.1f} s</title>{box}{text}</g>"))
        found += boxes(called, left, depth + 1, scale, seconds)
        left += width
    return found


def draw(path: Path, seconds: float, title: str) -> str:
    """Returns the picture as SVG; `seconds` is the time of a sample."""
    root = read_tree(path)
    found = boxes(root, 0.0, 0, WIDTH / root.samples, seconds)
    height = (max(depth for depth, _ in found) + 1) * ROW + 26
    heading = f"{html.escape(title)}: {root.samples * seconds:.1f} s"
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    head = f'<title>{heading}</title><style>{STYLE}</style><text x="3" y="14">{heading}</text>'
    return "\n".join([start, head, *(box for _, box in found), "</svg>"]) + "\n"


if __name__ == "__main__":
    stacks, picture, seconds, title = sys.argv[1:]
    Path(picture).write_text(draw(Path(stacks), float(seconds), title), encoding="utf-8")
