"""Models of Sockeye 3: the same probabilities as an independent network, and errors."""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.importing.settings_file import parse_settings
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference.encoder_decoder import SOURCE, TARGET, Network
from tests.reference.token_toolkits import write_sockeye

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
TOKENS = ([*SPECIAL, *SOURCE], [*SPECIAL, *TARGET])
SHARED = ([*SPECIAL, *SOURCE, *TARGET],) * 2
PAIRS = [("the old dog runs", "der alt Hund läuft"), ("a zebra sees", "eine Katze"), ("cat", "zu")]
UNKNOWN, START, END = 1, 2, 3
NETWORKS = {
    "norms in front": (TOKENS, {}, {}),
    "norms behind, one vocabulary": (
        SHARED, {"pre_norm": False, "activation": "silu", "one_table": True}, {"act_type": "swish1"},
    ),
    "gates and SSRUs": (
        TOKENS, {"gated": True, "activation": "gelu", "ssru": True},
        {"act_type": "gelu", "use_glu": "true", "decoder_type": "ssru_transformer"},
    ),
}  # fmt: skip


def imported(folder):
    """Imports the model in `folder / "model"` and returns the run and the report."""
    request = ImportRequest(format="sockeye", model_dir=folder / "model", output_dir=folder / "run")
    report = import_run(request)
    return load(request.output_dir), report


@pytest.mark.parametrize(("tokens", "settings", "stack"), NETWORKS.values(), ids=NETWORKS)
def test_the_network_is_the_same(tmp_path, monkeypatch, tokens, settings, stack):
    network = Network(tuple(map(len, tokens)), attention_bias=False, positions="halves", **settings)
    write_sockeye(tmp_path / "model", network, monkeypatch, tokens, **stack)
    loaded, report = imported(tmp_path)
    for texts in PAIRS:
        theirs = [
            [*(words.index(word) if word in words else UNKNOWN for word in text.split()), END]
            for text, words in zip(texts, tokens, strict=True)
        ]
        expected_T = network.log_probs(*theirs, START)[range(len(theirs[1])), theirs[1]]
        encoders = loaded.problem.encoders
        ids = [[*encoders[name].encode(text), 1] for name, text in zip(("inputs", "targets"), texts, strict=True)]
        batch = {"inputs": np.array([[*ids[0], 0]], np.int32), "targets": np.array([ids[1]], np.int32)}
        np.testing.assert_allclose(numpy(loaded.model.score_targets(batch).log_probs)[0], expected_T, atol=1e-5)
    assert report.lines()[-1].startswith(
        "not needed: encoder.pos_embedding.weight, decoder.pos_embedding.weight (sinusoids, which are computed here); "
        "length_ratio.layers.0.bias (predicts how long outputs are"
    )
    assert (loaded.hparams.layer_prepostprocess_dropout, loaded.hparams.relu_dropout) == (0.2, 0.1)


def swap(old, new):
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (swap("act_type: relu", "act_type: tanh"), r"config_encoder.act_type='tanh' \(known: 'relu', 'swish1',"),
        (swap("type: fixed", "type: learned"), r"config_encoder.positional_embedding_type='learned' \(know"),
        (swap("use_lhuc: false", "use_lhuc: true"), r"config_encoder.use_lhuc=True \(known: False\)"),
        (swap("num_factors: 1", "num_factors: 2"), r"config_embed_source.num_factors=2 \(known: 1\)"),
        (swap("attention_heads: 2", "attention_heads: two"), r"config_encoder.attention_heads='two'; it must be of"),
        (swap("preprocess_sequence: n", "preprocess_sequence: nr"), r"preprocess_sequence='nr' and postprocess_seq"),
        (swap("dtype: float32", "dtype: int8"), r"dtype='int8' \(known: 'float32', 'float16', 'bfloat16'\)"),
        (swap("lhuc: false\n", "what is this\n"), r"is no file of Sockeye 3's settings \(line \d+ is "),
        (lambda text: text.replace("model_size: 8", "model_size: 16", 1), r"model_size=8 in the encoder and 16 in "),
    ],
)  # fmt: skip
def test_settings_of_another_network_are_refused(tmp_path, monkeypatch, edit, said):
    sizes = tuple(map(len, TOKENS))
    write_sockeye(tmp_path / "model", Network(sizes, attention_bias=False), monkeypatch, TOKENS, edit)
    with pytest.raises(UserError, match=said):
        imported(tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_in_another_order_is_refused(tmp_path, monkeypatch):
    words = (["<s>", *TOKENS[0][1:]], TOKENS[1])
    write_sockeye(tmp_path / "model", Network(tuple(map(len, words)), attention_bias=False), monkeypatch, words)
    with pytest.raises(UserError, match=r"its ids are not|its 10 ids are not 0 to|its first tokens are '<s> <unk>"):
        imported(tmp_path)


def test_settings_are_read_as_names_and_values():
    text = "!A\na: !B\n  b: -3\n  c: 1.5e-05\n  d: null\n  list:\n  - !!python/tuple\n    - 8\n  e: 'x y'\n"
    text += "f: true  # a note\n  # g: 1\n"
    assert parse_settings(text) == {
        "a": None, "a.b": -3, "a.c": 1.5e-05, "a.d": None, "a.list": None, "a.e": "x y", "f": True
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"line 2 gives a a second time"):
        parse_settings("a: 1\na: 2\n")
