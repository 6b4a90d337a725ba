"""The programs that the project is compared with: the environment of each, and the module that drives it there.

All other modules of this folder run in the peer's environment, which lacks the project's dependencies. They import
`benchmarks.harness.child`, numpy, the peer, and only those modules of the project that need nothing else.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmarks.harness.environments import Environment

_TORCH = "torch==2.13.0"
_NUMPY = "numpy==2.4.6"


@dataclasses.dataclass(frozen=True)
class Peer:
    """A program, with its options in one comparison."""

    environment: str
    """Name in ENVIRONMENTS; empty for the project's own environment."""
    module: str
    """Module of this folder that drives it."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Additional fields of its jobs."""

    @property
    def in_16_bits(self) -> bool:
        """Whether it computes in bfloat16."""
        return self.options.get("compute_type") == "bfloat16"

    @property
    def program(self) -> str:
        """Name of the program that it is a variant of; tables of `best` show the best variant of each program."""
        return " ".join([self.module, *([self.options["compute_type"]] if "compute_type" in self.options else [])])


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment("huggingface", ("3.11", "3.12"), ((_TORCH, _NUMPY, "transformers==5.23.0"),)),
        Environment(
            "huggingface_text",
            ("3.11", "3.12"),
            ((_TORCH, _NUMPY, "transformers==5.23.0", "sentencepiece==0.2.3", "protobuf==7.36.2"),),
        ),
        Environment(
            "sockeye", ("3.11", "3.12"), ((_TORCH, _NUMPY, "pyyaml==6.0.3"), ("--no-deps", "sockeye==3.1.34")),
        ),
        Environment(
            "opennmt_py",
            ("3.11", "3.12"),
            (
                (_TORCH, _NUMPY, "pyyaml==6.0.3", "configargparse", "flask", "waitress", "pydantic", "safetensors",
                 "sacrebleu", "sentencepiece==0.2.3"),
                ("--no-deps", "pyonmttok==1.38.1", "OpenNMT-py==3.5.1", "eole==0.6.4"),
            ),
        ),
        Environment("ctranslate2", ("3.11", "3.12"), (("ctranslate2==4.8.5", _NUMPY, "sentencepiece==0.2.3"),)),
        Environment(
            "marian", ("3.10", "3.9"), (("bergamot==0.4.5", "numpy==1.26.4", "pyyaml==6.0.2", "sentencepiece==0.2.1"),)
        ),
        Environment(
            "joeynmt",
            ("3.11", "3.12"),
            (
                ("-U", "pip", "wheel", "setuptools<70"),
                (_TORCH, _NUMPY),
                ("--no-deps", "joeynmt==2.3.0"),
                (
                    "sentencepiece==0.2.3", "sacrebleu==2.6.0", "subword-nmt", "packaging", "pandas", "tensorboard",
                    "six", "wrapt", "sacremoses", "seaborn", "matplotlib", "datasets", "importlib_metadata", "pyyaml",
                ),
            ),
        ),
        Environment(
            "keras_hub",
            ("3.11", "3.12"),
            (
                ("tensorflow-cpu==2.21.0", "keras==3.15.0", _NUMPY),
                ("--no-deps", "keras-hub==0.32.0"),
                ("regex", "rich", "tokenizers", "kagglehub", "kagglesdk", "sentencepiece==0.2.3"),
            ),
        ),
        Environment(
            "opennmt_tf",
            ("3.11", "3.10", "3.9"),
            (
                ("-U", "pip", "wheel", "setuptools<70"),
                ("tensorflow-cpu==2.13.1",),
                ("--no-deps", "OpenNMT-tf==2.32.0"),
                (
                    "tensorflow-addons==0.21.0", "typeguard<3", "ctranslate2<4", "pyonmttok<2", "pyyaml", "rouge",
                    "sacrebleu", "sentencepiece", "numpy==1.24.3",
                ),
            ),
        ),
        Environment(
            "tensor2tensor",
            ("3.10", "3.9"),
            (
                ("-U", "pip", "wheel", "setuptools<70"),
                ("tensorflow-cpu==2.13.1", "tensorflow-probability==0.21.0"),
                ("--no-deps", "tensor2tensor==1.15.7"),
                ("six", "future", "absl-py", "scipy", "sympy", "h5py", "requests", "tqdm"),
            ),
        ),
    )
}  # fmt: skip
"""By name."""

_IN_16_BITS = {"compute_type": "bfloat16"}

TRAINING = {
    "hf_marian": Peer("huggingface", "hf_marian"),
    "hf_marian_compiled": Peer("huggingface", "hf_marian", {"compile": True}),
    "hf_marian_bfloat16": Peer("huggingface", "hf_marian", _IN_16_BITS),
    "hf_marian_compiled_bfloat16": Peer("huggingface", "hf_marian", {"compile": True, **_IN_16_BITS}),
    "torch_transformer": Peer("huggingface", "torch_transformer"),
    "torch_transformer_compiled": Peer("huggingface", "torch_transformer", {"compile": True}),
    "torch_transformer_bfloat16": Peer("huggingface", "torch_transformer", _IN_16_BITS),
    "torch_transformer_compiled_bfloat16": Peer("huggingface", "torch_transformer", {"compile": True, **_IN_16_BITS}),
    "opennmt_tf": Peer("opennmt_tf", "opennmt_tf"),
    "tensor2tensor": Peer("tensor2tensor", "tensor2tensor"),
    "joeynmt": Peer("joeynmt", "joeynmt"),
    "keras_hub": Peer("keras_hub", "keras_hub"),
    "keras_hub_bfloat16": Peer("keras_hub", "keras_hub", _IN_16_BITS),
}
"""Peers of the training comparison, by name."""

_SIDE_BY_SIDE = {"compute_type": "float32", "run_parallel": 2}

DECODING = {
    "ctranslate2": Peer("ctranslate2", "ctranslate2", {"compute_type": "float32"}),
    "ctranslate2_side_by_side": Peer("ctranslate2", "ctranslate2", _SIDE_BY_SIDE),
    "ctranslate2_side_by_side_avx512": Peer("ctranslate2", "ctranslate2", {**_SIDE_BY_SIDE, "isa": "AVX512"}),
    "ctranslate2_int8": Peer("ctranslate2", "ctranslate2", {**_SIDE_BY_SIDE, "compute_type": "int8"}),
    "ctranslate2_int8_avx512": Peer(
        "ctranslate2", "ctranslate2", {**_SIDE_BY_SIDE, "compute_type": "int8", "isa": "AVX512"}
    ),
    "marian": Peer("marian", "marian", {"compute_type": "float32"}),
    "marian_int8": Peer("marian", "marian", {"compute_type": "int8"}),
    "hf_generate": Peer("huggingface", "hf_generate"),
    "hf_generate_side_by_side": Peer("huggingface", "hf_generate", {"run_parallel": 2}),
}
"""Peers of the decoding comparison, by name."""

DATAGEN = {"sentencepiece": Peer("", "sentencepiece")}
"""Peers of the data generation comparison, by name."""
