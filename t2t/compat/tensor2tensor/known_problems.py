"""Problems that plug-ins name but do not define.

Those of this project, with Tensor2Tensor's methods, and those of Tensor2Tensor that plug-ins derive theirs from, made
from what their names say.
"""

import re
from pathlib import Path
from typing import Any

from t2t.compat.tensor2tensor import problem, text_encoder, text_problems, translate
from t2t.compat.tensor2tensor.generated_data import open_generated
from t2t.registry import PROBLEMS
from t2t.runs.names import get_problem


class OwnProblem(problem.Problem):
    """A problem of this project with Tensor2Tensor's methods."""

    def __init__(self, name: str):
        super().__init__()
        self._name = name
        get_problem(name)  # raises UserError for an unknown name

    @property
    def name(self) -> str:
        """The registered name."""
        return self._name

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the vocabulary of each text feature of the generated data."""
        found: dict[str, text_encoder.TextEncoder] = {}
        files = sorted(Path(data_dir or ".").glob(f"vocab.{self.name}.*.subwords"))
        if files:  # of Tensor2Tensor, as notebooks copy it
            encoder = text_encoder.SubwordTextEncoder(str(files[0]))
            return {"inputs": encoder, "targets": encoder}
        for feature, own in open_generated(self.name, data_dir).problem.encoders.items():
            found[feature] = text_encoder.TextEncoder()
            found[feature].own = own
        return found


def own_problem(name: str) -> Any:
    """Returns the problem of a name: that of the plug-in, or one of this project; raises UserError for any other."""
    theirs = getattr(PROBLEMS.get(name), "theirs", None) if name in PROBLEMS else None
    return theirs() if theirs is not None else OwnProblem(name)


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
            return type(name, (base,), {"__module__": f"{__package__}.{module}", **found})
    return None
