"""Models of OpenNMT-tf: the same probabilities as an independent network, and errors."""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import t5
from tests.reference.encoder_decoder import LONGEST, SOURCE, TARGET, WIDTH, Network
from tests.reference.token_toolkits import OPENNMT_TF, write_opennmt_tf

TOKENS = ([*OPENNMT_TF, *SOURCE], [*OPENNMT_TF, *TARGET])
SHARED = ([*OPENNMT_TF, *SOURCE, *TARGET],) * 2
PAIRS = [("the old dog runs", "der alt Hund läuft"), ("a zebra sees", "eine Katze"), ("cat", "zu")]
START, END = 1, 2
TINY = 'from opennmt import models\nmodel = lambda: models.get_model_from_catalog("TransformerTiny")\n'
TABLE = np.random.default_rng(3).normal(0, 0.5, (LONGEST, WIDTH))
ENDS = ("  source_sequence_controls:", "    start: false", "    end: true")


def own(**settings):
    """Returns a model description with a custom class with two heads."""
    given = "".join(f", {name}={value}" for name, value in settings.items())
    return (
        "import opennmt\nimport tensorflow as tf\n\n\nclass Own(opennmt.models.Transformer):\n"
        "    def __init__(self):\n        super().__init__(\n            num_layers=2, num_units=8, num_heads=2"
        f"{given}\n        )\n\n\nmodel = Own\n"
    )


def make(folder, tokens=TOKENS, description=TINY, settings=(), table=None, **network):
    one_table = network.get("one_table", False)
    sizes = tuple(len(words) + 1 for words in tokens)
    sinusoids = {"positions": "concat", "first_position": 1, "epsilon": 1e-3}
    made = Network(sizes, **{**sinusoids, **network})
    made.scale = np.sqrt(WIDTH)  # whatever its positions are
    made.waves = made.waves if table is None else table
    write_opennmt_tf(folder / "model", made, tokens, description, settings, table, one_table)
    return made


def imported(folder, **request):
    """Imports the model in `folder / "model"` and returns the run and the report."""
    request = ImportRequest(format="opennmt_tf", model_dir=folder / "model", output_dir=folder / "run", **request)
    report = import_run(request)
    return load(request.output_dir), report


def check(loaded, network, tokens, ends_inputs=False):
    """Compares the probabilities of targets."""
    for texts in PAIRS:
        theirs = [
            [words.index(word) if word in words else len(words) for word in text.split()]
            for text, words in zip(texts, tokens, strict=True)
        ]
        theirs = [theirs[0] + [END] * ends_inputs, [*theirs[1], END]]
        expected_T = network.log_probs(*theirs, START)[range(len(theirs[1])), theirs[1]]
        encoders = loaded.problem.encoders
        ids = [[*encoders[name].encode(text), 1] for name, text in zip(("inputs", "targets"), texts, strict=True)]
        batch = {"inputs": np.array([[*ids[0], 0]], np.int32), "targets": np.array([ids[1]], np.int32)}
        np.testing.assert_allclose(numpy(loaded.model.score_targets(batch).log_probs)[0], expected_T, atol=1e-5)


def test_a_model_of_the_catalogue(tmp_path):
    network = make(tmp_path, settings=("params:", "  beam_width: 5", "  length_penalty: 0.2", "  label_smoothing: 0.1"))
    loaded, report = imported(tmp_path)
    check(loaded, network, TOKENS)
    assert "problem text2text_files, model transformer_bart, update 0, without Adam's moments" in report.lines()[0]
    assert "checkpoint: update 7 of the original; training starts at 0" in report.lines()
    assert "ids of inputs: padding 0, end of sequence 2 and unknown 10 became 0, 1 and 2" in report.lines()
    assert "ids of targets: padding 1, end of sequence 2 and unknown 11 became 0, 1 and 2" in report.lines()
    assert not loaded.hparams.input_end
    assert (loaded.hparams.beam_size, loaded.hparams.alpha, loaded.hparams.label_smoothing) == (5, 0.2, 0.1)


@pytest.mark.parametrize("name", ["beam_width", "length_penalty", "label_smoothing"])
def test_a_setting_that_is_no_number_is_refused(tmp_path, name):
    make(tmp_path, settings=("params:", f"  {name}: much"))
    with pytest.raises(UserError, match=rf"its configuration has {name}='much', which is no number; get it again"):
        imported(tmp_path)


NETWORKS = {
    "one table, norms behind, inputs with an end": (
        SHARED, own(pre_norm=False, dropout=0.3), {"one_table": True, "pre_norm": False}, {"settings": ENDS},
    ),
    "learned positions": (
        TOKENS, own(ffn_activation="tf.nn.gelu", position_encoder_class="opennmt.layers.PositionEmbedder"),
        {"activation": "gelu"}, {"table": TABLE},
    ),
    "relative positions without biases": (
        TOKENS, own(position_encoder_class=None, maximum_relative_position=3, mha_bias=False),
        {"positions": "", "attention_bias": False}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tokens", "description", "network", "files"), NETWORKS.values(), ids=NETWORKS)
def test_the_network_is_the_same(tmp_path, tokens, description, network, files):
    made = make(tmp_path, tokens, description, **files, **network)
    loaded, report = imported(tmp_path)
    check(loaded, made, tokens, ends_inputs="settings" in files)
    if tokens is SHARED:
        assert loaded.problem.spec().shared_vocabulary
        assert report.run.weights.keys().isdisjoint({"source_embedding/table", "output_embedding/table"})
        assert loaded.hparams.layer_prepostprocess_dropout == 0.3


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (("  source_tokenization:", "    type: OpenNMTTokenizer", "    params:", "      mode: aggressive",
          "  target_tokenization: tok.yml"),
         "source_tokenization (OpenNMTTokenizer) and target_tokenization (tok.yml)"),
        (("  target_tokenization:", "    mode: space"), "target_tokenization (OpenNMTTokenizer)"),
        (("  source_tokenization:", "    type: SpaceTokenizer", "  target_tokenization:"), None),
    ],
)  # fmt: skip
def test_tokenizers_of_texts_are_not_imported(tmp_path, settings, named):
    make(tmp_path, settings=settings)
    _, report = imported(tmp_path)
    said = f"the model's texts were split by {named}, which is not imported: give texts that are split likewise, or "
    assert [text.startswith(said) for text in report.run.warnings] == [True] * bool(named)


def test_a_sentencepiece_model_takes_the_place_of_tokenizers(tmp_path):
    make(tmp_path, settings=("  source_tokenization:", "    type: SentencePieceTokenizer"))
    t5.write_model(tmp_path / "other")
    _, report = imported(tmp_path, sentencepiece_models=(tmp_path / "other/spiece.model",))
    assert not report.run.warnings


def swap(name, old, new):
    def edit(folder):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (swap("model_description.py", "TransformerTiny", "LuongAttention"), r"names neither one Transformer of the c"),
        (swap("model_description.py", "model =", "model = ="), r"model_description.py is no description of a model \("),
        (swap("data.yml", "  source_vocabulary", "  source_1_vocabulary"), r"data.source_vocabulary=None; a file is"),
        (swap("data.yml", "data:", "data"), r"data.yml is no configuration of OpenNMT-tf \(line 3 is 'data', no na"),
        (swap("data.yml", "src.vocab", "none.vocab"), r"--model_dir=.*: no none.vocab there; copy all files of the mo"),
        (swap("src.vocab", "<blank>\n<s>", "<s>\n<blank>"), r"the tokens of src.vocab begin with '<s> <blank> </s>'; "),
        (swap("src.vocab", "the\n", ""), r"its table of inputs has 11 rows, its vocabulary 10 tokens; get all files a"),
        (lambda folder: (folder / "other.yml").touch(), r"--model_dir=.*: 2 files \*.yml there; copy the configurati"),
        (lambda folder: (folder / "ckpt-7.index").unlink(), r"no checkpoint ckpt-<step>.index there; copy all files o"),
        (lambda folder: (folder / "ckpt-7.index").write_bytes(b"no"), r"ckpt-7: a file of it is missing or damaged \("),
    ],
)  # fmt: skip
def test_files_of_another_model_are_refused(tmp_path, edit, said):
    make(tmp_path)
    edit(tmp_path / "model")
    with pytest.raises(UserError, match=said):
        imported(tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_step_that_is_not_there_is_named(tmp_path):
    make(tmp_path)
    with pytest.raises(UserError, match=r"--step=8: .* has checkpoints of steps 7; ask for one"):
        imported(tmp_path, step=8)
    _, report = imported(tmp_path, step=7)
    assert "checkpoint: update 7 of the original; training starts at 0" in report.lines()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_heads": "HEADS"}, r"has num_heads=HEADS, which is no number; write the number there"),
        ({"ffn_activation": "tf.tanh"}, r"has ffn_activation=tf.tanh; known here are tf.nn.relu, "),
    ],
)
def test_descriptions_that_do_not_say_what_is_needed(tmp_path, settings, said):
    text = own().replace(
        "num_heads=2", ", ".join(f"{name}={value}" for name, value in {"num_heads": 2, **settings}.items())
    )
    make(tmp_path, description=text)
    with pytest.raises(UserError, match=said):
        imported(tmp_path)


def test_relative_positions_with_sinusoids_are_refused(tmp_path):
    make(tmp_path, description=own(), positions="")
    with pytest.raises(UserError, match=r"has relative positions, and its description sinusoids; models here have one"):
        imported(tmp_path)


def test_a_variable_without_a_place_is_named(tmp_path):
    network = make(tmp_path)
    network.layers["encoder"][0]["cross"] = network.layers["decoder"][0]["cross"]
    network.layers["encoder"][0]["norms"]["cross"] = network.layers["decoder"][0]["norms"]["cross"]
    write_opennmt_tf(tmp_path / "other/model", network, TOKENS, TINY)
    with pytest.raises(
        UserError, match=r"it has 10 tensors that the model here has no place for: encoder/layers/0/att"
    ):
        imported(tmp_path / "other")
