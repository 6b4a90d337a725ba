"""`t2t-make-tf-configs`: prints TF_CONFIG and flags for each machine of a distributed training run."""

import json
import shlex

from absl import flags

from t2t.backends.cluster import SLURM, find_cluster
from t2t.cli.common import command
from t2t.cli.flags import MACHINE, command_flags, flag_group
from t2t.errors import UserError

USAGE = """
Prints a line for each machine: the value of TF_CONFIG, a TAB, and equivalent flags. Use either one:

    %s --masters=node1:2222,node2:2222
    t2t-trainer --worker_hosts=node1:2222,node2:2222 --worker_index=0 ...  (on node1)
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, MACHINE) as define:
        define.string("masters", "", "host:port of each machine, separated by commas; the first writes the run.")
        define.string("ps", "", "Parameter servers of Tensor2Tensor; not supported.")


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if values.ps:
        raise UserError(
            "there are no parameter servers, every worker holds all weights",
            "name machines with GPUs in --masters, and leave --ps out",
            option="ps",
            value=values.ps,
        )
    if not values.masters:
        raise UserError("not given", "name host:port of each machine, e.g. node1:2222,node2:2222", option="masters")
    if values.masters == SLURM:
        raise UserError(
            "under Slurm no list is needed",
            f"start t2t-trainer --worker_hosts={SLURM} with srun",
            option="masters",
            value=SLURM,
        )
    addresses = values.masters.split(",")
    for index in range(len(addresses)):
        try:
            find_cluster(values.masters, index)
        except UserError as error:
            raise UserError(error.found, error.remedy, option="masters", value=values.masters) from error
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        print(f"{shlex.quote(config)}\t--worker_hosts={values.masters} --worker_index={index}")
    return 0
