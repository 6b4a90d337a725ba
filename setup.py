"""Installs t2t and its commands."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
COMMANDS = (
    "trainer", "datagen", "decoder", "eval", "bleu", "evalb", "aer", "vocab", "avg_all", "exporter", "distill",
    "shortlist", "tune", "runs", "server", "insight", "translate_all", "query_server", "make_tf_configs",
)  # fmt: skip
SERVE = [
    "starlette>=1.0,<2", "uvicorn>=0.40,<1", "prometheus_client>=0.22,<1", "matplotlib>=3.9,<4", "plotly>=6.1,<8",
]  # fmt: skip
CTRANSLATE2 = ["ctranslate2>=4.8,<5"]
NOTEBOOK = ["nbclient>=0.10", "nbformat>=5.10", "ipykernel>=6.29"]
TEST = [
    "pytest>=8", "pytest-cov>=6", "pytest-timeout>=2.4", "pytest-xdist>=3", "hypothesis>=6", "ruff==0.17.5",
    "mypy==2.4.1", "httpx2", "jsonschema>=4.20", "moto[s3]>=5.1", "flask>=3", "flask-cors>=5", *NOTEBOOK,
]  # fmt: skip
DOCS = ["sphinx>=9,<10", "myst-nb>=1.4", "furo>=2025.12"]
AUDIO = ["soundfile>=0.13", "soxr>=0.5"]
ALGEBRA = ["sympy>=1.13,<2"]
LANGUAGE = ["py3langid>=0.4,<0.5"]
ROUGE = ["rouge-score>=0.1.2,<0.2"]
BEAM = ["apache-beam>=2.72,<3"]
S3 = ["s3fs>=2025.3"]
TUNE = ["optuna>=4.5,<6"]
ONNX = ["tf2onnx>=1.17,<2", "onnx>=1.18", "onnxruntime>=1.22"]
HUGGINGFACE = ["transformers>=5.23,<6", "torch>=2.6"]
JAX = ["jax>=0.6"]
LITERT = ["ai-edge-litert>=2.1,<3"]
MLFLOW = ["mlflow-skinny>=3,<4", "sqlalchemy>=2,<3", "alembic>=1.13,<2"]  # the last two: a local SQLite store
WANDB = ["wandb>=0.20,<1"]

setup(
    name="t2t-keras",  # the import is `t2t`
    version=re.search(r'__version__ = "(.+)"', (ROOT / "t2t/__init__.py").read_text()).group(1),
    description="Sequence models by name, in the style of Tensor2Tensor, on TensorFlow 2 and Keras 3",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    classifiers=[
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["t2t", "t2t.*"]),
    package_dir={"": "."},  # so an editable install adds a path, which type checkers follow, instead of an import hook
    package_data={"t2t": ["py.typed", "studio/static/*", "problems/number_phrases/*", "zoo/**/*"]},
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "keras>=3.12,<3.16",
        "tensorflow-text>=2.21.1,<2.22",
        "tensorflow-datasets>=4.9.10",
        "absl-py>=2.0",
        *CTRANSLATE2,  # wheels for all systems that tensorflow-text has some for; a tenth of TensorFlow's size
        "fsspec>=2025.3",
        "importlib_resources>=6",  # tensorflow-datasets imports it without requiring it
        "ml_dtypes>=0.5.1",
        "msgspec>=0.20",
        "numpy>=1.26",
        "pillow>=10",
        "rapidfuzz>=3.10",
        "sacrebleu>=2.5,<3",
        "sacremoses>=0.1.1",
        "safetensors>=0.5",
        "sentencepiece>=0.2.2",  # 0.2.1 crashes in a process that has loaded TensorFlow
        "tensorboard>=2.20",
        "tqdm>=4.66",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]>=2.21,<2.22"],
        "algebra": ALGEBRA,
        "audio": AUDIO,
        "beam": BEAM,
        "serve": SERVE,
        "browser": ["playwright>=1.50", "axe-playwright-python>=0.1.8"],
        "ctranslate2": CTRANSLATE2,  # always installed; the name of earlier versions
        "rouge": ROUGE,
        "language": LANGUAGE,
        "s3": S3,
        "gs": ["gcsfs>=2025.3"],
        "hdfs": ["pyarrow>=15"],
        "onnx": ONNX,
        "huggingface": HUGGINGFACE,
        "litert": LITERT,
        "jax": JAX,
        "tune": TUNE,
        "mlflow": MLFLOW,
        "wandb": WANDB,
        "docs": DOCS,
        "test": [
            *TEST,
            *ALGEBRA,
            *AUDIO,
            *SERVE,
            *ROUGE,
            *ONNX,
            *LITERT,
            *BEAM,
            *LANGUAGE,
            *S3,
            *TUNE,
        ],
    },
    entry_points={
        "console_scripts": [
            *(f"t2t-{command.replace('_', '-')}=t2t.cli.{command}:main" for command in COMMANDS),
            "t2t-import=t2t.cli.importer:main",  # `import` cannot be a module name
        ],
    },
)
