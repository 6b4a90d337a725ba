"""CTranslate2 with our weights gives the same outputs as our network, for every form of it that it supports."""

import json

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.formats.ctranslate2.model_file import parse_model
from t2t.formats.ctranslate2.write import CTranslate2Export
from t2t.formats.exporter import ExportJob, Trial
from t2t.formats.exporting import export
from t2t.formats.parity import PROMISES, ParityError
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.inference.ctranslate2.conversion import tokens_of
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.models.transformer_moe import TransformerMoe
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.byte import ByteEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import ESCAPE_CHARACTERS
from t2t.text.words import TokenEncoder
from tests.builders import tokens_spec
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, letters_alone, translator_of

FORMS = {
    "norms before, biases, learned positions, tables of their own, gelu": {
        "norm_position": "pre", "attention_bias": True, "positions": "learned", "shared_embedding": False,
        "shared_embedding_and_softmax_weights": False, "activation": "gelu",
    },
    "no positions, stacks of two heights, silu, another epsilon": {
        "positions": "none", "num_encoder_layers": 1, "num_decoder_layers": 3, "activation": "silu",
        "norm_epsilon": 0.1,
    },
    "sines first, a target space": {"sinusoid_layout": "split", "target_space_embedding": True},
    "as Marian's translators": {
        "sinusoid_layout": "halves", "output_bias": True, "attention_bias": True, "activation": "silu",
    },
    "as fairseq's translators": {
        "sinusoid_layout": "split", "target_start": "id", "attention_bias": True, "activation": "gelu_sigmoid",
    },
    "relative positions, a target space": {
        "positions": "relative", "max_relative_position": 3, "target_space_embedding": True,
    },
    "rotary positions, a target space": {"positions": "rotary", "target_space_embedding": True},
    "rms norms, another epsilon": {"norm_type": "rms", "norm_epsilon": 0.1},
    "rms norms before": {"norm_type": "rms", "norm_position": "pre"},
    "T5": {
        "positions": "relative_bias", "norm_type": "rms", "norm_position": "pre", "feed_forward_bias": False,
        "target_start": "pad",
    },
    "T5, version 1.1": {
        "positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 5, "norm_type": "rms",
        "norm_position": "pre", "feed_forward_bias": False, "gated_feed_forward": True, "activation": "gelu_tanh",
        "target_start": "pad", "shared_embedding_and_softmax_weights": False,
        "attention_key_channels": 32, "attention_value_channels": 32,
    },
    "shared keys of more channels": {
        "num_heads": 4, "num_kv_heads": 2, "attention_key_channels": 32, "attention_value_channels": 32,
    },
    "ReGLU": {"gated_feed_forward": True},
    "GEGLU": {"gated_feed_forward": True, "activation": "gelu", "norm_position": "pre"},
    "SwiGLU": {"gated_feed_forward": True, "activation": "silu"},
    "two heads of keys and values": {"num_heads": 4, "num_kv_heads": 2, "attention_bias": True},
    "one head of keys and values": {"num_heads": 4, "num_kv_heads": 1},
    "rotary positions, shared keys, gates, other norms": {
        "positions": "rotary", "num_kv_heads": 1, "gated_feed_forward": True, "norm_type": "rms",
        "norm_position": "pre", "activation": "silu",
    },
    "relative positions, norms before, tables of their own": {
        "positions": "relative", "max_relative_position": 1, "norm_position": "pre", "attention_bias": True,
        "shared_embedding": False, "shared_embedding_and_softmax_weights": False,
    },
}  # fmt: skip
"""Forms other than the paper's."""


def tried(translator, folder, quantization="float32"):
    made = CTranslate2Export(translator, ExportJob(folder=folder, format="ctranslate2", quantization=quantization))
    made.write(folder)
    return made, Trial(translator.encode(TEXTS), TEXTS)


@pytest.mark.parametrize("changes", FORMS.values(), ids=FORMS)
@pytest.mark.slow
def test_every_form_of_the_network_searches_as_ours(changes, tmp_path):
    made, trial = tried(translator_of(letters(), **changes), tmp_path)
    found = made.verify(tmp_path, trial)
    assert found["greedy search"].identical == len(TEXTS)
    assert found["greedy search"].largest_difference < 1e-4


@pytest.mark.parametrize(
    ("decoding", "beams", "alignment"),
    [({}, 3, [0, 0]), ({"decode_method": "greedy", "alignment_layer": 1, "alignment_head": 1}, 1, [0, 1])],
)
def test_the_export_has_the_beam_and_alignments_of_the_run_and_other_weights_are_found_out(
    decoding, beams, alignment, tmp_path
):
    own = {"num_decoder_heads": 4, "decoder_filter_size": 20}
    translator = translator_of(letters(), decoding=decoding, num_hidden_layers=1, **own)
    made, trial = tried(translator, tmp_path)
    assert f"[pieces], beam_size={beams}, length_penalty=0, " in made.usage()
    stored = parse_model((tmp_path / "model.bin").read_bytes()).attributes
    assert [stored[f"decoder/alignment_{name}"] for name in ("layer", "heads")] == alignment
    assert list(made.verify(tmp_path, trial)) == ["greedy search", "beam search of 3"][: 2 if beams > 1 else 1]
    table = translator.model.target_embedding.table
    table.assign(np.asarray(table)[::-1])
    with refused("greedy", "6", by=ParityError):
        made.verify(tmp_path, trial)


@pytest.mark.parametrize(
    ("file", "about"), [("vocab.inputs.token.tokens", "'a"), ("vocab.targets.token.tokens", "ids")]
)
def test_vocabularies_that_are_read_otherwise_beside_the_model_are_found_out(tmp_path, file, about):
    made, trial = tried(translator_of(letters(TokenEncoder("hgfedcbaxyz")), num_hidden_layers=1), tmp_path)
    TokenEncoder("zyxhgabcdfe").save(tmp_path / file)
    with refused(about, by=ParityError):
        made.verify(tmp_path, trial)


@pytest.mark.slow
def test_two_vocabularies_stay_two(tmp_path):
    made, trial = tried(translator_of(letters(TokenEncoder("hgfedcbaxyz"))), tmp_path)
    made.verify(tmp_path, trial)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"source_vocabulary.json", "target_vocabulary.json", "vocab.inputs.token.tokens"}


@pytest.mark.slow
def test_int8_is_held_to_a_share_of_the_outputs_and_to_each_lines_score(tmp_path):
    translator = translator_of(letters(), hidden_size=64, filter_size=64)
    made, trial = tried(translator, tmp_path, "int8")
    found = made.verify(tmp_path, trial)
    label, greedy, beam = found
    assert label == "log-probability of the run's output of each line, nats per token"
    assert 0.0 < found[label].largest_difference <= PROMISES["int8"].score_difference
    assert [found[name].promise for name in (label, greedy, beam)] == [PROMISES["int8"], PROMISES["int8"], None]
    job = ExportJob(folder=tmp_path / "kept", format="ctranslate2", quantization="int8")
    export(translator, job, TEXTS, "six lines")
    report = json.loads((tmp_path / "kept/t2t_export.json").read_text())
    assert (report["quantization"], report["inputs"]) == ("int8", "six lines")
    for name in (label, greedy):
        assert report["parity"][name]["promised"] == {"identical_share": 0.5, "score_difference": 0.5}
    assert report["parity"][beam]["promised"] is None
    table = translator.model.target_embedding.table
    table.assign(-np.asarray(table))
    with refused("log-probability", by=ParityError) as error:
        made.verify(tmp_path, trial)
    assert label in str(error.value)


def test_a_single_line_that_int8_finds_otherwise_is_found_out(tmp_path, monkeypatch):
    """A mean over lines would hide it."""
    translator = translator_of(letters(), hidden_size=64, filter_size=64, num_hidden_layers=1)
    made, trial = tried(translator, tmp_path, "int8")
    score, wrong = CTranslate2Engine.score, []

    def other_score(*given):
        for indices, log_probs in score(*given):
            yield indices, log_probs + np.where(indices == 0, wrong[-1], 0.0)

    monkeypatch.setattr(CTranslate2Engine, "score", other_score)
    for value, error, about in ((-10.0, ParityError, ["log-probability", "6"]), (np.nan, UserError, ["finite"])):
        wrong.append(value)
        with refused(*about, by=error):
            made.verify(tmp_path, trial)


IMAGE = FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1))
TARGETS = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
OF_IMAGES = ProblemSpec(name="letters", features={"inputs": IMAGE, "targets": TARGETS})
OF_WORDS = tokens_spec(WORDS.vocab_size, WORDS.vocab_size, tells_words=True)
EXPERTS = TransformerMoeHParams(hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=2)


@pytest.mark.parametrize(
    ("problem", "changes", "about"),
    [
        (letters, {"self_attention_window": 4}, "self_attention_window=4: saved_model"),
        (letters, {"positions": "words", "spec": OF_WORDS}, "positions=words:"),
        (letters, {"decoder_layer": "ssru"}, "decoder_layer=ssru:"),
        (letters, {"relative_keys": 2}, "relative_keys=2:"),
        (letters, {"attention_key_channels": 4}, "attention_key_channels=4, attention_value_channels=8:"),
        (letters, {"model_class": TransformerMoe, "hparams": EXPERTS}, "experts"),
        (letters_alone, {}, "absent, tokens;"),
        (letters, {"spec": OF_IMAGES}, "Transformer, image"),
    ],
)
def test_what_it_cannot_hold_is_said(problem, changes, about, tmp_path):
    with refused("--format=ctranslate2:", *about.split()):
        tried(translator_of(problem(), **changes), tmp_path)


def test_tokens_of_a_vocabulary_are_all_different():
    assert tokens_of(WORDS) == ["<pad>", "</s>", "<unk>", *"abcdefgh"]
    assert len(set(tokens_of(ByteEncoder()))) == 258
    twice = SubwordEncoder(["<pad>_", "<EOS>_", *sorted(ESCAPE_CHARACTERS), "a", "", "a"])
    assert tokens_of(twice)[-3:] == ["a", "<id 17>", "<id 18>"]
