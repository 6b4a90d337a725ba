"""Problems as Tensor2Tensor's Python code uses them: by name, with its methods."""

from pathlib import Path
from typing import Any

from t2t.compat.tensor2tensor.data_generators import base, text_encoder
from t2t.compat.tensor2tensor.generated_data import open_generated
from t2t.registry import PROBLEMS
from t2t.runs.names import get_problem


class OwnProblem(base.Problem):
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
