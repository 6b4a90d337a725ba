"""Turns a registered problem of Tensor2Tensor's kind into a problem of this project.

The class of the plug-in stays as it is; the problem made here asks an instance of it for samples and vocabularies.
"""

import dataclasses
import logging
import random
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from t2t.compat.tensor2tensor import problem, text_encoder, text_problems
from t2t.compat.tensor2tensor.adapted_arrays import adapted_arrays
from t2t.errors import UserError
from t2t.features.feature import shown
from t2t.features.text import Text
from t2t.problems.base import GenerationContext, Problem, Sample
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text, TextProblem
from t2t.specs import DATA_SEED, EOS_ID, INPUTS, SPLITS, TARGETS, TRAIN
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder

log = logging.getLogger("t2t")

_KINDS = {
    text_problems.VocabType.SUBWORD: "subword",
    text_problems.VocabType.CHARACTER: "byte",
    text_problems.VocabType.TOKEN: "word_list",
}
_METRICS = {
    "accuracy": "accuracy", "accuracy_per_sequence": "accuracy_per_sequence",
    "neg_log_perplexity": "neg_log_perplexity", "approx_bleu": "bleu", "approx_bleu_score": "bleu",
    "rouge_2_fscore": "rouge_2_fscore", "rouge_L_fscore": "rouge_l_fscore", "word_error_rate": "wer",
}  # fmt: skip
"""Their names of metrics -> ours."""
_OURS = __name__.rpartition(".")[0]


@dataclasses.dataclass(frozen=True)
class TextOrIds(Text):
    """Text, or its ids, which stay as they are, with an end of sequence where the plug-in sets none."""

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """The value may be ids, too."""
        return "" if isinstance(value, list | tuple | np.ndarray) else super().fault(value, name, encoder)

    def text(self, value: Any, encoder: TextEncoder | None = None) -> str | None:
        """Returns a text, also that of ids."""
        return self.require(encoder).decode(value) if isinstance(value, list | tuple) else super().text(value, encoder)

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Encodes texts."""
        if values and not isinstance(values[0], str):
            return [_ended(value) for value in values]
        return super().encode(values, encoder)


class _Adapted(TextProblem):
    """What all adapted problems of text do."""

    _text_class = TextOrIds
    max_length = 2**14
    """All texts but huge ones are kept, as there; training skips those longer than the hparam `max_length`."""
    theirs: ClassVar[type[text_problems.Text2TextProblem]]
    """The class that the plug-in has registered."""

    def __init__(self, **options: Any):
        self.their_problem = self.theirs()
        self.splits = tuple(split for split in SPLITS if split in self._slots())
        self.vocab_kind = _KINDS.get(self.their_problem.vocab_type, "subword")
        if self.vocab_kind == "subword":
            self.vocab_size = self.their_problem.approx_vocab_size
        super().__init__(**options)

    def _slots(self) -> list[str]:
        """Returns the split of each shard that Tensor2Tensor would write."""
        return [each["split"] for each in self.their_problem.dataset_splits for _ in range(each["shards"])]

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Returns the vocabularies that the plug-in reads from the data folder, or makes there."""
        if self.options.vocab_file or self.options.vocab_kind or self.options.vocab_size:
            return super().build_encoders(context)
        data_dir, tmp_dir = str(context.data_dir or context.tmp_dir), str(context.tmp_dir)
        _seed()
        next(iter(self.their_problem.encoded_samples_of_split(data_dir, tmp_dir, TRAIN)), None)  # writes vocabularies
        encoders = self.their_problem.feature_encoders(data_dir)
        return {name: self._own_encoder(name, encoders.get(name)) for name in self.text_features}

    def _own_encoder(self, feature: str, encoder: Any) -> TextEncoder:
        own = getattr(encoder, "own", None)
        if own is None:
            raise UserError(
                f"problem {self.name}: the vocabulary of {feature!r} is a {type(encoder).__name__}, which cannot be "
                "stored with the data",
                "use SubwordTextEncoder, TokenTextEncoder or ByteTextEncoder",
            )
        return own  # type: ignore[no-any-return]

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the plug-in's samples of a split; if it makes all at once, every so many of them, as they would be."""
        _seed()
        data_dir, tmp_dir = str(context.data_dir or context.tmp_dir), str(context.tmp_dir)
        per_split = self.their_problem.is_generate_per_split
        samples = self.their_problem.samples_of_split(data_dir, tmp_dir, split if per_split else TRAIN)
        slots = [split] if per_split else self._slots()
        for number, sample in enumerate(samples):
            if (
                not number
                and split == TRAIN
                and (others := sorted(set(sample) - {*self.text_features, TARGETS, "label"}))
            ):
                log.warning("%s: features that no model here reads are left out: %s", self.name, ", ".join(others))
            if slots[number % len(slots)] == split:
                yield self._own_sample(sample, data_dir)

    def _own_sample(self, sample: Any, data_dir: str) -> Sample:
        """Returns a sample with the features of this problem: texts, or lists of ids."""
        return {name: self._without_end(sample[name]) for name in self.text_features if name in sample}

    def _without_end(self, value: Any) -> Any:
        """Returns a text of words without the name of the end of sequence, which is set here."""
        is_named = (
            isinstance(value, str) and self.vocab_kind == "word_list" and value.split()[-1:] == [text_encoder.EOS]
        )
        return value.rstrip().removesuffix(text_encoder.EOS) if is_named else value


class AdaptedText2Text(_Adapted, Text2Text):
    """Text to text."""


class AdaptedText2Self(_Adapted, Text2Self):
    """Text alone."""


class AdaptedText2Labels(AdaptedText2Text):
    """Text to a class for each of its characters, or to numbers: the names or numbers become a text of words."""

    shared_vocabulary = False

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """The vocabulary of the text; of the targets, the names of the classes, or bytes for numbers."""
        self._words = self._class_names(str(context.data_dir or context.tmp_dir))
        return super().build_encoders(context)

    def _class_names(self, data_dir: str) -> list[str]:
        """Returns names without spaces, also for classes that have none, such as an end; none for numbers."""
        theirs = self.their_problem
        if isinstance(theirs, text_problems.Text2RealProblem):
            return []
        names = ["_".join(str(name).split()) for name in theirs.class_labels(data_dir)]  # type: ignore[attr-defined]
        return [*names, *(f"ID_{number}" for number in range(len(names), theirs.num_classes))]  # type: ignore[attr-defined]

    def _own_encoder(self, feature: str, encoder: Any) -> TextEncoder:
        if feature == TARGETS and self._words:
            encoder = text_encoder.TokenTextEncoder(None, vocab_list=self._words)
        return super()._own_encoder(feature, encoder)

    def _own_sample(self, sample: Any, data_dir: str) -> Sample:
        names = self._class_names(data_dir)
        values = np.ravel(sample.get(TARGETS, sample.get("label")))
        if names and not all(0 <= value < len(names) for value in values):
            raise UserError(
                f"problem {self.name}: a sample has the labels {shown(values)} of {len(names)} classes",
                "correct its generator or num_classes",
            )
        texts = [names[int(value)] if names else f"{value:g}" for value in values]
        return {INPUTS: sample[INPUTS], TARGETS: " ".join(texts)}


class AdaptedText2Class(_Adapted, Text2Class):
    """Text to class."""

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """The vocabulary of the text, and the classes that the plug-in names."""
        data_dir = str(context.data_dir or context.tmp_dir)
        encoders = _Adapted.build_encoders(self, context)  # which may also write the file of the classes
        return {**encoders, TARGETS: LabelEncoder(self._labels(data_dir))}

    def _labels(self, data_dir: str) -> list[str]:
        return list(map(str, self.their_problem.class_labels(data_dir)))  # type: ignore[attr-defined]

    def _own_sample(self, sample: Any, data_dir: str) -> Sample:
        label = sample.get("label", sample.get(TARGETS))
        if isinstance(label, list | tuple) and len(label) != 1:
            raise UserError(
                f"problem {self.name}: a sample has {len(label)} labels, {shown(label)}; a problem of classes has one",
                "for several, its example_reading_spec has tf.VarLenFeature(tf.int64) for targets",
            )
        number = int(label[0] if isinstance(label, list | tuple) else label)
        names = self._labels(data_dir)
        if not 0 <= number < len(names):
            raise UserError(
                f"problem {self.name}: a sample has the label {shown(label)} of {len(names)} classes",
                "correct its generator or num_classes",
            )
        return {INPUTS: sample[INPUTS], TARGETS: names[number]}


def adapt(theirs: type, name: str) -> type[Problem]:
    """Returns the problem of this project for a class of a plug-in.

    Raises:
        UserError: no problem of this project is like it.
    """
    if not (isinstance(theirs, type) and issubclass(theirs, problem.Problem)):
        raise UserError(f"problem {name!r} is not a class derived from tensor2tensor's Problem", "derive it from one")
    one = theirs()
    theirs._registered_name = name
    if (arrays := adapted_arrays(one)) is not None:
        array_kind, values = arrays
        values |= {"theirs": theirs, "__doc__": theirs.__doc__, "__module__": theirs.__module__}
        return type(theirs.__name__, (array_kind,), values)
    if not isinstance(one, text_problems.Text2TextProblem):
        raise UserError(
            f"problem {name!r}: {theirs.__name__} is of no kind that there is here",
            "write it as a problem of this project, see docs/new_problem.md",
        )
    kind: type[_Adapted] = AdaptedText2Text if one.has_inputs else AdaptedText2Self
    if isinstance(one, text_problems.Text2RealProblem) or _has_several_labels(one):
        log.warning("problem %s: numbers and several classes are learned as a text, one word for each", name)
        kind = AdaptedText2Labels
    elif isinstance(one, text_problems.Text2ClassProblem):
        kind = AdaptedText2Class
    if one.packed_length:
        log.warning("problem %s: training packs its examples with --hparams=packed_length=%d", name, one.packed_length)
    if not theirs.preprocess_example.__module__.startswith(_OURS):
        log.warning("problem %s: nothing here calls its preprocess_example; examples are read as they are made", name)
    values = {"theirs": theirs, "__doc__": theirs.__doc__, "__module__": theirs.__module__}
    if not theirs.eval_metrics.__module__.startswith(_OURS):
        metrics = (str(getattr(metric, "value", metric)) for metric in one.eval_metrics())
        values["metrics"] = tuple(_METRICS[metric] for metric in metrics if metric in _METRICS) or kind.metrics
    return type(theirs.__name__, (kind,), values)


def _has_several_labels(one: Any) -> bool:
    """Returns whether a problem of classes reads any number of them: its examples hold them in a list."""
    is_own = type(one).example_reading_spec.__module__.startswith(_OURS)
    if is_own or not isinstance(one, text_problems.Text2ClassProblem):
        return False
    return type(one.example_reading_spec()[0].get(TARGETS)).__name__ == "VarLenFeature"


def _ended(ids: Any) -> np.ndarray:
    found = [int(number) for number in ids]
    return np.asarray(found if found and found[-1] == EOS_ID else [*found, EOS_ID], np.int32)


def _seed() -> None:
    """Seeds the global generators, as Tensor2Tensor's t2t-datagen does: each pass over the samples is the same."""
    random.seed(DATA_SEED)
    np.random.seed(DATA_SEED)
