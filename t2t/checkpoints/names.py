"""What the folders of checkpoints are called, and what a command may ask for instead of a step."""

import re

LATEST, BEST, AVERAGED = "latest", "best", "averaged"

_STEP_NAME = re.compile(r"step-(\d{8,})\Z")
_EXTRA_NAME = re.compile(rf"{AVERAGED}(-[A-Za-z0-9]+)*\Z")


def step_name(step: int) -> str:
    """Returns the name of the folder of a step's checkpoint."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Returns the step that the name of a folder says; None where it says none."""
    match = _STEP_NAME.match(name)
    return int(match[1]) if match and step_name(int(match[1])) == name else None


def is_extra_name(name: str) -> bool:
    """Returns whether a checkpoint that is not a step's may have this name."""
    return bool(_EXTRA_NAME.match(name))


def is_name(name: str) -> bool:
    """Returns whether a checkpoint may have this name."""
    return step_of(name) is not None or is_extra_name(name)
