"""Our side on JAX: the model's loss, its gradient and Keras's Adam in one compiled function, a minimal update.

The update of `t2t-trainer` does more, see `t2t.backends.jax.update`.
"""

import jax
import jax.numpy as jnp
import keras

from benchmarks.gpu.model import PRECISION, SEED, batch, build_model, flops, matrix_rate, side_for, turn_seconds
from benchmarks.harness.child import peak_memory_mb, read_job, versions, write_result


class Updates:
    """Weights and optimizer state on the device, and the compiled update function."""

    def __init__(self, job):
        self.model = build_model(job)
        # After the model is built, since Keras's initializers need the default, threefry, which is slow for dropout.
        jax.config.update("jax_default_prng_impl", "rbg")
        self.optimizer = keras.optimizers.Adam(1e-4, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
        self.optimizer.build(self.model.trainable_variables)
        self.weights = [v.value for v in self.model.trainable_variables]
        self.state = [v.value for v in self.optimizer.variables]
        self.batch = {name: jnp.asarray(ids) for name, ids in batch(job).items()}
        self.loss = jnp.zeros(())
        self._compiled = jax.jit(self._update, donate_argnums=(0, 1))

    def __call__(self, number):
        """Starts update `number` without waiting for it."""
        seed = jnp.array([SEED, number, 0, 0], jnp.uint32)
        self.weights, self.state, self.loss = self._compiled(self.weights, self.state, self.batch, seed)

    def wait(self):
        """Waits for all updates."""
        jax.block_until_ready((self.loss, self.weights))

    def _update(self, weights, state, features, seed):
        loss, gradients = jax.value_and_grad(self._loss)(weights, features, seed)
        weights, state = self.optimizer.stateless_apply(state, gradients, weights)
        return weights, state, loss

    def _loss(self, weights, features, seed):
        mapping = list(zip(self.model.trainable_variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            loss, tokens = self.model.loss_sum(self.model.body(features, seed=seed), features["targets"])
        return loss / tokens


def main():
    """Writes the times of updates and the peak matrix rate of the device."""
    job = read_job()
    device = jax.devices()[0]
    updates = Updates(job)
    seconds = turn_seconds(job, updates, updates.wait)
    memory = (device.memory_stats() or {}).get("peak_bytes_in_use", peak_memory_mb() * 1e6) / 1e6
    side = side_for(device.platform)
    a = jnp.ones((side, side), jnp.bfloat16)
    product, found = jax.jit(jnp.matmul), [a]

    def multiply():
        found[:] = [product(a, a)]

    write_result(
        job,
        turn_seconds=seconds,
        loss=float(updates.loss),
        parameters=sum(w.size for w in updates.weights),
        flops=flops(job),
        matrix_flops=matrix_rate(multiply, lambda: jax.block_until_ready(found), side),
        precision=PRECISION,
        tensorfloat32=jax.config.jax_default_matmul_precision in (None, "tensorfloat32"),
        device=f"{device.platform} {device.device_kind}",
        peak_memory_mb=memory,
        versions=versions("jax", "keras"),
    )


if __name__ == "__main__":
    main()
