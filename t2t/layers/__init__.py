"""What several models or modalities share: layers that take numbers and tensors, never hparams.

Begin with `attention`, whose layers keep what they read of earlier positions in a `cache`; `masks` has the one
convention of masks, `tensors` the names of types, `mode` how layers run. `residual` joins layers; `positions`,
`feed_forward`, `recurrent`, `convolution` and `losses` are what their names say. `modalities` turn features into
vectors and predict them.
"""
