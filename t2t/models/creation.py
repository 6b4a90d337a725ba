"""Creates models and checks them: the paths of their parts, and what a plug-in's author may have forgotten."""

import contextlib
import gc
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterator

import keras

from t2t.errors import UserError, first_few
from t2t.hparams.base import HParams
from t2t.layers.cache import CachingLayer, layers_within
from t2t.layers.dropout import SeededLayer
from t2t.models.base import SequenceModel
from t2t.registry.overrides import PluginError, described, is_of_plugin, plugin_errors
from t2t.specs.features import ProblemSpec

log = logging.getLogger("t2t")


def create_model(model_class: type[SequenceModel], hparams: HParams, spec: ProblemSpec, dtype: str) -> SequenceModel:
    """Returns a model whose parts have paths of their own; see `SequenceModel` for the arguments.

    By path, checkpoints hold weights, decoding caches hold entries of layers, and dropout masks differ.

    Raises:
        UserError: several parts have one path; or the class does not accept the hparams or the spec.
    """
    with plugin_errors(model_class, "cannot be constructed"), _new_variables(is_of_plugin(model_class)) as created:
        model = model_class(hparams, spec, dtype=dtype)
    layers = layers_within(model)
    if is_of_plugin(model_class):
        _check_layers(model, layers, created)
    for parts in (
        model.variables,
        *([one for one in layers if one.built and isinstance(one, kind)] for kind in (CachingLayer, SeededLayer)),
    ):
        counts = Counter(part.path for part in parts)
        if repeated := [path for path, count in counts.items() if count > 1]:
            raise UserError(
                f"model {model_class.__name__}: several parts have the path {first_few(repeated, ', ')}, by which "
                "checkpoints hold weights, caches hold states and dropout masks differ",
                "give each layer a name of its own",
            )
    return model


@contextlib.contextmanager
def _new_variables(search: bool) -> Iterator[list[keras.Variable]]:
    """Yields a list that holds, after the block, the variables of Keras that were created in it; empty if not `search`.

    Objects are in the garbage collector's youngest generation until it runs. To look at all objects of a process takes
    much longer than to build a small model.
    """
    found: list[keras.Variable] = []
    if not search:
        yield found
        return
    gc.collect(0)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield found
        found += [one for one in gc.get_objects(generation=0) if issubclass(type(one), keras.Variable)]
    finally:
        if was_enabled:
            gc.enable()


def _check_layers(
    model: SequenceModel, layers: Collection[keras.layers.Layer], created: Collection[keras.Variable]
) -> None:
    """Checks the layers of a new model of a plug-in; `created` has the variables that came with it.

    Raises:
        PluginError: it has built no modalities, or Keras does not find some of its weights.
    """
    own = described(type(model))
    modalities = [one for one in (model.source_embedding, model.target_embedding, model.top) if one is not None]
    if not all(one.built for one in modalities):
        begin, end = "begin its build with self.build_modality_weights()", "end its __init__ with self.build()"
        cure = begin if model.built else end
        raise PluginError(f"{own}: the weights of its modalities are missing after its construction", cure)
    tracked = {id(variable) for variable in model.variables}
    lost = [one.path for one in created if id(one) not in tracked]
    if lost:
        raise PluginError(
            f"{own}: Keras does not find its weights {first_few(sorted(lost), ', ')}, so that they would be neither "
            "trained nor saved",
            "keep each layer in an attribute of a layer or of the model, or in a list there",
        )
    instead = {"Dropout": "t2t.layers.dropout.Dropout", "BatchNormalization": "t2t.layers.norm.BatchNorm"}
    for layer in layers:
        kind = type(layer).__name__
        if kind in instead and type(layer).__module__.startswith("keras."):
            log.warning(
                "%s: layer %s is Keras's, whose state a run does not keep; use %s", own, layer.name, instead[kind]
            )
        elif _is_unnamed(layer):
            log.warning(
                "%s: layer %s has no name of its own, and its weights would have another path in a process with more "
                "such layers; give it a name", own, layer.name,
            )  # fmt: skip


def _is_unnamed(layer: keras.layers.Layer) -> bool:
    """Returns whether Keras seems to have named a layer with weights after its class, as in `dense_2`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(layer).__name__).lower()
    return bool(layer.weights) and re.fullmatch(rf"{re.escape(snake)}_\d+", layer.name) is not None


@contextlib.contextmanager
def all_weights_exist(model: SequenceModel) -> Iterator[None]:
    """Context of a model's first calls, which must create no weights.

    Raises:
        UserError: they have created some: no optimizer trains these, and no checkpoint with them can be loaded.
    """
    known = {variable.path for variable in model.variables}
    try:
        yield
    finally:  # of a call that fails, too: JAX refuses to draw initial values in a program
        if new := [variable.path for variable in model.variables if variable.path not in known]:
            raise UserError(
                f"model {type(model).__name__}: its weights {first_few(new, ', ')} were created by a call, not when "
                "it was built, so they would be neither trained nor restored",
                "build their layers in build",
            )
