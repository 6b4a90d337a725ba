"""Names of checkpoint folders, and names that a command accepts instead of a step."""

import re

LATEST, BEST, AVERAGED = "latest", "best", "averaged"

_STEP_NAME = re.compile(r"step-(\d{8,})\Z")
_EXTRA_NAME = re.compile(rf"{AVERAGED}(-[A-Za-z0-9]+)*\Z")


def step_name(step: int) -> str:
    """Returns the name of the folder of a step's checkpoint."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Returns the step in the name of a folder; None if it has none."""
    match = _STEP_NAME.match(name)
    return int(match[1]) if match and step_name(int(match[1])) == name else None


def is_extra_name(name: str) -> bool:
    """Returns whether this is a valid name of a checkpoint that is not named after a step."""
    return bool(_EXTRA_NAME.match(name))


def is_name(name: str) -> bool:
    """Returns whether this is a valid name of a checkpoint."""
    return step_of(name) is not None or is_extra_name(name)
