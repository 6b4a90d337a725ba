"""The hparams of runs side by side, with their differences."""

import math
from collections.abc import Mapping
from typing import Any

from t2t.checkpoints.run_record import RunRecord

_RUN = "run"
"""Section of the facts of a run that are not hparams."""
_MISSING = None


def hparams_json(records: Mapping[str, RunRecord]) -> dict[str, Any]:
    """Returns a row for each hparam: section, name, a value for each run, and whether the values differ.

    A run that does not have an hparam, such as one of another model, has null, which differs from every value.
    """
    columns = {name: _values(record) for name, record in records.items()}
    keys = list(dict.fromkeys(key for values in columns.values() for key in values))
    order = {section: index for index, section in enumerate(dict.fromkeys(section for section, _ in keys))}
    keys.sort(key=lambda key: order[key[0]])  # stable: within a section as the runs have them
    rows = []
    for section, name in keys:
        values = [column.get((section, name), _MISSING) for column in columns.values()]
        differs = any(value != values[0] for value in values)
        rows.append({"section": section, "name": name, "values": values, "differs": differs})
    return {"runs": list(columns), "rows": rows}


def _values(record: RunRecord) -> dict[tuple[str, str], Any]:
    """Returns (section, name) -> value of the hparams and the other facts of a run."""
    found: dict[tuple[str, str], Any] = {
        (_RUN, "problem"): record.problem,
        (_RUN, "model"): record.model,
        (_RUN, "hparams_set"): record.hparams_set,
        (_RUN, "data_fingerprint"): record.data_fingerprint[:12],
        (_RUN, "warm_start"): record.warm_start.get("from", ""),
    }
    found |= {("problem options", name): _in_json(value) for name, value in record.problem_options.items()}
    for section, values in record.hparams.items():
        found |= {(section, name): _in_json(value) for name, value in values.items()}
    return found | {("versions", name): version for name, version in record.versions.items()}


def _in_json(value: Any) -> Any:
    """Returns the value, as text if JSON has no such number; so NaN equals NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
