"""Sentiment of movie reviews: 50,000 reviews from IMDb, positive or negative.

One instance:
    inputs   The plot is thin, the songs are thinner, and I would gladly see it again tomorrow.
    targets  pos

22,500 training reviews, 2,500 dev reviews and 25,000 test reviews; half of each are positive. The dev split is the last
tenth of the training reviews, in one piece: neighbouring reviews are often of the same film, and train and test have no
film in common. Reviews are long: training cuts them to the hparam `max_length`.
Source: Maas et al. 2011, "Learning word vectors for sentiment analysis", https://ai.stanford.edu/~amaas/data/sentiment;
the original files, or TensorFlow Datasets (`imdb_reviews`), where the dev split has other reviews.
Licence: none stated; to be cited where it is used.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UserError
from t2t.files.lines import clean_line
from t2t.problems.archives import find_first_existing, read_members
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.text_problems import Text2Class
from t2t.problems.tfds import TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

_FILES = ("aclImdb", "aclImdb_v1.tar.gz")
_DATASET = "imdb_reviews"
_TFDS_SPLITS = {TRAIN: "train[:90%]", DEV: "train[90%:]", TEST: "test"}
_NUMBER = re.compile(r"(\d+)_\d+\.txt\Z")


@register_problem("sentiment_imdb")
class SentimentImdb(Text2Class):
    """Sentiment of film reviews, positive or negative (IMDb, 25,000 training reviews)."""

    splits = (TRAIN, DEV, TEST)
    class_labels = ("neg", "pos")
    vocab_size = 2**13

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the reviews of a split; from the original files, negative and positive ones alternate."""
        self.check_split(split)
        data_path = find_first_existing(context.tmp_dir, _FILES)
        if data_path is None:
            instead = f"; or put {' or '.join(_FILES)} into {context.tmp_dir}"
            for example in TfdsSplit(self.name, _DATASET, _TFDS_SPLITS[split], context, instead).read():
                yield self._sample(example["text"], self.class_labels[int(example["label"])], context)
            return
        reviews = [self._reviews(data_path, split, label) for label in self.class_labels]
        for together in itertools.zip_longest(*reviews):
            for label, review in zip(self.class_labels, together, strict=True):
                if review is not None:
                    yield self._sample(review, label, context)

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the archive, if the reviews are read from one."""
        data_path = find_first_existing(tmp_dir, _FILES)
        files = {data_path.name: data_path} if data_path is not None and data_path.is_file() else {}
        return super().raw_files(tmp_dir) | files

    def requirements(self) -> str:
        """Returns which files are looked for, and what else is read."""
        return f"{' or '.join(_FILES)} in --tmp_dir; else {tfds_requirement(_DATASET)}"

    def _reviews(self, data_path: Path, split: str, label: str) -> list[bytes]:
        """Returns the reviews of one class, ordered by number."""
        folder = f"aclImdb/{TEST if split == TEST else TRAIN}/{label}/"
        found = read_members(data_path, lambda path: path.startswith(folder) and _NUMBER.search(path) is not None)
        if not found:
            raise UserError(f"{self.name}: {data_path} has no reviews in {folder}", "download it again")
        numbers = {path: int(match[1]) for path in found if (match := _NUMBER.search(path))}
        reviews = [found[path] for path in sorted(numbers, key=numbers.__getitem__)]
        held_out = max(1, len(reviews) // 10)
        return {TRAIN: reviews[:-held_out], DEV: reviews[-held_out:], TEST: reviews}[split]

    def _sample(self, review: bytes, label: str, context: GenerationContext) -> Sample:
        text = clean_line(review, context.tally).replace("<br />", " ")
        return {INPUTS: " ".join(text.split()), TARGETS: label}


@register_problem("sentiment_imdb_characters")
class SentimentImdbCharacters(SentimentImdb):
    """Sentiment of film reviews, positive or negative (IMDb, bytes)."""

    vocab_kind = "byte"
