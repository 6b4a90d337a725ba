"""Rewriting the new axes of slices in a SavedModel gives the same arrays as numpy."""

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t.export.litert_axes import expand_new_axes

SLICES = {
    "in front": np.s_[None],
    "within": np.s_[:, None],
    "at the end": np.s_[..., None],
    "two at the end": np.s_[..., None, None],
    "on both sides": np.s_[None, :, None, ..., None],
    "after the ellipsis": np.s_[..., None, :],
    "part of it": np.s_[:, None, 1:],
    "one place of it": np.s_[0, None],
    "every second": np.s_[None, ::2],
    "none new": np.s_[:, 1:],
}
LEFT = {"part of it", "one place of it", "every second", "none new"}
"""Slices that do more than add axes, and are therefore not rewritten."""


def test_axes_are_added_where_the_slice_adds_them(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def sliced(x):
        return {name: x[one] for name, one in SLICES.items()}

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"sliced": sliced.get_concrete_function()})
    expand_new_axes(tmp_path)
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = tf.saved_model.load(str(tmp_path)).signatures["sliced"](tf.constant(x))
    for name, one in SLICES.items():
        np.testing.assert_array_equal(found[name], x[one], err_msg=name)
    saved = SavedModel()
    saved.ParseFromString((tmp_path / "saved_model.pb").read_bytes())
    functions = saved.meta_graphs[0].graph_def.library.function
    slices = [node for function in functions for node in function.node_def if node.op == "StridedSlice"]
    assert len(slices) == len(LEFT)
