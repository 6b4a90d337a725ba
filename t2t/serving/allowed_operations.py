"""TensorFlow operations allowed in a served graph: they compute, without access to files, network, processes or Python.

The list has the operations that `t2t-exporter` writes, and for models of plug-ins the rest of the same families.
"""

_ARITHMETIC = """
Abs Acos Acosh Add AddN AddV2 Angle Asin Asinh Atan Atan2 Atanh BitwiseAnd BitwiseOr BitwiseXor Cast Ceil ClipByValue
Complex ComplexAbs Conj Cos Cosh Cross Cumprod Cumsum CumulativeLogsumexp Digamma Div DivNoNan Erf Erfc Erfinv Exp Expm1
Floor FloorDiv FloorMod Imag Inv Invert IsFinite IsInf IsNan L2Loss LeftShift Lgamma Log Log1p Maximum Minimum Mod Mul
MulNoNan Neg Pow Real RealDiv Reciprocal RightShift Rint Round Rsqrt Sign Sin Sinh Sqrt Square SquaredDifference Sub
Tan Tanh TruncateDiv TruncateMod Xdivy Xlog1py Xlogy
"""
_LOGIC = """
ApproximateEqual Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot LogicalOr NotEqual Select SelectV2
Where
"""
_REDUCTIONS = """
All Any ArgMax ArgMin Bincount Bucketize DenseBincount EuclideanNorm Max Mean Min NthElement Prod SegmentMaxV2
SegmentMean SegmentMinV2 SegmentProdV2 SegmentSum SegmentSumV2 Sum TopKV2 UnsortedSegmentMax UnsortedSegmentMin
UnsortedSegmentProd UnsortedSegmentSum
"""
_ARRAYS = """
BatchToSpaceND Bitcast BroadcastArgs BroadcastTo ConcatOffset ConcatV2 Const DepthToSpace Diag DiagPart DynamicPartition
DynamicStitch EnsureShape ExpandDims Fill Gather GatherNd GatherV2 Identity IdentityN InvertPermutation LinSpace
ListDiff LowerBound MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV3 MatrixDiagV3 MatrixSetDiagV3 MirrorPad
OneHot OnesLike Pack Pad PadV2 ParallelDynamicStitch Placeholder PreventGradient Range Rank Reshape Reverse
ReverseSequence ReverseV2 Roll ScatterNd Shape ShapeN Size Slice Snapshot SpaceToBatchND SpaceToDepth Split
SplitV Squeeze StopGradient StridedSlice TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
TensorScatterUpdate TensorStridedSliceUpdate Tile Transpose Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack
UnravelIndex UpperBound ZerosLike
"""
_LINEAR_ALGEBRA = """
BatchMatMul BatchMatMulV2 BatchMatMulV3 Cholesky Einsum FFT FFT2D IFFT IFFT2D IRFFT IRFFT2D MatMul MatrixDeterminant
MatrixInverse MatrixSolve MatrixTriangularSolve Qr RFFT RFFT2D SelfAdjointEigV2 Svd
"""
_NETWORKS = """
AvgPool AvgPool3D BiasAdd Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 DepthwiseConv2dNative Elu
FusedBatchNormV3 LRN LeakyRelu LogSoftmax MaxPool MaxPool3D Relu Relu6 ResizeBicubic ResizeBilinear
ResizeNearestNeighbor Selu Sigmoid Softmax SoftmaxCrossEntropyWithLogits Softplus Softsign
SparseSoftmaxCrossEntropyWithLogits
"""
_STRINGS = """
AsString DecodeRaw RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace StringJoin StringLength
StringLower StringSplit StringSplitV2 StringStrip StringToHashBucketFast StringToNumber StringUpper Substr UnicodeDecode
UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode UnsortedSegmentJoin
"""
_RAGGED_AND_LISTS = """
EmptyTensorList RaggedGather RaggedRange RaggedTensorToTensor TensorListConcatV2 TensorListElementShape
TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
TensorListReserve TensorListResize TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack
"""
_CONTROL_FLOW = """
Assert Case If NoOp PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile While
"""
_WEIGHTS_AND_VOCABULARIES = """
HashTableV2 LookupTableFindV2 LookupTableImportV2 LookupTableSizeV2 ReadVariableOp SentencepieceDetokenizeOp
SentencepieceOp SentencepieceTokenizeOp VarHandleOp
"""

STATEFUL = frozenset((_CONTROL_FLOW + _WEIGHTS_AND_VOCABULARIES).split())
"""Operations that are not pure functions of tensors: calls, weights and in-memory tables."""

_STATELESS = (_ARITHMETIC, _LOGIC, _REDUCTIONS, _ARRAYS, _LINEAR_ALGEBRA, _NETWORKS, _STRINGS, _RAGGED_AND_LISTS)
ALLOWED_OPERATIONS = STATEFUL.union(*map(str.split, _STATELESS))
