"""Tensor2Tensor's tokenizer, which joins what it has split."""

import glob
from collections import Counter
from collections.abc import Iterable

from t2t.text.subword_build import detokenize, tokenize


def encode(text: str) -> list[str]:
    """Returns the tokens of a text: runs of letters and digits, and what lies between them."""
    return tokenize(text)


def decode(tokens: Iterable[str]) -> str:
    """Returns the text of tokens."""
    return detokenize(tokens)


def corpus_token_counts(text_filepattern: str, corpus_max_lines: int, split_on_newlines: bool = True) -> Counter[str]:
    """Returns how often each token occurs in the files of a pattern, up to a number of lines; 0 for all."""
    counts: Counter[str] = Counter()
    read = 0
    for path in sorted(glob.glob(text_filepattern)):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if corpus_max_lines and read >= corpus_max_lines:
                    return counts
                counts.update(tokenize(line.rstrip("\n")))
                read += 1
    return counts
