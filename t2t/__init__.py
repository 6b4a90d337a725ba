"""t2t: sequence models by name, on TensorFlow 2 and Keras 3.

The functions are those of `t2t.runs.api` and `t2t.runs.trained_api`. Base classes and decorators for new models and
problems are imported at first use: `import t2t` loads neither TensorFlow nor Keras.
"""

import importlib
from typing import TYPE_CHECKING, Any

from t2t.cli.stopping import answer_interrupts

answer_interrupts()  # before the other imports, which take most of a second

from t2t.compat.tensor2tensor.finder import install  # noqa: E402
from t2t.runs.api import generate_data, registered, train  # noqa: E402
from t2t.runs.trained_api import distill, evaluate, export_model, learn_shortlist, load  # noqa: E402

if TYPE_CHECKING:
    from t2t.errors import ArgumentError as ArgumentError
    from t2t.errors import MachineError as MachineError
    from t2t.errors import T2TError as T2TError
    from t2t.errors import UserError as UserError
    from t2t.hparams.base import HParams as HParams
    from t2t.hparams.field import UsedWhen as UsedWhen
    from t2t.hparams.field import param as param
    from t2t.inference.translator import Translator as Translator
    from t2t.metrics import Score as Score
    from t2t.metrics import lower_is_better as lower_is_better
    from t2t.models.base import EncoderDecoder as EncoderDecoder
    from t2t.models.base import SequenceModel as SequenceModel
    from t2t.problems.array_inputs import Audio2Class as Audio2Class
    from t2t.problems.array_inputs import AudioInputs as AudioInputs
    from t2t.problems.array_inputs import Image2Class as Image2Class
    from t2t.problems.array_inputs import Image2Text as Image2Text
    from t2t.problems.array_inputs import ImageInputs as ImageInputs
    from t2t.problems.array_inputs import Speech2Text as Speech2Text
    from t2t.problems.array_inputs import Video2Class as Video2Class
    from t2t.problems.array_inputs import VideoInputs as VideoInputs
    from t2t.problems.base import Problem as Problem
    from t2t.problems.preprocessors import TextPreprocessor as TextPreprocessor
    from t2t.problems.text_problems import Text2Class as Text2Class
    from t2t.problems.text_problems import Text2Self as Text2Self
    from t2t.problems.text_problems import Text2Text as Text2Text
    from t2t.registry import register_exporter as register_exporter
    from t2t.registry import register_feature as register_feature
    from t2t.registry import register_filter as register_filter
    from t2t.registry import register_hparams as register_hparams
    from t2t.registry import register_importer as register_importer
    from t2t.registry import register_metric as register_metric
    from t2t.registry import register_modality as register_modality
    from t2t.registry import register_model as register_model
    from t2t.registry import register_objective as register_objective
    from t2t.registry import register_optimizer as register_optimizer
    from t2t.registry import register_preprocessor as register_preprocessor
    from t2t.registry import register_problem as register_problem
    from t2t.registry import register_ranged_hparams as register_ranged_hparams
    from t2t.registry import register_schedule as register_schedule
    from t2t.registry import register_search_method as register_search_method
    from t2t.registry import register_vocabulary as register_vocabulary
    from t2t.runs.model_check import check_model as check_model
    from t2t.specs import DEV as DEV
    from t2t.specs import TEST as TEST
    from t2t.specs import TRAIN as TRAIN
    from t2t.specs.constraints import FiniteConstraint as FiniteConstraint
    from t2t.specs.constraints import OutputConstraint as OutputConstraint
    from t2t.specs.constraints import TreeConstraint as TreeConstraint
    from t2t.specs.constraints import TreeLabels as TreeLabels
    from t2t.specs.constraints import answers_constraint as answers_constraint
    from t2t.specs.constraints import phrase_constraint as phrase_constraint
    from t2t.text.encoder import TextEncoder as TextEncoder
    from t2t.text.regular_expressions import regex_constraint as regex_constraint
    from t2t.tuning.api import tune as tune

__version__ = "0.1.0"

install()  # of `tensor2tensor`, for plug-ins and notebooks that import it

_MODULES = {
    "t2t.runs.model_check": ("check_model",),
    "t2t.specs": ("DEV", "TEST", "TRAIN"),
    "t2t.errors": ("ArgumentError", "MachineError", "T2TError", "UserError"),
    "t2t.hparams.base": ("HParams",),
    "t2t.hparams.field": ("UsedWhen", "param"),
    "t2t.inference.translator": ("Translator",),
    "t2t.metrics": ("Score", "lower_is_better"),
    "t2t.models.base": ("EncoderDecoder", "SequenceModel"),
    "t2t.problems.array_inputs": (
        "Audio2Class", "AudioInputs", "Image2Class", "Image2Text", "ImageInputs", "Speech2Text", "Video2Class",
        "VideoInputs",
    ),
    "t2t.problems.base": ("Problem",),
    "t2t.problems.preprocessors": ("TextPreprocessor",),
    "t2t.problems.text_problems": ("Text2Class", "Text2Self", "Text2Text"),
    "t2t.registry": (
        "register_exporter", "register_feature", "register_filter", "register_hparams", "register_importer",
        "register_metric", "register_modality", "register_model", "register_objective", "register_optimizer",
        "register_preprocessor", "register_problem", "register_ranged_hparams", "register_schedule",
        "register_search_method", "register_vocabulary",
    ),
    "t2t.specs.constraints": (
        "FiniteConstraint", "OutputConstraint", "TreeConstraint", "TreeLabels", "answers_constraint",
        "phrase_constraint",
    ),
    "t2t.text.encoder": ("TextEncoder",),
    "t2t.text.regular_expressions": ("regex_constraint",),
    "t2t.tuning.api": ("tune",),
}  # fmt: skip
"""Module -> names that are imported from it at first use; the block above repeats this for type checkers."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "distill", "evaluate", "export_model", "generate_data", "learn_shortlist", "load", "registered", "train",
    *_MODULE_OF,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 't2t' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
