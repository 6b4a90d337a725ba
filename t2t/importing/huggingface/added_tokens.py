"""The tokens that the files of a tokenizer list besides its SentencePiece model."""

from collections.abc import Mapping
from typing import Any

from t2t.importing.huggingface.folder import ModelFolder

TOKENIZER, SPECIAL, ADDED, WHOLE = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.json",
)  # fmt: skip
"""The files, any of which may be missing."""


def read_settings(folder: ModelFolder) -> dict[str, Any]:
    """Returns the content of tokenizer_config.json; empty without that file."""
    settings: dict[str, Any] = folder.read_json(TOKENIZER) if folder.has(TOKENIZER) else {}
    return settings


def added_tokens(folder: ModelFolder, settings: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Returns (token, id) pairs, unchecked; `settings` is the content of tokenizer_config.json."""
    listed: list[tuple[Any, Any]] = []
    if isinstance(decoder := settings.get("added_tokens_decoder"), dict):
        listed += [(token.get("content"), int(number)) for number, token in decoder.items() if isinstance(token, dict)]
    if folder.has(ADDED):
        listed += folder.read_json(ADDED).items()
    added = folder.read_json(WHOLE).get("added_tokens") if folder.has(WHOLE) else None
    tokens = added if isinstance(added, list) else []
    return listed + [(token.get("content"), token.get("id")) for token in tokens if isinstance(token, dict)]


def special_tokens(folder: ModelFolder, settings: Mapping[str, Any]) -> list[list[str]]:
    """Returns the lists of special tokens, which have no ids; `settings` is the content of tokenizer_config.json."""
    special = folder.read_json(SPECIAL) if folder.has(SPECIAL) else {}
    lists = []
    for values in (settings, special):
        for name in ("extra_special_tokens", "additional_special_tokens"):
            given = values.get(name) or ()
            found = [token.get("content") if isinstance(token, dict) else token for token in given]
            lists.append([token for token in found if isinstance(token, str)])
    return lists
