"""GLUE: nine tasks of English language understanding, each to classify one or two texts.

One instance of `glue_rte`:
    inputs   A dog runs along the beach. ||| An animal is running.
    targets  entailment

Two texts are separated by `|||`. `dev` is the validation set (for MNLI, the one with the same genres as the training
texts); the labels of the test sets, and of the diagnostic set AX, are not public. The metrics are those of GLUE:
accuracy, for CoLA Matthews's correlation, for MRPC and QQP also F1, for STS-B correlation.
Source: Wang et al. 2019, "GLUE: A multi-task benchmark and analysis platform" (arXiv:1804.07461), through TensorFlow
Datasets (`glue`). Licence: each task's own; see https://gluebenchmark.com.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from t2t.files.lines import clean_line
from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.text_problems import Text2Class
from t2t.problems.tfds import TFDS_SPLITS, TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TRAIN

SEPARATOR = " ||| "
"""Between two texts."""


class Glue(Text2Class):
    """Base class of all tasks."""

    vocab_size = 2**13
    dataset: ClassVar[str] = ""
    """Name and configuration in TensorFlow Datasets."""
    sides: ClassVar[Sequence[str]] = ("sentence1", "sentence2")
    """Names of the texts in TensorFlow Datasets."""
    dev_split: ClassVar[str] = TFDS_SPLITS[DEV]

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the texts of each example of a split, with their class."""
        self.check_split(split)
        stored = TFDS_SPLITS[TRAIN] if split == TRAIN else self.dev_split
        for example in TfdsSplit(self.name, self.dataset, stored, context).read():
            texts = (" ".join(clean_line(example[side], context.tally).split()) for side in self.sides)
            yield {INPUTS: SEPARATOR.join(texts), TARGETS: self.label_of(example["label"])}

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return tfds_requirement(self.dataset)

    def label_of(self, value: Any) -> str:
        """Converts a label of TensorFlow Datasets to the name of its class."""
        return self.class_labels[int(value)]


@register_problem
class GlueStsb(Glue):
    """How alike two sentences are, from 0 to 5 (STS-B, 5,700 pairs).

    The class is the mean of human ratings, rounded to the nearest fifth, as in Raffel et al. 2020 (arXiv:1910.10683),
    section 2.4; correlations are computed with the rounded values.
    """

    dataset = "glue/stsb"
    class_labels = tuple(f"{fifths / 5:.1f}" for fifths in range(26))
    metrics = ("pearson", "spearman", "accuracy")

    def label_of(self, value: Any) -> str:
        """Returns the score rounded to the nearest fifth."""
        return self.class_labels[round(5 * float(value))]


_TASKS: tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...] = (
    ("cola", "Whether a sentence is grammatical (CoLA, 8,500 sentences).", ("unacceptable", "acceptable"),
     {"sides": ("sentence",), "metrics": ("matthews", "accuracy")}),
    ("sst2", "Sentiment of phrases from film reviews, positive or negative (SST-2, 67,000 phrases).",
     ("negative", "positive"), {"sides": ("sentence",)}),
    ("mrpc", "Whether two sentences say the same (MRPC, 3,700 pairs).", ("not_equivalent", "equivalent"),
     {"metrics": ("f1_equivalent", "accuracy")}),
    ("qqp", "Whether two questions ask the same (QQP, 364,000 pairs).", ("not_duplicate", "duplicate"),
     {"sides": ("question1", "question2"), "metrics": ("f1_duplicate", "accuracy")}),
    ("mnli", "Whether one text follows from another, contradicts it or neither (MultiNLI, 393,000 pairs).",
     ("entailment", "neutral", "contradiction"),
     {"sides": ("premise", "hypothesis"), "dev_split": "validation_matched"}),
    ("qnli", "Whether a sentence answers a question (QNLI, 105,000 pairs).", ("entailment", "not_entailment"),
     {"sides": ("question", "sentence")}),
    ("rte", "Whether one text follows from another (RTE, 2,500 pairs).", ("entailment", "not_entailment"), {}),
    ("wnli", "Whether a sentence with its pronoun replaced follows from the one before (WNLI, 635 pairs).",
     ("not_entailment", "entailment"), {}),
)  # fmt: skip
"""Name, summary, classes and other attributes of the other tasks."""

for _task, _summary, _labels, _others in _TASKS:
    _attributes = {"dataset": f"glue/{_task}", "class_labels": _labels, **_others}
    register_problem(f"glue_{_task}")(subclass(Glue, f"glue_{_task}", _summary, __name__, **_attributes))
