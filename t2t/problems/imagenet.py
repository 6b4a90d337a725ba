"""ImageNet: photographs in 1,000 classes (ILSVRC 2012).

One instance:
    inputs   a photograph of a goldfish, (224, 224, 3) intensities
    targets  n01443537

1,281,167 training images; the 50,000 validation images are the dev split, since the labels of the test images are not
public. The middle square of each image is resized to one size and stored uncompressed: about 200 GB at 224 x 224, 16 GB
at 64 x 64, 4 GB at 32 x 32. Training changes images at random: it crops the large ones, shifts the small ones and flips
both. Class names are WordNet ids, in whose order the classes are numbered.
Source: Russakovsky et al. 2015, "ImageNet Large Scale Visual Recognition Challenge", through TensorFlow Datasets
(`imagenet2012`), for which its two archives have to be downloaded by hand from https://image-net.org.
Licence: for non-commercial research, as its terms state.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from t2t.features.feature import Feature
from t2t.features.label import Label
from t2t.problems.array_inputs import Image2Class
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.preprocessors import Preprocessor, RandomCrop, RandomFlip, RandomResizedCrop
from t2t.problems.tfds import FOLDER, TFDS_SPLITS, TfdsSplit, class_names
from t2t.registry import register_problem
from t2t.specs import INPUTS, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder

_CLASSES = 1000
_DATASET = "imagenet2012"


@register_problem
class ImageImagenet(Image2Class):
    """Photographs in 1,000 classes (ImageNet, 1.28 million images, stored as 224 x 224)."""

    image_shape = (224, 224, 3)
    image_fit = "crop"
    chunk_size = 64

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Returns the classes as TensorFlow Datasets names them."""
        return {TARGETS: LabelEncoder(class_names(self.name, _DATASET, "label", context))}

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """An image and one of a thousand classes."""
        return {**super().features, TARGETS: Label(count=_CLASSES)}

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return self._stored(split, context).count_shards()

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the images of a split and their classes."""
        self.check_split(split)
        names = class_names(self.name, _DATASET, "label", context)
        for example in self._stored(split, context).read():
            yield {INPUTS: example["image"], TARGETS: names[int(example["label"])]}

    def _stored(self, split: str, context: GenerationContext) -> TfdsSplit:
        by_hand = Path(context.tmp_dir) / FOLDER / "downloads" / "manual"
        instead = f"; its archives ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar belong into {by_hand}"
        return TfdsSplit(self.name, _DATASET, TFDS_SPLITS[split], context, instead)

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Crops images and flips them, both at random."""
        return RandomResizedCrop(), RandomFlip()

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return f"{_DATASET} of TensorFlow Datasets in --tmp_dir/{FOLDER}, with its archives downloaded by hand"


class SmallImagenet(ImageImagenet):
    """ImageNet in small sizes: images are shifted and flipped, as for CIFAR."""

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Shifts images by up to an eighth of their side and flips them, both at random."""
        return RandomCrop(padding=self.image_shape[0] // 8), RandomFlip()


@register_problem("image_imagenet64")
class ImageImagenet64(SmallImagenet):
    """Photographs in 1,000 classes (ImageNet, stored as 64 x 64)."""

    image_shape = (64, 64, 3)


@register_problem("image_imagenet32")
class ImageImagenet32(SmallImagenet):
    """Photographs in 1,000 classes (ImageNet, stored as 32 x 32)."""

    image_shape = (32, 32, 3)
