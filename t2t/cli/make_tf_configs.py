"""`t2t-make-tf-configs`: prints TF_CONFIG and flags for each machine of a distributed training run."""

import json
import shlex

from absl import flags

from t2t.backends.cluster import SLURM, find_cluster
from t2t.cli.common import command, command_flags
from t2t.cli.help import MACHINE, flag_group
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
            f"--ps={values.ps}: there are no parameter servers, every worker holds all weights; name machines with "
            f"GPUs in --masters, and leave --ps out"
        )
    if not values.masters:
        raise UserError("--masters: not given; name host:port of each machine, e.g. node1:2222,node2:2222")
    if values.masters == SLURM:
        raise UserError(
            f"--masters={SLURM}: under Slurm no list is needed; start t2t-trainer --worker_hosts={SLURM} with srun"
        )
    addresses = values.masters.split(",")
    for index in range(len(addresses)):
        try:
            find_cluster(values.masters, index)
        except UserError as error:
            raise UserError(str(error).replace("--worker_hosts=", "--masters=")) from error
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        print(f"{shlex.quote(config)}\t--worker_hosts={values.masters} --worker_index={index}")
    return 0
