"""Settings of a foreign network that must have known values for it to be one of ours."""

from collections.abc import Collection, Mapping
from typing import Any


def unknown_values(settings: Mapping[str, Any], known: Mapping[str, Collection[Any]]) -> list[str]:
    """Returns a description, for a message, of each setting whose value is not known; one that is missing is none."""
    return [
        f"{name}={settings[name]!r} (known: {', '.join(map(repr, values))})"
        for name, values in known.items()
        if name in settings and settings[name] not in values
    ]
