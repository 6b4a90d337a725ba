"""The functions of Tensor2Tensor's sets of LSTMs."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.hparam import from_own_set

lstm_seq2seq = from_own_set("lstm_seq2seq")
lstm_attention_base = lstm_attention = lstm_bahdanau_attention = from_own_set("lstm_bahdanau_attention")
lstm_luong_attention = from_own_set("lstm_luong_attention")

__getattr__ = placeholders_of(__name__)
