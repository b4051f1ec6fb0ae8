"""TensorFlow 1 graphs: whether one is being built, and how to step out of it."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tensorflow as tf

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_graph() -> bool:
    """Whether operations are added to a TensorFlow 1 graph, for a `Session` to run."""
    return not (tf.executing_eagerly() or tf.inside_function())


def outer_graph() -> tf.Graph | None:
    """The TensorFlow 1 graph around this place; None where all runs eagerly.

    A `tf.function` belongs to what is around it.
    """
    if tf.executing_eagerly():
        return None
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def eagerly(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function run eagerly, wherever it is called, and switch nothing for others.

    In a program that has called `disable_v2_behavior` there is no other way to compute
    something at once, without a trace in the graph of the program.
    """

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with tf.__internal__.eager_context.eager_mode():
            return function(*args, **kwargs)

    return run
