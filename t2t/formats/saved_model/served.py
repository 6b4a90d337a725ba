"""A run as one graph: text input, search, text output.

Legend: B inputs of a batch, S ids of an input, K hypotheses of each, T ids of an output, C classes.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from t2t.backends.base import inputs_signature
from t2t.errors import UserError
from t2t.formats.saved_model.vocabularies import cleaned, graph_vocabulary, is_blank, single_spaced
from t2t.inference.model_engine import build_search
from t2t.inference.output_constraints import constrains_outputs, constraints_of
from t2t.inference.rows import max_sequence_ids, reads_ids
from t2t.inference.translator import Translator
from t2t.problems.base import Problem, feature_of
from t2t.search.automata import TreeAutomaton, first_states
from t2t.search.constraints import BatchConstraints
from t2t.search.result import NO_HYPOTHESIS
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.specs.constraints import TreeConstraint, TreeLabels
from t2t.specs.features import FeatureKind

TEXT, IDS, SCORE = "serving_default", "ids", "score"
"""Names of the signatures."""
CUT_INPUTS, CUT_OUTPUTS = "cut_inputs", "cut_outputs"
"""Outputs of the first: whether a text was too long, and whether an output ends at its limit."""
INPUT_LENGTHS, OUTPUT_LENGTHS = "input_lengths", "output_lengths"
"""Outputs of the first: ids that are read of a text, without end of sequence; ids of an output, its end included."""


class Served:
    """A model with vocabularies and search as functions of tensors; `n_best` is K, see `Translator.settings`."""

    def __init__(self, translator: Translator, n_best: int = 1):
        settings, hparams = translator.settings(n_best)
        self._model, self._n_best = translator.model, n_best
        self._longest = max_sequence_ids(self._model, hparams)
        self._longest_input = translator.longest_input
        spec = self._model.spec
        self._gives_classes = spec.targets.kind == FeatureKind.LABEL
        self._search = build_search(self._model, settings, hparams.extra_length)
        self._marks, self._single_spaces = (
            translator.problem.languages.marks(),
            feature_of(translator.problem, INPUTS).single_spaces,
        )
        encoders, source = translator.problem.encoders, INPUTS if spec.inputs else TARGETS
        self._source = graph_vocabulary(encoders[source]) if reads_ids(self._model) else None
        self._labels = None
        if constrains_outputs(translator.problem, self._model, hparams):
            self._labels = _labels_of(translator.problem)
            constraints_of(translator.problem, self._model, settings, hparams, [()], [""])  # checks the settings
        self._target = None
        if self._gives_classes:
            self._classes = [translator.problem.decode_target(label) for label in range(spec.targets.vocab_size)]
        else:
            is_shared = self._source is not None and encoders[source] is encoders[TARGETS]
            self._target = self._source if is_shared else graph_vocabulary(encoders[TARGETS])

    def tracked_module(self) -> tf.Module:
        """Returns the weights and vocabularies that the functions read, to be saved with them.

        Its `decode` returns the texts (N,) of ids (N, None), unless outputs are classes.
        """
        module = tf.Module()
        module.weights = [variable.value for variable in self._model.variables]
        module.vocabularies = [vocabulary for vocabulary in (self._source, self._target) if vocabulary is not None]
        if self._target is not None:
            ids = tf.RaggedTensorSpec([None, None], tf.int32)
            module.decode = tf.function(self._target.decode, input_signature=[ids], autograph=False)
        return module

    def signatures(self) -> dict[str, Callable]:
        """Returns the traced functions by name."""
        given = inputs_signature(self._model)
        if not reads_ids(self._model):
            inputs = tf.TensorSpec(given.shape, given.dtype, name="inputs")
            return {TEXT: _traced(self._texts_of_arrays, inputs), IDS: _traced(self._ids_of_arrays, inputs)}
        text = tf.TensorSpec([None], tf.string, name="text")
        found = {TEXT: _traced(self._texts_of_texts, text)}
        found[IDS] = _traced(self._ids_of_ids, tf.TensorSpec([None, None], tf.int32, name="inputs"))
        if self._model.spec.inputs is None:
            found[SCORE] = _traced(self._log_probs, text)
        return found

    # === Signatures ===

    def _texts_of_texts(self, text):
        text = cleaned(text)
        words = single_spaced(text) if self._single_spaces and self._model.spec.inputs else text
        ids_BS = _joined(self._marks.input_start, self._source.encode(words))
        result = self._search_batch(self._rows(ids_BS), text)
        is_cut_B = ids_BS.row_lengths() > self._longest_input
        read_B = tf.cast(tf.minimum(ids_BS.row_lengths(), self._longest_input), tf.int32)
        more = {OUTPUT_LENGTHS: result.lengths}
        if not self._model.spec.inputs:
            return self._as_text(result) | {CUT_INPUTS: is_cut_B, INPUT_LENGTHS: read_B} | more
        is_blank_B = is_blank(text)
        more = {OUTPUT_LENGTHS: tf.where(is_blank_B[:, None], 0, result.lengths)}
        more |= {CUT_INPUTS: is_cut_B & ~is_blank_B, INPUT_LENGTHS: tf.where(is_blank_B, 0, read_B)}
        return self._as_text(result, is_blank_B) | more

    def _ids_of_ids(self, inputs):
        ids_BS = tf.RaggedTensor.from_tensor(inputs, padding=PAD_ID)
        text = None if self._labels is None else self._source.decode(ids_BS)
        return self._as_ids(self._search_batch(self._rows(ids_BS), text))

    def _texts_of_arrays(self, inputs):
        return self._as_text(self._search_batch(inputs))

    def _ids_of_arrays(self, inputs):
        return self._as_ids(self._search_batch(inputs))

    def _log_probs(self, text):
        """Returns ln p(text), end of sequence included; fails for a text that is too long."""
        ids_BT = self._source.encode(cleaned(text))
        longest = tf.reduce_max(tf.concat([ids_BT.row_lengths(), [0]], axis=0))
        message = f"a text has more than {self._longest} ids with end of sequence; cut, it has another probability"
        fits = tf.debugging.assert_less(longest, tf.constant(self._longest, tf.int64), message)
        with tf.control_dependencies([fits]):
            targets_BT = self._pad_rows(_joined(ids_BT, (EOS_ID,)))
        return {"log_probs": tf.reduce_sum(self._model.score_targets({TARGETS: targets_BT}).log_probs, axis=1)}

    # === Parts ===

    def _rows(self, ids_BS: tf.RaggedTensor) -> tf.Tensor:
        """Returns inputs cut to the maximum length with their end ids, or prefixes cut to their ends, (B, S)."""
        if not self._model.spec.inputs:
            return self._pad_rows(ids_BS[:, -self._longest_input :])
        return self._pad_rows(_joined(ids_BS[:, : self._longest_input], (EOS_ID, *self._marks.input_end)))

    def _pad_rows(self, ids_BS):
        ids_BS = ids_BS.to_tensor(PAD_ID)
        return tf.pad(ids_BS, [[0, 0], [0, tf.maximum(1 - tf.shape(ids_BS)[1], 0)]])

    def _search_batch(self, inputs, text=None):
        more = [tf.range(tf.shape(inputs)[0])] if self._model.autoregressive else []
        if self._labels is not None:
            more.append(self._trees(self._labels, text))
        start = {"prefix": self._marks.output_start} if self._model.autoregressive else {}
        result = self._search.search_batch(inputs, *more, **start)
        return type(result)(*(field[:, : self._n_best] for field in result))

    def _trees(self, labels: TreeLabels, text) -> BatchConstraints:
        """Returns the constraint that outputs are trees over the words of texts, like `TreeConstraint.fitted`."""
        words_B = tf.cast(tf.strings.split(text).row_lengths(), tf.int32)
        words_B = tf.minimum(words_B, self._longest - 1)
        automaton = TreeAutomaton.of_labels(labels, self._model.spec.targets.vocab_size)
        return BatchConstraints(automaton, first_states(words_B), words_B + 1)

    def _as_ids(self, result):
        return {"ids": result.ids, "lengths": result.lengths, "scores": result.scores, "log_probs": result.log_probs}

    def _as_text(self, result, is_blank_B=None):
        shape = [-1, self._n_best]
        if self._gives_classes:
            texts_BK = tf.gather(self._classes, result.ids[:, :, 0])
        else:
            ids_NT = tf.reshape(result.ids, [-1, tf.shape(result.ids)[2]])
            kept_NT = tf.not_equal(ids_NT, PAD_ID) & tf.not_equal(ids_NT, EOS_ID)
            texts_BK = tf.reshape(self._target.decode(tf.ragged.boolean_mask(ids_NT, kept_NT)), shape)
        scores_BK, log_probs_BK = result.scores, result.log_probs
        if is_blank_B is not None:
            certain_1K = tf.constant([[0.0] + [NO_HYPOTHESIS] * (self._n_best - 1)])
            texts_BK = tf.where(is_blank_B[:, None], "", texts_BK)
            scores_BK = tf.where(is_blank_B[:, None], certain_1K, scores_BK)
            log_probs_BK = tf.where(is_blank_B[:, None], certain_1K, log_probs_BK)
        if self._gives_classes:
            return {"classes": texts_BK, "scores": scores_BK, "probabilities": tf.exp(log_probs_BK)}
        if not self._model.autoregressive:
            return {"outputs": texts_BK, "scores": scores_BK}
        is_cut_BK = (result.lengths > 0) & ~tf.reduce_any(tf.equal(result.ids, EOS_ID), axis=2)
        if is_blank_B is not None:
            is_cut_BK &= ~is_blank_B[:, None]
        return {"outputs": texts_BK, "scores": scores_BK, CUT_OUTPUTS: is_cut_BK}


def _labels_of(problem: Problem) -> TreeLabels:
    """Returns the labels of trees; raises UserError for other constraints, which need the problem's Python code.

    A problem without one for an empty input may have one for others.
    """
    constraint = problem.constraint("")
    if not isinstance(constraint, TreeConstraint):
        raise UserError(
            f"a graph of {problem.name}: its outputs are kept to constraints that only Python can make",
            "train the run with constrain_output=false, or decode it with t2t-decoder",
        )
    return constraint.labels


def _joined(*parts: tf.RaggedTensor | tuple[int, ...]) -> tf.RaggedTensor:
    """Concatenates ids row by row, (B, None); a tuple is added to every row."""
    (rows,) = (part for part in parts if not isinstance(part, tuple))
    count = rows.nrows(out_type=tf.int32)
    same = [tf.tile(tf.constant([part], tf.int32), [count, 1]) if isinstance(part, tuple) else part for part in parts]
    return tf.concat([part for part, given in zip(same, parts, strict=True) if given is rows or given], axis=1)


def _traced(function: Callable, spec: tf.TensorSpec) -> Callable:
    """Returns the graph of a function of a batch; an empty batch gets a row, as layers need one, which is dropped."""

    @functools.wraps(function)  # TensorFlow takes the names of arguments from it
    def of_any_batch(given):
        count = tf.shape(given)[0]
        added = tf.zeros([tf.maximum(1 - count, 0), *tf.unstack(tf.shape(given)[1:], len(spec.shape) - 1)], spec.dtype)
        found = function(tf.ensure_shape(tf.concat([given, added], axis=0), spec.shape))
        return tf.nest.map_structure(lambda values: values[:count], found)

    return tf.function(of_any_batch, input_signature=[spec], autograph=False).get_concrete_function()
