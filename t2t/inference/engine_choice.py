"""The choice of the engine and its compute type, as commands and functions request it. Loads no TensorFlow."""

import dataclasses
import importlib.util
import os
from typing import Self

from t2t.errors import UserError, needs_extra

TENSORFLOW, CTRANSLATE2, AUTO = ENGINES = ("tensorflow", "ctranslate2", "auto")

VARIABLE = "T2T_ENGINE"
"""Environment variable with the engine that `auto` stands for."""

COMPUTE_TYPES = ("float32", "int8", "int16", "bfloat16")
"""Number formats in which CTranslate2 multiplies, if the processor supports them; TensorFlow uses the first."""

AVERAGES = ("probabilities", "log_probabilities")
"""What an ensemble averages, see `t2t.models.ensemble`."""


@dataclasses.dataclass(frozen=True)
class EngineChoice:
    """The requested engine and compute type."""

    engine: str = TENSORFLOW
    """One of ENGINES: `tensorflow` is the model itself, on Keras's backend; `auto` is CTranslate2 on processors, if it
    is installed, supports the model and agrees with the model itself."""
    compute_type: str = COMPUTE_TYPES[0]
    """One of COMPUTE_TYPES."""

    @classmethod
    def requested(cls, engine: str, compute_type: str = COMPUTE_TYPES[0]) -> Self:
        """Returns what a user asks for; the variable `T2T_ENGINE` may name what `auto` stands for.

        Raises:
            UserError: see `check`.
        """
        named = os.environ.get(VARIABLE, "")
        if named not in ("", *ENGINES):
            raise UserError(f"{VARIABLE}={named}: there is no such engine; set it to one of {', '.join(ENGINES)}")
        choice = cls(named if named and engine == AUTO else engine, compute_type)
        choice.check()
        return choice

    def check(self) -> None:
        """Raises UserError for unknown values, an engine that is not installed, or values that do not fit together."""
        for flag, value, allowed in (
            ("--engine", self.engine, ENGINES),
            ("--compute_type", self.compute_type, COMPUTE_TYPES),
        ):
            if value not in allowed:
                raise UserError(f"{flag}={value}: there is no such; ask for one of {', '.join(allowed)}")
        if self.engine == TENSORFLOW and self.compute_type != COMPUTE_TYPES[0]:
            raise UserError(
                f"--compute_type={self.compute_type}: --engine=tensorflow decodes in float32; ask for "
                f"--engine=ctranslate2 or --engine=auto too"
            )
        if self.engine == CTRANSLATE2:
            with needs_extra("ctranslate2", "--engine=ctranslate2"):
                if not ctranslate2_is_installed():
                    raise ModuleNotFoundError(name="ctranslate2")


def ctranslate2_is_installed() -> bool:
    """Returns whether CTranslate2 is installed; does not import it."""
    return importlib.util.find_spec("ctranslate2") is not None
