"""Problems of Tensor2Tensor that plug-ins derive theirs from, made from what their names say."""

import re
from typing import Any

from t2t.compat.tensor2tensor.data_generators import text_problems, translate

_BASES: tuple[tuple[str, type[text_problems.Text2TextProblem], dict[str, Any]], ...] = (
    ("translate_", translate.TranslateProblem, {}),
    ("imdb", text_problems.Text2ClassProblem, {
        "num_classes": 2, "approx_vocab_size": 2**13, "class_labels": lambda self, data_dir: ["neg", "pos"],
    }),
    ("lm1b|wiki|ptb|enwik8", text_problems.Text2SelfProblem, {}),
    ("cnn_dailymail|dialog_|wikisum", text_problems.Text2TextProblem, {}),
)  # fmt: skip
"""Beginning of a module's name, a regular expression; the base of its problems; what they all have."""
_SIZE = re.compile(r"(\d+)k(?:Packed|[A-Z]\w*)?\Z")


def known_problem(module: str, name: str) -> type | None:
    """Returns a class like a problem of a module of `data_generators`, without its raw data; None for other names.

    The size of the vocabulary is that of the name: `TranslateEnviIwslt32k` has about 32,768 subwords.
    """
    if not name[:1].isupper():
        return None
    for start, base, attributes in _BASES:
        if re.match(start, module):
            size = _SIZE.search(name)
            found = dict(attributes) | ({"approx_vocab_size": 2**10 * int(size[1])} if size else {})
            if "Character" in name:
                found["vocab_type"] = text_problems.VocabType.CHARACTER
            return type(name, (base,), {"__module__": f"{__package__}.data_generators.{module}", **found})
    return None
