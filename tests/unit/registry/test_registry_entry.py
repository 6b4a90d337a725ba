import pytest

from t2t.registry import snake_case


@pytest.mark.parametrize(("written", "name"), [
    # tensor2tensor's own table
    ("TypicalCamelCase", "typical_camel_case"),
    ("NumbersFuse2gether", "numbers_fuse2gether"),
    ("NumbersFuse2Gether", "numbers_fuse2_gether"),
    ("LSTMSeq2Seq", "lstm_seq2_seq"),
    ("startsLower", "starts_lower"),
    ("startsLowerCAPS", "starts_lower_caps"),
    ("CapsFUSETogether", "caps_fuse_together"),
    ("Startscap", "startscap"),
    ("STartscap", "s_tartscap"),
    # names that its users know
    ("NeuralGPU", "neural_gpu"),
    ("SliceNet", "slice_net"),
    ("ByteNet", "byte_net"),
    ("MultiModel", "multi_model"),
    ("TranslateEndeWmt32k", "translate_ende_wmt32k"),
    ("MtfResNet", "mtf_res_net"),
    ("transformer_base", "transformer_base"),
])  # fmt: skip
def test_default_names_are_tensor2tensors(written, name):
    assert snake_case(written) == name
