"""Options of lexical shortlists, for the command and the Python function."""

import dataclasses

from t2t.hparams.field import check_values, param


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShortlistOptions:
    """What a shortlist contains, and from how many examples it is learned.

    Raises:
        UserError: a value of another type or out of bounds.
    """

    frequent: int = param(1000, "Most frequent target pieces, candidates for every input.", minimum=0)
    translations: int = param(20, "Most probable translations of each source piece.", minimum=1)
    max_examples: int = param(200_000, "Training examples to learn from, evenly spread; 0 = all.", minimum=0)

    def __post_init__(self):
        check_values(self, "option")
