"""SavedModels are inspected as data before any execution, and refused if they may do more than compute."""

import re

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.framework import op_def_registry

from benchmarks import parity
from t2t.formats.saved_model.served import Served
from t2t.formats.saved_model.vocabularies import graph_vocabulary
from t2t.hparams.groups import DecodeHParams
from t2t.inference.translator import Translator
from t2t.registry import MODELS
from t2t.serving.exports import ALLOWED_OPERATIONS, STATEFUL, load_checked
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.errors import refused
from tests.kinds import SPECS
from tests.letters import letters, moods
from tests.small_models import small_hparams
from tests.unit.formats.test_formats_export_in_graph import encoders

TEXT = tf.TensorSpec([None], tf.string, name="text")


class Model(tf.Module):
    """A SavedModel with a signature, a weight and a table; the signature also runs `also()`."""

    def __init__(self, also=lambda: tf.constant(0)):
        super().__init__()
        self.weight, self._also = tf.Variable(2.0), also
        initializer = tf.lookup.KeyValueTensorInitializer(["a"], [1.0])
        self.table = tf.lookup.StaticHashTable(initializer, 3.0)

    @tf.function(input_signature=[TEXT])
    def serve(self, text):
        with tf.control_dependencies([self._also()]):
            return {"scores": self.weight * self.table.lookup(text)}


def saved(model, folder):
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})
    return folder


@pytest.fixture(scope="module")
def mark(tmp_path_factory):
    """Path of a file that exists only if a graph was executed."""
    return tmp_path_factory.mktemp("mark") / "executed"


def write(mark):
    return tf.io.write_file(str(mark), "executed")


def after_writing(mark, value):
    with tf.control_dependencies([write(mark)]):
        return tf.identity(value)


def in_loop(mark):
    return tf.while_loop(lambda i: i < 1, lambda i: after_writing(mark, i + 1), [tf.constant(0)])[0]


def in_loop_condition(mark):
    return tf.while_loop(lambda i: after_writing(mark, i < 1), lambda i: i + 1, [tf.constant(0)])[0]


PLACES = {
    "directly": write,
    "in a function": lambda mark: tf.function(lambda: after_writing(mark, 1), autograph=False)(),
    "in a branch": lambda mark: tf.cond(tf.constant(True), lambda: after_writing(mark, 1), lambda: tf.constant(2)),
    "in a loop": in_loop,
    "in the condition of a loop": in_loop_condition,
}


class Resource(tf.saved_model.experimental.TrackableResource):
    """Writes a file when it is initialized, which is when a model is loaded."""

    def __init__(self, mark):
        super().__init__()
        self._mark = mark

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="evil")

    def _initialize(self):
        write(self._mark)
        return tf.constant(0)


def check_refused_unexecuted(folder, mark, use):
    """Checks that what a SavedModel does to a file when it is used otherwise is found without executing it."""
    mark.unlink(missing_ok=True)
    use(tf.saved_model.load(str(folder)))
    assert mark.exists(), "the attack is none"
    mark.unlink()
    with refused("'WriteFile'"):
        load_checked(folder)
    assert not mark.exists()


@pytest.mark.parametrize("also", PLACES.values(), ids=PLACES)
def test_a_signature_that_writes_a_file_is_refused_wherever_it_hides(tmp_path, mark, also):
    folder = saved(Model(lambda: also(mark)), tmp_path)
    check_refused_unexecuted(folder, mark, lambda loaded: loaded.signatures["serving_default"](text=tf.constant(["a"])))


def test_a_file_that_is_written_while_a_model_is_loaded_is_not_written(tmp_path, mark):
    model = Model()
    model.evil = Resource(mark)
    check_refused_unexecuted(saved(model, tmp_path), mark, lambda loaded: None)


@pytest.mark.parametrize(
    ("also", "operation"),
    [
        (lambda: tf.io.read_file("/etc/hostname"), "ReadFile"),
        (lambda: tf.raw_ops.Save(filename="x", tensor_names=["x"], data=[tf.constant(1)]), "Save"),
        (lambda: tf.raw_ops.RestoreV2(prefix="x", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.int32])[0],
         "RestoreV2"),
        (lambda: tf.py_function(lambda: 1, [], tf.int32), "EagerPyFunc"),
        (lambda: tf.data.Dataset.range(1).reduce(tf.constant(0, tf.int64), lambda a, b: a), "RangeDataset"),
        (lambda: tf.raw_ops.PrintV2(input="x", output_stream="file:///x"), "PrintV2"),
        (lambda: tf.random.uniform([]), "RandomUniform"),
    ],
)  # fmt: skip
def test_other_operations_are_refused_by_name(tmp_path, also, operation):
    with refused(f"'{operation}'"):
        load_checked(saved(Model(also), tmp_path))


def test_a_table_from_a_file_is_refused(tmp_path):
    (tmp_path / "words").write_text("a\n")
    model = Model()
    values = (tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)
    model.words = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(tmp_path / "words"), *values), -1)
    with refused() as error:
        load_checked(saved(model, tmp_path / "saved"))
    assert re.search("'(VarIsInitializedOp|InitializeTableFromTextFileV2)'", str(error.value))


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    return saved(Model(), tmp_path_factory.mktemp("harmless"))


@pytest.fixture
def edited(harmless, tmp_path):
    """Writes a copy of a harmless model with its graph changed; returns its folder."""

    def edit(change):
        model = SavedModel.FromString((harmless / "saved_model.pb").read_bytes())
        change(model)
        (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
        (tmp_path / "variables").mkdir()
        for file in (harmless / "variables").iterdir():
            (tmp_path / "variables" / file.name).write_bytes(file.read_bytes())
        return tmp_path

    return edit


def test_what_only_computes_is_loaded_with_its_weights(harmless):
    answer = load_checked(harmless).signatures["serving_default"](text=tf.constant(["a", "b"]))
    assert answer["scores"].numpy().tolist() == [2.0, 6.0]


def functions_of(model):
    return model.meta_graphs[0].graph_def.library.function


def saver_of(model):
    (name,) = [f.signature.name for f in functions_of(model) if any(n.op == "SaveV2" for n in f.node_def)]
    return name


def call_saver(model):
    for function in functions_of(model):
        for node in function.node_def:
            if node.op == "StatefulPartitionedCall":
                node.attr["f"].func.name = saver_of(model)
                return
    raise AssertionError


def shadow_an_operation(model):
    """Renames the saver function to an allowed operation, so that other nodes would call it."""
    name = saver_of(model)
    for function in functions_of(model):
        if function.signature.name == name:
            function.signature.name = "Mul"


def become_two(model):
    model.meta_graphs.add().CopyFrom(model.meta_graphs[0])


def become_old(model):
    model.meta_graphs[0].ClearField("object_graph_def")


def add_asset(model):
    model.meta_graphs[0].asset_file_def.add(filename="../../etc/passwd")


def revive_another_class(model):
    (node,) = [
        node for node in model.meta_graphs[0].object_graph_def.nodes if node.user_object.identifier == "signature_map"
    ]
    node.user_object.identifier = "_tf_keras_model"


@pytest.mark.parametrize(
    ("change", "about"),
    [
        (call_saver, "'__inference__traced_save_"),
        (shadow_an_operation, "'(ShardedFilename|SaveV2|MergeV2Checkpoints|DisableCopyOnRead)'"),
        (become_two, "TensorFlow 1"),
        (become_old, "TensorFlow 1"),
        (add_asset, r"'\.\./\.\./etc/passwd'"),
        (revive_another_class, "'_tf_keras_model'"),
    ],
)
def test_changed_graphs_are_refused(edited, change, about):
    with refused() as error:
        load_checked(edited(change))
    assert re.search(about, str(error.value))


def test_files_that_lead_elsewhere_are_refused(edited, tmp_path_factory):
    folder, other = edited(lambda model: None), tmp_path_factory.mktemp("other")
    index = folder / "variables/variables.index"
    index.rename(other / "index")
    index.symlink_to(other / "index")
    with refused("variables.index"):
        load_checked(folder)


def test_another_form_of_the_file_beside_it_is_not_read(edited):
    folder = edited(lambda model: None)
    (folder / "saved_model.pb").rename(folder / "saved_model.pbtxt")
    with pytest.raises(FileNotFoundError):
        load_checked(folder)


def test_allowed_operations_exist_and_but_for_named_ones_are_functions_of_tensors():
    for name in ALLOWED_OPERATIONS:
        found = op_def_registry.get(name)
        assert found is not None, name
        assert name in STATEFUL or not found.is_stateful, name


def operations_of(*functions):
    graphs = [function.graph.as_graph_def() for function in functions]
    parts = [part for graph in graphs for part in (graph.node, *(f.node_def for f in graph.library.function))]
    return {node.op for part in parts for node in part}


@pytest.mark.parametrize("encoder", encoders().values(), ids=encoders())
def test_operations_of_every_vocabulary_are_allowed(encoder):
    vocabulary = graph_vocabulary(encoder)
    ids = tf.RaggedTensorSpec([None, None], tf.int32)
    traced = [
        tf.function(function, [spec], autograph=False).get_concrete_function()
        for function, spec in ((vocabulary.encode, TEXT), (vocabulary.decode, ids))
    ]
    assert operations_of(*traced) <= ALLOWED_OPERATIONS


def translators(name):
    """Small translators for all kinds of problems that can be exported."""
    model_class = MODELS.get(name)
    for problem in parity._problems(model_class, list(parity.PROBLEMS)):
        yield parity._translator(name, problem)
    for source in {*model_class.accepts_inputs} - {FeatureKind.TOKENS, None}:
        for problem in (letters(), moods()):
            targets = problem.spec().targets
            if targets.kind in model_class.accepts_targets:
                spec = ProblemSpec(name="kinds", features={"inputs": SPECS[source], "targets": targets})
                yield Translator(problem, model_class(small_hparams(model_class, {}), spec), DecodeHParams(beam_size=3))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "transformer" else pytest.mark.exhaustive)
        for name in MODELS.names()
    ],
)
def test_operations_of_every_model_are_allowed(name):
    for translator in translators(name):
        assert operations_of(*Served(translator).signatures().values()) <= ALLOWED_OPERATIONS
