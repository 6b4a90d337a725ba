"""Classification of your own texts, no code needed.

One instance, of a file with a class, a TAB and a text on each line:
    inputs   an idle picture that wears its heart on its sleeve
    targets  bad

The classes are those that occur in the training file. Source and licence are those of the user's files.
"""

from collections.abc import Iterator

from t2t.problems.base import Sample, Source
from t2t.problems.split_files import Line, SplitFiles
from t2t.problems.text_problems import Text2Class
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.label import LabelEncoder, listed


class LabelledFiles(SplitFiles):
    """Base class of problems with files that name a class on each line."""

    def check_label(self, place: Line, label: str) -> None:
        """Raises UserError if a label is empty or not a class of the training file."""
        known = self.encoders.get(TARGETS)
        names = known.names if isinstance(known, LabelEncoder) else ()
        if not label or (names and label not in names):
            those = f", which is none of the training file's ({listed(names)})" if names else ""
            raise self.line_error(place, f"has class {label!r}{those}")


@register_problem
class ClassifyFiles(LabelledFiles, Text2Class):
    """Your own texts to your own classes, given by --train_file and --dev_file: lines of class TAB text."""

    line_form = "a class, a TAB and a text"

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the lines of a split, in the order of the files."""
        for place, label, text in self.columns_of(split, source):
            self.check_label(place, label)
            yield {INPUTS: text, TARGETS: label}
