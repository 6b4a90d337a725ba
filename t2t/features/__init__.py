"""Features of problems: a class for each kind of data, which owns all that is about it.

A problem declares `features = {"inputs": Text("byte"), "targets": Label(("bad", "good"))}`. A feature says what a
model must know of it (spec), checks and encodes the values of samples, decodes ids, and reads and writes files. It is a
frozen record of settings; vocabularies are passed in. Start with `feature`; `text`, `label`, `image`, `audio`, `vector`
and `tree` have the kinds.
"""

from t2t.features.audio import Audio, AudioCodes
from t2t.features.feature import Feature, Finished
from t2t.features.image import Image, ImageCodes, Video
from t2t.features.label import Label
from t2t.features.text import Text
from t2t.features.tree import Tree
from t2t.features.vector import Vector

__all__ = [
    "Audio", "AudioCodes", "Feature", "Finished", "Image", "ImageCodes", "Label", "Text", "Tree", "Vector", "Video",
]  # fmt: skip
