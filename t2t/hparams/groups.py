"""The sections of `t2t.hparams.base.HParams`: what models have, how it is scheduled, batched, trained and decoded."""

from dataclasses import dataclass

from t2t.hparams.field import UsedWhen, param, training_fraction

SCHEDULES = ("noam", "rsqrt_decay", "inverse_sqrt", "constant", "linear", "cosine")
OBJECTIVES = ("likelihood", "expected_reward", "minimum_risk")
OPTIMIZERS = ("adam", "adamw", "adamax", "sgd", "momentum", "adafactor", "lamb")
MASK_PREDICT = "mask_predict"
"""The decoding method of models that predict masked tokens, see `t2t.decoding.mask_predict`."""
_DECAYING = UsedWhen("learning_rate_schedule", ("linear", "cosine"))
_SAMPLING = UsedWhen("decode_method", ("sample",))
_BEAM = UsedWhen("decode_method", ("beam",))
_TOKEN_BY_TOKEN = UsedWhen("decode_method", ("beam", "greedy", "sample"))
_MASK_PREDICT = UsedWhen("decode_method", (MASK_PREDICT,))
_LIKELIHOOD = UsedWhen("objective", ("likelihood",))
_SAMPLED = UsedWhen("objective", ("expected_reward", "minimum_risk"))
_MOMENTUM = UsedWhen("optimizer", ("momentum",))
_BELOW_1 = 0.999999
"""Largest decay: with 1, a mean would stay what it began as."""


@dataclass(kw_only=True)
class EveryModelHParams:
    """What every model family has; a family adds its own, see `t2t.hparams.base`."""

    hidden_size: int = param(512, "Width D of the hidden states, in channels.", minimum=1)
    num_hidden_layers: int = param(6, "Number of layers in each stack.", minimum=1)
    max_length: int = param(
        256, "Longest training example, in ids with end of sequence: longer ones are skipped, or cut where the target "
        "is a class; learned positions go no further.", minimum=2, only_trains=True,
    )  # fmt: skip
    label_smoothing: float = training_fraction(
        0.1, "Probability mass e spread evenly over the vocabulary, a fraction; with objective=likelihood alone."
    )
    label_smoothing_kind: str = param(
        "all", "Who gets e: all K tokens e/K each, as the paper's reference; others: e/(K-1), as in Tensor2Tensor.",
        choices=("all", "others"), only_trains=True,
    )  # fmt: skip
    symbol_dropout: float = training_fraction(
        0.0, "Fraction of the tokens of inputs and targets that are read as zero vectors."
    )
    target_start: str = param(
        "zero", "Vector before the first target: zero, as in Tensor2Tensor; pad: the embedding of padding, as in T5; "
        "id: that of target_start_id, as in fairseq and BART.", choices=("zero", "pad", "id"),
    )  # fmt: skip
    target_start_id: int = param(
        1, "Id whose embedding comes before the first target; 1 = end of sequence.", minimum=1,
        used_when=UsedWhen("target_start", ("id",)),
    )  # fmt: skip
    shared_embedding: bool = param(True, "Whether inputs and targets use one embedding table, vocabularies permitting.")
    shared_embedding_and_softmax_weights: bool = param(
        True, "Whether the output layer is the transposed table of the targets."
    )
    output_bias: bool = param(False, "Whether the logits of tokens have a bias each; the paper's have none.")
    input_modality: str = param(
        "", "Name of the modality that turns inputs into vectors; empty = the usual one of their kind."
    )
    target_modality: str = param("", "Name of the modality that predicts targets; empty = the usual one of their kind.")

    @property
    def output_size(self) -> int:
        """Channels of what the model's body gives."""
        return self.hidden_size

    def complaints(self) -> list[str]:
        """Returns what is wrong with how the values go together."""
        return []


@dataclass(kw_only=True)
class ObjectiveHParams:
    """What training minimizes, see `t2t.training.objectives`."""

    objective: str = param(
        "likelihood", "What is maximized. likelihood: that of the targets; expected_reward: the mean metric of sampled "
        "outputs; minimum_risk: the same, of the distribution over the samples and the target alone.",
        choices=OBJECTIVES,
    )  # fmt: skip
    objective_metric: str = param(
        "gleu", "Text metric that scores each sampled output against its target.", used_when=_SAMPLED
    )
    objective_samples: int = param(
        15, "Outputs sampled for each input in an update.", minimum=2, maximum=10_000, used_when=_SAMPLED
    )
    objective_likelihood_weight: float = param(
        0.017, "Weight of the log-likelihood of the target besides the reward of the samples.", minimum=0.0,
        used_when=_SAMPLED,
    )  # fmt: skip
    objective_sharpness: float = param(
        0.005, "Power of the probabilities in the distribution over the samples.", minimum=1e-6,
        used_when=UsedWhen("objective", ("minimum_risk",)),
    )  # fmt: skip
    scheduled_sampling_prob: float = param(
        0.0, "Probability that the decoder reads a token that the model predicts in place of the target's; 0 = never.",
        minimum=0.0, maximum=1.0, used_when=_LIKELIHOOD,
    )  # fmt: skip
    scheduled_sampling_warmup_steps: int = param(
        50_000, "Updates over which scheduled_sampling_prob rises linearly from 0.", minimum=0, used_when=_LIKELIHOOD
    )

    @property
    def rows_per_example(self) -> int:
        """Rows of a training batch for each example: its target and the outputs that are sampled."""
        return 1 if self.objective == "likelihood" else 1 + self.objective_samples


@dataclass(kw_only=True)
class OptimizerHParams:
    """How gradients become updates."""

    optimizer: str = param("adam", "Name of the optimizer.", choices=OPTIMIZERS)
    optimizer_adam_beta1: float = param(0.9, "Decay of the first moment, a fraction.", minimum=0.0, maximum=_BELOW_1)
    optimizer_adam_beta2: float = param(0.98, "Decay of the second moment, a fraction.", minimum=0.0, maximum=_BELOW_1)
    optimizer_adam_epsilon: float = param(1e-9, "Added to the root of the second moment.", minimum=1e-30)
    optimizer_momentum_momentum: float = param(
        0.9, "Decay of the sum of past steps, a fraction.", minimum=0.0, maximum=_BELOW_1, used_when=_MOMENTUM
    )
    optimizer_momentum_nesterov: bool = param(False, "Whether to use Nesterov's momentum.", used_when=_MOMENTUM)
    weight_decay: float = param(
        0.0, "Decay of the weights, per update and learning rate; with momentum, the factor of the weights in the "
        "gradient.", minimum=0.0, used_when=UsedWhen("optimizer", ("adamw", "lamb", "momentum")),
    )  # fmt: skip
    optimizer_adamax_clip: float = param(
        0.0, "Each weight's gradient is cut to so many times the largest of its past ones; 0 = never.", minimum=0.0,
        used_when=UsedWhen("optimizer", ("adamax",)),
    )  # fmt: skip
    gradient_noise: float = param(
        0.0, "Normal noise added to the averaged gradient: its standard deviation is this / update^0.275.", minimum=0.0
    )
    clip_grad_norm: float = param(
        0.0, "Largest norm of the whole gradient, taken after it is averaged over tokens; 0 = no clipping.", minimum=0.0
    )
    gradient_reduction: str = param(
        "float32", "Type in which replicas send each other their gradients; bfloat16 halves what the network carries, "
        "and rounds to 8 bits.", choices=("float32", "bfloat16"),
    )  # fmt: skip
    frozen_weights: str = param(
        "", "Regular expression: weights whose path holds a match stay as they begin, e.g. /encoder/|embedding; empty "
        "= all are trained."
    )  # fmt: skip
    lora_rank: int = param(
        0, "Rank R of adapters (LoRA), which are trained in place of the weights of --warm_start_from: a weight W is "
        "W + A B lora_alpha / R; 0 = no adapters.", minimum=0,
    )  # fmt: skip
    lora_targets: str = param(
        "query_kernel|value_kernel",
        "Regular expression: weights whose path holds a match have adapters, with lora_rank.",
    )
    lora_alpha: float = param(16.0, "Factor of the adapters times lora_rank.", minimum=1e-6)
    ema_decay: float = param(
        0.0, "Decay per update of the moving average of the weights that is evaluated and decoded; 0 = none.",
        minimum=0.0, maximum=_BELOW_1,
    )  # fmt: skip

    @property
    def decoupled_weight_decay(self) -> float:
        """The decay that acts on weights themselves, and not through their gradient."""
        return 0.0 if self.optimizer == "momentum" else self.weight_decay


@dataclass(kw_only=True)
class ScheduleHParams:
    """How the learning rate changes, see `t2t.training.schedules`."""

    learning_rate_schedule: str = param("noam", "Shape of the learning rate over the updates.", choices=SCHEDULES)
    learning_rate: float = param(
        1.0, "Factor on the formula (noam and rsqrt_decay), or the peak rate (others).", minimum=0.0
    )
    learning_rate_warmup_steps: int = param(
        4000, "Updates over which the rate rises linearly; with rsqrt_decay, over which it is constant.", minimum=0
    )
    learning_rate_minimum: float = param(0.0, "Rate at the end of the decay.", minimum=0.0, used_when=_DECAYING)


@dataclass(kw_only=True)
class BatchHParams:
    """How examples become batches, see `t2t.data.batching`."""

    batch_size: int = param(
        4096,
        "Padded tokens per side per replica per step, of audio 10 ms each (examples, where a problem has no sequence).",
        minimum=1,
    )
    effective_batch_size: int = param(
        0, "Padded tokens per side per update, all replicas together, reached by accumulation; 0 = one step.", minimum=0
    )
    shuffle_window: int = param(
        16384, "Examples that are sorted by length together before they are cut into batches.", minimum=1
    )
    length_bucket_step: float = param(
        1.0, "Padded lengths grow by this factor from one to the next; 1 = every length occurs.", minimum=1.0
    )
    curriculum_length: int = param(
        0, "Longest training example at the beginning, in ids with end of sequence, from where the limit rises evenly "
        "to max_length; 0 = all from the beginning.", minimum=0,
    )  # fmt: skip
    curriculum_steps: int = param(
        1000, "Updates over which the limit of curriculum_length rises to max_length.", minimum=1
    )
    fixed_shapes: int = param(
        0, "Training batches have at most so many shapes, rows and both lengths, for compilers that make a program for "
        "each; 0 = any, or 16 with xla.", minimum=0,
    )  # fmt: skip
    fixed_shapes_multiple: int = param(
        0, "Lengths of fixed_shapes are multiples of this, at most max_length; 0 = 8 with xla, which suits GPUs, else "
        "1.", minimum=0,
    )  # fmt: skip
    packed_length: int = param(
        0, "Training examples are packed into rows of so many ids, as many one after the other as fit, none of which "
        "sees another; no shorter than the longest example; 0 = a row each.", minimum=0,
    )  # fmt: skip


@dataclass(kw_only=True)
class MixtureHParams:
    """How several problems share one model's updates, see `t2t.data.mixture`; read where --problems names several."""

    problem_choice: str = param(
        "uniform", "Which problem an update is of: each as often; size: by size^(1/T), in training examples, of "
        "problem_temperature T; weights: by problem_weights.", choices=("uniform", "size", "weights"),
    )  # fmt: skip
    problem_temperature: float = param(
        1.0, "T: 1 = in proportion to the sizes, and the larger, the more even.", minimum=0.1,
        used_when=UsedWhen("problem_choice", ("size",)),
    )  # fmt: skip
    problem_weights: tuple[float, ...] = param(
        (1.0,), "How often each problem comes, in the order of --problems and in any unit.",
        used_when=UsedWhen("problem_choice", ("weights",)),
    )  # fmt: skip
    shared_modalities: bool = param(
        False, "One embedding and one output layer for all problems, whose vocabulary must be the same; see "
        "--shared_vocab_file.",
    )  # fmt: skip
    problem_batch_sizes: tuple[int, ...] = param(
        (0,), "Of each problem, in the order of --problems, what batch_size is of one; 0 = batch_size, one number = "
        "for all.",
    )  # fmt: skip


@dataclass(kw_only=True)
class TrainHParams:
    """How long and how precisely a run trains, and what makes it stop."""

    train_steps: int = param(100_000, "Updates after which training ends.", minimum=0)
    precision: str = param(
        "float32", "Type of activations; weights stay float32. tensorfloat32: float32, but GPUs may round what they "
        "multiply to 11 binary digits. auto: mixed_bfloat16 on GPUs that multiply it, else float32; a resumed run: as "
        "it was begun.", choices=("auto", "float32", "tensorfloat32", "mixed_bfloat16", "mixed_float16"),
    )  # fmt: skip
    xla: str = param(
        "auto", "Whether XLA compiles the forward and backward pass, one program for each of fixed_shapes, before the "
        "first update. auto: on GPUs, where all features are sequences; a resumed run: as it was begun.",
        choices=("auto", "on", "off"),
    )  # fmt: skip
    best_metric: str = param("", "Metric of the dev split that picks `best`; empty = the problem's first.")
    early_stopping_steps: int = param(
        0, "Updates without a better `best_metric` after which training ends; 0 = never.", minimum=0
    )


@dataclass(kw_only=True)
class DecodeHParams:
    """How outputs are searched, see `t2t.decoding`."""

    decode_method: str = param(
        "beam", "Search; mask_predict is that of conditional masked language models, which have no other.",
        choices=("beam", "greedy", "sample", MASK_PREDICT),
    )  # fmt: skip
    beam_size: int = param(
        4, "Hypotheses kept alive per sentence; 1 is greedy.", minimum=1, maximum=10_000, used_when=_BEAM
    )
    alpha: float = param(0.6, "Strength of the length penalty.", minimum=0.0, used_when=_BEAM)
    length_penalty: str = param(
        "gnmt", "gnmt: ((5+n)/6)^alpha; power: n^alpha, n being the length of the output.", choices=("gnmt", "power"),
        used_when=_BEAM,
    )  # fmt: skip
    coverage_penalty: float = param(
        0.0, "Added to scores: this times the sum over source positions of log(min(all attention to one, 1)); 0 = "
        "none.", minimum=0.0, used_when=_BEAM,
    )  # fmt: skip
    shortlist: bool = param(
        False, "Whether outputs have only pieces of the run's shortlist, see t2t-shortlist: the most frequent ones and "
        "probable translations of the pieces of the input.",
        used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    min_output_length: int = param(
        0,
        "Shortest output, in ids with the beginning that is given and without end of sequence.",
        minimum=0,
        used_when=_TOKEN_BY_TOKEN,
    )
    eos_penalty: float = param(
        0.0,
        "Subtracted from the log-probability of end of sequence, so that outputs get longer.",
        minimum=0.0,
        used_when=_TOKEN_BY_TOKEN,
    )
    no_repeat_ngram_size: int = param(
        0,
        "No output has a sequence of so many ids twice; 0 = any may be repeated.",
        minimum=0,
        used_when=_TOKEN_BY_TOKEN,
    )
    constrain_output: bool = param(
        True, "Whether outputs are searched among those alone that the problem allows for an input, such as trees over "
        "exactly its words.", used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    mask_predict_iterations: int = param(
        10, "Times that masked tokens are predicted: T, from all of them in the first to one in T of them in the last.",
        minimum=1, maximum=10_000, used_when=_MASK_PREDICT,
    )  # fmt: skip
    length_candidates: int = param(
        5, "Most probable lengths of an output that are tried for each sentence; the best output of all is taken.",
        minimum=1, maximum=10_000, used_when=_MASK_PREDICT,
    )  # fmt: skip
    extra_length: int = param(50, "Longest output: ids of the input plus this many.", minimum=0, maximum=1_000_000)
    max_input_length: int = param(
        0, "Longest input that is decoded or evaluated, in ids with end of sequence; the rest is cut and reported. "
        "0 = 1024, or max_length where that is more.", minimum=0,
    )  # fmt: skip
    decode_batch_size: int = param(
        8192, "Ids decoded together: padded inputs, or an eighth of the longest outputs where that is more, times the "
        "hypotheses of each.", minimum=1,
    )  # fmt: skip
    sampling_temperature: float = param(1.0, "Divides the logits.", minimum=1e-6, used_when=_SAMPLING)
    sampling_top_k: int = param(0, "Samples only from the k likeliest; 0 = all.", minimum=0, used_when=_SAMPLING)
    sampling_top_p: float = param(
        1.0, "Samples only from the likeliest that reach this probability.", minimum=0.0, maximum=1.0,
        used_when=_SAMPLING,
    )  # fmt: skip
    alignments: bool = param(
        False, "Whether outputs come with the word of the input that each of their words looks at most; see "
        "alignment_layer and alignment_head.", used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    replace_unknown: bool = param(
        False,
        "Whether unknown words of outputs are replaced by the words of the input that they look at most.",
        used_when=_TOKEN_BY_TOKEN,
    )
    token_scores: bool = param(
        False, "Whether outputs come with the log-probability of each of their tokens, given those before it.",
        used_when=_TOKEN_BY_TOKEN,
    )  # fmt: skip
    alignment_layer: int = param(
        0, "Which of the layers that attend to the inputs tells what words look at, from 1; 0 = the last but one.",
        minimum=0,
    )  # fmt: skip
    alignment_head: int = param(0, "Head of that layer, from 1; 0 = the mean of all.", minimum=0)
