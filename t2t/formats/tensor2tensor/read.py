"""Reads a run of Tensor2Tensor: its settings (`hparams.json`, `flags.txt`), its weights and the state of Adam."""

import re
from collections.abc import Mapping

import numpy as np

from t2t.formats.importer import ForeignRun, ImportRequest
from t2t.formats.tensor2tensor.hparams import read_hparams, translate
from t2t.formats.tensor2tensor.mapping import network_name
from t2t.formats.tensor2tensor.weights import convert
from t2t.formats.tensorflow_checkpoint import find_checkpoint, read_variables
from t2t.problems.vocabularies import text_names
from t2t.text.vocabulary_files import read_vocabulary

_TARGET_SPACES = (
    (r"ende.*char", 7), (r"ende.*bpe", 9), (r"ende.*_rev|enfr.*_rev", 3), (r"ende", 8),
    (r"enfr.*char", 5), (r"enfr", 6), (r"parsing.*char", 14), (r"parsing", 15), (r"enzh", 16),
)  # fmt: skip
"""Patterns of Tensor2Tensor's problem names, with their row of its target space table; 0 is the generic one."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a Tensor2Tensor folder and its vocabulary.

    The defaults are the problem in `flags.txt`, the latest step, and the problem's target space.

    Raises:
        UserError: a file is missing or damaged, the network differs from the Transformer here, or a variable is
            unused.
    """
    assert request.vocab_file is not None, "the format needs it"
    values = read_hparams(request.model_dir)
    problem, encoder = request.problem, read_vocabulary(request.vocab_file)
    problem = problem.with_encoders(dict.fromkeys(text_names(problem.stored), encoder))
    space = request.target_space_id
    if space is None:
        space = next((number for pattern, number in _TARGET_SPACES if re.search(pattern, problem.name)), 0)
    variables = read_variables(find_checkpoint(request.model_dir, request.step, "model.ckpt"))
    hparams, warnings = translate(values, attention_bias=_has_attention_bias(variables))
    hparams.target_space_embedding = any(name.endswith("target_space_embedding/kernel") for name in variables)
    converted = convert(variables, hparams.key_channels, hparams.value_channels, space)
    return ForeignRun(
        problem=problem,
        hparams=hparams,
        weights=converted.weights,
        tensors=converted.variables,
        unused=dict.fromkeys(converted.unused, "counters and slots"),
        step=converted.step,
        moments=converted.moments,
        origin=f"the checkpoint in {request.model_dir}",
        settings=f"its hparams.json and {request.vocab_file}",
        notes=(f"target space {space}",),
        warnings=warnings,
    )


def _has_attention_bias(variables: Mapping[str, np.ndarray]) -> bool:
    names = filter(None, map(network_name, variables))
    return any(re.search(r"attention/.*(?:_transform|/[qkv])(?:_single)?/bias$", name) for name in names)
