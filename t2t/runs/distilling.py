"""Distils a run: its outputs for the training inputs of a problem become the targets of new data.

Sequence-level knowledge distillation: Kim and Rush 2016, arXiv:1606.07947, sections 3.2 and 3.3.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
from collections import Counter

from t2t.checkpoints.run_dir import RunDir
from t2t.data.generation.data_folder import check_places, data_folder, is_published, lock_generation, publish_data
from t2t.data.generation.distilled import find_distilled, write_distilled
from t2t.data.manifest import Distillation, Manifest
from t2t.errors import UserError
from t2t.files.lines import WINDOW
from t2t.files.output import PartialFile
from t2t.files.paths import local_path
from t2t.files.progress import Progress
from t2t.hparams.groups import DecodeHParams
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Hypothesis, Translator
from t2t.metrics.text import SentenceBleu
from t2t.runs.data import OpenData, open_run_data
from t2t.runs.loading import LoadedRun
from t2t.runs.names import get_problem
from t2t.specs import EOS_ID, TRAIN
from t2t.specs.features import FeatureKind

log = logging.getLogger("t2t")


def distill_run(
    loaded: LoadedRun, data_dir: str, distilled_data_dir: str, n_best: int = 1, window: int = WINDOW
) -> Manifest:
    """Writes distilled data; resumes an interrupted attempt at the same.

    Args:
        loaded: the teacher.
        data_dir: has the data of its problem, whose training split it decodes.
        distilled_data_dir: where the new data goes, `<distilled_data_dir>/<problem>`.
        n_best: 1 takes the teacher's best output; with more, the output with the highest sentence BLEU against the
            reference (section 3.3).
        window: number of examples that are decoded before they are written.

    Raises:
        UserError: see `check_distillation`; other data in its place, or more outputs than the search has.
        MachineError: the data cannot be written; what was decoded before can be resumed.
    """
    data = open_run_data(loaded.run, data_dir, loaded.problem.name, TRAIN)
    translator = loaded.translator()
    distillation = _describe(loaded, translator, data, n_best)
    folder = data_folder(distilled_data_dir, data.problem)
    decoded = folder.with_name(f".{folder.name}.targets")
    leftover = PartialFile(decoded, None)  # of a process that was killed just before its end
    existing = find_distilled(folder, distillation)
    if existing is not None and is_published(folder) and not leftover.is_left():
        return existing
    if existing is None:
        check_places(folder, "--distilled_data_dir")
    with lock_generation(folder, "--distilled_data_dir"):
        if (existing := find_distilled(folder, distillation)) is not None:
            publish_data(folder, existing)
            leftover.discard()
            return existing
        log.info("distilling %s into %s", loaded.checkpoint.folder, folder)
        content = json.dumps([dataclasses.asdict(distillation), translator.fingerprint(), window], sort_keys=True)
        fingerprint = hashlib.sha256(content.encode()).hexdigest()
        with PartialFile(decoded, fingerprint) as output:
            _decode(translator, data, n_best, output, window)
            distillation = dataclasses.replace(distillation, references=output.notes)
            lines = output.written()
            windows = iter(lambda: [json.loads(line) for line in itertools.islice(lines, window)], [])
            manifest = write_distilled(folder, data.readers[TRAIN].folder, data.manifest, windows, distillation)
            output.discard()
    _report(manifest)
    return manifest


def _describe(loaded: LoadedRun, translator: Translator, data: OpenData, n_best: int) -> Distillation:
    _, hparams = translator.settings(n_best)
    names = [field.name for field in dataclasses.fields(DecodeHParams) if field.name != "decode_batch_size"]
    shortlist = {"shortlist_fingerprint": translator.model_engine.shortlist.fingerprint} if hparams.shortlist else {}
    return Distillation(
        teacher={
            "model": loaded.record.model,
            "hparams_set": loaded.record.hparams_set,
            "checkpoint": loaded.checkpoint.name,
            "step": loaded.checkpoint.step,
            "fingerprint": loaded.checkpoint.fingerprint,
        },
        data=data.fingerprint,
        n_best=n_best,
        search={"engine": translator.engine.name, **{name: getattr(hparams, name) for name in names}, **shortlist},
    )


def _decode(translator: Translator, data: OpenData, n_best: int, output: PartialFile, window: int) -> None:
    """Writes the chosen ids of each training example as a line of JSON, null for one that keeps its reference."""
    reader, bleu = data.readers[TRAIN], SentenceBleu(data.problem.target_language)
    faults, start = Counter(output.notes), data.problem.languages.marks().output_start
    if output.lines:
        log.info("resuming after example %s of an interrupted attempt", f"{output.lines:,}")
    with contextlib.closing(Progress("distilled", "examples", len(reader), output.lines)) as progress:
        for first in range(output.lines, len(reader), window):
            examples = SplitExamples(data.problem, reader, first + window, first)
            seeds = range(first, first + len(examples))
            found = examples.decode(translator, n_best, seeds=seeds, on_done=progress.add)
            references = examples.references() if n_best > 1 else [""] * len(found)
            lines = []
            for marked, reference in zip(found, references, strict=True):
                hypotheses = [_without_start(one, start) for one in marked]
                usable = [one for one in hypotheses if not find_fault(one, data.problem.max_length)]
                if not usable:
                    faults[find_fault(hypotheses[0], data.problem.max_length)] += 1
                chosen = bleu.nearest([one.text for one in usable], reference) if len(usable) > 1 else 0
                lines.append(json.dumps(usable[chosen].ids if usable else None))
            output.write("".join(line + "\n" for line in lines).encode(), len(lines), dict(faults))


def _without_start(hypothesis: Hypothesis, start: tuple[int, ...]) -> Hypothesis:
    """Returns an output without the language code that it begins with, since stored targets have none."""
    if not start or hypothesis.ids[: len(start)] != start:
        return hypothesis
    return dataclasses.replace(hypothesis, ids=hypothesis.ids[len(start) :])


def find_fault(hypothesis: Hypothesis, max_length: int) -> str:
    """Returns why an output, without a language code, cannot be a training target; empty where it can."""
    if hypothesis.ids in ((), (EOS_ID,)):
        return "empty"
    if hypothesis.ids[-1:] != (EOS_ID,):
        return "unfinished at its longest length"
    return f"longer than {max_length} ids" if len(hypothesis.ids) > max_length else ""


def _report(manifest: Manifest) -> None:
    assert manifest.distilled is not None
    kept = manifest.distilled.references
    examples = manifest.splits[TRAIN].examples
    log.info("%s of %s training targets are the teacher's", f"{examples - sum(kept.values()):,}", f"{examples:,}")
    for fault, count in sorted(kept.items()):
        log.warning("%s training examples keep their reference: the teacher's output is %s", f"{count:,}", fault)


def check_distillation(run: RunDir, problem: str, data_dir: str, distilled_data_dir: str) -> None:
    """Checks that the training split of one of a run's problems can be distilled into a folder.

    Raises:
        UserError: `distilled_data_dir` is empty or the folder of the data itself; no data; or a problem without inputs,
            with class targets, or that is a variant of another.
    """
    if not distilled_data_dir:
        raise UserError("not given", "name the folder that the distilled data goes to", option="distilled_data_dir")
    record = run.record.for_problem(problem)
    if record.spec.inputs is None or record.spec.targets.kind != FeatureKind.TOKENS:
        what = f"its targets are {record.spec.targets.kind}" if record.spec.inputs else "it has no inputs to decode"
        raise UserError(f"distilling {problem}: {what}", "distil a problem whose outputs a model writes for inputs")
    declared = get_problem(problem, record.problem_options)
    if declared.columns is not None:
        stored = declared.stored.name
        raise UserError(
            f"distilling {problem}: it reads the data of {stored} with other sides", f"distil a run of {stored} itself"
        )
    folders = [data_folder(local_path(one), declared).resolve() for one in (data_dir, distilled_data_dir)]
    if folders[0] == folders[1]:
        raise UserError(
            "that is where the data lies that is distilled",
            "name another",
            option="distilled_data_dir",
            value=distilled_data_dir,
        )
    open_run_data(run, data_dir, problem, TRAIN, verify=False)
