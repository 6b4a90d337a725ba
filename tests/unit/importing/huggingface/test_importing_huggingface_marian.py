"""Translators of Marian in the format of transformers: the same ids, the same probabilities, mistakes named.

Legend: T target length, V vocabulary.
"""

import numpy as np
import pytest

from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import marian

TEXTS = [
    "the small dog runs", f"{marian.TAG} a cat sees the house", f"{marian.TAG}the dog", "", "  two  spaces ", "zebra 中",
    ">>fra<< a tag that the table lacks", "a </s> b", ">> no tag",
]  # fmt: skip


def ours(foreign, size):
    """Ids here: padding, end of sequence and unknown first, the others as they come."""
    return [{size - 1: 0, 0: 1, 1: 2}.get(number, number + 1) for number in foreign]


@pytest.fixture
def request_of(tmp_path):
    """Makes a request for the model in `tmp_path / "model"`."""
    return ImportRequest(format="huggingface", model_dir=tmp_path / "model", output_dir=tmp_path / "run")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """An imported model: its folder, its config, its tensors, the loaded run and the report."""
    folder = tmp_path_factory.mktemp("marian")
    values, tensors = marian.write_model(folder / "model")
    request = ImportRequest(format="huggingface", model_dir=folder / "model", output_dir=folder / "run")
    report = import_run(request)
    return folder, values, tensors, load(request.output_dir), report


@pytest.mark.parametrize("side", ["source", "target"])
def test_texts_have_the_same_ids(imported, side):
    folder, values, _, loaded, _ = imported
    encoder = loaded.problem.encoders[{"source": "inputs", "target": "targets"}[side]]
    theirs = marian.Tokenizer(folder / "model")
    for text in (*TEXTS, *marian.CORPUS[side]):
        assert [*encoder.encode(text), 1] == ours(theirs.encode(text, side), values["vocab_size"]), text


def test_text_comes_back(imported):
    encoder = imported[3].problem.encoders["targets"]
    for text in marian.CORPUS["target"]:
        assert encoder.decode(encoder.encode(text)) == text


def test_targets_have_the_same_probabilities(imported):
    folder, values, tensors, loaded, _ = imported
    theirs, tokenizer = marian.Network(values, tensors), marian.Tokenizer(folder / "model")
    source, target = tokenizer.encode(TEXTS[1]), tokenizer.encode("ein alter Hund", "target")
    expected_TV = theirs.log_probs(source, target)
    size = values["vocab_size"]
    batch = {
        "inputs": np.array([ours(source, size) + [0, 0]], np.int32),
        "targets": np.array([ours(target, size) + [0]], np.int32),
    }
    logits_TV = numpy(loaded.model(batch))[0, : len(target)].astype(np.float64)
    found_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
    np.testing.assert_allclose(found_TV[:, ours(range(size), size)], expected_TV, atol=1e-5)
    scored_T = numpy(loaded.model.score_targets(batch).log_probs)[0, : len(target)]
    np.testing.assert_allclose(scored_T, expected_TV[range(len(target)), target], atol=1e-5)


def test_greedy_outputs_are_the_same(imported):
    folder, values, tensors, *_ = imported
    theirs, tokenizer = marian.Network(values, tensors), marian.Tokenizer(folder / "model")
    pad, source, written = values["pad_token_id"], tokenizer.encode(TEXTS[0]), []
    while len(written) < 12 and written[-1:] != [0]:
        log_probs_V = theirs.log_probs(source, [*written, 0])[-1]
        log_probs_V[pad] = -np.inf
        written.append(int(log_probs_V.argmax()))
    extra = 12 - len(source)
    greedy = load(folder / "run", decode_overrides="beam_size=1").translator()
    ((best,),) = greedy.translate([TEXTS[0]], extra_length=extra)
    assert list(best.ids) == ours(written, values["vocab_size"])
