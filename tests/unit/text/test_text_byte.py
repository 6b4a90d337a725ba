from t2t.text.byte import ByteEncoder

encoder = ByteEncoder()


def test_ids_are_tensor2tensors():
    # Tensor2Tensor's byte encoder: UTF-8 of "Ä a" is C3 84 20 61, and ids start after padding and end of sequence.
    assert encoder.encode("Ä a") == [197, 134, 34, 99]
    assert encoder.vocab_size == 258


def test_decode_stops_at_end_of_sequence_skips_padding_and_replaces_what_is_not_utf8():
    assert encoder.decode([0, 99, 0, 100, 1, 101]) == "ab"
    assert encoder.decode([0xC3 + 2, 99]) == "\ufffda"


def test_pieces():
    pieces = {0: "<pad>", 1: "</s>", 99: "a", 34: "<0x20>", 0xC3 + 2: "<0xC3>", 257: "<0xFF>"}
    assert {token_id: encoder.piece(token_id) for token_id in pieces} == pieces


def test_build_reads_nothing():
    assert ByteEncoder.build((1 / 0 for _ in range(1)), 5).vocab_size == 258
