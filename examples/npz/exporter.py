"""Exports the weights by path, the hparams and the vocabularies of a run."""

import json

import numpy as np

from t2t.formats.exporter import Export
from t2t.formats.parity import FLOAT32, PROMISES, Parity
from t2t.registry import register_exporter


@register_exporter("npz")
class NpzExport(Export):
    """An archive of numpy with the weights of a run by path."""

    def write(self, folder):
        """Writes `weights.npz`, the vocabularies, and `config.json`, which names them."""
        np.savez(folder / "weights.npz", **self._weights())
        files = {feature: file.file for feature, file in self.write_vocabularies(folder).items()}
        names = {name: self.job.origin[name] for name in ("model", "hparams_set")}
        config = {**names, "hparams": self.translator.model.hparams.to_dict(), "vocabularies": files}
        (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")

    def verify(self, folder, trial):
        """Compares each array with the weight that it holds; a difference means that the export is not kept."""
        weights = self._weights()
        with np.load(folder / "weights.npz") as archive:
            apart = {path: float(np.abs(archive[path] - weight).max()) for path, weight in weights.items()}
        found = Parity(len(apart), sum(largest == 0 for largest in apart.values()), max(apart.values()))
        return {"weights": found.demand("weights", PROMISES[FLOAT32])}

    def usage(self):
        """The README of the folder."""
        return "`numpy.load('weights.npz')` has the weights by path, `config.json` the hparams of the network."

    def _weights(self):
        return {variable.path.partition("/")[2]: np.asarray(variable) for variable in self.translator.model.variables}
