"""Compares the time of `t2t-trainer` with `--help` and `--registry_help` with that of `import tensorflow`."""

from benchmarks.harness.flags import build_parser, settings
from benchmarks.harness.rows import compared
from benchmarks.harness.turns import Turns

WORK = "startup"
PEER = "import tensorflow"


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    parser = build_parser(WORK, __doc__, {})
    parser.set_defaults(turns=7)
    setting = settings(parser.parse_args(argv))
    sides, _ = setting.sides(WORK, {})
    ours = setting.take_turns(sides, {})[0]
    theirs = Turns(PEER, ours.figures)  # in the same process, one after the other
    rows = [
        row
        for name in ("help", "registry_help")
        for row in compared(
            f"{WORK}.{name}", "", [Turns("t2t", _seconds(ours, name)), Turns(PEER, _seconds(theirs, "tensorflow"))],
            lambda figures: figures["seconds"], unit="s", better="lower",
        )
    ]  # fmt: skip
    return setting.finish(rows)


def _seconds(turns: Turns, name: str) -> list[dict]:
    return [{**figures, "seconds": figures[name]} for figures in turns.figures]
