"""Classification of your own texts, no code needed.

One instance, of a file with a class, a TAB and a text on each line:
    inputs   an idle picture that wears its heart on its sleeve
    targets  bad

The classes are those that occur in the training file. Source and licence are those of the user's files.
"""

from collections.abc import Iterator

from t2t.problems.base import Sample, Source
from t2t.problems.split_files import Line, NamedFiles
from t2t.problems.text_problems import Text2Class
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.label import LabelEncoder, listed


def check_label(problem: NamedFiles, line: Line, label: str) -> None:
    """Raises UserError if a label is empty or not a class of the training file."""
    known = problem.encoders.get(TARGETS)
    names = known.names if isinstance(known, LabelEncoder) else ()
    if not label or (names and label not in names):
        those = f", which is none of the training file's ({listed(names)})" if names else ""
        raise problem.line_error(line, f"has class {label!r}{those}")


@register_problem
class ClassifyFiles(NamedFiles, Text2Class):
    """Your own texts to your own classes, given by --train_file and --dev_file: lines of class TAB text."""

    line_form = "a class, a TAB and a text"

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the lines of a split, in the order of the files."""
        for line, label, text in self.columns_of(split, source):
            check_label(self, line, label)
            yield {INPUTS: text, TARGETS: label}
