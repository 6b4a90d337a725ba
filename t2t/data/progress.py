"""Progress of data generation: one bar, or row of lines, for each thing that it reads."""

from t2t.files.progress import Progress


class ReadingProgress:
    """Shows how many examples of a split, or of what a vocabulary is learnt from, have been read."""

    def __init__(self) -> None:
        self._shown: Progress | None = None
        self._what = ""

    def show(self, what: str, read: int) -> None:
        """Moves the count of what is read (a split, or `vocabulary`) to the number of its examples read so far."""
        if self._shown is None or what != self._what:
            self.close()
            self._what, self._shown = what, Progress(what, "examples")
        self._shown.move_to(read)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._shown is not None:
            self._shown.close()
            self._shown = None
