"""What of a plug-in that was written for Tensor2Tensor is refused."""

import gzip

import pytest

from t2t.registry import HPARAMS
from tests.errors import refused
from tests.unit.compat.plugins import generate

CLASSES = """
@registry.register_problem
class TheirWrong(text_problems.Text2ClassProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  num_classes = 2
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "a text", "label": LABEL}
"""
OWN_VOCABULARY = """
class Own(text_encoder.TextEncoder):
  pass

@registry.register_problem
class TheirWrong(text_problems.Text2TextProblem):
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": [3, 1], "targets": [3, 1]}
  def feature_encoders(self, data_dir):
    return {"inputs": Own(), "targets": Own()}
"""
READS = """
@registry.register_problem
class TheirWrong(text_problems.Text2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    READ
    yield {"inputs": "a", "targets": "b"}
"""


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (CLASSES.replace("LABEL", "7"), ["their_wrong", 7, 2]),
        (CLASSES.replace("LABEL", "[0, 1]"), ["their_wrong", 2]),
        (OWN_VOCABULARY, ["their_wrong", "'inputs'", "Own,"]),
        (READS.replace("READ", "text_encoder.TokenTextEncoder(None, reverse=True)"), ["reverse=True"]),
        (
            READS.replace("READ", "text_encoder.TokenTextEncoder(None, vocab_list=['a'], replace_oov='?')"),
            ["replace_oov='?'"],
        ),
        (
            READS.replace("READ", "generator_utils.maybe_download(tmp_dir, 'gone', 'http://nowhere.example/gone')"),
            ["gone", "http://nowhere.example/gone"],
        ),
        (READS.replace("READ", "tf.app.run()"), ["tf.app.run"]),
        (READS.replace("READ", "multi_problem.MultiProblem()"), ["MultiProblem", "problem=a-b-c"]),
        (READS.replace("READ", "transformer.transformer_base().hiden_size"), ["'hiden_size'", "hidden_size"]),
        (
            READS.replace("READ", "generator_utils.find_corpus_file(tmp_dir, 'nowhere/packed.gz', 'train.en')"),
            ["packed.gz"],
        ),
        (
            READS.replace("READ", "generator_utils.find_corpus_file(tmp_dir, 'nowhere/other.tgz', 'train.en')"),
            ["train.en", "other.tgz"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_that_names_it(load, tmp_path, body, named):
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"no archive"))
    (tmp_path / "other.tgz").write_bytes(gzip.compress(bytes(1024)))
    load(body)
    with refused(*named):
        generate("their_wrong", tmp_path)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("@registry.register_problem\nclass TheirWrong:\n  pass\n", "'their_wrong'"),
        ("@registry.register_problem\nclass TheirWrong(problem.Problem):\n  pass\n", "'their_wrong'"),
    ],
)
def test_problems_of_no_kind_that_there_is_are_refused_where_they_are_registered(load, body, named):
    with refused(named):
        load(body)


def test_a_set_that_is_none_is_refused(load):
    load("@registry.register_hparams\ndef their_nothing():\n  pass\n")
    with refused("'their_nothing'"):
        HPARAMS.get("their_nothing")()
