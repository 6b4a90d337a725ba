"""Checks that settings of a foreign network have values that our networks support."""

from collections.abc import Collection, Mapping
from typing import Any


def unknown_values(settings: Mapping[str, Any], known: Mapping[str, Collection[Any]]) -> list[str]:
    """Returns a text for each setting whose value is not in `known`; missing settings are skipped."""
    return [
        f"{name}={settings[name]!r} (known: {', '.join(map(repr, values))})"
        for name, values in known.items()
        if name in settings and settings[name] not in values
    ]
