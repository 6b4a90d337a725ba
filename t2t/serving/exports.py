"""Serves SavedModels made by `t2t-exporter`, after checking their operations.

A SavedModel is a program, and TensorFlow runs parts of it while loading. So its file is first parsed as data. Only
operations that compute are allowed, in the graph and in every function: without access to files, network, processes or
Python. The save and restore nodes of every SavedModel are removed, since TensorFlow reads the weights without them. The
checked content, written to a copy, is what is loaded.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer operations)
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch_folder
from t2t.files.trust import check_inside, read_sealed
from t2t.formats.exporter import REPORT
from t2t.formats.saved_model.served import CUT_INPUTS, CUT_OUTPUTS, INPUT_LENGTHS, OUTPUT_LENGTHS, SCORE, TEXT
from t2t.inference.translator import Hypothesis
from t2t.search.result import exists
from t2t.serving.models import Answer, BatchLimits, Question, ServedModel, count_written
from t2t.serving.requests import Query, RequestError


class ServedExport(ServedModel):
    """An export behind a queue, see `ServedModel`.

    Its search is fixed. Those made by early versions report neither cuts nor counts of ids.

    Raises:
        UserError: an export of another format, a damaged one, or one that may do more than compute; inputs that are not
            text; or more outputs than it was exported with.
    """

    def __init__(self, name: str, folder: Path | str, n_best: int = 1, limits: BatchLimits | None = None):
        self.translator = None  # type: ignore[assignment]  # none: its search is fixed
        self._folder = local_path(folder)
        fetch_folder(self._folder)
        self._most, self._run = _read_report(self._folder)
        try:
            self._loaded = load_checked(self._folder)
            self._serve = self._loaded.signatures[TEXT]
        except (OSError, KeyError, ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"{self._folder} cannot be loaded ({type(error).__name__})", "export the run again"
            ) from error
        self._gives_classes = "classes" in self._serve.structured_outputs
        (given,) = self._serve.structured_input_signature[1].values()
        self._open(name, given.dtype == tf.string, int(self._run["step"]), n_best, limits)

    can_stream = False

    def _group(self, question: Question) -> None:
        """Of one group are all questions."""

    def describe(self) -> dict[str, Any]:
        """Returns name, step and problem, as JSON."""
        return self._described(self._run.get("problem"), most_hypotheses=self._most)

    @property
    def continues(self) -> bool:
        """Whether outputs continue the given texts, as in language models."""
        return SCORE in self._loaded.signatures

    def prompt(self, text: str) -> str:
        """Returns the text that the outputs begin with: `text` itself, or empty if the model has inputs."""
        return text if self.continues else ""

    def _own_rows(self, n_best: int) -> int:
        return self._most

    def questions(self, query: Query) -> list[Question]:
        """Returns the questions of a request; raises UserError for too large `n_best`, and for any other setting.

        Whether a text is too long shows in its answer, since the graph alone encodes it.
        """
        n_best = query.n_best or self.n_best
        if n_best > self._most:
            raise RequestError(
                f"{self._folder} was exported with {self._most}",
                f"ask for as many, or export the run with --n_best={n_best}",
                option="n_best",
                value=n_best,
            )
        fixed = [*self._changes(query), *([] if query.most_tokens is None else ["max_tokens"])]
        fixed += [] if query.terms is None else ["constraints"]
        if fixed:
            raise UserError(
                f"{', '.join(fixed)}: model {self.name!r} is an export, which answers as it was made",
                "leave that out or serve its run",
            )
        return [Question(text, n_best, truncate=query.truncate is not False) for text in query.texts]

    def warm_up_others(self) -> None:
        """Does nothing: there is one search."""

    def _decode_made_up(self, count: int, length: int) -> None:
        self.answer([Question(" ".join(["."] * length))] * count)

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Returns the answers from one call of the graph."""
        found = self._serve(text=tf.constant([question.text for question in questions]))
        texts, scores = found.get("classes", found.get("outputs")).numpy(), found["scores"].numpy()
        cut_inputs = found[CUT_INPUTS].numpy().tolist() if CUT_INPUTS in found else [None] * len(questions)
        cut = found[CUT_OUTPUTS].numpy() if CUT_OUTPUTS in found else np.zeros(scores.shape, bool)
        answers = []
        for row, question in enumerate(questions):
            existing = [k for k in range(question.n_best) if exists(scores[row, k])]
            hypotheses = [self._hypothesis(texts[row, k], scores[row, k], bool(cut[row, k])) for k in existing]
            counts: list[int] = []
            if INPUT_LENGTHS in found:
                read, lengths = int(found[INPUT_LENGTHS][row]), found[OUTPUT_LENGTHS].numpy()[row, existing]
                counts = [read, count_written(lengths.tolist(), read if self.continues else 0)]
            answers.append(Answer(hypotheses, cut_inputs[row], *counts))
        return answers

    def _hypothesis(self, text: bytes, score: np.float32, cut: bool) -> Hypothesis:
        log_prob = float(score) if self._gives_classes else None  # a search graph returns only the score
        return Hypothesis(text.decode(), (), float(score), log_prob, cut=cut)


def _read_report(folder: Path) -> tuple[int, dict[str, Any]]:
    """Returns the number of outputs of an export and facts of its run; raises UserError if it cannot be served."""
    try:
        report = read_sealed(folder / REPORT)
        if report["format"] == "saved_model":
            return int(report["n_best"]), {**report["run"], "step": int(report["run"]["step"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / REPORT} is damaged ({type(error).__name__})", "export the run again") from error
    raise UserError(
        f"{folder} is an export of format {report['format']}", "the service takes runs and exports of saved_model"
    )


# === Loading ===

_STATEFUL = """
Assert Case HashTableV2 If LookupTableFindV2 LookupTableImportV2 LookupTableSizeV2 NoOp PartitionedCall ReadVariableOp
SentencepieceDetokenizeOp SentencepieceOp SentencepieceTokenizeOp StatefulPartitionedCall StatelessCase StatelessIf
StatelessWhile VarHandleOp While
"""
_STATELESS = """
Abs Acos Acosh Add AddN AddV2 All Angle Any ApproximateEqual ArgMax ArgMin AsString Asin Asinh Atan Atan2 Atanh AvgPool
AvgPool3D BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpaceND BiasAdd Bincount Bitcast BitwiseAnd BitwiseOr
BitwiseXor BroadcastArgs BroadcastTo Bucketize Cast Ceil Cholesky ClipByValue Complex ComplexAbs ConcatOffset ConcatV2
Conj Const Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 Cos Cosh Cross Cumprod Cumsum CumulativeLogsumexp
DecodeRaw DenseBincount DepthToSpace DepthwiseConv2dNative Diag DiagPart Digamma Div DivNoNan DynamicPartition
DynamicStitch Einsum Elu EmptyTensorList EnsureShape Equal Erf Erfc Erfinv EuclideanNorm Exp ExpandDims Expm1 FFT FFT2D
Fill Floor FloorDiv FloorMod FusedBatchNormV3 Gather GatherNd GatherV2 Greater GreaterEqual IFFT IFFT2D IRFFT IRFFT2D
Identity IdentityN Imag Inv Invert InvertPermutation IsFinite IsInf IsNan L2Loss LRN LeakyRelu LeftShift Less LessEqual
Lgamma LinSpace ListDiff Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr LowerBound MatMul MatrixBandPart
MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV3 MatrixDiagV3 MatrixInverse MatrixSetDiagV3 MatrixSolve
MatrixTriangularSolve Max MaxPool MaxPool3D Maximum Mean Min Minimum MirrorPad Mod Mul MulNoNan Neg NotEqual NthElement
OneHot OnesLike Pack Pad PadV2 ParallelDynamicStitch Placeholder Pow PreventGradient Prod Qr RFFT RFFT2D RaggedGather
RaggedRange RaggedTensorToTensor Range Rank Real RealDiv Reciprocal RegexFullMatch RegexReplace Relu Relu6 Reshape
ResizeBicubic ResizeBilinear ResizeNearestNeighbor Reverse ReverseSequence ReverseV2 RightShift Rint Roll Round Rsqrt
ScatterNd SegmentMaxV2 SegmentMean SegmentMinV2 SegmentProdV2 SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEigV2
Selu Shape ShapeN Sigmoid Sign Sin Sinh Size Slice Snapshot Softmax SoftmaxCrossEntropyWithLogits Softplus Softsign
SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits Split SplitV Sqrt Square SquaredDifference Squeeze
StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringJoin StringLength StringLower StringSplit
StringSplitV2 StringStrip StringToHashBucketFast StringToNumber StringUpper Sub Substr Sum Svd Tan Tanh
TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
TensorListPopBack TensorListPushBack TensorListReserve TensorListResize TensorListScatterV2 TensorListSetItem
TensorListSplit TensorListStack TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate
TensorStridedSliceUpdate Tile TopKV2 Transpose TruncateDiv TruncateMod UnicodeDecode UnicodeDecodeWithOffsets
UnicodeEncode UnicodeTranscode Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex
UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound Where Xdivy
Xlog1py Xlogy ZerosLike
"""
STATEFUL = frozenset(_STATEFUL.split())
"""Operations that are not pure functions of tensors: calls, weights and in-memory tables."""
ALLOWED_OPERATIONS = STATEFUL.union(_STATELESS.split())

_GRAPH, _WEIGHTS = "saved_model.pb", "variables"
_OBJECTS = {"bare_concrete_function", "captured_tensor", "constant", "function", "resource", "user_object", "variable"}
_USER_OBJECTS = {"_generic_user_object", "signature_map", "trackable_list_wrapper"}
_REGISTERED = {"", "tf.StaticHashTable", "tf.TrackableConstant"}
"""Allowed kinds of objects in an export, and allowed names of registered TensorFlow classes."""


def load_checked(folder: Path) -> Any:
    """Returns the loaded SavedModel of a folder; no part of it runs before the check.

    Raises:
        UserError: it contains something that may do more than compute; the message names it.
        OSError, ValueError: the files are damaged.
    """
    for path in (folder / _GRAPH, folder / _WEIGHTS, *(folder / _WEIGHTS).glob("*")):
        check_inside(folder, path)
    content = _checked(folder, (folder / _GRAPH).read_bytes())
    with tempfile.TemporaryDirectory(prefix="t2t-export-") as copy:
        Path(copy, _GRAPH).write_bytes(content)
        os.symlink((folder / _WEIGHTS).resolve(), Path(copy, _WEIGHTS))
        return tf.saved_model.load(copy)


def _checked(folder: Path, content: bytes) -> bytes:
    """Returns a SavedModel without the nodes that save and restore; raises as `load_checked`."""
    try:
        model = SavedModel.FromString(content)
    except Exception as error:  # DecodeError, which only protobuf exports
        raise ValueError("it is not a SavedModel") from error
    if len(model.meta_graphs) != 1 or not model.meta_graphs[0].HasField("object_graph_def"):
        raise _refusal(folder, "a graph of TensorFlow 1")
    graph = model.meta_graphs[0]
    _remove_saver(graph)
    if found := next(_forbidden(graph), None):
        raise _refusal(folder, found)
    return model.SerializeToString()


def _refusal(folder: Path, found: str) -> UserError:
    return UserError(
        f"{folder}: it has {found}, which no export of t2t-exporter has; it may do more than compute, e.g. read or "
        "write files, and is not loaded",
        "serve an export whose origin you know, or export its run again",
    )


def _remove_saver(graph: Any) -> None:
    """Removes the save and restore nodes, and the functions that they call."""
    names = {graph.saver_def.save_tensor_name.partition(":")[0], graph.saver_def.restore_op_name}
    nodes = [node for node in graph.graph_def.node if node.name in names]
    called = {name for node in nodes for name in _called_functions(node)}
    for node in nodes:
        graph.graph_def.node.remove(node)
    functions = graph.graph_def.library.function
    for function in [one for one in functions if one.signature.name in called]:
        functions.remove(function)
    graph.ClearField("saver_def")


def _forbidden(graph: Any) -> Iterator[str]:
    """Yields a description of each forbidden part of a graph."""
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    nodes = [("the graph", node) for node in graph.graph_def.node]
    nodes += [(f"function {name}", node) for name, function in functions.items() for node in function.node_def]
    for place, node in nodes:
        if node.op not in ALLOWED_OPERATIONS:
            yield f"the operation {node.op!r} ({place})"
        for name in _called_functions(node):
            if name not in functions:
                yield f"a call of {name!r}, which is not among its functions ({place})"
    if len(functions) != len(graph.graph_def.library.function):
        yield "two functions of one name"
    if graph.asset_file_def:
        yield f"the asset {graph.asset_file_def[0].filename!r}"
    for node in graph.object_graph_def.nodes:
        kind = node.WhichOneof("kind")
        if kind not in _OBJECTS or (kind == "user_object" and node.user_object.identifier not in _USER_OBJECTS):
            yield f"an object of kind {node.user_object.identifier or kind!r}"
        if node.registered_name not in _REGISTERED or node.registered_saver or node.saveable_objects:
            yield f"an object of class {node.registered_name or node.registered_saver or 'with its own saver'!r}"


def _called_functions(node: Any) -> Iterator[str]:
    functions = (function for value in node.attr.values() for function in (value.func, *value.list.func))
    return (function.name for function in functions if function.name)
