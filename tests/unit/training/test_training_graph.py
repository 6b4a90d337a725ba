"""Size of the graph of an update, which is traced and optimized before the first update."""

import functools

import keras
import numpy as np
import tensorflow as tf

from t2t.hparams.groups import OptimizerHParams
from t2t.models.transformer import Transformer
from t2t.training.optimizers import build_optimizer
from t2t.training.tensorflow.distribute import build_strategy
from t2t.training.tensorflow.replica_function import ReplicaFunction
from t2t.training.tensorflow.step import TensorFlowStep
from tests.builders import tiny_hparams, tokens_spec
from tests.errors import refused
from tests.slopes import slope_step, slopes

PER_WEIGHT = 3
"""Operations per replica and weight: placeholders of the weight and its slots."""
PER_REPLICA = 150
"""Maximum number of other operations per replica: functions, sums, norm, loss scale, and reductions."""


@functools.cache
def step_of(replicas):
    """Returns a step that has traced an update; its encoder is frozen."""
    strategy = build_strategy(worker_cpu=replicas)
    with strategy.scope():
        model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
        model.encoder.trainable = False
        step = TensorFlowStep(model, build_optimizer(OptimizerHParams()), strategy)
    ids = np.ones((2, 3), np.int32)
    step.warm_up([[{"inputs": ids, "targets": ids}] * replicas])
    return step


def graph_of(replicas):
    """Returns the graph of an update."""
    (update,) = step_of(replicas)._compiled.values()
    return update.get_concrete_function().graph


def test_a_replica_adds_no_model_to_the_graph():
    """It calls the one function that computes the gradient, and the one that applies it."""
    one, two = graph_of(1), graph_of(2)
    added = len(two.get_operations()) - len(one.get_operations())
    assert 0 < added <= PER_WEIGHT * len(step_of(1).model.trainable_variables) + PER_REPLICA
    of_one, of_two = ([len(f.node_def) for f in graph.as_graph_def().library.function] for graph in (one, two))
    assert sorted(of_one) == sorted(of_two)


def test_the_functions_of_an_update_hold_no_weight_and_name_no_device():
    """Not even a frozen weight: all replicas would use that of the first one."""
    step = step_of(2)
    functions = [*step._gradient._functions.values(), *step._update._functions.values()]
    assert step.model.non_trainable_variables
    assert len(functions) == 2
    assert [held for function in functions for held in function.traced.captured_inputs] == []
    assert {node.device for function in functions for node in function.traced.graph.as_graph_def().node} == {""}


def test_what_one_replica_alone_has_is_refused():
    held, given = tf.Variable(2.0), tf.TensorSpec([], tf.float32)
    with refused(1, "add_weight"):
        ReplicaFunction(lambda x: held * x, [given])
    assert ReplicaFunction(lambda x: 2.0 * x, [given]).traced.captured_inputs == []


def test_tracing_an_update_gives_no_values_to_another_models_weights():
    """A model built only from shapes, to count weights, may be larger than memory."""
    given = []
    with keras.StatelessScope(initialize_variables=False):
        keras.Variable(lambda shape, dtype: given.append(shape) or np.zeros(shape, dtype), shape=(3,))
    slope_step()([[slopes([1.0, 1.0])]], 1, 1.0)
    assert given == []


def test_no_operation_of_an_update_waits_for_the_host():
    """There is no branch, for which a device would wait until its condition is known, and no Python."""
    graph = graph_of(1)
    nodes = [*graph.as_graph_def().node, *(n for f in graph.as_graph_def().library.function for n in f.node_def)]
    assert {node.op for node in nodes} & {"If", "StatelessIf", "PyFunc", "EagerPyFunc", "PyFuncStateless"} == set()
