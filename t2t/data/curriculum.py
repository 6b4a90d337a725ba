"""Short examples first: a limit on the length of training examples that rises during training."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """A limit that rises linearly. It is a function of the number of batches drawn, so that a resumed run continues it.

    A window of examples has one limit, given by the number of batches drawn before it.
    """

    first: int
    """The limit at the beginning, in ids, end of sequence included."""
    last: int
    """The limit at the end."""
    batches: int
    """Number of batches after which the limit is `last`."""

    def longest(self, drawn: int) -> int:
        """Returns the limit after so many batches."""
        if drawn >= self.batches:
            return self.last
        return self.first + (self.last - self.first) * drawn // self.batches
