"""Imports a folder that the exporter of this plug-in has written."""

import json

import numpy as np

from t2t.formats.importer import ForeignRun, reads
from t2t.registry import HPARAMS, register_importer
from t2t.text.vocabulary_files import read_vocabulary


@register_importer("npz")
@reads("a folder that t2t-exporter --format=npz has written")
def read_npz(request):
    """An archive of numpy with the weights of a run by path, and its vocabularies."""
    folder = request.model_dir
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    hparams = type(HPARAMS.get(config["hparams_set"])()).from_dict(config["hparams"])
    encoders = {feature: read_vocabulary(folder / file) for feature, file in config["vocabularies"].items()}
    with np.load(folder / "weights.npz") as archive:
        weights = {path: archive[path] for path in archive.files}
    return ForeignRun(
        problem=request.problem.with_encoders(encoders),
        model=config["model"],
        hparams=hparams,
        hparams_set=config["hparams_set"],
        weights=weights,
        tensors=len(weights),
        origin=f"the archive in {folder}",
        settings="its config.json",
    )
