"""Features that every model inherits from its base class."""

import numpy as np
import pytest

from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.xception import XceptionHParams
from t2t.layers.costs import Costed
from t2t.models.transformer import Transformer
from t2t.models.xception import Xception
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import batch, numpy, tiny_hparams, tiny_transformer, tokens_spec
from tests.errors import refused
from tests.kinds import SPECS


class Silent(Transformer):
    """A model, for example of a plug-in, that declares only the layers of its targets."""

    vocabulary_layers = {"targets": ("target_embedding",)}


def test_a_model_that_does_not_say_which_weights_belong_to_a_vocabulary_is_named():
    model = Silent(tiny_hparams(), tokens_spec(shared=False))
    assert model.vocabulary_weights(["targets"]) == {"silent/target_embedding/table"}
    assert model.vocabulary_weights([]) == set()
    with refused("Silent", "inputs", "vocabulary_layers"):
        model.vocabulary_weights(["inputs", "targets"])


@pytest.mark.parametrize("targets", [(4, 6, 2), (1, 1)])
def test_costs_are_part_of_the_loss_and_not_of_the_logits(targets):
    """A cost per target is added to the mean loss, whatever the number of targets."""
    model, features = tiny_transformer(), batch(sources=(5,) * len(targets), targets=targets)
    hidden = model.body(features)
    loss, tokens = model.loss_sum(hidden, features["targets"])
    for cost, dearer in (
        (2.5, Costed(hidden, np.float32(2.5))), (0.25 * sum(targets), Costed(hidden, cost_per_target=np.float32(0.25))),
    ):  # fmt: skip
        found, as_many = model.loss_sum(dearer, features["targets"])
        assert float(found) == pytest.approx(float(loss) + cost)
        assert float(as_many) == float(tokens) == sum(targets)
        np.testing.assert_array_equal(numpy(model.logits(dearer)), numpy(model.logits(hidden)))


@pytest.mark.parametrize(
    ("model_class", "hparams", "inputs", "targets", "about"),
    [
        (Transformer, TransformerHParams(), (FeatureKind.TOKENS, None), FeatureKind.TOKENS, "0 1"),
        (Xception, XceptionHParams(), (FeatureKind.TOKENS, FeatureKind.IMAGE), FeatureKind.LABEL, "Xception"),
    ],
)
def test_problems_whose_inputs_need_other_layers_have_no_body_in_common(model_class, hparams, inputs, targets, about):
    kinds = [{"inputs": kind, "targets": targets} if kind else {"targets": targets} for kind in inputs]
    features = [{name: SPECS[kind] for name, kind in one.items()} for one in kinds]
    members = tuple(ProblemSpec(name=str(number), features=one) for number, one in enumerate(features))
    with refused("--problems=0-1:", *about.split()):
        model_class(hparams.replace(hidden_size=8), ProblemSpec(name="0-1", members=members))
