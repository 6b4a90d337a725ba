"""Weights mean something only together with the vocabulary they were trained with."""

import logging
from collections.abc import Mapping
from pathlib import Path

from t2t.errors import UserError
from t2t.run_dir import RunDir
from t2t.text.files import VocabularyFile

log = logging.getLogger("t2t")


def check_same_vocabularies(checkpoint: Path, own: Mapping[str, VocabularyFile], asked: str) -> None:
    """Demands that a checkpoint's run has the vocabularies that its weights are to be used with.

    A checkpoint that lies in no run directory tells nothing of its vocabulary: that is warned about.

    Args:
        checkpoint: its folder, `<run>/checkpoints/<name>`.
        own: by feature, the vocabularies of the run that is to use it.
        asked: what the user asked for, e.g. `--checkpoint=/runs/base`.

    Raises:
        UserError: one is another, or there is none.
    """
    folder = checkpoint.resolve().parent.parent
    if not RunDir.exists(folder):
        log.warning("%s: it lies in no run directory, so that its vocabulary cannot be checked", asked)
        return
    others = RunDir.open(folder).record.vocabularies
    wrong = [
        f"of {name} {_shown(others.get(name))} there, {_shown(vocabulary)} here"
        for name, vocabulary in own.items()
        if name not in others or others[name].fingerprint != vocabulary.fingerprint
    ]
    if wrong:
        raise UserError(
            f"{asked}: the run in {folder} has another vocabulary: {'; '.join(wrong)}; the same ids would mean other "
            f"words; generate the data with its vocabulary (--vocab_file) or take another checkpoint"
        )


def _shown(vocabulary: VocabularyFile | None) -> str:
    if vocabulary is None:
        return "none"
    return f"{vocabulary.kind} of {vocabulary.size} ids, fingerprint {vocabulary.fingerprint[:12]}"
