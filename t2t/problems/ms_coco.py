"""Captions of photographs: MS-COCO.

One instance:
    inputs   a photograph of a street, (128, 128, 3) intensities
    targets  A man riding a bicycle past a row of parked cars.

There is an example for each caption, about five per photograph: 414,000 training captions of 83,000 photographs, 25,000
dev captions and 25,000 test captions (Karpathy and Fei-Fei's split). Photographs are resized whole, whatever their
proportions, since captions describe the margins too. Outputs are scored against one caption each, so BLEU is lower than
against all five.
Source: Lin et al. 2014, "Microsoft COCO: Common objects in context"; Chen et al. 2015, "Microsoft COCO captions"
(arXiv:1504.00325); through TensorFlow Datasets (`coco_captions/2014`).
Licence: CC BY 4.0 (captions); the photographs have licences of their own.
"""

from collections.abc import Iterator

from t2t.files.lines import clean_line
from t2t.problems.array_inputs import Image2Text
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.tfds import TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

_DATASET = "coco_captions/2014"
_TFDS_SPLITS = {TRAIN: "train", DEV: "val", TEST: "test"}


@register_problem
class ImageMsCocoCaptions(Image2Text):
    """Photographs and their captions (MS-COCO, 414,000 captions, images stored as 128 x 128)."""

    splits = (TRAIN, DEV, TEST)
    image_shape = (128, 128, 3)
    vocab_size = 2**13
    chunk_size = 64

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return self._stored(split, context).count_shards()

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields each photograph of a split with each of its captions."""
        self.check_split(split)
        for example in self._stored(split, context).read(only_text=False):
            for text in example["captions"]["text"]:
                yield {INPUTS: example["image"], TARGETS: " ".join(clean_line(text, context.tally).split())}

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return tfds_requirement(_DATASET)

    def _stored(self, split: str, context: GenerationContext) -> TfdsSplit:
        return TfdsSplit(self.name, _DATASET, _TFDS_SPLITS[split], context)


@register_problem
class ImageMsCocoCharacters(ImageMsCocoCaptions):
    """Photographs and their captions (MS-COCO, 414,000 captions, bytes)."""

    vocab_kind, max_length = "byte", 512
