"""Operations of attention on JAX: 16-bit products with results in float32, and cuDNN's whole attention.

Legend: B batch, H heads of queries, J heads of keys and values, T queries, S keys, C channels of a head.
"""

import logging

import jax
import jax.numpy as jnp
import numpy as np

from t2t.layers.attention import attention_weights
from t2t.layers.mode import Kernels

log = logging.getLogger("t2t")

MOST_CHANNELS, MULTIPLE = 128, 8
"""C that cuDNN can compute: at most so many, and a multiple."""

TOLERANCE = 0.1
"""Largest deviation of results and gradients, which are numbers up to 4 in bfloat16."""


class JaxKernels(Kernels):
    """Kernels for compiled functions of JAX."""

    def float32_product(self, x_TC, y_SC):
        """See the base class; the factors are not copied to float32."""
        leading, channels = tuple(range(x_TC.ndim - 2)), x_TC.ndim - 1
        sides = ((channels,), (channels,)), (leading, leading)
        return jax.lax.dot_general(x_TC, y_SC, sides, preferred_element_type=jnp.float32)


class FusedKernels(JaxKernels):
    """Kernels with the attention of `jax.nn.dot_product_attention`, which holds no matrix of weights.

    Args:
        implementation: `cudnn`, for GPUs since Ampere, or `xla`, which is not fused.
    """

    def __init__(self, implementation: str = "cudnn"):
        self._implementation = implementation

    def attention(self, q_BHTC, k_BJSC, v_BJSC, keep, causal: bool):
        """See the base class; None for float32, and for sizes that cuDNN does not have."""
        channels = q_BHTC.shape[-1]
        if q_BHTC.dtype == "float32" or channels > MOST_CHANNELS or channels % MULTIPLE or v_BJSC.shape[-1] != channels:
            return None
        by_position = (jnp.swapaxes(x, 1, 2) for x in (q_BHTC, k_BJSC, v_BJSC))
        found_BTHC = jax.nn.dot_product_attention(
            *by_position, mask=keep, is_causal=causal, implementation=self._implementation
        )
        return jnp.swapaxes(found_BTHC, 1, 2)


def fused_kernels() -> Kernels:
    """Returns kernels with cuDNN's attention, or plain ones and logs why: it fails here, or computes something else."""
    kernels = FusedKernels()
    try:
        error = largest_error(kernels)
    except Exception as failure:
        message, _, _ = (str(failure).strip() or "failed").partition("\n")
        reason = f"{type(failure).__name__}: {message.removesuffix('.')}"
    else:
        if error <= TOLERANCE:
            return kernels
        reason = f"its results are wrong by {error:.2g} on this device"
    log.warning("fused attention: %s; attention is computed by products", reason)
    return JaxKernels()


def largest_error(kernels: Kernels) -> float:
    """Returns by how much attention and its gradients deviate from products in float32; infinity if any is not finite.

    Tried with and without a causal mask. The last example has no positions, as a row that pads a batch: its results
    need only be finite.
    """
    rng = np.random.default_rng(0)
    sizes = ((3, 4, 40, 64), (3, 2, 40, 64), (3, 2, 40, 64), (3, 4, 40, 64))
    *given, up = (jnp.asarray(rng.normal(size=size), "bfloat16") for size in sizes)
    keep_B11S = (np.arange(40) < np.array([40, 33, 0])[:, None])[:, None, None]
    errors = []
    for causal in (False, True):
        seen = np.tril(np.ones((40, 40), bool)) if causal else True

        def by_products(q, k, v, seen=seen):
            q, k, v = (x.astype("float32") for x in (q, jnp.repeat(k, 2, axis=1), jnp.repeat(v, 2, axis=1)))
            return jnp.matmul(attention_weights(q, k, keep_B11S & seen), v, precision="highest")

        def fused(q, k, v, causal=causal):
            return kernels.attention(q, k, v, keep_B11S, causal)

        found, expected = (_with_gradients(one, given, up) for one in (fused, by_products))
        for ours, right in zip(found, expected, strict=True):
            ours, right = np.asarray(ours, np.float32), np.asarray(right, np.float32)
            errors.append(np.abs(ours - right)[:2].max() if np.isfinite(ours).all() else np.inf)
    return float(max(errors))


def _with_gradients(function, given, up):
    """Returns the result of a compiled function, and the gradients of its inputs where its own is `up`."""

    @jax.jit
    def both(*given):
        found, gradient = jax.vjp(function, *given)
        return found, *gradient(up.astype(found.dtype))

    return both(*given)
