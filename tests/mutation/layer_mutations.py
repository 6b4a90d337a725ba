"""Mutations of floor 4: layers."""

from tests.mutation.mutation import Mutation

# fmt: off
LAYER_MUTATIONS = (
    Mutation(
        "smoothing over all classes", "Label smoothing of kind `others` spreads over V entries instead of V - 1.",
        "t2t/layers/losses.py", "return smoothing * vocab_size / (vocab_size - 1) if", "return smoothing if",
        "test_layers_losses::test_others_by_hand",
    ),
    Mutation(
        "adapters without their scale", "What adapters add does not depend on lora_alpha.",
        "t2t/layers/adapters.py", "values[b.path]) * self.scale)", "values[b.path]))",
        "test_layers_adapters::test_a_layer_by_hand",
    ),
    Mutation(
        "adapters that share a base", "A model with adapters over a base that is shared answers as the base.",
        "t2t/models/adapted.py", "mapping |= {id(weight): (weight, value)", "mapping | {id(weight): (weight, value)",
        "test_models_adapted::test_the_logits_are_those_of_merged_weights",
    ),
    Mutation(
        "backward recurrences of exports",
        "An exported encoder that reads from the last word to the first reads in the order of the text.",
        "t2t/layers/loops.py", "count - 1 - i if reverse else i", "i", "test_layers_loops",
    ),
    Mutation(
        "causal mask off by one", "A position sees the token that it has to predict.",
        "t2t/layers/masks.py", "EVERYTHING, CAUSAL = Span(), Span(after=0)",
        "EVERYTHING, CAUSAL = Span(), Span(after=1)",
        "test_layers_attention::test_a_query_sees_itself_and_what_came_before",
    ),
    Mutation(
        "attention scaled by the heads",
        "Scores are divided by the root of the number of heads instead of that of the key channels.",
        "t2t/layers/attention.py", "float(k_BJSK.shape[-1]) ** -0.5", "float(k_BJSK.shape[1]) ** -0.5",
        "test_layers_attention::test_weights_by_hand",
    ),
    Mutation(
        "relative positions back to front", "The vector of the next position is that of the one before.",
        "t2t/layers/relative_positions.py", "ops.clip(offset_PS, ", "ops.clip(-offset_PS, ",
        "test_layers_relative_positions::test_scores_by_hand",
    ),
    Mutation(
        "relative biases back to front", "Keys after a query have the biases of those before it.",
        "t2t/layers/relative_bias.py", "ops.clip(offset_PS, ", "ops.clip(-offset_PS, ",
        "test_layers_relative_bias::test_scores_by_hand",
    ),
    Mutation(
        "rotary positions of queries alone", "Scores depend on where a query is and not on how far away its keys are.",
        "t2t/layers/attention.py", "query, key = rotate(query, position_T), rotate(key, position_T)",
        "query = rotate(query, position_T)",
        "test_models_transformer_reference::test_logits_are_those_of_the_reference",
    ),
    Mutation(
        "base of the sinusoids", "The slowest waves are ten times too fast.",
        "t2t/layers/positions.py", "np.power(10000.0, ", "np.power(1000.0, ",
        "test_layers_others::test_sinusoids_by_hand",
    ),
    Mutation(
        "halting without the remainder", "The weights of a position's steps do not sum to one.",
        "t2t/layers/depth_recurrence.py", "ops.where(halts, 1.0 - total, h)", "h",
        "test_models_universal_transformer::test_halting_by_hand",
    ),
    Mutation(
        "one dropout mask for all steps of a recurrence",
        "A layer that is applied repeatedly drops the same values each time.",
        "t2t/layers/depth_recurrence.py", "seed = seed_of_step(self.seed, step)", "seed = self.seed",
        "test_models_universal_transformer::test_each_step_has_dropout_masks_of_its_own",
    ),
    Mutation(
        "one dropout mask for all layers", "Layers of equal shapes drop the same values.",
        "t2t/layers/dropout.py", "seed[-1:] + ops.cast(self.salt, seed.dtype)", "seed[-1:]",
        "test_layers_others::test_a_mask_depends_on_seed_and_name_alone",
    ),
    Mutation(
        "embeddings not scaled",
        "Positions drown the vectors of the tokens, which are not multiplied by the root of the width.",
        "t2t/layers/modalities/tokens.py", "self.compute_dtype) * self.width**0.5", "self.compute_dtype)",
        "test_layers_others::test_embeddings_are_scaled_by_the_root_of_the_width_and_the_output_layer_is_not",
    ),
    Mutation(
        "batch norms in training everywhere",
        "An answer depends on the other images of its batch, and evaluating moves the moments.",
        "t2t/layers/batch_norm.py", "training=seed is not None and self.gamma.trainable", "training=True",
        "test_layers_batch_norm::test_without_a_seed_it_uses_the_moving_moments_and_keeps_them",
    ),
    Mutation(
        "one weight of branches for both directions", "Shake-Shake draws no weights of its own for the gradient.",
        "t2t/layers/shake_shake.py", "differentiated = backward * first + (1.0 - backward) * second",
        "differentiated = computed",
        "test_layers_shake_shake::test_a_sum_has_one_weight_forwards_and_another_backwards",
    ),
    Mutation(
        "windows without the rows above",
        "Queries of a block look at the block after theirs instead of the one before.",
        "t2t/layers/local_attention.py", "parts.insert(0, ops.concatenate([none, blocks[:-1]], axis=0)",
        "parts.insert(0, ops.concatenate([none, blocks[1:]], axis=0)",
        "test_layers_local_attention::test_it_is_that_of_whole_matrices",
    ),
    Mutation(
        "content and gate of WaveNet exchanged", "The channels that carry the content gate, and those that gate carry.",
        "t2t/layers/wavenet.py", "z = ops.tanh(content) * ops.sigmoid(gate)",
        "z = ops.sigmoid(content) * ops.tanh(gate)", "test_models_wavenet::test_a_gated_block_by_hand",
    ),
    Mutation(
        "time masks beyond the data", "Frames of padding are masked, and those of short examples seldom.",
        "t2t/layers/modalities/spec_augment.py",
        "of_time_BF = masked(drawn_2BK[:, :, first:], widest_B1, length_B1, frames)",
        "of_time_BF = masked(drawn_2BK[:, :, first:], widest_B1, float(frames), frames)",
        "test_layers_spec_augment::test_a_batch_has_masks_of_both_kinds_within_their_bounds_and_the_rest_stays",
    ),
    Mutation(
        "tubelets that end in padding dropped", "The last frame of a clip of an odd number of frames is not looked at.",
        "t2t/layers/modalities/video.py", "_frames_keep(clips_BTYXC)[:, :: self.frames]",
        "_frames_keep(clips_BTYXC)[:, self.frames - 1 :: self.frames]", "test_layers_video",
    ),
    Mutation(
        "SSRU forgets between blocks",
        "A block of positions sees the state of the block before it, and none of those before that.",
        "t2t/layers/ssru.py", "return product_BD * end_BD + state_BD", "return state_BD",
        "test_layers_ssru::test_states_of_blocks_are_those_of_a_loop_over_positions",
    ),
    Mutation(
        "examples of a row see each other", "An example of a packed row attends to those before it.",
        "t2t/layers/masks.py", "ops.equal(query_BT[:, None, :, None], key_BS[:, None, None, :])",
        "ops.greater_equal(query_BT[:, None, :, None], key_BS[:, None, None, :])",
        "test_models_packing::test_loss_and_gradients_are_those_of_a_row_each",
    ),
    Mutation(
        "tape with the word to be written", "A step of the Extended Neural GPU reads the word that it has to predict.",
        "t2t/layers/output_tape.py", "[:, None] < position", "[:, None] <= position",
        "test_models_extended_neural_gpu::test_the_word_before_stands_on_the_tape_at_its_own_position",
    ),
    Mutation(
        "a memory that forgets the word before", "A word of the Markovian Neural GPU depends on its position alone.",
        "t2t/models/markovian_neural_gpu.py", " + self.word_map(self.target_embedding.before(ids, seed=seed))", "",
        "test_models_extended_neural_gpu::test_a_word_of_the_markovian_one_depends_on_the_word_before_it_and_on_"
        "no_other",
    ),
    Mutation(
        "experts weighted without their group",
        "Of experts in two levels, each group that was chosen counts as much as the best one.",
        "t2t/layers/experts.py", "weights_NJJ = outer.weights[..., None] * inner.weights",
        "weights_NJJ = inner.weights", "test_layers_experts::test_two_levels_by_the_formulas",
    ),
    Mutation(
        "target lines of the grid not shifted",
        "A block reads what its own target position left at another word, not the position before it.",
        "t2t/layers/grid_lstm.py", "ops.pad(x[:-1], ((1, 0), (0, 0), (0, 0)))", "x",
        "test_models_grid_lstm::test_logits_are_those_of_an_independent_model_whatever_the_padding",
    ),
)
# fmt: on
