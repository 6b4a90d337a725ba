"""The Transformer of BART against an independent one in numpy, and its parts."""

import keras
import numpy as np
import pytest

from t2t.hparams.transformer_bart import TransformerBartHParams
from t2t.layers.positions import SinusoidalPositions, sinusoids
from t2t.models.transformer_bart import TransformerBart
from tests.builders import batch, numpy, randomise, tiny_transformer, tokens_spec, weights_of
from tests.errors import refused
from tests.models import check_same_logits
from tests.reference import transformer as reference
from tests.unit.models.references import architecture_of

SIZES = {
    "hidden_size": 8, "filter_size": 12, "num_hidden_layers": 2, "num_heads": 2, "max_length": 16,
    "layer_prepostprocess_dropout": 0.0, "norm_position": "pre", "attention_bias": True, "target_start": "id",
}  # fmt: skip
CASES = {
    "mBART's": {"embedding_norm": True, "positions": "learned", "activation": "gelu", "output_bias": True},
    "M2M-100's": {"sinusoid_layout": "split", "first_position": 2},
    "norms alone, behind sub-layers": {"embedding_norm": True, "positions": "none", "norm_position": "post"},
}


class Reference(reference.Transformer):
    """With positions of each side, and norms of embeddings where there are weights of them."""

    first_position = 0

    def encode(self, source):
        self.side = "source"
        return super().encode(source)

    def decode(self, target, memory):
        self.side = "target"
        return super().decode(target, memory)

    def place(self, x, position):
        if self.shape.positions == "learned":
            x = x + self.weights[f"{self.side}_positions/positions/table"][position]
        else:
            x = super().place(x, position + self.first_position)
        norm = f"{self.side}_positions/norm"
        return self.norm(norm, x) if f"{norm}/gamma" in self.weights else x


def built(spec=None, **changes):
    model = TransformerBart(TransformerBartHParams(**(SIZES | changes)), spec or tokens_spec())
    randomise(model)
    return model


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_logits_are_those_of_the_reference(changes):
    model = built(**changes)
    plain = Reference(weights_of(model), architecture_of(model))
    plain.first_position = model.hparams.first_position
    check_same_logits(model, plain, batch(widths=(9, 8)), rtol=2e-4, atol=2e-5)


def test_each_side_has_positions_and_a_norm_of_its_own():
    names = {name for name in weights_of(built(**CASES["mBART's"])) if "positions" in name}
    assert names == {
        f"{side}_positions/{part}"
        for side in ("source", "target")
        for part in ("positions/table", "norm/gamma", "norm/beta")
    }
    alone = built(tokens_spec(inputs=0), **CASES["mBART's"])
    assert not any("source" in name for name in weights_of(alone))
    assert numpy(alone({"targets": batch(widths=(0, 8))["targets"]})).shape[-1] == alone.spec.targets.vocab_size


def test_a_first_position_is_where_others_have_it():
    layer = SinusoidalPositions(6, "split", first=2)
    np.testing.assert_allclose(numpy(layer(np.zeros((1, 4, 6), "float32")))[0], sinusoids(6, 6, "split")[2:], atol=1e-6)
    np.testing.assert_array_equal(sinusoids(4, 6, "split", first=2), sinusoids(6, 6, "split")[2:])


def test_an_id_that_the_vocabulary_lacks_begins_no_targets():
    with refused("target_start_id=900", "0", "12"):
        tiny_transformer(target_start="id", target_start_id=900)


def test_what_begins_targets_is_that_token():
    model = tiny_transformer(target_start="id", target_start_id=4)
    embedding = model.target_embedding
    found = numpy(embedding.before(keras.ops.convert_to_tensor([[0, 3, 0]])))
    np.testing.assert_array_equal(found, numpy(embedding(keras.ops.convert_to_tensor([[4, 3, 4]]))))
