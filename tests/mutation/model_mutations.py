"""Mutations of floors 5 and 6: models, search, metrics, checkpoints, training, inference."""

from tests.mutation.mutation import Mutation

MODEL_MUTATIONS = (
    # Floor 5: models, search, metrics, checkpoints
    Mutation(
        name="farthest output distilled",
        file="t2t/metrics/sentence_bleu.py",
        original="return max(range(len(hypotheses))",
        broken="return min(range(len(hypotheses))",
        breaks="Of several outputs of a teacher the one least like the reference becomes the target.",
        tests=("tests/unit/metrics/test_metrics_sentence_bleu.py",),
    ),
    Mutation(
        name="targets count on from the padding",
        file="t2t/models/transformer_prepend.py",
        original="_lengths(keep_BS)[:, None] + ops.arange(count)",
        broken="source_length + ops.zeros_like(targets_BT) + ops.arange(count)",
        breaks="The position of a target depends on how long the other inputs of its batch are.",
        tests=(
            "tests/unit/models/test_models_transformer_prepend.py::"
            "test_logits_are_those_of_an_independent_model_whatever_the_padding",
        ),
    ),
    Mutation(
        name="encoder sees padding",
        file="t2t/models/transformer.py",
        original="self.encoder(x_BSD, keep_BS, number_BS, seed=seed)",
        broken="self.encoder(x_BSD, ops.ones_like(keep_BS), seed=seed)",
        breaks="What a sentence is translated to depends on the longest sentence of its batch.",
        tests=("tests/equivalence/test_equivalence_updates.py::test_padding_changes_neither_loss_nor_gradients",),
    ),
    Mutation(
        name="constant of the length penalty",
        file="t2t/decoding/penalties.py",
        original="((5.0 + n) / 6.0)",
        broken="((5.0 + n) / 5.0)",
        breaks="Scores are not those of the GNMT penalty.",
        tests=("tests/unit/decoding/test_decoding_parts.py::test_penalties_by_hand",),
    ),
    Mutation(
        name="n-grams repeated once more",
        file="t2t/decoding/constraints/token_rules.py",
        original="starts_T + size <= position",
        broken="starts_T + size < position",
        breaks="An n-gram may be repeated at once after itself.",
        tests=("tests/unit/decoding/test_decoding_constrained.py",),
    ),
    Mutation(
        name="trees of one id too many",
        file="t2t/decoding/constraints/tree_automaton.py",
        original="words_N + depth_N + 3 <= room",
        broken="words_N + depth_N + 2 <= room",
        breaks="A phrase is begun that cannot be ended before the longest output is full.",
        tests=("tests/unit/decoding/test_decoding_trees.py",),
    ),
    Mutation(
        name="phrases that overlap are missed",
        file="t2t/specs/constraints/phrases.py",
        original="node = self.shorter[node]\n",
        broken="node = 0\n",
        breaks="Where a phrase breaks off, the beginning of another one in it is forgotten.",
        tests=("tests/unit/decoding/test_decoding_phrases.py",),
    ),
    Mutation(
        name="beams shared out to nobody",
        file="t2t/decoding/banks.py",
        original="ops.minimum(banks_BC, MOST_BANKS - 1)",
        broken="ops.minimum(banks_BC, 0)",
        breaks="Hypotheses with forced phrases lose against those without.",
        tests=("tests/unit/decoding/test_decoding_phrases.py::test_banks_take_turns_by_hand",),
    ),
    Mutation(
        name="coverage without a bound",
        file="t2t/decoding/coverage.py",
        original="ops.log(ops.minimum(coverage_NS, 1.0))",
        broken="ops.log(coverage_NS)",
        breaks="A word that was looked at many times makes up for one that was not looked at.",
        tests=("tests/unit/decoding/test_decoding_coverage.py",),
    ),
    Mutation(
        name="sampling temperature inverted",
        file="t2t/decoding/sampling.py",
        original="shaped_NV = log_probs / temperature",
        broken="shaped_NV = log_probs * temperature",
        breaks="A low temperature draws more evenly instead of less.",
        tests=("tests/unit/decoding/test_decoding_sampling.py::test_draws_follow_the_distribution_asked_for",),
    ),
    Mutation(
        name="top-k keeps one less of equals",
        file="t2t/decoding/topk.py",
        original='ops.cumsum(ops.cast(level, "int32"), axis=-1) <= room',
        broken='ops.cumsum(ops.cast(level, "int32"), axis=-1) < room',
        breaks="Sampling from the k most probable tokens draws from k - 1.",
        tests=("tests/unit/decoding/test_decoding_topk.py::test_keep_top_k_equals_numpy",),
    ),
    Mutation(
        name="most probable words masked again",
        file="t2t/decoding/mask_predict.py",
        original='ops.argsort(ops.where(is_word, log_probs, float("inf")), axis=-1)',
        broken='ops.argsort(ops.where(is_word, -log_probs, float("inf")), axis=-1)',
        breaks="Mask-predict predicts the words again that it is most sure of.",
        tests=("tests/unit/decoding/test_decoding_mask_predict.py",),
    ),
    Mutation(
        name="search stops too early",
        file="t2t/decoding/beam_search.py",
        original='reachable_B = active_log_probs[:, 0] / penalty(ops.cast(limits, "float32"))',
        broken='reachable_B = active_log_probs[:, 0] / penalty(ops.ones_like(limits, dtype="float32"))',
        breaks="A sentence ends though a longer hypothesis would have a better score.",
        tests=("tests/unit/decoding/test_decoding_beam_search.py",),
    ),
    Mutation(
        name="BLEU's tokenizer of the language",
        file="t2t/metrics/text.py",
        original='options = {"tokenize": bleu_tokenizer(language), **options}',
        broken='options = {"tokenize": bleu_tokenizer(""), **options}',
        breaks="A line of Chinese counts as one word.",
        tests=("tests/unit/metrics/test_metrics_text.py::test_bleu_splits_chinese_by_characters",),
    ),
    Mutation(
        name="EVALB counts punctuation",
        file="t2t/metrics/brackets/sentence.py",
        original="if tag not in parameters.delete_labels:",
        broken='if tag != "-NONE-":',
        breaks="Words whose tags are to be deleted move the spans of brackets.",
        tests=("tests/unit/metrics/test_metrics_brackets.py::test_what_counts",),
    ),
    Mutation(
        name="outputs of a resumed run are kept twice",
        file="t2t/checkpoints/dev_outputs.py",
        original="old.step < one.step]",
        broken="old.step != one.step]",
        breaks="A run that went back to an earlier checkpoint shows outputs of weights that it gave up.",
        tests=(
            "tests/unit/checkpoints/test_checkpoints_dev_outputs.py::test_a_resumed_run_writes_what_it_would_have_written",
        ),
    ),
    Mutation(
        name="average divided by n - 1",
        file="t2t/checkpoints/averaging.py",
        original="(total / count).astype",
        broken="(total / max(1, count - 1)).astype",
        breaks="Averaged weights are too large.",
        tests=("tests/unit/checkpoints/test_checkpoints_averaging.py",),
    ),
    Mutation(
        name="latest before its checkpoint",
        file="t2t/checkpoints/store.py",
        original="""\
            self._folders.write(name, "step-*", lambda folder: write_checkpoint(folder, checkpoint))
            self._latest.write(step=step)
""",
        broken="""\
            self._folders.make_root()
            self._latest.write(step=step)
            self._folders.write(name, "step-*", lambda folder: write_checkpoint(folder, checkpoint))
""",
        breaks="After a crash the pointer names a checkpoint that was never written.",
        tests=(
            "tests/unit/checkpoints/test_checkpoints_crashes.py::"
            "test_files_reach_the_disk_before_the_name_and_the_name_before_the_pointer",
        ),
    ),
    Mutation(
        name="checkpoint without its optimizer",
        file="t2t/checkpoints/checkpoint.py",
        original="if arrays is not None:\n            write_arrays",
        broken='if arrays is not None and part != "optimizer":\n            write_arrays',
        breaks="A resumed run starts with empty slots.",
        tests=("tests/unit/checkpoints/test_checkpoints_checkpoint.py::test_everything_comes_back_bit_for_bit",),
    ),
    Mutation(
        name="moments of Adam exchanged",
        file="t2t/importing/tensor2tensor/weights.py",
        original='{"Adam": "momentum", "Adam_1": "velocity"}',
        broken='{"Adam": "velocity", "Adam_1": "momentum"}',
        breaks="An imported run goes on with the first moments as the second.",
        tests=("tests/unit/importing/test_importing_tensor2tensor.py::test_the_moments_of_adam_come_along",),
    ),
    # Floor 6: engines
    Mutation(
        name="batches of JAX cut",
        file="t2t/training/jax/padding.py",
        original="[max(of_axis) for of_axis in zip(*shapes, strict=True)]",
        broken="[min(of_axis) for of_axis in zip(*shapes, strict=True)]",
        breaks="Replicas whose batches differ in size end with an error of numpy.",
        tests=(
            "tests/unit/training/test_training_jax_padding.py::"
            "test_batches_are_padded_to_few_shapes_where_padding_is_no_data",
        ),
    ),
    Mutation(
        name="loss divided by replica",
        file="t2t/training/tensorflow/step.py",
        original="self._reduce(problem, applies, done, stops, *self._local_sums(problem, features, seeds))",
        broken="self._reduce(problem, applies, done, stops, *(lambda gradient, counts: (gradient / counts[1], "
        "counts / counts[1]))(*self._local_sums(problem, features, seeds)))",
        breaks="Tokens of short batches weigh more: a mean of means instead of one global mean.",
        tests=("tests/equivalence/test_equivalence_updates.py::test_updates_by_hand",),
    ),
    Mutation(
        name="statistics of a mean of parts",
        file="t2t/training/tensorflow/local_gradient.py",
        original="changes = [tf.concat(changes, axis=0) * found.loss.tokens]",
        broken="changes = [tf.concat(changes, axis=0)]",
        breaks="Changes of moving moments are divided by the examples that they were not multiplied by.",
        tests=(
            "tests/equivalence/test_equivalence_statistics.py::"
            "test_moving_moments_move_by_the_mean_of_the_parts_weighted_by_their_examples",
        ),
    ),
    Mutation(
        name="Adam's bias correction off by one",
        file="t2t/training/tensorflow/adam.py",
        original="update = tf.cast(self.iterations.value + 1, tf.float32)",
        broken="update = tf.cast(self.iterations.value + 2, tf.float32)",
        breaks="First updates are too small.",
        tests=("tests/unit/training/test_training_optimizers.py::test_first_updates_by_hand",),
    ),
    Mutation(
        name="warm-up off by one",
        file="t2t/training/schedules.py",
        original="return rate * update / warmup",
        broken="return rate * (update - 1) / warmup",
        breaks="The first update has rate 0.",
        tests=("tests/unit/training/test_training_schedules.py::test_rates_by_hand",),
    ),
    Mutation(
        name="biased reward gradient",
        file="t2t/training/sampled_objectives.py",
        original="centred_BK / (samples_BK.shape[1] - 1)",
        broken="centred_BK / samples_BK.shape[1]",
        breaks="The gradient of the expected reward is too small compared with that of the likelihood.",
        tests=(
            "tests/unit/training/test_training_sampled_objectives.py::"
            "test_the_estimate_of_the_expected_reward_is_unbiased",
        ),
    ),
    Mutation(
        name="one dropout mask for all micro-batches",
        file="t2t/training/seeds.py",
        original="{update} {micro_batch} {replica}",
        broken="{update} {replica}",
        breaks="Every micro-batch of an update drops the same values.",
        tests=(
            "tests/unit/training/test_training_parts.py::"
            "test_seeds_are_all_different_and_leave_room_for_a_layers_number",
        ),
    ),
    Mutation(
        name="best is the largest loss",
        file="t2t/training/callbacks/best.py",
        original="(-self._sign * entry[1], entry[0])",
        broken="(-entry[1], entry[0])",
        breaks="Of a figure whose smaller values are better, the worst checkpoint is marked as the best.",
        tests=(
            "tests/unit/training/test_training_callbacks.py::test_the_best_is_marked_and_what_no_longer_improves_stops",
        ),
    ),
    Mutation(
        name="only the best checkpoint is kept",
        file="t2t/checkpoints/best.py",
        original="return marked | {found.step for found in self.ranking()}",
        broken="return marked | {found.step for found in self.ranking()[:1]}",
        breaks="Of the best checkpoints that a run keeps, all but the first are removed.",
        tests=("tests/unit/checkpoints/test_checkpoints_best.py::test_every_ranked_checkpoint_is_kept",),
    ),
    Mutation(
        name="what one hypothesis has is certain",
        file="t2t/inference/partial_outputs.py",
        original="return [_common_prefix(held)]",
        broken="return [held[0]]",
        breaks="Text that is sent while a beam is searched is taken back.",
        tests=("tests/unit/inference/test_inference_partial_outputs.py",),
    ),
    Mutation(
        name="no room for end of sequence",
        file="t2t/inference/rows.py",
        original="longest = max_sequence_ids(model, hparams) - 1",
        broken="longest = max_sequence_ids(model, hparams)",
        breaks="A cut input has one id more than the model takes.",
        tests=("tests/unit/inference/test_inference_translator.py::test_too_long_an_input_is_cut_and_said_to_be",),
    ),
    Mutation(
        name="limit of the longest line for all",
        file="t2t/inference/ctranslate2/engine.py",
        original="any(len(tokens) > limits[index] for tokens, _ in hypotheses)",
        broken="False",
        breaks="What is decoded next to a longer line may be longer than its own limit.",
        tests=(
            "tests/unit/inference/ctranslate2/test_inference_ctranslate2_engine.py::"
            "test_greedy_outputs_and_their_figures_are_the_same",
        ),
    ),
    Mutation(
        name="few sizes of batches",
        file="t2t/inference/jax/sizes.py",
        original="return padded_size(rows, parts=2)",
        broken="return rows",
        breaks="JAX compiles a program for every number of sentences.",
        tests=("tests/unit/inference/test_inference_jax_sizes.py::test_few_sizes_and_little_padding",),
    ),
    Mutation(
        name="unfinished sentences that are joined",
        file="t2t/inference/tensorflow/batch_queue.py",
        original="self._unfinished.pop(min(self._unfinished))",
        broken="[self._unfinished.pop(min(self._unfinished))[0]]",
        breaks="Sentences of a batch are lost where unfinished ones of several batches wait together.",
        tests=("tests/unit/inference/test_inference_batch_search.py",),
    ),
    Mutation(
        name="candidates of the whole batch",
        file="t2t/inference/batch_search.py",
        original="token_ids, allowed_NC)",
        broken="token_ids)",
        breaks="With a shortlist, an output may have candidates of other sentences of its batch.",
        tests=(
            "tests/unit/inference/test_inference_batch_search_shortlist.py::test_a_batch_is_its_sentences_one_by_one",
        ),
    ),
    Mutation(
        name="translations without alternatives",
        file="t2t/inference/shortlist/model1.py",
        original="_divide(probs_P, totals_P)",
        broken="probs_P",
        breaks="Pieces of a source do not compete for a target piece.",
        tests=("tests/unit/inference/shortlist/test_inference_shortlist_model1.py::test_two_iterations_by_hand",),
    ),
    Mutation(
        name="end of sequence not scored",
        file="t2t/inference/pair_scorer.py",
        original="score(rows, [[*ids, EOS_ID] for ids in targets]",
        broken="score(rows, [[*ids] for ids in targets]",
        breaks="The probability of an output is that of all outputs that begin with it.",
        tests=("tests/unit/inference/test_inference_translator.py::test_scores_by_hand_one_by_one_and_together",),
    ),
    Mutation(
        name="alignment by single tokens",
        file="t2t/inference/word_links.py",
        original="np.add.at(weights_VW,",
        broken="np.maximum.at(weights_VW,",
        breaks="A word is aligned by its piece with the largest weight instead of by the sum over its pieces.",
        tests=("tests/unit/inference/test_inference_word_links.py::test_weights_of_pieces_are_added_up",),
    ),
    Mutation(
        name="alignment of the last layer",
        file="t2t/inference/alignment.py",
        original="return layer - 1 if layer else max(count - 2, 0)",
        broken="return layer - 1",
        breaks="The default is the last layer, whose attention is further from word alignments.",
        tests=(
            "tests/unit/inference/test_inference_alignment.py"
            "::test_each_word_is_linked_to_what_it_looks_at_most_whatever_is_in_the_batch",
        ),
    ),
    Mutation(
        name="possible links count as sure",
        file="t2t/metrics/alignment.py",
        original="sure_links += len(sure_set)",
        broken="sure_links += len(sure_set | set(possible))",
        breaks="Alignment error rate asks for links that are only possible.",
        tests=("tests/unit/metrics/test_metrics_alignment.py::test_a_hand_calculation",),
    ),
)
