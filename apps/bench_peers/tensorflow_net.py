"""Peer: the Net's training step in TensorFlow (tf.function, oneDNN). Prints a line of JSON."""
import argparse
import json
import os
import resource
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402


def variable(*shape):
    return tf.Variable(tf.random.normal(shape) * 0.02)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--xla", action="store_true", help="jit_compile (slower here)")
    a = p.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(a.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    dtype = tf.bfloat16 if a.bf16 else tf.float32
    weights = [variable(3, 3, 3, 64), variable(64), variable(3, 3, 64, 128), variable(128),
               variable(8192, 1024), variable(1024), variable(1024, 10), variable(10)]
    momenta = [tf.Variable(tf.zeros_like(w)) for w in weights]
    x = tf.random.normal((a.batch, 32, 32, 3))
    y = tf.random.uniform((a.batch,), 0, 10, tf.int32)

    def convolve(x, w, b):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b))
        return tf.nn.max_pool2d(x, 2, 2, "VALID")

    @tf.function(jit_compile=a.xla)
    def step(x, y):
        with tf.GradientTape() as tape:
            w1, b1, w2, b2, w3, b3, w4, b4 = [tf.cast(w, dtype) if a.bf16 else tf.identity(w) for w in weights]
            h = convolve(convolve(tf.cast(x, dtype), w1, b1), w2, b2)
            h = tf.nn.relu(tf.nn.bias_add(tf.reshape(h, (a.batch, -1)) @ w3, b3))
            logits = tf.cast(tf.nn.bias_add(h @ w4, b4), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        for w, m, g in zip(weights, momenta, tape.gradient(loss, weights)):
            m.assign(0.9 * m + g + 5e-4 * w)
            w.assign_sub(0.01 * m)
        return loss

    seconds = []
    for i in range(3 + a.steps):
        start = time.perf_counter()
        step(x, y).numpy()
        if i >= 3:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "version": tf.__version__,
        "images_s": a.batch / min(seconds),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


if __name__ == "__main__":
    main()
