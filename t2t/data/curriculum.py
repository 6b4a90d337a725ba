"""Short examples first: a limit on the length of training examples that rises while they are drawn."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """A limit that rises evenly; a function of how many batches have been drawn, so that a resumed run goes on with it.

    It holds for a window of examples as a whole, from the batches that were drawn before it.
    """

    first: int
    """The limit at the beginning, in ids with end of sequence."""
    last: int
    """The limit at the end."""
    batches: int
    """So many batches are drawn until then."""

    def longest(self, drawn: int) -> int:
        """Returns the limit after so many batches."""
        if drawn >= self.batches:
            return self.last
        return self.first + (self.last - self.first) * drawn // self.batches
