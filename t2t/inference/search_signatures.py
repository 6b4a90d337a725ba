"""What the compiled functions of searches take: kinds and sizes of tensors."""

import tensorflow as tf

from t2t.data.columns import SEQUENCES, batch_dtype, item_shape
from t2t.inference.search_batch import SearchState, constraint_states, prefix_of, with_constraint_states
from t2t.models.base import SequenceModel


def inputs_signature(model: SequenceModel) -> tf.TensorSpec:
    """Returns the TensorSpec of a batch of inputs, or of prefixes where a model has no inputs."""
    spec = model.spec.inputs or model.spec.targets
    lengths = [None] if spec.kind in SEQUENCES else []
    return tf.TensorSpec([None, *lengths, *item_shape(spec)], tf.as_dtype(batch_dtype(spec)))


def unknown_sizes(spec: tf.TensorSpec | tf.Tensor) -> tf.TensorSpec:
    """Returns the TensorSpec of a state's tensor at any step, from that of the initial state, or from itself.

    The number of sentences changes, and so does an axis that begins with size 0.
    """
    sizes = [None if axis == 0 or size == 0 else size for axis, size in enumerate(spec.shape)]
    return tf.TensorSpec(sizes, spec.dtype)


def signature_like(state: SearchState, plain: SearchState) -> SearchState:
    """Returns the TensorSpecs of states at any step, from one in its initial state.

    `plain` are those of states without prefixes and constraints.
    """
    prefix = () if prefix_of(state) is None else tf.TensorSpec([None, None], tf.int32)
    states = tf.nest.map_structure(unknown_sizes, constraint_states(state.progress))
    tables = tf.nest.map_structure(_of_any_size, state.automaton)
    progress = with_constraint_states(plain.progress, states)
    return plain._replace(prefix=prefix, automaton=tables, progress=progress)


def _of_any_size(table: tf.Tensor) -> tf.TensorSpec:
    return tf.TensorSpec([None] * len(table.shape), table.dtype)
