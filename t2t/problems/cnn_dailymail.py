"""Summarisation of news: CNN and Daily Mail.

One instance:
    inputs   (CNN) The river rose by two metres overnight, and by the morning the old bridge could not be crossed ...
    targets  The old bridge is closed. The river has risen by two metres.

287,113 training, 13,368 dev and 11,490 test articles. Articles are cut to their first 400 words, and the lines of
summaries are joined (See, Liu and Manning 2017, "Get to the point", arXiv:1704.04368, section 5). Outputs are scored by
ROUGE, as in the papers, which needs the extra `rouge`.
Source: Hermann et al. 2015, "Teaching machines to read and comprehend" (arXiv:1506.03340), through TensorFlow Datasets
(`cnn_dailymail`). Licence: Apache 2.0 of its scripts; the articles belong to their publishers.
"""

from collections.abc import Iterator

from t2t.files.lines import clean_line
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.text_problems import Text2Text
from t2t.problems.tfds import TFDS_SPLITS, TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

_DATASET = "cnn_dailymail"
_WORDS = 400


@register_problem("summarize_cnn_dailymail32k")
class SummarizeCnnDailymail32k(Text2Text):
    """News and their summaries (CNN and Daily Mail, 287,000 articles, 32k pieces)."""

    splits = (TRAIN, DEV, TEST)
    vocab_size = 2**15
    max_length = 1024
    metrics = ("rouge_2_fscore", "rouge_1_fscore", "rouge_l_fscore", "chrf", "accuracy")

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return TfdsSplit(self.name, _DATASET, TFDS_SPLITS[split], context).count_shards()

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the beginning of each article of a split, and its summary."""
        self.check_split(split)
        for example in TfdsSplit(self.name, _DATASET, TFDS_SPLITS[split], context).read():
            article, summary = (clean_line(example[side], context.tally).split() for side in ("article", "highlights"))
            yield {INPUTS: " ".join(article[:_WORDS]), TARGETS: " ".join(summary)}

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return tfds_requirement(_DATASET)
