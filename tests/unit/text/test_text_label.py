import numpy as np

from t2t.text import ENCODER_CLASSES, stored_class
from t2t.text.label import LabelEncoder, listed
from t2t.text.vocabulary_files import read_encoders, save_encoders
from tests.errors import refused


def test_a_class_is_its_place_in_the_list_and_no_id_is_reserved():
    encoder = LabelEncoder(("bad", "good", "so so"))
    assert [encoder.encode(name) for name in ("bad", "good", "so so")] == [[0], [1], [2]]
    assert (encoder.vocab_size, encoder.piece(2)) == (3, "so so")
    for one in (1, [1], np.int32(1), np.array(1), np.array([1])):
        assert encoder.decode(one) == "good"
    assert encoder.decode(0) == "bad"  # where text has padding
    assert "bad" in encoder
    assert "worse" not in encoder
    assert ["bad"] not in encoder


def test_a_file_gives_them_back(tmp_path):
    encoder = LabelEncoder(("ü", "a b"))
    assert encoder.to_bytes() == "ü\na b\n".encode()
    records = save_encoders(tmp_path, {"targets": encoder})
    assert records["targets"].file == "vocab.targets.label.labels"
    assert read_encoders(tmp_path, records, "")["targets"].names == ("ü", "a b")


def test_it_is_no_vocabulary_of_text():
    assert "label" not in ENCODER_CLASSES
    assert stored_class("label") is LabelEncoder


def test_mistakes_are_named():
    for names, make in (
        (["'c'", "a,", "b;"], lambda: LabelEncoder("ab").encode("c")),
        (["'a'"], lambda: LabelEncoder("aba")),
        (["'a\\nb'"], lambda: LabelEncoder(("a\nb",))),
    ):
        with refused(*names):
            make()
    assert listed(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."
