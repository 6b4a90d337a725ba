import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.text.byte import ByteEncoder

encoder = ByteEncoder()


def test_ids_are_tensor2tensors():
    # Tensor2Tensor's byte encoder: UTF-8 of "Ä a" is C3 84 20 61, and ids start after padding and end of sequence.
    assert encoder.encode("Ä a") == [197, 134, 34, 99]
    assert encoder.vocab_size == 258


@given(st.text())
def test_decode_undoes_encode(text):
    assert encoder.decode(encoder.encode(text)) == text


def test_decode_stops_at_end_of_sequence_and_skips_padding():
    assert encoder.decode([0, 99, 0, 100, 1, 101]) == "ab"


def test_bytes_that_are_not_utf8_are_shown_as_replaced():
    assert encoder.decode([0xC3 + 2, 99]) == "\ufffda"


def test_pieces():
    assert [encoder.piece(i) for i in (0, 1, 99, 34, 0xC3 + 2, 257)] == [
        "<pad>",
        "</s>",
        "a",
        "<0x20>",
        "<0xC3>",
        "<0xFF>",
    ]


def test_file_round_trip_and_damage(tmp_path):
    encoder.save(tmp_path / "vocab")
    assert ByteEncoder.load(tmp_path / "vocab").fingerprint == encoder.fingerprint
    with pytest.raises(UserError, match="3 bytes of something else; it must hold the line 'bytes: id = byte"):
        ByteEncoder.from_bytes(b"abc")


def test_build_reads_nothing():
    def lines():
        raise AssertionError("read")
        yield

    assert ByteEncoder.build(lines(), 5).vocab_size == 258
