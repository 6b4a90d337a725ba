"""The model card of an export: metadata and a description of the run for its README.md."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from t2t.checkpoints.run_dir import RunDir
from t2t.inference.translator import Translator
from t2t.specs.constants import DEV

_TEACHER_FORCED = "teacher_forced/"


@dataclasses.dataclass(frozen=True)
class DevScores:
    """Dev metrics of the exported checkpoint, from the run's metrics file."""

    update: int
    figures: Mapping[str, float]
    """Metric name -> value."""


def scores_of(run: RunDir | None, checkpoint: str, step: int) -> DevScores:
    """Returns the recorded dev metrics of a checkpoint; none if it was not evaluated itself, such as an average."""
    found: dict[str, float] = {}
    if run is not None and checkpoint.startswith("step-"):
        for line in run.metrics():
            if line["step"] == step:
                found |= {name: value for name, value in line.items() if name.startswith(f"{DEV}/")}
    figures = {name.removeprefix(f"{DEV}/"): value for name, value in found.items() if isinstance(value, float)}
    return DevScores(step, {name: value for name, value in figures.items() if not name.startswith(_TEACHER_FORCED)})


def front_matter(translator: Translator, name: str, origin: Mapping[str, Any], scores: DevScores, kind: str) -> str:
    """Returns the metadata for the Hugging Face Hub, as YAML; values are JSON, a subset of YAML."""
    problem = translator.problem
    languages = [code for code in (problem.source_language, problem.target_language) if code]
    fields: dict[str, Any] = {"library_name": "transformers"}
    fields |= {"language": list(dict.fromkeys(languages))} if languages else {}
    fields |= {"pipeline_tag": "translation"} if len(set(languages)) > 1 else {}
    fields["tags"] = ["t2t", kind, str(origin.get("model", "transformer"))]
    if scores.figures:
        fields["model-index"] = [{"name": name, "results": [_result(problem.name, languages, scores)]}]
    lines = [f"{field}: {json.dumps(value, ensure_ascii=False)}" for field, value in fields.items()]
    return "\n".join(["---", *lines, "---", ""])


def _result(problem: str, languages: list[str], scores: DevScores) -> dict[str, Any]:
    task = "translation" if len(set(languages)) > 1 else "text2text-generation"
    return {
        "task": {"type": task},
        "dataset": {"name": problem, "type": problem, "split": DEV},
        "metrics": [{"type": name, "value": value} for name, value in scores.figures.items()],
    }


def describe(translator: Translator, run: RunDir | None, origin: Mapping[str, Any], scores: DevScores) -> str:
    """Returns the table of facts, and the scores, as Markdown."""
    hparams_set = str(origin.get("hparams_set", ""))
    changed = f" with `{run.record.overrides}`" if run and run.record.overrides else ""
    data = run.record.data_fingerprint[:12] if run else ""
    facts = {
        "training data": f"problem `{translator.problem.name}`" + (f", data of fingerprint `{data}`" if data else ""),
        "hparams set": f"`{hparams_set}`{changed}" if hparams_set else "",
        "updates": f"{origin.get('step', 0):,}",
        "parameters": f"{translator.model.count_params():,}",
    }
    rows = [f"| {name} | {value} |" for name, value in facts.items() if value]
    lines = ["| | |", "|---|---|", *rows, "", "The license is for you to add, as `license:` in the lines in front.", ""]
    if not scores.figures:
        return "\n".join([*lines, "The run has no scores of this checkpoint; `t2t-eval` computes them.", ""])
    lines += [f"Scores on the {DEV} split after update {scores.update:,}, from the run's `metrics.jsonl`:", ""]
    lines += ["| metric | value |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value:.4f} |" for name, value in scores.figures.items()), ""])
