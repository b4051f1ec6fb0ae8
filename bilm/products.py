"""Matrix products in the precision of the weights, with float32 around them.

With `--mixed_precision` the network hands out weights of 16 bits; variables, states and
everything between two products stay float32.
"""

import tensorflow as tf


def product(inputs: tf.Tensor, weight: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    """`inputs W`, or `inputs W^T`: float32 [..., in] to float32 [..., out].

    Args:
        inputs: float32.
        weight: [in, out] of any precision, in which the product is taken.
        transpose: the weight is [out, in].
    """
    n_in, n_out = reversed(weight.shape) if transpose else weight.shape
    inputs = tf.cast(inputs, weight.dtype)
    # As one matrix: libraries take a stack of matrices one by one.
    rows = tf.reshape(inputs, [-1, n_in])
    result = tf.cast(tf.linalg.matmul(rows, weight, transpose_b=transpose), tf.float32)
    if inputs.shape.rank == 2:
        return result
    return tf.reshape(result, tf.concat([tf.shape(inputs)[:-1], [n_out]], 0))


def product_over_rows(left: tf.Tensor, right: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """`left^T right` summed over all leading axes: [..., M] and [..., N] to [M, N].

    Both are float32; the product is taken in, and returned as, `dtype`.
    """
    left = tf.reshape(tf.cast(left, dtype), [-1, left.shape[-1]])
    right = tf.reshape(tf.cast(right, dtype), [-1, right.shape[-1]])
    return tf.linalg.matmul(left, right, transpose_a=True)
