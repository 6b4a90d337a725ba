"""Progress of data generation: one bar, or series of log lines, for each split or vocabulary that is read."""

from t2t.files.progress import Progress


class ReadingProgress:
    """Shows how many examples have been read of a split, or for a vocabulary."""

    def __init__(self) -> None:
        self._shown: Progress | None = None
        self._what = ""

    def show(self, what: str, read: int) -> None:
        """Sets the count of `what` (a split, or `vocabulary`) to the number of examples read so far."""
        if self._shown is None or what != self._what:
            self.close()
            self._what, self._shown = what, Progress(what, "examples")
        self._shown.move_to(read)

    def close(self) -> None:
        """Ends the current bar."""
        if self._shown is not None:
            self._shown.close()
            self._shown = None
