"""Load a model once, decode many times: the Python API behind every decoder.

translator = t2t.load("~/t2t_train/...")             # see t2t.runs
translator.translate(["A dog runs."])[0][0].text
"""

from t2t.inference.attention import Attention, AttentionMap
from t2t.inference.rows import longest_taken, said_of_longest
from t2t.inference.translator import Hypothesis, Translator

__all__ = ["Attention", "AttentionMap", "Hypothesis", "Translator", "longest_taken", "said_of_longest"]
