"""Finds the marked commands of the README. `python tests/readme.py NAME` prints the block marked `<!-- run: NAME -->`."""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def block(name: str, kind: str = "run") -> str:
    """Returns the fenced block that follows a mark."""
    found = re.search(rf"<!-- {kind}: {re.escape(name)} -->\n```\w+\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    if not found:
        raise LookupError(f"README.md has no block marked <!-- {kind}: {name} -->")
    return found.group(1)


if __name__ == "__main__":
    print(block(sys.argv[1]), end="")
