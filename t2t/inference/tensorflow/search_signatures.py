"""Signatures of the compiled functions of searches: shapes and dtypes of their tensors."""

from typing import Any

import tensorflow as tf

from t2t.inference import backend
from t2t.inference.batch_search import SearchState, constraint_states, prefix_of, with_constraint_states
from t2t.models.base import SequenceModel


def inputs_signature(model: SequenceModel) -> tf.TensorSpec:
    """Returns the TensorSpec of a batch of inputs, or of prefixes if the model has no inputs."""
    return tensor_specs(backend.inputs_signature(model))


def tensor_specs(signature: Any) -> Any:
    """Returns the TensorSpecs of a structure of `keras.KerasTensor`, or of TensorSpecs."""
    return tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape, spec.dtype), signature)


def unknown_sizes(spec: tf.TensorSpec | tf.Tensor) -> tf.TensorSpec:
    """Returns the TensorSpec of a state's tensor at any step, from that of the initial state, or from itself.

    The number of sentences changes, and so does an axis that begins with size 0.
    """
    sizes = [None if axis == 0 or size == 0 else size for axis, size in enumerate(spec.shape)]
    return tf.TensorSpec(sizes, spec.dtype)


def signature_like(state: SearchState, plain: SearchState) -> SearchState:
    """Returns the TensorSpecs of states at any step, from an initial state.

    `plain` are the TensorSpecs of states without prefixes and constraints.
    """
    prefix = () if prefix_of(state) is None else tf.TensorSpec([None, None], tf.int32)
    states = tf.nest.map_structure(unknown_sizes, constraint_states(state.progress))
    tables = tf.nest.map_structure(_of_any_size, state.automaton)
    progress = with_constraint_states(plain.progress, states)
    return plain._replace(prefix=prefix, automaton=tables, progress=progress)


def _of_any_size(table: tf.Tensor) -> tf.TensorSpec:
    return tf.TensorSpec([None] * len(table.shape), table.dtype)
