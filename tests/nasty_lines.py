"""Lines of real text files that break programs, as bytes without line end, and strategies that sample them.

None contains a line end, or starts like a compressed or UTF-16 file, since the first bytes determine the file type.
"""

from collections import Counter

from hypothesis import strategies as st

from t2t.files.lines import clean_line

BLANK = [b"", b" ", b"\t", b"  \t ", "\u00a0".encode(), "\u3000\u2007\u202f\u180e".encode(), b"\x0b\x0c"]
"""Empty lines and white space, not only ASCII."""

FALSE_LINE_ENDS = [
    b"\r", b"a\rb", b"a\r", b"\ra", b"a\x0bb\x0cc", b"a\x1cb\x1dc\x1ed\x1f", "a\x85b".encode(), "\x85".encode(),
    "\u2028".encode(), "a\u2028b\u2029c".encode(),
]  # fmt: skip
"""Characters that end a line for str.splitlines and some editors, but not in files."""

DAMAGED = [
    b"\0", b"a\0b", b"\0\0", b"a\xff", b"\x80abc", b"\xc0\x80", b"\xe2\x28\xa1", b"\xf4\x90\x80\x80", b"a\xed\xa0\x80b",
    b"\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"caf\xe9", b"\xef\xbb", b"\xe4\xb8",
]  # fmt: skip
"""NULs; invalid UTF-8, including halves of surrogate pairs and truncated characters."""

MARKS = [b"\xef\xbb\xbf", b"a\xef\xbb\xbfb", b"\xef\xbb\xbf\xef\xbb\xbfa"]
"""Byte-order marks."""

SCRIPTS = [
    text.encode()
    for text in (
        "\u05e9\u05dc\u05d5\u05dd \u202eabc\u202c", "\u0627\u0644\u0633 12", "a\u200bb\u200c\u200d\u2060",
        "e" + "\u0301" * 50, "\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\ue000\U000f0000\U0010ffff",
        "\uffff\ufdd0\ufffe", "\u01c5\u0130\u0131\u00df\ufb01", "\u0663\u00b2\u2460 \u00bd", "\ufffd\ufffc\u3013",
        "\x1b[31mred\x1b[0m \x7f\x01\b",
    )
]  # fmt: skip
"""Right-to-left, zero-width, combining, private and unassigned characters, unusual digits and cases, control codes."""

NOTATION = [
    *(b"<pad>", b"</s>", b"<EOS>", b"<pad> </s> <unk> <EOS> <s> UNK <UNK> <pad>_ <EOS>_", b"UNK", b"<0x41>"),
    *(text.encode() for text in ("\u2581", "\u2581a\u2581 b \u2581", "\u241b0\u241b1\u241b", "\u2585 \u2585\u2585")),
    *(b"\\", b"_", b"\\u \\\\ _ __ \\_ \\233; \\99999999; \\;", b"'", b"\"", b"'\"`` ''\"", b"''", b"\"\""),
    *(b"(((((", b")))))", b"() ( ) [ ] { }", b"(S (NP (DT A) (NN dog)) (VP runs", b"-LRB- -RRB-", b"(TOP (S (X y)))"),
    *(b"%s %d {} {0} $HOME `ls`", b"--help", b"-", b"0", b"{\"a\": 1}", b"&lt;&amp;<script>", b"a=b,c=[d]"),
    *(b"a\tb", b"a\tb\tc\td\te", b"\ta", b"a\t"),
]  # fmt: skip
"""Syntax of vocabularies, trees, formats and shells."""

LONG = [b"x" * 3000, "\u4e2d".encode() * 1000, b"a " * 1500, b"(" * 3000, b"(A " * 500 + b"x" + b")" * 500, b" " * 3000]

NASTY_LINES = [*BLANK, *FALSE_LINE_ENDS, *DAMAGED, *MARKS, *SCRIPTS, *NOTATION, *LONG]

MEGABYTE_LINES = [
    b"x" * 2**20, b"a b " * 2**18, "\u4e2d".encode() * 2**18, b"(" * 2**20, b" " * 2**20, b"_" * 2**20, b"\xff" * 2**20,
    b"(A " * 2**17 + b"x" + b")" * 2**17,
]  # fmt: skip


_MAGIC = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")


def read_as(line: bytes) -> str:
    """Returns the text that is read from a line that is not the first of a file."""
    return clean_line(line.removesuffix(b"\r"), Counter())


def nasty_lines():
    """Returns a strategy for lines: those above, bytes, and texts."""
    drawn = st.one_of(st.binary(max_size=12), st.text(max_size=12).map(str.encode))
    lines = drawn.map(lambda line: line.replace(b"\n", b"")).filter(lambda line: line[:2] not in _MAGIC)
    return st.one_of(st.sampled_from(NASTY_LINES), lines)


def nasty_texts():
    """Returns a strategy for the texts that are read from such lines."""
    return nasty_lines().map(read_as)
