"""Vocabularies as TensorFlow operations: texts to ids and back inside a graph, without Python."""

import tensorflow as tf

from t2t.errors import UserError
from t2t.formats.saved_model.in_graph.base import GraphVocabulary
from t2t.formats.saved_model.in_graph.byte import GraphByte
from t2t.formats.saved_model.in_graph.sentencepiece import GraphPieceTable, GraphSentencePiece
from t2t.formats.saved_model.in_graph.subword import GraphSubword
from t2t.formats.saved_model.in_graph.words import GraphWords
from t2t.text.encoder import TextEncoder

VOCABULARIES: dict[str, type[GraphVocabulary]] = {
    "byte": GraphByte,
    "piece_table": GraphPieceTable,
    "sentencepiece": GraphSentencePiece,
    "subword": GraphSubword,
    "token": GraphWords,
    "word_list": GraphWords,
}
"""By kind of vocabulary, see `t2t.text`."""


def graph_vocabulary(encoder: TextEncoder) -> GraphVocabulary:
    """Returns a text vocabulary as operations; its tables are on the CPU.

    Raises:
        UserError: the kind of vocabulary is not supported in a graph.
    """
    if encoder.kind not in VOCABULARIES:
        raise UserError(
            f"--format=saved_model: a vocabulary of kind {encoder.kind} has no TensorFlow operations, and a SavedModel "
            f"reads text; export with --format=ctranslate2 or onnx, or serve the run with t2t-server"
        )
    with tf.device("CPU"):
        return VOCABULARIES[encoder.kind](encoder)
