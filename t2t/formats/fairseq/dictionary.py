"""Parses a fairseq dictionary: four implicit special symbols, then a symbol and its count on each line."""

from collections.abc import Mapping
from pathlib import Path

from t2t.errors import UserError

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
"""Symbols of ids 0 to 3."""
PAD, EOS, UNKNOWN = 1, 2, 3
_OVERWRITE = "#fairseq:overwrite"


def parse_dictionary(content: bytes, path: Path) -> list[str]:
    """Returns the symbols by id, all distinct.

    A line that ends with `#fairseq:overwrite` takes over the text of an earlier symbol, whose unused id is then named
    `<id_4>` or the like.

    Raises:
        UserError: a line is not a symbol with a count, or repeats a symbol.
    """
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason}); get it again") from None
    symbols = list(SYMBOLS)
    ids: dict[str, int] = {symbol: number for number, symbol in enumerate(symbols)}
    for line in filter(None, lines):  # only \n separates lines: a symbol may be another line separator
        text = line.rstrip()
        is_overwriting = text.endswith(f" {_OVERWRITE}")
        symbol, _, count = text.removesuffix(_OVERWRITE).rstrip().rpartition(" ")
        if not count.lstrip("-").isdecimal() or not symbol:
            raise UserError(f"{path}: line {text[:60]!r} is no symbol with a count; get it again")
        if symbol in ids and not is_overwriting:
            raise UserError(f"{path} lists {symbol!r} twice, without {_OVERWRITE}; get it again")
        if symbol in ids:
            symbols[ids[symbol]] = f"<id_{ids[symbol]}>"
        ids[symbol] = len(symbols)
        symbols.append(symbol)
    return _specials_kept(symbols, ids)


def _specials_kept(symbols: list[str], ids: Mapping[str, int]) -> list[str]:
    """Returns the symbols with the names of padding, end and unknown restored at their ids if they were overwritten."""
    kept = list(symbols)
    for number in (PAD, EOS, UNKNOWN):
        if kept[number] != SYMBOLS[number]:
            kept[ids[SYMBOLS[number]]] = f"<id_{ids[SYMBOLS[number]]}>"
            kept[number] = SYMBOLS[number]
    return kept
