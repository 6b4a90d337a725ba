"""Looks up names: problems with their options and variants, hparams sets with their overrides."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.errors import UnknownNameError, UserError
from t2t.formats.importer import ImportRequest, read_by
from t2t.hparams.base import HParams
from t2t.hparams.groups import MixtureHParams
from t2t.hparams.override import assigned_names
from t2t.metrics import LABEL, metric_names, unknown_metric
from t2t.problems.base import Problem
from t2t.problems.variants import SUFFIXES, VariantProblem
from t2t.problems.vocabularies import free_texts
from t2t.registry import HPARAMS, MODELS, PROBLEMS
from t2t.registry.overrides import PluginError, described, is_of_plugin, plugin_errors
from t2t.runs.config import NAMES, RunConfig
from t2t.specs import DEV, TRAIN
from t2t.specs.features import mixture_of, select_problem_entries, split_mixture

log = logging.getLogger("t2t")

_SHOWN_SETS = 3
"""Number of sets that an error names."""


def canonical(kind: str, name: str) -> str:
    """Returns the name of a `problem`, `model` or `hparams_set`, with aliases resolved; raises as `split_variants`."""
    if kind != "problem":
        return {"model": MODELS, "hparams_set": HPARAMS}[kind].canonical(name)
    variants = map(split_variants, split_mixture(name))
    return mixture_of(PROBLEMS.canonical(base) + "".join(reversed(suffixes)) for base, suffixes in variants)


def resolve_aliases(config: RunConfig) -> RunConfig:
    """Returns a configuration with aliases replaced by their names."""
    names: dict[str, Any] = {kind: canonical(kind, getattr(config, kind)) for kind in NAMES}
    return dataclasses.replace(config, **names)


def split_config(config: RunConfig) -> list[RunConfig]:
    """Returns the configuration for each problem, with its options.

    Raises:
        UserError: a problem given twice, an unknown name, or an option that none of several problems has.
    """
    names = split_mixture(config.problem)
    if len(names) == 1:
        return [config]
    has = {name: option_names(name) for name in names}
    shared = {option: value for option, value in config.problem_options.items() if "." not in option}
    for option in shared:
        if not any(option in options for options in has.values()):
            raise UserError(f"none of the problems {', '.join(names)} has that option", "leave it out", option=option)
    return [
        dataclasses.replace(
            config,
            problem=name,
            problem_options=select_problem_entries(config.problem_options, name)
            | {option: value for option, value in shared.items() if option in has[name]},
        )
        for name in names
    ]


def problems_of(config: RunConfig) -> list[Problem]:
    """Returns the problems without encoders; raises as `split_config` and `get_problem`."""
    return [get_problem(one.problem, one.problem_options) for one in split_config(config)]


def shared_options(config: RunConfig) -> dict[str, Any]:
    """Returns the options of the problems as flags give them: the same for all problems that have them.

    Raises:
        UserError: one of several problems has another value; also as `problems_of`.
    """
    names = split_mixture(config.problem)
    if len(names) == 1:
        return dict(config.problem_options)
    problems, found = dict(zip(names, problems_of(config), strict=True)), {}
    for option in dict.fromkeys(name.rpartition(".")[2] for name in config.problem_options):
        values = {name: getattr(one.options, option) for name, one in problems.items() if hasattr(one.options, option)}
        found[option] = next(iter(values.values()))
        if any(value != found[option] for value in values.values()):
            listed = ", ".join(f"{name}.{option}={value}" for name, value in values.items())
            raise UserError(
                f"problem options {listed}: flags give all problems the same value, so that neither the file of a "
                "configuration nor the trials of a study can hold these",
                "use one value",
            )
    return found


def option_names(problem: str) -> list[str]:
    """Returns the names of the options of the problems."""
    names = [field.name for one in split_mixture(problem) for field in dataclasses.fields(get_problem(one).options)]
    return list(dict.fromkeys(names))


def check_mixture(hparams: HParams, names: Sequence[str]) -> None:
    """Raises UserError if the hparams of mixtures do not fit the number of problems."""
    changed = any(getattr(hparams, field.name) != field.default for field in dataclasses.fields(MixtureHParams))
    if len(names) == 1 and changed:
        raise UserError(
            "hparams problem_choice, problem_temperature, problem_weights, problem_batch_sizes, shared_modalities: "
            f"nothing reads them while --problems={names[0]} names one problem",
            "leave them out",
        )
    for field in ("problem_weights", "problem_batch_sizes"):
        values = getattr(hparams, field)
        if len(values) not in (1, len(names)) or min(values) < 0:
            raise UserError(
                f"--problems={mixture_of(names)} names {len(names)} problems",
                "give a number of 0 or more for each, or one for all",
                hparam=field,
                value=list(values),
            )
    if not sum(hparams.problem_weights):
        raise UserError(
            "no problem would come", "raise one", hparam="problem_weights", value=list(hparams.problem_weights)
        )


def get_problem(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """Returns the problem of a name, variants included; raises UserError for an unknown name or option."""
    base, suffixes = split_variants(name)
    with plugin_errors(found := PROBLEMS.get(base), "cannot be constructed"):
        problem = found(**(options or {}))
    if not isinstance(problem, Problem):
        raise PluginError(f"{described(found)} returned a {type(problem).__name__}", "it must return a problem")
    if not hasattr(problem, "options") or not hasattr(problem, "encoders"):
        raise PluginError(
            f"{described(found)}: its __init__ does not call that of its base",
            "begin it with super().__init__(**options)",
        )
    problem.name = PROBLEMS.canonical(base)
    for suffix in reversed(suffixes):
        problem = VariantProblem(problem, suffix)
    return problem


def check_declared(problem: Problem) -> None:
    """Checks the metrics of a plug-in's problem, and warns if training lacks a split.

    Raises:
        UserError: a metric is not known.
    """
    owner = type(problem.stored)
    if not is_of_plugin(owner):
        return
    for name in problem.metrics:
        if name.removeprefix(LABEL) not in metric_names():
            raise PluginError(f"{described(owner)}: metrics: {unknown_metric(name)}", "name one of these")
    if missing := [split for split in (TRAIN, DEV) if split not in problem.splits]:
        log.warning(
            "%s: splits = %s lacks %s, which training needs; the splits of a problem are train, dev and test",
            described(owner), problem.splits, " and ".join(missing),
        )  # fmt: skip


def select_names(requested: str, excluded: str = "") -> list[str]:
    """Returns the problem names in a comma-separated list, without those in the list `excluded`.

    `wmt*` matches all names with this prefix; a mixture `a-b-c` is split into its problems.

    Raises:
        UserError: a pattern matches nothing, or all names are excluded.
    """
    found: dict[str, None] = {}
    for part in (part.strip() for part in requested.split(",") if part.strip()):
        if not part.endswith("*"):
            found |= dict.fromkeys(split_mixture(part))
            continue
        named = [one.name for one in PROBLEMS.entries() if one.name.startswith(part[:-1]) and not one.alias_of]
        if not named:
            raise UserError(
                "no problem begins so", "list what there is with --registry_help", option="problem", value=part
            )
        found |= dict.fromkeys(named)
    for part in (part.strip() for part in excluded.split(",")):
        for name in list(found):
            if name == part or (part.endswith("*") and name.startswith(part[:-1])):
                del found[name]
    if excluded and not found:
        raise UserError(
            f"it leaves nothing of --problem={requested}", "exclude less", option="exclude_problems", value=excluded
        )
    return list(found)


def get_text_problem(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """Returns the text problem of an imported run, with options; raises UserError for any other."""
    try:
        problem = get_problem(name, options)
    except UnknownNameError as error:
        raise UserError(f"{error}", "for an import, name a text problem of the same kind with --problem") from error
    if not free_texts(problem.stored):
        raise UserError("it is not a text problem", "name one, e.g. text2text_files", option="problem", value=name)
    return problem


def request_import(
    format: str, model_dir: Path, problem: str = "", source_language: str = "", target_language: str = "", **more: Any
) -> ImportRequest:
    """Returns the request for an import: with the named problem, or else the one that the model's folder names.

    Languages are options of the problem; `more` are further fields of the request. Raises as `get_text_problem`.
    """
    languages = {"source_language": source_language, "target_language": target_language}
    given = {name: language for name, language in languages.items() if language}
    found = get_text_problem(problem or read_by(format).named_problem(model_dir), given)
    return ImportRequest(format=format, model_dir=model_dir, problem=found, **more)


def split_variants(name: str) -> tuple[str, list[str]]:
    """Returns the base name and suffixes, last first, of a variant; raises UserError for a suffix given twice."""
    base, suffixes = name, []
    while base.endswith(SUFFIXES) and base not in PROBLEMS:
        suffix = next(s for s in SUFFIXES if base.endswith(s))
        if suffix in suffixes:
            raise UserError(f"problem {name!r}: {suffix!r} is in it twice", "once is enough")
        suffixes.append(suffix)
        base = base.removesuffix(suffix)
    return base, suffixes


def get_hparams(name: str) -> HParams:
    """Returns a new set; raises UserError for an unknown name, or a function with arguments or without HParams."""
    function = HPARAMS.get(name)
    with plugin_errors(function, "failed"):
        hparams = function()
    if not isinstance(hparams, HParams):
        raise UserError(
            f"hparams set {name!r} ({HPARAMS.entry(name).origin}) returned {type(hparams).__name__}",
            "its function must end with `return hparams`",
        )
    return hparams.replace()


def merge_hparams(hparams_set: str, earlier: str, later: str) -> str:
    """Merges overrides of a set, see `HParams.merge`; of an unknown set, only the conditions of all sets are known."""
    owner = type(get_hparams(hparams_set)) if hparams_set in HPARAMS else HParams
    return owner.merge(earlier, later)


def check_override(hparams_set: str, text: str) -> None:
    """Raises UserError for overrides that a set does not take by themselves; nothing is known of an unknown set."""
    if hparams_set in HPARAMS:
        changed = get_hparams(hparams_set).override(text)
        if wrong := [found for name in sorted(assigned_names(text)) if (found := changed.complaint(name))]:
            raise UserError("; ".join(wrong))


def build_hparams(config: RunConfig) -> tuple[HParams, HParams]:
    """Returns the hparams of a run, and its set without changes; raises as `get_hparams` and `override`."""
    named_set = get_hparams(config.hparams_set)
    hparams = named_set.override(config.hparams)
    if config.train_steps is not None:
        hparams = hparams.replace(train_steps=config.train_steps)
    return hparams, named_set


def hparam_names(hparams_set: str = "") -> list[str]:
    """Returns the names of the hparams of a set; those of transformer_base for a set that does not exist."""
    known = get_hparams(hparams_set if hparams_set in HPARAMS else "transformer_base")
    return [name for name, _ in known.items()]


def check_family(model: str, hparams_set: str, model_class: type[Any], hparams: HParams) -> None:
    """Raises UserError if a model does not accept the set."""
    if not isinstance(hparams, model_class.hparams_class):
        raise unfit_set(model, hparams_set, model_class.hparams_class.__name__, hparams)
    model_class.check_hparams(hparams)


def unfit_set(model: str, hparams_set: str, needed: str, hparams: HParams) -> UserError:
    """Returns the error for a set that is not of the class `needed` by a model."""
    fitting = [name for name in HPARAMS.names() if type(get_hparams(name)).__name__ == needed]
    such_as = f", such as {', '.join(fitting[:_SHOWN_SETS])}" if fitting else ""
    return UserError(
        f"--model={model} --hparams_set={hparams_set}: the model reads {needed}, the set holds "
        f"{type(hparams).__name__}",
        f"choose a set of the model's own family{such_as}",
    )


def set_batch_size(hparams: HParams, problems: Sequence[str], problem: str) -> HParams:
    """Returns the hparams with a problem's batch size; raises UserError for a wrong number of `problem_batch_sizes`."""
    sizes = hparams.problem_batch_sizes
    if len(sizes) not in (1, len(problems)):
        raise UserError(
            f"it has {len(sizes)} sizes for {len(problems)} problems",
            "give one, or one for each",
            hparam="problem_batch_sizes",
            value=sizes,
        )
    size = sizes[problems.index(problem) if len(sizes) > 1 else 0]
    return hparams.replace(batch_size=size or hparams.batch_size)
