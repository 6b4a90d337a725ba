"""The masked language model against an independent encoder in numpy, and with the classifier that starts from it.

Legend: B batch, S source length.
"""

import numpy as np

from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_mlm import transformer_mlm_tiny
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.models.transformer_mlm import TransformerMlm
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, randomise, tokens_spec, total_loss, weights_of
from tests.reference.transformer import Architecture, Transformer, smoothed_loss

SIZES = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2, "max_length": 16}
MASKED = {
    "inputs": np.array([[2, 5, 6, 7, 1, 0], [3, 2, 1, 0, 0, 0]], np.int32),
    "targets": np.array([[4, 0, 0, 7, 0, 0], [0, 9, 0, 0, 0, 0]], np.int32),
}
"""Of the first text, tokens 0 (hidden) and 3 (kept) are predicted, of the second token 1."""


def tiny(**changes):
    hparams = TransformerHParams(**SIZES, layer_prepostprocess_dropout=0.0, label_smoothing=0.0, **changes)
    return randomise(TransformerMlm(hparams, tokens_spec()))


def test_logits_are_the_encoders_output_times_the_table_and_the_loss_is_of_what_was_chosen():
    model = tiny(positions="learned", activation="gelu")
    weights = weights_of(model)
    shape = Architecture(
        heads=2, encoder_layers=2, decoder_layers=0, positions="learned", activation="gelu", shared_embedding=False
    )
    reference, expected = Transformer(weights, shape), 0.0
    logits = numpy(model(MASKED))
    for row, inputs in enumerate(MASKED["inputs"]):
        states = reference.encode(inputs[inputs != 0].tolist())
        of_row = np.array([weights["source_embedding/table"] @ x for x in states])
        np.testing.assert_allclose(logits[row, : len(states)], of_row, rtol=1e-4, atol=1e-4)
        places = np.flatnonzero(MASKED["targets"][row])
        expected += smoothed_loss(of_row[places], MASKED["targets"][row, places], 0.0)
    loss, tokens = total_loss(model, MASKED)
    assert tokens == 3
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_what_was_not_chosen_is_not_predicted():
    model = tiny()
    scores = model.score_targets(MASKED)
    assert (numpy(scores.log_probs)[MASKED["targets"] == 0] == 0).all()
    assert (numpy(scores.log_probs)[MASKED["targets"] != 0] < 0).all()


def test_every_weight_is_one_of_the_classifiers_by_name():
    label = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3)
    spec = ProblemSpec(name="classes", features={"inputs": tokens_spec().inputs, "targets": label})
    hparams = transformer_mlm_tiny()
    classifier = {v.path: tuple(v.shape) for v in TransformerEncoder(hparams, spec).variables}
    masked = {v.path: tuple(v.shape) for v in TransformerMlm(hparams, tokens_spec()).variables}
    assert masked.items() <= classifier.items()
    assert {path.rpartition("/")[0] for path in classifier.keys() - masked.keys()} == {"transformerencoder/class_label"}
