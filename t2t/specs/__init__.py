"""Plain data that problems, data and models share: constants here, kinds and sizes of features in `features`."""

PAD_ID = 0
"""Id of padding, in every vocabulary. A position that holds it carries no data."""

EOS_ID = 1
"""Id of the end of a sequence, in every vocabulary. Generated data ends each text with it."""

UNK_ID = 2
"""Id of the unknown token, in vocabularies that have one."""

TRAIN, DEV, TEST = "train", "dev", "test"
SPLITS = (TRAIN, DEV, TEST)

INPUTS, TARGETS = "inputs", "targets"

POSITIONS = {INPUTS: "inputs_positions", TARGETS: "targets_positions"}
"""Features of packed batches: position of each id in its own example, (B, L) int32, 0 at the first and at padding."""

CANDIDATES = "candidates"
"""Feature of batches with sampled outputs: several for each example, (B, C, T)."""

DEFAULT_DATA_DIR = "~/t2t_data"
DEFAULT_TRAIN_DIR = "~/t2t_train"

DATA_SEED = 429459
"""Seed of data generation, as in Tensor2Tensor; not the run's seed, so that runs with other seeds share their data."""

ADAPTER_FACTORS = ("lora_a", "lora_b")
"""Last part of the paths of the factors A and B of an adapter, after the path of the weight that it changes."""
