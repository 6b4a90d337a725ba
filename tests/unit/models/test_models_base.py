"""Features that every model inherits from its base class."""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.layers.costs import Costed
from t2t.models.transformer import Transformer
from tests.builders import batch, numpy, tiny_hparams, tiny_transformer, tokens_spec


class Silent(Transformer):
    """A model, for example of a plug-in, that declares only the layers of its targets."""

    vocabulary_layers = {"targets": ("target_embedding",)}


def test_a_model_that_does_not_say_which_weights_belong_to_a_vocabulary_is_named():
    model = Silent(tiny_hparams(), tokens_spec(shared=False))
    assert model.vocabulary_weights(["targets"]) == {"silent/target_embedding/table"}
    assert model.vocabulary_weights([]) == set()
    with pytest.raises(UserError) as error:
        model.vocabulary_weights(["inputs", "targets"])
    assert str(error.value) == (
        "model Silent does not say which of its weights belong to the vocabulary of inputs; name their layers in its "
        "vocabulary_layers"
    )


def test_a_cost_is_part_of_the_loss_and_not_of_the_logits():
    model, features = tiny_transformer(), batch()
    hidden = model.body(features)
    loss, tokens = model.loss_sum(hidden, features["targets"])
    dearer, as_many = model.loss_sum(Costed(hidden, np.float32(2.5)), features["targets"])
    assert float(dearer) == pytest.approx(float(loss) + 2.5)
    assert float(as_many) == float(tokens)
    np.testing.assert_array_equal(numpy(model.logits(Costed(hidden, 2.5))), numpy(model.logits(hidden)))


@pytest.mark.parametrize("targets", [(4, 6, 2), (1, 1)])
def test_a_cost_per_target_is_added_to_the_mean_loss_whatever_the_number_of_targets(targets):
    model, features = tiny_transformer(), batch(sources=(5,) * len(targets), targets=targets)
    hidden = model.body(features)
    loss, tokens = model.loss_sum(hidden, features["targets"])
    dearer, as_many = model.loss_sum(Costed(hidden, cost_per_target=np.float32(0.25)), features["targets"])
    assert float(as_many) == float(tokens) == sum(targets)
    assert float(dearer) / sum(targets) == pytest.approx(float(loss) / sum(targets) + 0.25)
