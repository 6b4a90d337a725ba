"""The sections of `t2t.hparams.base.HParams`: model, objective, optimizer, schedule, batches, training, decoding."""

from dataclasses import dataclass

from t2t.hparams.field import UsedWhen, param, training_fraction
from t2t.registry import OBJECTIVES, OPTIMIZERS, SCHEDULES, SEARCH_METHODS

MASK_PREDICT = "mask_predict"
"""Decoding method of conditional masked language models, see `t2t.search.mask_predict`."""
_DECAYING = UsedWhen("learning_rate_schedule", ("linear", "cosine"), SCHEDULES)
_SAMPLING = UsedWhen("decode_method", ("sample",), SEARCH_METHODS)
_BEAM = UsedWhen("decode_method", ("beam",), SEARCH_METHODS)
_TOKEN_BY_TOKEN = UsedWhen("decode_method", ("beam", "greedy", "sample"), SEARCH_METHODS)
_MASK_PREDICT = UsedWhen("decode_method", (MASK_PREDICT,))
_LIKELIHOOD = UsedWhen("objective", ("likelihood",), OBJECTIVES)
_SAMPLED = UsedWhen("objective", ("expected_reward", "minimum_risk"), OBJECTIVES)
_MOMENTUM = UsedWhen("optimizer", ("momentum",), OPTIMIZERS)
_BELOW_1 = 0.999999
"""Largest decay: with 1, a moving average would never change."""


@dataclass(kw_only=True)
class EveryModelHParams:
    """Hparams of every model; model families add their own, see `t2t.hparams.base`."""

    hidden_size: int = param(512, "Width D of the hidden states, in channels.", minimum=1, only_shapes=True)
    num_hidden_layers: int = param(6, "Number of layers in each stack.", minimum=1, only_shapes=True)
    max_length: int = param(
        256, "Longest training example, in ids with end of sequence: longer ones are skipped, or truncated if the "
        "target is a class. Also the number of learned positions.", minimum=2, only_trains=True,
    )  # fmt: skip
    label_smoothing: float = training_fraction(
        0.1, "Probability mass e spread evenly over the vocabulary, a fraction; only with objective=likelihood."
    )
    label_smoothing_kind: str = param(
        "all", "Tokens that get e. all: e/K for all K tokens, as in the paper's reference; others: e/(K-1) for all but "
        "the target, as in Tensor2Tensor.",
        choices=("all", "others"), only_trains=True,
    )  # fmt: skip
    symbol_dropout: float = training_fraction(
        0.0, "Fraction of input and target tokens whose embeddings are replaced by zeros during training."
    )
    target_start: str = param(
        "zero", "First input vector of the decoder. zero: zeros, as in Tensor2Tensor; pad: the embedding of padding, "
        "as in T5; id: that of target_start_id, as in fairseq and BART.", choices=("zero", "pad", "id"),
    )  # fmt: skip
    target_start_id: int = param(
        1, "Id whose embedding is the first input vector of the decoder; 1 = end of sequence.", minimum=1,
        used_when=UsedWhen("target_start", ("id",)),
    )  # fmt: skip
    shared_embedding: bool = param(
        True, "Whether inputs and targets share an embedding table, if vocabularies permit.", only_shapes=(True,)
    )
    shared_embedding_and_softmax_weights: bool = param(
        True, "Whether the output layer shares the weights of the target embedding table.", only_shapes=(True,)
    )
    output_bias: bool = param(
        False, "Whether the output layer has a bias for each token; the paper's has none.", only_shapes=(False,)
    )
    input_modality: str = param(
        "", "Name of the modality that turns inputs into vectors; empty = the default for their kind."
    )
    target_modality: str = param("", "Name of the modality that predicts targets; empty = the default for their kind.")

    @property
    def output_size(self) -> int:
        """Channels of the output of the model's body."""
        return self.hidden_size

    def complaints(self) -> list[str]:
        """Returns an error text for each inconsistency between the values."""
        return []


@dataclass(kw_only=True)
class ObjectiveHParams:
    """What training minimizes, see `t2t.training.objectives`."""

    objective: str = param(
        "likelihood", "Name of the objective to maximize. likelihood: the likelihood of the targets; expected_reward: "
        "the mean metric of sampled outputs; minimum_risk: the same, with probabilities normalized over samples and "
        "target; or that of a plug-in.", choices=OBJECTIVES,
    )  # fmt: skip
    objective_metric: str = param(
        "gleu", "Text metric that scores each sampled output against its target.", used_when=_SAMPLED
    )
    objective_samples: int = param(
        15, "Outputs sampled for each input in an update.", minimum=2, maximum=10_000, used_when=_SAMPLED
    )
    objective_likelihood_weight: float = param(
        0.017, "Weight of the log-likelihood of the target, added to the reward of the samples.", minimum=0.0,
        used_when=_SAMPLED,
    )  # fmt: skip
    objective_sharpness: float = param(
        0.005, "Exponent of the probabilities in the distribution over the samples.", minimum=1e-6,
        used_when=UsedWhen("objective", ("minimum_risk",), OBJECTIVES),
    )  # fmt: skip
    scheduled_sampling_prob: float = param(
        0.0, "Probability that the decoder reads a token predicted by the model instead of the target's; 0 = never.",
        minimum=0.0, maximum=1.0, used_when=_LIKELIHOOD,
    )  # fmt: skip
    scheduled_sampling_warmup_steps: int = param(
        50_000, "Updates over which scheduled_sampling_prob rises linearly from 0.", minimum=0, used_when=_LIKELIHOOD
    )

    @property
    def rows_per_example(self) -> int:
        """Rows of a training batch for each example: its target and the sampled outputs."""
        samples = self.objective in _SAMPLED.values or (
            OBJECTIVES.is_of_plugin(self.objective) and OBJECTIVES.get(self.objective).samples_outputs
        )
        return 1 + self.objective_samples if samples else 1


@dataclass(kw_only=True)
class OptimizerHParams:
    """Optimizer, clipping, adapters and averaging of weights."""

    optimizer: str = param("adam", "Name of the optimizer.", choices=OPTIMIZERS)
    optimizer_adam_beta1: float = param(0.9, "Decay of the first moment, a fraction.", minimum=0.0, maximum=_BELOW_1)
    optimizer_adam_beta2: float = param(0.98, "Decay of the second moment, a fraction.", minimum=0.0, maximum=_BELOW_1)
    optimizer_adam_epsilon: float = param(1e-9, "Added to the root of the second moment.", minimum=1e-30)
    optimizer_momentum_momentum: float = param(
        0.9,
        "Momentum: the decay of the sum of past steps, a fraction.",
        minimum=0.0,
        maximum=_BELOW_1,
        used_when=_MOMENTUM,
    )
    optimizer_momentum_nesterov: bool = param(False, "Whether to use Nesterov's momentum.", used_when=_MOMENTUM)
    weight_decay: float = param(
        0.0, "Weight decay, multiplied by the learning rate at each update; with momentum it is L2 regularization, "
        "added to the gradient.", minimum=0.0,
        used_when=UsedWhen("optimizer", ("adamw", "lamb", "muon", "momentum"), OPTIMIZERS),
    )  # fmt: skip
    optimizer_adamax_clip: float = param(
        0.0, "Clips each weight's gradient to this factor times its largest past gradient; 0 = never.", minimum=0.0,
        used_when=UsedWhen("optimizer", ("adamax",)),
    )  # fmt: skip
    gradient_noise: float = param(
        0.0,
        "Scale of Gaussian noise added to the mean gradient; its standard deviation is this / update^0.275.",
        minimum=0.0,
    )
    clip_grad_norm: float = param(
        0.0,
        "Clips the global norm of the gradient, after averaging over tokens, to this; 0 = no clipping.",
        minimum=0.0,
    )
    gradient_reduction: str = param(
        "float32", "Number type of the all-reduce of gradients; bfloat16 halves the traffic, and rounds to 8 "
        "significant bits.", choices=("float32", "bfloat16"),
    )  # fmt: skip
    frozen_weights: str = param(
        "", "Regular expression: weights whose path contains a match are not trained, e.g. /encoder/|embedding; empty "
        "= all are trained."
    )  # fmt: skip
    lora_rank: int = param(
        0, "Rank R of LoRA adapters, which are trained instead of the weights of --warm_start_from: a weight W becomes "
        "W + A B lora_alpha / R; 0 = no adapters.", minimum=0,
    )  # fmt: skip
    lora_targets: str = param(
        "query_kernel|value_kernel",
        "Regular expression: weights whose path contains a match get adapters, with lora_rank.",
    )
    lora_alpha: float = param(16.0, "Scale of the adapters; A B is multiplied by lora_alpha / lora_rank.", minimum=1e-6)
    ema_decay: float = param(
        0.0, "Decay per update of an exponential moving average of the weights, used to evaluate and decode; 0 = none.",
        minimum=0.0, maximum=_BELOW_1,
    )  # fmt: skip

    @property
    def decoupled_weight_decay(self) -> float:
        """Weight decay applied to the weights directly instead of through the gradient."""
        return 0.0 if self.optimizer == "momentum" else self.weight_decay


@dataclass(kw_only=True)
class ScheduleHParams:
    """Learning rate schedule, see `t2t.training.schedules`."""

    learning_rate_schedule: str = param("noam", "Shape of the learning rate over the updates.", choices=SCHEDULES)
    learning_rate: float = param(
        1.0, "Factor on the formula (noam and rsqrt_decay), or the peak rate (others).", minimum=0.0
    )
    learning_rate_warmup_steps: int = param(
        4000, "Updates of linear warm-up; with rsqrt_decay, updates with a constant rate.", minimum=0
    )
    learning_rate_minimum: float = param(0.0, "Rate at the end of the decay.", minimum=0.0, used_when=_DECAYING)


@dataclass(kw_only=True)
class BatchHParams:
    """How examples become batches, see `t2t.data.reading.batching`."""

    batch_size: int = param(
        4096,
        "Padded tokens per side per replica per step; of clips, frames; of audio, units of 10 ms; for problems without "
        "sequences, examples.",
        minimum=1,
    )
    effective_batch_size: int = param(
        0, "Padded tokens per side per update, over all replicas, reached by gradient accumulation; 0 = one step. Of "
        "problem_batch_sizes, the largest is counted.", minimum=0,
    )  # fmt: skip
    shuffle_window: int = param(
        16384, "Number of examples that are sorted by length together before they are split into batches.", minimum=1
    )
    length_bucket_step: float = param(
        1.0, "Factor between successive padded lengths; 1 = any length may occur.", minimum=1.0
    )
    curriculum_length: int = param(
        0, "Curriculum: initial limit on the length of training examples, in ids with end of sequence; it rises "
        "linearly to max_length. 0 = none.", minimum=0,
    )  # fmt: skip
    curriculum_steps: int = param(
        1000, "Updates of a problem over which the limit of curriculum_length rises to max_length.", minimum=1
    )
    fixed_shapes: int = param(
        0, "Largest number of shapes (rows and both lengths) of training batches, for compilers that compile each "
        "shape; 0 = any, or 16 with xla.", minimum=0,
    )  # fmt: skip
    fixed_shapes_multiple: int = param(
        0, "With fixed_shapes, lengths are multiples of this, at most max_length; 0 = 8 with xla, which suits GPUs, "
        "else 1.", minimum=0,
    )  # fmt: skip
    max_input_seq_length: int = param(
        0, "Ids of a text at the input that training and its evaluation read, as in Tensor2Tensor: the rest is cut "
        "off, with the end of sequence. 0 = all.", minimum=0,
    )  # fmt: skip
    max_target_seq_length: int = param(
        0, "The same at the output. Outputs that are longer then often have no end.", minimum=0,
    )  # fmt: skip
    packed_length: int = param(
        0, "Length of rows, in ids, into which several training examples are packed; they do not attend to each other. "
        "At least the longest example; 0 = one example per row.", minimum=0,
    )  # fmt: skip


@dataclass(kw_only=True)
class MixtureHParams:
    """Mixing of several problems in one run, see `t2t.data.reading.mixture`; only read with several --problems."""

    problem_choice: str = param(
        "uniform", "How the problem of each update is chosen. uniform: all with equal probability; size: in proportion "
        "to (training examples)^(1/T) with problem_temperature T; weights: by problem_weights.",
        choices=("uniform", "size", "weights"),
    )  # fmt: skip
    problem_temperature: float = param(
        1.0, "Temperature T: 1 = in proportion to the sizes; larger values are more uniform.", minimum=0.1,
        used_when=UsedWhen("problem_choice", ("size",)),
    )  # fmt: skip
    problem_weights: tuple[float, ...] = param(
        (1.0,), "Relative frequency of each problem, in the order of --problems.",
        used_when=UsedWhen("problem_choice", ("weights",)),
    )  # fmt: skip
    shared_modalities: bool = param(
        False, "Whether all problems share one embedding and one output layer; they must have the same vocabulary, see "
        "--shared_vocab_file.",
    )  # fmt: skip
    problem_batch_sizes: tuple[int, ...] = param(
        (0,), "Batch size of each problem, in the order of --problems, or one for all; 0 = batch_size.",
    )  # fmt: skip


@dataclass(kw_only=True)
class TrainHParams:
    """Length and precision of training, and early stopping."""

    train_steps: int = param(100_000, "Updates after which training ends.", minimum=0)
    precision: str = param(
        "float32", "Type of activations; weights stay float32. tensorfloat32: float32, but GPUs may round factors of "
        "matrix products to 11 bits. auto: mixed_bfloat16 where the hardware supports it, else float32; a resumed run "
        "keeps its precision.", choices=("auto", "float32", "tensorfloat32", "mixed_bfloat16", "mixed_float16"),
    )  # fmt: skip
    xla: str = param(
        "auto", "Whether XLA compiles the forward and backward pass, one program for each of fixed_shapes, before the "
        "first update. auto: on GPUs if all features are sequences; a resumed run keeps its choice.",
        choices=("auto", "on", "off"),
    )  # fmt: skip
    fused_attention: bool = param(
        False, "Whether training computes attention by one operation of cuDNN: with JAX on GPUs since Ampere, in 16 "
        "bits, without dropout on attention weights and relative positions. It is compared with products first; a line "
        "says if it fails on the device.",
    )  # fmt: skip
    best_metric: str = param("", "Dev metric that selects the `best` checkpoint; empty = the problem's first.")
    early_stopping_steps: int = param(
        0, "Stops training after so many updates without a better `best_metric`; 0 = never.", minimum=0
    )


@dataclass(kw_only=True)
class DecodeHParams:
    """Search and output options of decoding, see `t2t.search`."""

    decode_method: str = param(
        "beam", "Search method: beam, greedy, sample or that of a plug-in; mask_predict is the only one of conditional "
        "masked language models.", choices=SEARCH_METHODS,
    )  # fmt: skip
    beam_size: int = param(
        4, "Beam size: hypotheses per sentence; 1 is greedy.", minimum=1, maximum=10_000, used_when=_BEAM
    )
    # Above 10, scores of long outputs are too small for float32.
    alpha: float = param(0.6, "Strength of the length penalty.", minimum=0.0, maximum=10.0, used_when=_BEAM)
    length_penalty: str = param(
        "gnmt", "Length penalty for outputs of length n. gnmt: ((5+n)/6)^alpha; power: n^alpha.",
        choices=("gnmt", "power"), used_when=_BEAM,
    )  # fmt: skip
    coverage_penalty: float = param(
        0.0, "Weight of the coverage penalty, added to scores: the sum over source positions of log(min(total "
        "attention to the position, 1)); 0 = none.", minimum=0.0, maximum=1e6, used_when=_BEAM,
    )  # fmt: skip
    shortlist: bool = param(
        False, "Whether to restrict outputs to the run's shortlist, see t2t-shortlist: the most frequent pieces, and "
        "probable translations of the input pieces.",
        used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    min_output_length: int = param(
        0,
        "Shortest output, in ids, including a given prefix and without end of sequence.",
        minimum=0,
        used_when=_TOKEN_BY_TOKEN,
    )
    eos_penalty: float = param(
        0.0,
        "Subtracted from the log-probability of end of sequence, so that outputs get longer.",
        minimum=0.0,
        maximum=1e6,
        used_when=_TOKEN_BY_TOKEN,
    )
    no_repeat_ngram_size: int = param(
        0,
        "No output contains an n-gram of this many ids twice; 0 = no restriction.",
        minimum=0,
        used_when=_TOKEN_BY_TOKEN,
    )
    constrain_output: bool = param(
        True, "Whether to search only outputs that the problem allows for an input, such as trees over exactly its "
        "words.", used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    mask_predict_iterations: int = param(
        10, "Number T of iterations of mask-predict; the share of masked tokens falls from all to 1/T in the last one.",
        minimum=1, maximum=10_000, used_when=_MASK_PREDICT,
    )  # fmt: skip
    length_candidates: int = param(
        5, "Number of most probable output lengths to try for each sentence; the best output is kept.",
        minimum=1, maximum=10_000, used_when=_MASK_PREDICT,
    )  # fmt: skip
    extra_length: int = param(
        50, "Longest output: ids of the input, and of a given prefix, plus this many.", minimum=0, maximum=1_000_000
    )
    max_input_length: int = param(
        0, "Longest input to decode or evaluate, in ids with end of sequence; longer ones are truncated and reported. "
        "0 = 1024, or max_length if that is larger.", minimum=0,
    )  # fmt: skip
    decode_batch_size: int = param(
        8192, "Ids decoded together: padded inputs, or an eighth of the longest outputs if that is more, times the "
        "hypotheses per input.", minimum=1,
    )  # fmt: skip
    sampling_temperature: float = param(
        1.0, "Temperature: divides the logits.", minimum=1e-6, maximum=1e6, used_when=_SAMPLING
    )
    sampling_top_k: int = param(
        0, "Samples only from the k most probable tokens; 0 = all.", minimum=0, used_when=_SAMPLING
    )
    sampling_top_p: float = param(
        1.0, "Samples only from the most probable tokens that together reach this probability.", minimum=0.0,
        maximum=1.0, used_when=_SAMPLING,
    )  # fmt: skip
    alignments: bool = param(
        False, "Whether to return word alignments: the input word that each output word attends to most; see "
        "alignment_layer and alignment_head.", used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    replace_unknown: bool = param(
        False,
        "Whether to replace unknown words in outputs by the input words that they attend to most.",
        used_when=_TOKEN_BY_TOKEN,
    )
    token_scores: bool = param(
        False, "Whether to return the log-probability of each output token, given the previous ones.",
        used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    alignment_layer: int = param(
        0, "Layer for alignments, counted from 1 among those that attend to the inputs; 0 = the second to last.",
        minimum=0,
    )  # fmt: skip
    alignment_head: int = param(0, "Head of alignment_layer, counted from 1; 0 = the mean of all.", minimum=0)
