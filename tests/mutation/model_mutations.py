"""Mutations of floors 5 and 6: models, search, metrics, checkpoints, training, inference."""

from tests.mutation.mutation import Mutation

# fmt: off
MODEL_MUTATIONS = (
    # Floor 5: models, search, metrics, checkpoints
    Mutation(
        "farthest output distilled",
        "Of several outputs of a teacher the one least like the reference becomes the target.",
        "t2t/metrics/sentence_bleu.py", "return max(range(len(hypotheses))", "return min(range(len(hypotheses))",
        "test_metrics_sentence_bleu",
    ),
    Mutation(
        "targets count on from the padding",
        "The position of a target depends on how long the other inputs of its batch are.",
        "t2t/models/transformer_prepend.py", "_lengths(keep_BS)[:, None] + ops.arange(count)",
        "source_length + ops.zeros_like(targets_BT) + ops.arange(count)",
        "test_models_transformer_prepend::test_logits_are_those_of_an_independent_model_whatever_the_padding",
    ),
    Mutation(
        "encoder sees padding", "What a sentence is translated to depends on the longest sentence of its batch.",
        "t2t/models/transformer.py", "self.encoder(x_BSD, keep_BS, number_BS, seed=seed)",
        "self.encoder(x_BSD, ops.ones_like(keep_BS), seed=seed)",
        "test_equivalence_updates::test_padding_changes_neither_loss_nor_gradients",
    ),
    Mutation(
        "constant of the length penalty", "Scores are not those of the GNMT penalty.",
        "t2t/decoding/penalties.py", "((5.0 + n) / 6.0)", "((5.0 + n) / 5.0)",
        "test_decoding_parts::test_penalties_by_hand",
    ),
    Mutation(
        "n-grams repeated once more", "An n-gram may be repeated at once after itself.",
        "t2t/decoding/constraints/token_rules.py", "starts_T + size <= position", "starts_T + size < position",
        "test_decoding_constrained",
    ),
    Mutation(
        "trees of one id too many", "A phrase is begun that cannot be ended before the longest output is full.",
        "t2t/decoding/constraints/tree_automaton.py", "words_N + depth_N + 3 <= room", "words_N + depth_N + 2 <= room",
        "test_decoding_trees",
    ),
    Mutation(
        "phrases that overlap are missed",
        "Where a phrase breaks off, the beginning of another one in it is forgotten.",
        "t2t/specs/constraints/phrases.py", "node = self.shorter[node]\n", "node = 0\n", "test_decoding_phrases",
    ),
    Mutation(
        "beams shared out to nobody", "Hypotheses with forced phrases lose against those without.",
        "t2t/decoding/banks.py", "ops.minimum(banks_BC, MOST_BANKS - 1)", "ops.minimum(banks_BC, 0)",
        "test_decoding_phrases::test_banks_take_turns_by_hand",
    ),
    Mutation(
        "coverage without a bound", "A word that was looked at many times makes up for one that was not looked at.",
        "t2t/decoding/coverage.py", "ops.log(ops.minimum(coverage_NS, 1.0))", "ops.log(coverage_NS)",
        "test_decoding_coverage",
    ),
    Mutation(
        "sampling temperature inverted", "A low temperature draws more evenly instead of less.",
        "t2t/decoding/sampling.py", "shaped_NV = log_probs / temperature", "shaped_NV = log_probs * temperature",
        "test_decoding_sampling::test_draws_follow_the_distribution_asked_for",
    ),
    Mutation(
        "top-k keeps one less of equals", "Sampling from the k most probable tokens draws from k - 1.",
        "t2t/decoding/topk.py", 'ops.cumsum(ops.cast(level, "int32"), axis=-1) <= room',
        'ops.cumsum(ops.cast(level, "int32"), axis=-1) < room', "test_decoding_topk::test_keep_top_k_equals_numpy",
    ),
    Mutation(
        "most probable words masked again", "Mask-predict predicts the words again that it is most sure of.",
        "t2t/decoding/mask_predict.py", 'ops.argsort(ops.where(is_word, log_probs, float("inf")), axis=-1)',
        'ops.argsort(ops.where(is_word, -log_probs, float("inf")), axis=-1)', "test_decoding_mask_predict",
    ),
    Mutation(
        "search stops too early", "A sentence ends though a longer hypothesis would have a better score.",
        "t2t/decoding/beam_search.py", 'reachable_B = active_log_probs[:, 0] / penalty(ops.cast(limits, "float32"))',
        'reachable_B = active_log_probs[:, 0] / penalty(ops.ones_like(limits, dtype="float32"))',
        "test_decoding_beam_search",
    ),
    Mutation(
        "BLEU's tokenizer of the language", "A line of Chinese counts as one word.",
        "t2t/metrics/text.py", 'options = {"tokenize": bleu_tokenizer(language), **options}',
        'options = {"tokenize": bleu_tokenizer(""), **options}', "test_metrics_text",
    ),
    Mutation(
        "EVALB counts punctuation", "Words whose tags are to be deleted move the spans of brackets.",
        "t2t/metrics/brackets/sentence.py", "if tag not in parameters.delete_labels:", 'if tag != "-NONE-":',
        "test_metrics_brackets",
    ),
    Mutation(
        "outputs of a resumed run are kept twice",
        "A run that went back to an earlier checkpoint shows outputs of weights that it gave up.",
        "t2t/checkpoints/dev_outputs.py", "old.step < one.step]", "old.step != one.step]",
        "test_checkpoints_dev_outputs",
    ),
    Mutation(
        "average divided by n - 1", "Averaged weights are too large.",
        "t2t/checkpoints/averaging.py", "(total / count).astype", "(total / max(1, count - 1)).astype",
        "test_checkpoints_averaging",
    ),
    Mutation(
        "latest before its checkpoint", "After a crash the pointer names a checkpoint that was never written.",
        "t2t/checkpoints/store.py",
        '            self._folders.write(name, "step-*", lambda folder: write_checkpoint(folder, checkpoint))\n   '
        "         self._latest.write(step=step)\n",
        "            self._folders.make_root()\n            self._latest.write(step=step)\n            "
        'self._folders.write(name, "step-*", lambda folder: write_checkpoint(folder, checkpoint))\n',
        "test_checkpoints_crashes",
    ),
    Mutation(
        "checkpoint without its optimizer", "A resumed run starts with empty slots.",
        "t2t/checkpoints/checkpoint.py", "if arrays is not None:\n            write_arrays",
        'if arrays is not None and part != "optimizer":\n            write_arrays', "test_checkpoints_checkpoint",
    ),
    Mutation(
        "moments of Adam exchanged", "An imported run goes on with the first moments as the second.",
        "t2t/importing/tensor2tensor/weights.py", '{"Adam": "momentum", "Adam_1": "velocity"}',
        '{"Adam": "velocity", "Adam_1": "momentum"}',
        "test_importing_tensor2tensor::test_the_moments_of_adam_come_along",
    ),
    # Floor 6: engines
    Mutation(
        "batches of JAX cut", "Replicas whose batches differ in size end with an error of numpy.",
        "t2t/training/jax/padding.py", "[max(of_axis) for of_axis in zip(*shapes, strict=True)]",
        "[min(of_axis) for of_axis in zip(*shapes, strict=True)]",
        "test_training_jax_padding::test_batches_are_padded_to_few_shapes_where_padding_is_no_data",
    ),
    Mutation(
        "loss divided by replica", "Tokens of short batches weigh more: a mean of means instead of one global mean.",
        "t2t/training/tensorflow/step.py",
        "self._reduce(problem, applies, done, stops, *self._local_sums(problem, features, seeds))",
        "self._reduce(problem, applies, done, stops, *(lambda gradient, counts: (gradient / counts[1], counts / "
        "counts[1]))(*self._local_sums(problem, features, seeds)))",
        "test_equivalence_updates::test_gradient_is_the_sum_over_replicas_divided_by_the_global_tokens",
    ),
    Mutation(
        "statistics of a mean of parts",
        "Changes of moving moments are divided by the examples that they were not multiplied by.",
        "t2t/training/tensorflow/local_gradient.py", "changes = [tf.concat(changes, axis=0) * found.loss.tokens]",
        "changes = [tf.concat(changes, axis=0)]",
        "test_equivalence_statistics::test_moving_moments_move_by_the_mean_of_the_parts_weighted_by_their_examples",
    ),
    Mutation(
        "Adam's bias correction off by one", "First updates are too small.",
        "t2t/training/tensorflow/adam.py", "update = tf.cast(self.iterations.value + 1, tf.float32)",
        "update = tf.cast(self.iterations.value + 2, tf.float32)",
        "test_training_optimizers::test_adams_first_step_is_the_rate_whatever_the_gradient",
    ),
    Mutation(
        "warm-up off by one", "The first update has rate 0.",
        "t2t/training/schedules.py", "return rate * update / warmup", "return rate * (update - 1) / warmup",
        "test_training_schedules::test_the_other_shapes",
    ),
    Mutation(
        "biased reward gradient",
        "The gradient of the expected reward is too small compared with that of the likelihood.",
        "t2t/training/sampled_objectives.py", "centred_BK / (samples_BK.shape[1] - 1)",
        "centred_BK / samples_BK.shape[1]",
        "test_training_sampled_objectives::test_the_estimate_of_the_expected_reward_is_unbiased",
    ),
    Mutation(
        "one dropout mask for all micro-batches", "Every micro-batch of an update drops the same values.",
        "t2t/training/seeds.py", "{update} {micro_batch} {replica}", "{update} {replica}",
        "test_training_parts::test_seeds_are_all_different_and_leave_room_for_a_layers_number",
    ),
    Mutation(
        "best is the largest loss",
        "Of a figure whose smaller values are better, the worst checkpoint is marked as the best.",
        "t2t/training/callbacks/best.py", "(-self._sign * entry[1], entry[0])", "(-entry[1], entry[0])",
        "test_training_callbacks::test_lower_is_better_where_the_metric_says_so",
    ),
    Mutation(
        "only the best checkpoint is kept", "Of the best checkpoints that a run keeps, all but the first are removed.",
        "t2t/checkpoints/best.py", "return marked | {found.step for found in self.ranking()}",
        "return marked | {found.step for found in self.ranking()[:1]}", "test_checkpoints_best",
    ),
    Mutation(
        "what one hypothesis has is certain", "Text that is sent while a beam is searched is taken back.",
        "t2t/inference/partial_outputs.py", "return [_common_prefix(held)]", "return [held[0]]",
        "test_inference_partial_outputs",
    ),
    Mutation(
        "no room for end of sequence", "A cut input has one id more than the model takes.",
        "t2t/inference/rows.py", "longest = max_sequence_ids(model, hparams) - 1",
        "longest = max_sequence_ids(model, hparams)",
        "test_inference_translator::test_too_long_an_input_is_cut_and_said_to_be",
    ),
    Mutation(
        "limit of the longest line for all", "What is decoded next to a longer line may be longer than its own limit.",
        "t2t/inference/ctranslate2/engine.py", "any(len(tokens) > limits[index] for tokens, _ in hypotheses)", "False",
        "test_inference_ctranslate2_engine::test_greedy_outputs_and_their_figures_are_the_same",
    ),
    Mutation(
        "few sizes of batches", "JAX compiles a program for every number of sentences.",
        "t2t/inference/jax/sizes.py", "return padded_size(rows, parts=2)", "return rows",
        "test_inference_jax_sizes::test_few_sizes_and_little_padding",
    ),
    Mutation(
        "unfinished sentences that are joined",
        "Sentences of a batch are lost where unfinished ones of several batches wait together.",
        "t2t/inference/tensorflow/batch_queue.py", "self._unfinished.pop(min(self._unfinished))",
        "[self._unfinished.pop(min(self._unfinished))[0]]", "test_inference_batch_search",
    ),
    Mutation(
        "candidates of the whole batch",
        "With a shortlist, an output may have candidates of other sentences of its batch.",
        "t2t/inference/batch_search.py", "token_ids, allowed_NC)", "token_ids)",
        "test_inference_batch_search_shortlist::test_a_batch_is_its_sentences_one_by_one",
    ),
    Mutation(
        "translations without alternatives", "Pieces of a source do not compete for a target piece.",
        "t2t/inference/shortlist/model1.py", "_divide(probs_P, totals_P)", "probs_P",
        "test_inference_shortlist_model1::test_two_iterations_by_hand",
    ),
    Mutation(
        "end of sequence not scored", "The probability of an output is that of all outputs that begin with it.",
        "t2t/inference/pair_scorer.py", "score(rows, [[*ids, EOS_ID] for ids in targets]",
        "score(rows, [[*ids] for ids in targets]",
        "test_inference_translator::test_scores_by_hand_one_by_one_and_together",
    ),
    Mutation(
        "alignment by single tokens",
        "A word is aligned by its piece with the largest weight instead of by the sum over its pieces.",
        "t2t/inference/word_links.py", "np.add.at(weights_VW,", "np.maximum.at(weights_VW,",
        "test_inference_word_links::test_weights_of_pieces_are_added_up",
    ),
    Mutation(
        "alignment of the last layer",
        "The default is the last layer, whose attention is further from word alignments.",
        "t2t/inference/alignment.py", "return layer - 1 if layer else max(count - 2, 0)", "return layer - 1",
        "test_inference_alignment::test_each_word_is_linked_to_what_it_looks_at_most_whatever_is_in_the_batch",
    ),
    Mutation(
        "possible links count as sure", "Alignment error rate asks for links that are only possible.",
        "t2t/metrics/alignment.py", "sure_links += len(sure_set)", "sure_links += len(sure_set | set(possible))",
        "test_metrics_alignment",
    ),
    Mutation(
        "width of sound on JAX", "Sound is not padded to few widths where it is longer than the model's longest text.",
        "t2t/training/jax/padding.py", "counts_ids = is_sampled or self._kinds[name] == FeatureKind.TOKENS",
        "counts_ids = True", "test_training_jax_padding",
    ),
    Mutation(
        "width of candidates on JAX", "JAX compiles a program for each length of sampled candidates.",
        "t2t/training/jax/padding.py", "axis = 2 if is_sampled else 1", "axis = 1", "test_training_jax_padding",
    ),
    Mutation(
        "padding beyond the longest", "Batches of JAX are padded beyond the positions that a model has.",
        "t2t/training/jax/padding.py", "min(wanted, (counts_ids and self._longest) or wanted)", "wanted",
        "test_training_jax_padding",
    ),
    Mutation(
        "empty images count", "Replicas with fewer images get empty ones, which count as examples.",
        "t2t/training/jax/padding.py", "return common if pads or all(shape == common for shape in shapes_R) else None",
        "return common", "test_training_jax_padding",
    ),
    Mutation(
        "constraints of many sizes", "JAX compiles a program for every few states of constraints.",
        "t2t/inference/jax/sizes.py", "padded_size(states, parts=2, least=32)", "padded_size(states, parts=2)",
        "test_inference_jax_sizes",
    ),
    Mutation(
        "edges of constraints without any", "Constraints without exceptions take the time of those with some.",
        "t2t/inference/jax/sizes.py", "padded_size(edges, parts=2, least=4) if edges else 0",
        "padded_size(edges, parts=2, least=4)", "test_inference_jax_sizes",
    ),
    Mutation(
        "phrases that are too deep to be closed", "A tree has no room for the ends of its open phrases.",
        "t2t/decoding/constraints/tree_automaton.py", "words_N + depth_N + 3 <= room", "words_N + 3 <= room",
        "test_decoding_trees",
    ),
    Mutation(
        "any label closes a phrase", "The end of a phrase has another label than its beginning.",
        "t2t/decoding/constraints/tree_automaton.py",
        "ops.logical_and(ops.take(allowed_NC, kinds_V, axis=1), ops.logical_not(wrong_end_NV))",
        "ops.take(allowed_NC, kinds_V, axis=1)", "test_decoding_trees",
    ),
    Mutation(
        "an output ends anywhere", "Constraints are left before they are met.",
        "t2t/decoding/constraints/finite_automaton.py", "may_end_N1 = ops.take(self.is_final, states_N)[:, None]",
        "may_end_N1 = ops.take(self.ids_before_end, states_N)[:, None] >= 0",
        "test_decoding_constraints test_decoding_phrases",
    ),
    Mutation(
        "padding is a word of automata", "Constrained outputs may hold padding.",
        "t2t/decoding/constraints/finite_automaton.py",
        "ops.where(is_end_V, may_end_N1, ops.logical_and(allowed_NV, ops.logical_not(is_padding_V)))",
        "ops.where(is_end_V, may_end_N1, allowed_NV)", "test_decoding_constraints test_decoding_phrases",
    ),
    Mutation(
        "no end where the least length is not reached",
        "A row in which only the end of sequence is left has nothing that it may write.",
        "t2t/decoding/constraints/token_rules.py", "ops.where(has_others_N1, delayed_NV, found.scores)", "delayed_NV",
        "test_decoding_constrained test_decoding_constraints test_decoding_parts",
    ),
    Mutation(
        "the penalty of the end is a reward", "A penalty on the end of sequence makes outputs shorter.",
        "t2t/decoding/constraints/token_rules.py", "found.scores - penalty *", "found.scores + penalty *",
        "test_decoding_constrained test_decoding_constraints test_decoding_parts",
    ),
    Mutation(
        "scheduled sampling from the first update", "The share of predictions does not rise but begins at its value.",
        "t2t/training/objectives.py", "self._probability * min(1.0, update / self._warmup)", "self._probability",
        "test_training_objectives",
    ),
    Mutation(
        "padding is replaced by predictions", "Scheduled sampling reads predictions behind the end of a target.",
        "t2t/training/objectives.py", "ops.logical_and(drawn_BT, ops.not_equal(targets_BT, PAD_ID))", "drawn_BT",
        "test_training_objectives",
    ),
    Mutation(
        "the risk has no mean", "The weights of minimum risk do not depend on the other candidates.",
        "t2t/training/sampled_objectives.py", "q_BC * (rewards_BC - ops.sum(q_BC * rewards_BC, axis=1, keepdims=True))",
        "q_BC * rewards_BC", "test_training_sampled_objectives::test_the_weights_of_the_risk_are_its_gradient",
    ),
    Mutation(
        "rewards of the target", "The reported reward of samples holds the reference's, and is too high.",
        "t2t/training/sampled_objectives.py", "rewards[has_target_B, 1:]", "rewards[has_target_B]",
        "test_training_sampled_objectives::test_the_mean_reward_is_that_of_the_samples_since_it_was_last_asked_for",
    ),
)
# fmt: on
