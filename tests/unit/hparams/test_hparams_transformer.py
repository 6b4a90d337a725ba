"""Values of the named sets against their sources."""

import pytest

from t2t.runs.names import hparams_named


def values(name, *fields):
    hparams = hparams_named(name)
    return tuple(getattr(hparams, field) for field in fields)


SIZES = ("num_hidden_layers", "hidden_size", "filter_size", "num_heads", "layer_prepostprocess_dropout", "train_steps")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Attention Is All You Need, Table 3, rows base and big: N, d_model, d_ff, h, P_drop, train steps
        ("transformer_base", (6, 512, 2048, 8, 0.1, 100_000)),
        ("transformer_big", (6, 1024, 4096, 16, 0.3, 300_000)),
        ("transformer_base_single_gpu", (6, 512, 2048, 8, 0.1, 100_000)),
        ("transformer_big_single_gpu", (6, 1024, 4096, 16, 0.1, 300_000)),
    ],
)
def test_sizes_of_the_paper(name, expected):
    assert values(name, *SIZES) == expected


@pytest.mark.parametrize("name", ["transformer_base", "transformer_big"])
def test_what_else_the_paper_fixes(name):
    """Sections 3.1 (post-norm), 3.2 (no biases), 3.4 (one table), 3.5 (sinusoids), 5.3 (Adam, 4000), 5.4 (e = 0.1)."""
    hparams = hparams_named(name)
    assert hparams.norm_position == "post"
    assert not hparams.attention_bias
    assert hparams.shared_embedding
    assert hparams.shared_embedding_and_softmax_weights
    assert hparams.positions == "sinusoidal"
    adam = ("optimizer", "optimizer_adam_beta1", "optimizer_adam_beta2", "optimizer_adam_epsilon")
    assert values(name, *adam) == ("adam", 0.9, 0.98, 1e-9)
    schedule = ("learning_rate_schedule", "learning_rate", "learning_rate_warmup_steps")
    assert values(name, *schedule) == ("noam", 1.0, 4000)
    assert hparams.label_smoothing == 0.1
    assert (hparams.attention_dropout, hparams.relu_dropout) == (0.0, 0.0)
    assert (hparams.beam_size, hparams.alpha, hparams.extra_length) == (4, 0.6, 50)  # section 6.1


@pytest.mark.parametrize("name", ["transformer_base_single_gpu", "transformer_big_single_gpu"])
def test_one_device_makes_the_papers_updates(name):
    """Section 5.1: about 25,000 source and 25,000 target tokens."""
    assert hparams_named(name).effective_batch_size == 25_000


def test_multi30k_tiny():
    """Wu et al. 2021, section 4, as the set names them."""
    assert values("transformer_multi30k_tiny", *SIZES[:-1]) == (4, 128, 256, 4, 0.3)
    hparams = hparams_named("transformer_multi30k_tiny")
    assert hparams.attention_bias
    adam = ("optimizer_adam_beta1", "optimizer_adam_beta2", "optimizer_adam_epsilon")
    assert values("transformer_multi30k_tiny", *adam) == (0.9, 0.98, 1e-8)
    schedule = ("learning_rate_schedule", "learning_rate", "learning_rate_warmup_steps")
    assert values("transformer_multi30k_tiny", *schedule) == ("inverse_sqrt", 0.005, 2000)


def test_small_sets():
    assert values("transformer_small", *SIZES[:4]) == (2, 256, 1024, 4)
    assert values("transformer_tiny", *SIZES[:4]) == (2, 128, 512, 4)
