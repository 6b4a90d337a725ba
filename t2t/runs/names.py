"""Resolves names to objects: problem, model class and hparams."""

import dataclasses
import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.checkpoints.run_dir import RunDir, near_run
from t2t.errors import UnknownNameError, UserError
from t2t.files.paths import local_path
from t2t.hparams.base import HParams
from t2t.hparams.groups import MixtureHParams
from t2t.hparams.override import assigned_names
from t2t.metrics import LABEL, metric_names, unknown_metric
from t2t.problems.base import Problem
from t2t.problems.text_problems import TextProblem
from t2t.problems.variants import SUFFIXES, VariantProblem
from t2t.registry import HPARAMS, MODALITIES, MODELS, PROBLEMS, REGISTRIES
from t2t.registry.overrides import PluginError, described, is_of_plugin, plugin_errors
from t2t.registry.plugins import Plugin, load_plugins
from t2t.registry.registry import Registry
from t2t.specs.constants import DEFAULT_DATA_DIR, DEFAULT_TRAIN_DIR, DEV, TRAIN
from t2t.specs.features import ProblemSpec
from t2t.specs.mixture import mixture_of, select_problem_entries, split_mixture

log = logging.getLogger("t2t")

_SHOWN_SETS = 3
"""Number of sets that an error names."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """Names and paths that a user gave."""

    problem: str
    """One problem, or several as `t2t.specs.mixture` names them."""
    model: str = ""
    hparams_set: str = ""
    overrides: str = ""
    """Value of `--hparams`."""
    train_steps: int | None = None
    """Overrides the hparam of that name."""
    problem_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """`<problem>.<option>` for one of several problems, `<option>` for all that have it."""
    data_dir: str = ""
    """Empty for `~/t2t_data`."""
    is_data_of_run: bool = False
    """Whether `data_dir` comes from the record of the run in `output_dir`."""
    tmp_dir: str = ""
    """Raw files and downloads; empty for a folder under `data_dir`."""
    output_dir: str = ""
    """Empty for `~/t2t_train/<problem>/<model>-<hparams_set>`."""
    usr_dir: str = ""

    @property
    def data_folder(self) -> Path:
        """Folder of generated data."""
        return local_path(self.data_dir or DEFAULT_DATA_DIR)

    @property
    def tmp_folder(self) -> Path:
        """Folder of raw files."""
        return local_path(self.tmp_dir) if self.tmp_dir else self.data_folder / "tmp"

    @property
    def output_folder(self) -> Path:
        """Folder of the run."""
        default = f"{DEFAULT_TRAIN_DIR}/{self.problem}/{self.model}-{self.hparams_set}"
        return local_path(self.output_dir or default)


@dataclasses.dataclass(frozen=True)
class Resolved:
    """The objects of a request."""

    request: Request
    model_class: type
    hparams: HParams
    named_set: HParams
    """The set as named, before overrides."""
    plugins: list[Plugin]


def resolve(request: Request) -> Resolved:
    """Loads plug-ins, looks every name up and freezes the registries.

    Raises:
        UserError: a missing or unknown name, a set or a problem that the model does not accept, or a wrong override.
    """
    plugins = load_plugins(request.usr_dir or None)
    request = resolve_aliases(request)
    check_names(request)
    hparams, named_set = build_hparams(request)
    model_class = MODELS.get(request.model)
    check_model(request, model_class, hparams)
    for registry in REGISTRIES:
        registry.freeze()
    return Resolved(request, model_class, hparams.freeze(), named_set, plugins)


def resolve_aliases(request: Request) -> Request:
    """Returns a request with aliases replaced by their names."""
    kinds = ("problem", "model", "hparams_set")
    names: dict[str, Any] = {kind: canonical(kind, getattr(request, kind)) for kind in kinds}
    return dataclasses.replace(request, **names)


def canonical(kind: str, name: str) -> str:
    """Returns the name of a `problem`, `model` or `hparams_set`, with aliases resolved; raises as `split_variants`."""
    if kind != "problem":
        return {"model": MODELS, "hparams_set": HPARAMS}[kind].canonical(name)
    variants = map(split_variants, split_mixture(name))
    return mixture_of(PROBLEMS.canonical(base) + "".join(reversed(suffixes)) for base, suffixes in variants)


def check_names(request: Request) -> None:
    """Raises UserError for names that are missing or unknown, without importing a model."""
    missing = [f"--{name}" for name in ("problem", "model", "hparams_set") if not getattr(request, name)]
    if missing and request.output_dir and not RunDir.exists(request.output_folder):
        folder = request.output_folder
        raise UserError(
            f"{', '.join(missing)}: not given, and {folder} holds no run or study to take them from; "
            f"{near_run(folder)}for a new one, name one each; list what there is with --registry_help"
        )
    if missing:
        raise UserError(f"{', '.join(missing)}: not given; name one each; list what there is with --registry_help")
    problems = problems_of(request)
    for problem in problems:
        check_declared(problem)
    hparams = build_hparams(request)[0].freeze()
    check_mixture(hparams, split_mixture(request.problem))
    for problem in problems:
        if (shape := problem.target_shape()) and (complaint := hparams.image_complaint(problem.name, shape)):
            raise UserError(complaint)
    modalities = [(MODALITIES, name) for name in (hparams.input_modality, hparams.target_modality) if name]
    for registry, name in [(MODELS, request.model), *modalities]:
        if name not in registry:
            registry.get(name)  # raises, with the nearest names
    if (loaded := MODELS.loaded(request.model)) is not None:
        check_model(request, loaded, hparams)
        return
    needed = MODELS.declared(request.model, "hparams_class")  # as its source says
    if needed and needed not in [held.__name__ for held in type(hparams).__mro__]:
        raise _unfit(request, needed, hparams)


def split_request(request: Request) -> list[Request]:
    """Returns a request for each problem, with its options.

    Raises:
        UserError: a problem given twice, an unknown name, or an option that none of several problems has.
    """
    names = split_mixture(request.problem)
    if len(names) == 1:
        return [request]
    has = {name: {field.name for field in dataclasses.fields(get_problem(name).options)} for name in names}
    shared = {option: value for option, value in request.problem_options.items() if "." not in option}
    for option in shared:
        if not any(option in options for options in has.values()):
            raise UserError(f"--{option}: none of the problems {', '.join(names)} has that option; leave it out")
    return [
        dataclasses.replace(
            request,
            problem=name,
            problem_options=select_problem_entries(request.problem_options, name)
            | {option: value for option, value in shared.items() if option in has[name]},
        )
        for name in names
    ]


def option_names(problem: str) -> list[str]:
    """Returns the names of the options of the problems."""
    names = [field.name for one in split_mixture(problem) for field in dataclasses.fields(get_problem(one).options)]
    return list(dict.fromkeys(names))


def flag_options(request: Request) -> dict[str, Any]:
    """Returns the problem options of a request as flags give them: the same for all problems that have them.

    Raises:
        UserError: one of several problems has another value; also as `split_request` and `get_problem`.
    """
    names = split_mixture(request.problem)
    if len(names) == 1:
        return dict(request.problem_options)
    problems, found = dict(zip(names, problems_of(request), strict=True)), {}
    for option in dict.fromkeys(name.rpartition(".")[2] for name in request.problem_options):
        values = {name: getattr(one.options, option) for name, one in problems.items() if hasattr(one.options, option)}
        found[option] = next(iter(values.values()))
        if any(value != found[option] for value in values.values()):
            listed = ", ".join(f"{name}.{option}={value}" for name, value in values.items())
            raise UserError(
                f"problem options {listed}: flags give all problems the same value, so that neither the file of a "
                f"configuration nor the trials of a study can hold these; use one value"
            )
    return found


def problems_of(request: Request) -> list[Problem]:
    """Returns the problems of a request without encoders; raises as `split_request` and `get_problem`."""
    return [get_problem(part.problem, part.problem_options) for part in split_request(request)]


def check_mixture(hparams: HParams, names: Sequence[str]) -> None:
    """Raises UserError if the hparams of mixtures do not fit the number of problems."""
    changed = any(getattr(hparams, field.name) != field.default for field in dataclasses.fields(MixtureHParams))
    if len(names) == 1 and changed:
        raise UserError(
            f"hparams problem_choice, problem_temperature, problem_weights, problem_batch_sizes, shared_modalities: "
            f"nothing reads them while --problems={names[0]} names one problem; leave them out"
        )
    for field in ("problem_weights", "problem_batch_sizes"):
        values = getattr(hparams, field)
        if len(values) not in (1, len(names)) or min(values) < 0:
            raise UserError(
                f"hparam {field}={list(values)}: --problems={mixture_of(names)} names {len(names)} problems; give a "
                f"number of 0 or more for each, or one for all"
            )
    if not sum(hparams.problem_weights):
        raise UserError(f"hparam problem_weights={list(hparams.problem_weights)}: no problem would come; raise one")


def get_problem(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """Returns the problem of a name, variants included; raises UserError for an unknown name or option."""
    base, suffixes = split_variants(name)
    with plugin_errors(found := PROBLEMS.get(base), "cannot be constructed"):
        problem = found(**(options or {}))
    if not isinstance(problem, Problem):
        raise PluginError(f"{described(found)} returned a {type(problem).__name__}; it must return a problem")
    if not hasattr(problem, "options") or not hasattr(problem, "encoders"):
        raise PluginError(
            f"{described(found)}: its __init__ does not call that of its base; begin it with "
            f"super().__init__(**options)"
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
            raise PluginError(f"{described(owner)}: metrics: {unknown_metric(name)}")
    if missing := [split for split in (TRAIN, DEV) if split not in problem.splits]:
        log.warning(
            "%s: splits = %s lacks %s, which training needs; the splits of a problem are train, dev and test",
            described(owner), problem.splits, " and ".join(missing),
        )  # fmt: skip


def check_problem(name: str) -> None:
    """Raises UserError for a name of no problem and no variant of one; imports no registered problem."""
    base, _ = split_variants(name)
    if base not in PROBLEMS:
        get_problem(name)


def select_names(asked: str, excluded: str = "") -> list[str]:
    """Returns the problem names in a comma-separated list, without those in the list `excluded`.

    `wmt*` matches all names with this prefix; a mixture `a-b-c` is split into its problems.

    Raises:
        UserError: a pattern matches nothing, or all names are excluded.
    """
    found: dict[str, None] = {}
    for part in (part.strip() for part in asked.split(",") if part.strip()):
        found |= dict.fromkeys(_matching(part) if part.endswith("*") else split_mixture(part))
    for part in (part.strip() for part in excluded.split(",")):
        for name in list(found):
            if name == part or (part.endswith("*") and name.startswith(part[:-1])):
                del found[name]
    if excluded and not found:
        raise UserError(f"--exclude_problems={excluded}: it leaves nothing of --problem={asked}; exclude less")
    return list(found)


def _matching(pattern: str) -> list[str]:
    names = [entry.name for entry in PROBLEMS.entries() if not entry.alias_of]
    found = [name for name in names if name.startswith(pattern[:-1])]
    if not found:
        raise UserError(f"--problem={pattern}: no problem begins so; list what there is with --registry_help")
    return found


def get_text_problem(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """Returns the text problem of an imported run, with options; raises UserError for any other."""
    try:
        problem = get_problem(name, options)
    except UnknownNameError as error:
        raise UserError(f"{error}; for an import, name a text problem of the same kind with --problem") from error
    if not isinstance(problem.stored, TextProblem):
        raise UserError(f"--problem={name}: it is no problem of text; name one, e.g. text2text_files")
    return problem


def split_variants(name: str) -> tuple[str, list[str]]:
    """Returns the base name and suffixes, last first, of a variant; raises UserError for a suffix given twice."""
    base, suffixes = name, []
    while base.endswith(SUFFIXES) and base not in PROBLEMS:
        suffix = next(s for s in SUFFIXES if base.endswith(s))
        if suffix in suffixes:
            raise UserError(f"problem {name!r}: {suffix!r} is in it twice; once is enough")
        suffixes.append(suffix)
        base = base.removesuffix(suffix)
    return base, suffixes


def get_hparams(name: str) -> HParams:
    """Returns a new set; raises UserError for an unknown name, or a function with arguments or without HParams."""
    check_takes(HPARAMS, name)
    function = HPARAMS.get(name)
    with plugin_errors(function, "failed"):
        hparams = function()
    if not isinstance(hparams, HParams):
        raise UserError(
            f"hparams set {name!r} ({HPARAMS.entry(name).origin}) returned {type(hparams).__name__}; its function must "
            f"end with `return hparams`"
        )
    return hparams.replace()


def check_takes(registry: Registry[Any], name: str, *argument: Any) -> None:
    """Raises UserError for an unknown name, or one of a function that cannot be called with `argument`, one or none."""
    entry = registry.entry(name)
    try:
        inspect.signature(registry.get(name)).bind(*argument)
    except TypeError as error:
        count = "one argument" if argument else "no argument"
        raise UserError(
            f"{registry.kind} {name!r} ({entry.origin}): its function is called with {count}: {error}; change its "
            f"parameters, or give them defaults"
        ) from None


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


def build_hparams(request: Request) -> tuple[HParams, HParams]:
    """Returns the hparams of a request, and its set without overrides; raises as `get_hparams` and `override`."""
    named_set = get_hparams(request.hparams_set)
    hparams = named_set.override(request.overrides)
    if request.train_steps is not None:
        hparams = hparams.replace(train_steps=request.train_steps)
    return hparams, named_set


def hparam_names(hparams_set: str = "") -> list[str]:
    """Returns the names of the hparams of a set; those of transformer_base for a set that does not exist."""
    known = get_hparams(hparams_set if hparams_set in HPARAMS else "transformer_base")
    return [name for name, _ in known.items()]


def check_model(request: Request, model_class: type[Any], hparams: HParams) -> None:
    """Raises UserError if a model does not accept the set or, where they are known, the features of the problems.

    A new run must not have hparams that nothing reads, either; see `SequenceModel.check_new`.
    """
    check_family(request, model_class, hparams)
    problems = problems_of(request)
    declared = [spec for problem in problems if (spec := problem.declared_spec()) is not None]
    for spec in declared:
        model_class.check_accepts(spec)
    whole = declared[0] if len(declared) == 1 else ProblemSpec(name=request.problem, members=tuple(declared))
    if whole.members:
        model_class.check_accepts(whole)
    if len(declared) == len(problems) and not RunDir.exists(request.output_folder):
        model_class.check_new(hparams, get_hparams(request.hparams_set), whole)


def check_family(request: Request, model_class: type[Any], hparams: HParams) -> None:
    """Raises UserError if a model does not accept the set."""
    if not isinstance(hparams, model_class.hparams_class):
        raise _unfit(request, model_class.hparams_class.__name__, hparams)
    model_class.check_hparams(hparams)


def _unfit(request: Request, needed: str, hparams: HParams) -> UserError:
    fitting = [name for name in HPARAMS.names() if type(get_hparams(name)).__name__ == needed]
    such_as = f", such as {', '.join(fitting[:_SHOWN_SETS])}" if fitting else ""
    return UserError(
        f"--model={request.model} --hparams_set={request.hparams_set}: the model reads {needed}, the set holds "
        f"{type(hparams).__name__}; choose a set of the model's own family{such_as}"
    )
