"""Marian's Transformer in numpy, for verifying an export: it reads the written model as Marian does.

It shares no code with our models, and processes one sentence at a time in float32. Source: `models/transformer.h`,
`layers/generic.h` and `layers/output.cpp` of marian-dev.

Legend: S source length, T target length, D width, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.formats.marian.mapping import EPSILON, OUTPUT, SETTINGS
from t2t.formats.yaml import parse_settings


class MarianNetwork:
    """The network in an archive of tensors and settings."""

    def __init__(self, path: Path):
        with np.load(path, allow_pickle=False) as archive:
            self._arrays = {name: archive[name] for name in archive.files}
        described = self._arrays.pop(SETTINGS).tobytes().rstrip(b"\0")
        self._settings: Mapping[str, Any] = parse_settings(described.decode("utf-8"))

    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        """Returns (T, V): row t is for target[t], given the source and previous targets; both end with EOS."""
        width = self._settings["dim-emb"]
        is_shared = self._settings["tied-embeddings-all"] or self._settings["tied-embeddings-src"]
        tables = [self._arrays["Wemb" if is_shared else f"{side}_Wemb"] for side in ("encoder", "decoder")]
        source_SD = tables[0][list(source)]
        target_TD = np.concatenate([np.zeros((1, width), np.float32), tables[1][list(target[:-1])]])
        memory_SD = self._stack("encoder", self._placed(source_SD), None)
        hidden_TD = self._stack("decoder", self._placed(target_TD), memory_SD)
        is_tied = self._settings["tied-embeddings-all"] or self._settings["tied-embeddings"]
        output_VD = tables[1] if is_tied else self._arrays[f"{OUTPUT}_Wt"]
        logits_TV = hidden_TD @ output_VD.T + self._arrays[f"{OUTPUT}_b"]
        shifted_TV = logits_TV - logits_TV.max(-1, keepdims=True)
        log_probs_TV: np.ndarray = shifted_TV - np.log(np.exp(shifted_TV).sum(-1, keepdims=True))
        return log_probs_TV

    def _placed(self, x_TD: np.ndarray) -> np.ndarray:
        """Scales embeddings and adds sinusoids: sin(t / 10000^(i / (D/2 - 1))) for i < D/2, then the cosines."""
        length, width = x_TD.shape
        waves = np.exp(np.arange(width // 2) * -(np.log(10000.0) / max(width / 2 - 1, 1)))
        angles = np.arange(length)[:, None] * waves[None]
        placed: np.ndarray = np.sqrt(width) * x_TD + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return placed.astype(np.float32)

    def _stack(self, side: str, x_TD: np.ndarray, memory_SD: np.ndarray | None) -> np.ndarray:
        for number in range(1, self._settings["enc-depth" if memory_SD is None else "dec-depth"] + 1):
            layer = f"{side}_l{number}"
            x_TD = self._attend(f"{layer}_self", x_TD, None, memory_SD is not None)
            if memory_SD is not None:
                x_TD = self._attend(f"{layer}_context", x_TD, memory_SD, False)
            x_TD = self._feed_forward(f"{layer}_ffn", x_TD)
        return x_TD

    def _attend(self, name: str, x_TD: np.ndarray, memory_SD: np.ndarray | None, is_causal: bool) -> np.ndarray:
        """Returns the output of an attention sub-layer, including its postprocessing."""
        keys_SD = x_TD if memory_SD is None else memory_SD
        q, k, v = (self._affine(name, letter, x) for letter, x in zip("qkv", (x_TD, keys_SD, keys_SD), strict=True))
        heads = []
        for q_TK, k_SK, v_SK in zip(
            *(np.split(x, self._settings["transformer-heads"], axis=1) for x in (q, k, v)), strict=True
        ):
            scores_TS = q_TK @ k_SK.T / np.sqrt(q_TK.shape[1])
            if is_causal:
                scores_TS = np.where(np.tri(len(scores_TS), dtype=bool), scores_TS, -np.inf)
            weights_TS = np.exp(scores_TS - scores_TS.max(-1, keepdims=True))
            heads.append(weights_TS / weights_TS.sum(-1, keepdims=True) @ v_SK)
        output_TD = self._affine(name, "o", np.concatenate(heads, axis=1))
        return self._process(f"{name}_Wo", output_TD, x_TD)

    def _feed_forward(self, name: str, x_TD: np.ndarray) -> np.ndarray:
        inner_TF = self._affine(name, "1", x_TD)
        kind = self._settings["transformer-ffn-activation"]
        if kind == "relu":
            inner_TF = np.maximum(inner_TF, 0.0)
        else:
            inner_TF = inner_TF / (1.0 + np.exp(-inner_TF * (1.702 if kind == "gelu" else 1.0)))
        return self._process(f"{name}_ffn", self._affine(name, "2", inner_TF), x_TD)

    def _process(self, name: str, x_TD: np.ndarray, before_TD: np.ndarray) -> np.ndarray:
        """Applies the postprocessing of a sub-layer by letters: d dropout, a residual addition, n and r norms."""
        for letter in self._settings["transformer-postprocess"]:
            if letter == "a":
                x_TD = x_TD + before_TD
            elif letter == "n":
                centred_TD = x_TD - x_TD.mean(-1, keepdims=True)
                unit_TD = centred_TD / np.sqrt((centred_TD**2).mean(-1, keepdims=True) + EPSILON)
                x_TD = unit_TD * self._arrays[f"{name}_ln_scale"] + self._arrays[f"{name}_ln_bias"]
            elif letter == "r":
                unit_TD = x_TD / np.sqrt((x_TD**2).mean(-1, keepdims=True) + EPSILON)
                x_TD = unit_TD * self._arrays[f"{name}_rms_scale"]
        return x_TD

    def _affine(self, name: str, suffix: str, x: np.ndarray) -> np.ndarray:
        mapped: np.ndarray = x @ self._arrays[f"{name}_W{suffix}"] + self._arrays[f"{name}_b{suffix}"]
        return mapped
