"""What every model gets from its base class."""

import pytest

from t2t.errors import UserError
from t2t.models.transformer import Transformer
from tests.builders import tiny_hparams, tokens_spec


class Silent(Transformer):
    """A model, of a plug-in say, that declares the layers of its targets alone."""

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
