"""Peer: the Net's training step in JAX (jit, XLA's CPU backend, N,H,W,C). Prints a line of JSON."""
import argparse
import json
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np


def convolve(x, w, b):
    x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    n, h, w, c = x.shape
    return jax.nn.relu(x + b).reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))  # faster here than reduce_window


def parameters():
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    shapes = [(3, 3, 3, 64), (3, 3, 64, 128), (8192, 1024), (1024, 10)]
    weights = [jax.random.uniform(k, s, jnp.float32, -1, 1) / np.sqrt(np.prod(s[:-1])) for k, s in zip(keys, shapes)]
    return [(w, jnp.zeros(w.shape[-1])) for w in weights]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--bf16", action="store_true")
    a = p.parse_args()
    dtype = jnp.bfloat16 if a.bf16 else jnp.float32

    def loss(params, x, y):
        (w1, b1), (w2, b2), (w3, b3), (w4, b4) = jax.tree.map(lambda t: t.astype(dtype), params)
        h = convolve(convolve(x.astype(dtype), w1, b1), w2, b2)
        h = jax.nn.relu(h.reshape(h.shape[0], -1) @ w3 + b3)
        logits = (h @ w4 + b4).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

    @jax.jit
    def step(params, momenta, x, y):
        gradients = jax.grad(loss)(params, x, y)
        momenta = jax.tree.map(lambda m, g, w: 0.9 * m + g + 5e-4 * w, momenta, gradients, params)
        return jax.tree.map(lambda w, m: w - 0.01 * m, params, momenta), momenta

    params = parameters()
    momenta = jax.tree.map(jnp.zeros_like, params)
    x = jnp.asarray(np.random.randn(a.batch, 32, 32, 3), jnp.float32)
    y = jnp.asarray(np.random.randint(0, 10, a.batch))
    seconds = []
    for i in range(3 + a.steps):
        start = time.perf_counter()
        params, momenta = jax.block_until_ready(step(params, momenta, x, y))
        if i >= 3:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "version": jax.__version__,
        "images_s": a.batch / min(seconds),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


if __name__ == "__main__":
    main()
