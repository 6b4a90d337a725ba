"""The files of a tokenizer besides its SentencePiece model: its settings, and the tokens that they list."""

import functools
from collections.abc import Collection, Iterable
from typing import Any

from t2t.errors import UserError, first_few
from t2t.formats.folder import ModelFolder

SETTINGS, _SPECIAL, _ADDED, _WHOLE = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.json",
)  # fmt: skip
NAMES = f"{SETTINGS}, {_SPECIAL}, {_ADDED} and {_WHOLE}"


class TokenizerFiles:
    """Each file is read once, when it is needed; one that is missing counts as empty."""

    def __init__(self, folder: ModelFolder):
        self._folder = folder

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The content of tokenizer_config.json."""
        return self._read(SETTINGS)

    @functools.cached_property
    def whole(self) -> dict[str, Any]:
        """The content of tokenizer.json."""
        return self._read(_WHOLE)

    def extra_ids(self, default: int) -> int:
        """Returns the number of sentinels; raises UserError if it is no whole number of at least 0."""
        count = self.settings.get("extra_ids")
        if count is not None and (type(count) is not int or count < 0):
            raise UserError(
                f"{self._folder.path / SETTINGS} has extra_ids={count!r}; it must be a whole number of at least 0; get "
                f"it again"
            )
        return default if count is None else count

    def added_tokens(self) -> list[tuple[Any, Any]]:
        """Returns (token, id) pairs, unchecked."""
        listed: list[tuple[Any, Any]] = []
        if isinstance(decoder := self.settings.get("added_tokens_decoder"), dict):
            listed += [(token.get("content"), _number(n)) for n, token in decoder.items() if isinstance(token, dict)]
        listed += self._read(_ADDED).items()
        added = self.whole.get("added_tokens")
        tokens = added if isinstance(added, list) else []
        return listed + [(token.get("content"), token.get("id")) for token in tokens if isinstance(token, dict)]

    def special_tokens(self) -> list[list[str]]:
        """Returns the lists of special tokens, which have no ids."""
        lists = []
        for values in (self.settings, self._read(_SPECIAL)):
            for name in ("extra_special_tokens", "additional_special_tokens"):
                given = values.get(name)
                given = given if isinstance(given, list | dict) else ()
                found = [token.get("content") if isinstance(token, dict) else token for token in given]
                lists.append([token for token in found if isinstance(token, str)])
        return lists

    def check_added(self, pieces: Collection[str], described: str, more: Iterable[tuple[Any, Any]] = ()) -> None:
        """Raises UserError if the tokenizer adds tokens to its pieces, which texts here do not have; it names them.

        Args:
            pieces: those that can be imported.
            described: what they are, for the message.
            more: further (token, id) pairs of the tokenizer, unchecked.
        """
        listed = [token for token, _ in (*self.added_tokens(), *more) if isinstance(token, str)]
        listed += [token for tokens in self.special_tokens() for token in tokens]
        known = set(pieces)
        if unknown := [repr(token) for token in dict.fromkeys(listed) if token not in known]:
            raise UserError(
                f"{self._folder.path}: its tokenizer adds tokens that are not {described}: "
                f"{first_few(unknown, ', ')}; texts here have no other tokens; if no text needs them, import a copy of "
                f"the folder whose {NAMES} do not list them"
            )

    def _read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = self._folder.read_json(name) if self._folder.has(name) else {}
        return content


def _number(text: str) -> int | None:
    """Returns the id that a name of JSON is; None if it is none."""
    return int(text) if text.isdecimal() else None
