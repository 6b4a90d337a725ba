"""SQuAD: questions about paragraphs of Wikipedia, as text to text.

One instance:
    inputs   question: Who built the mill? context: The mill was built by two brothers in 1764 and burnt down in 1802.
    targets  two brothers

87,599 training questions and 10,570 dev questions; of the answers by several people to a dev question, the first one is
used. The test set is not public. Training questions with more than 512 pieces are dropped.
Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ questions for machine comprehension of text" (arXiv:1606.05250), version
1.1; the original files, or TensorFlow Datasets (`squad/v1.1`). Licence: CC BY-SA 4.0.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UserError, one_line
from t2t.files.lines import clean_line
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.text_problems import Text2Text
from t2t.problems.tfds import TFDS_SPLITS, TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TRAIN

_DATASET = "squad/v1.1"
_FILES = {TRAIN: "train-v1.1.json", DEV: "dev-v1.1.json"}


@register_problem("squad_text2text")
class SquadText2Text(Text2Text):
    """Questions about paragraphs of Wikipedia (SQuAD 1.1, 87,599 questions)."""

    vocab_size = 2**15
    max_length = 512
    metrics = ("accuracy_per_sequence", "chrf", "accuracy")

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the questions of a split, from the original file if it exists, else through TFDS."""
        self.check_split(split)
        path = Path(context.tmp_dir) / _FILES[split]
        if path.is_file():
            yield from _read_file(path)
            return
        instead = f"; or put {' and '.join(_FILES.values())} into {context.tmp_dir}"
        for example in TfdsSplit(self.name, _DATASET, TFDS_SPLITS[split], context, instead).read():
            texts = (example["question"], example["context"], example["answers"]["text"][0])
            yield _sample(*(clean_line(text, context.tally) for text in texts))

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the original files."""
        return super().raw_files(tmp_dir) | {name: Path(tmp_dir) / name for name in _FILES.values()}

    def requirements(self) -> str:
        """Returns which files are looked for, and what else is read."""
        files = " and ".join(_FILES.values())
        return f"{files} in --tmp_dir; else {tfds_requirement(_DATASET)}"


def _read_file(path: Path) -> Iterator[Sample]:
    try:
        articles = json.loads(path.read_bytes())["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    yield _sample(question["question"], paragraph["context"], question["answers"][0]["text"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(
            f"{path}: is not SQuAD 1.1 ({type(error).__name__}: {one_line(error)[:80]})", "download it again"
        ) from None


def _sample(question: str, context: str, answer: str) -> Sample:
    question, context, answer = (" ".join(text.split()) for text in (question, context, answer))
    return {INPUTS: f"question: {question} context: {context}", TARGETS: answer}
