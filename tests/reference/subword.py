"""Tensor2Tensor's subword vocabularies: a slow implementation of the description with dictionaries.

Each of four rounds splits greedily, counts every string that starts where a piece starts, and keeps the frequent ones,
from longest to shortest, subtracting each one's count from its prefixes. Bisection finds the minimum count.
"""

import unicodedata
from collections import Counter

RESERVED = ["<pad>_", "<EOS>_"]


def tokens_of(text):
    """Splits at boundaries between alphanumeric and other characters."""
    tokens, word_before = [], None
    for character in text:
        word = unicodedata.category(character)[0] in "LN"
        if word == word_before:
            tokens[-1] += character
        else:
            tokens.append(character)
        word_before = word
    last = len(tokens) - 1
    return [token for place, token in enumerate(tokens) if token != " " or place in (0, last)]


def spell(token, alphabet):
    """Returns the token with escapes and its end mark."""
    written = ""
    for character in token:
        if character in "\\_":
            written += "\\\\" if character == "\\" else "\\u"
        else:
            written += character if character in alphabet and character != "\n" else f"\\{ord(character)};"
    return written + "_"


def cut(spelt, pieces):
    """Splits an escaped token into the longest pieces from left to right."""
    found = []
    while spelt:
        found.append(max((piece for piece in pieces if piece and spelt.startswith(piece)), key=len))
        spelt = spelt[len(found[-1]) :]
    return found


def pieces_at(counts, min_count, max_subtoken_length=200):
    """Returns all pieces for a minimum count, the reserved ones first."""
    alphabet = {character for text in (*counts, *RESERVED) for character in text} | set("\\_u;0123456789")
    pieces = sorted(alphabet)
    for _ in range(4):
        strings = Counter()
        for token, count in counts.items():
            spelt, start = spell(token, alphabet), 0
            for piece in cut(spelt, pieces):
                for end in range(start + 1, min(len(spelt) + 1, start + max_subtoken_length)):
                    strings[spelt[start:end]] += count
                start += len(piece)
        kept = []
        for string in sorted((s for s in strings if strings[s] >= min_count), key=len, reverse=True):
            count = strings[string]
            if count >= min_count:
                if string not in alphabet:
                    kept.append((count, string))
                for length in range(1, len(string)):
                    strings[string[:length]] -= count
        kept += [(strings[character], character) for character in alphabet]
        pieces = RESERVED + [string for _, string in sorted(kept, reverse=True)]
    return pieces


def learn(counts, size, least=1, greatest=1000, max_subtoken_length=200):
    """Returns all pieces for the minimum count whose vocabulary size is nearest to a given size."""
    min_count = (least + greatest) // 2
    here = pieces_at(counts, min_count, max_subtoken_length)
    if abs(len(here) - size) * 100 < size or least >= greatest or min_count < 2:
        return here
    half = (min_count + 1, greatest) if len(here) > size else (least, min_count - 1)
    there = learn(counts, size, *half, max_subtoken_length)
    return there if abs(len(there) - size) < abs(len(here) - size) else here
