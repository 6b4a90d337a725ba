"""Outputs of a model for a picture or a sound of a split, and which parts of a picture the output depends on.

Legend: H, W height and width, C channels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.inference.attention import occlusion_map
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Hypothesis, Translator
from t2t.specs.constants import DEV, EOS_ID, INPUTS
from t2t.specs.features import FeatureKind
from t2t.studio.figures import answers_with_class, classes_json
from t2t.studio.media import media_of, output_media
from t2t.studio.run_answers import json_int
from t2t.studio.split_data import SplitData
from t2t.studio.studio import Studio


def example_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of an example, its reference, and the model's output, or the classes with probabilities."""
    translator, step, split, number = _asked(studio, data)
    examples = SplitExamples(split.problem, split.reader, number + 1, number)
    (value,), (reference,) = examples.inputs(), examples.references()
    spec = split.reader.features[split.columns[INPUTS]]
    found = _answers(translator, [value])[0]
    return {
        "step": step,
        "problem": split.problem.name,
        "total": len(split.reader),
        "inputs": media_of(np.asarray(value), spec),
        "reference": {"text": reference, "media": output_media(split.problem, reference)},
        "output": {"text": found[0].text, "media": output_media(split.problem, found[0].text)},
        "classes": classes_json(found) if answers_with_class(translator) else None,
        "has_map": spec.kind == FeatureKind.IMAGE,
    }


def occlusion_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how much the log-probability of an output drops when parts of the picture are covered.

    The output is the class named by `class`, by default the model's best class, or else the model's output sequence.
    """
    translator, _, split, number = _asked(studio, data)
    (image,) = SplitExamples(split.problem, split.reader, number + 1, number).inputs()
    if split.reader.features[split.columns[INPUTS]].kind != FeatureKind.IMAGE:
        raise UserError(f"{split.problem.name}: its inputs are no pictures, which alone have parts to cover")
    image = np.asarray(image)
    found = _answers(translator, [image])[0]
    answer = _named(found, data["class"]) if data.get("class") is not None else found[0]

    def score(images: Sequence[np.ndarray]) -> Sequence[float]:
        inputs: list[Any] = list(images)
        if not answers_with_class(translator):
            ids = [token for token in answer.ids if token != EOS_ID]
            return translator.score_ids(inputs, [ids] * len(inputs))
        each = _answers(translator, inputs)
        return [next(one.log_prob or 0.0 for one in answers if one.ids == answer.ids) for answers in each]

    drops, cell = occlusion_map(image, score)
    height, width = image.shape[:2]
    return {"answer": answer.text, "height": height, "width": width, "cell": cell, "drops": drops.tolist()}


def _asked(studio: Studio, data: Mapping[str, Any]) -> tuple[Translator, int, SplitData, int]:
    """Returns the model of a request, its step, the split of its data, and the index of the example."""
    name = data.get("model")
    translator, step, _ = studio.model(name, data.get("checkpoint"), only_text=False)
    split = studio.data(name, translator.problem.name, data.get("split", DEV))
    return translator, step, split, json_int(data, "example", 0, 0, len(split.reader) - 1)


def _answers(translator: Translator, inputs: Sequence[Any]) -> list[list[Hypothesis]]:
    """Returns the best output for each input; for classification all classes, the most probable first."""
    count = translator.facts.spec.targets.vocab_size if answers_with_class(translator) else 1
    return translator.translate_ids(list(inputs), count)


def _named(answers: Sequence[Hypothesis], name: Any) -> Hypothesis:
    for one in answers:
        if one.text == name:
            return one
    raise UserError(
        f"class {str(name)[:100]!r}: there is none", f"there are {', '.join(one.text for one in answers[:10])}"
    )
