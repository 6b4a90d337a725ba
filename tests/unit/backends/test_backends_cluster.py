"""Which processes train together: by flags, by TF_CONFIG, by srun."""

import json

import pytest

from t2t.backends.cluster import ALONE, find_cluster
from t2t.runs.config import RunConfig
from tests.errors import refused

SLURM = {
    "SLURM_STEP_NODELIST": "n[2,10]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "2", "SLURM_LOCALID": "0",
    "SLURMD_NODENAME": "n10",
}  # fmt: skip


@pytest.fixture
def tf_config(monkeypatch):
    """Returns a function that sets TF_CONFIG, or the worker's task in a cluster."""

    def put(text=None, kind="worker", index=0, **cluster):
        described = {"cluster": cluster, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(described) if text is None else text)

    monkeypatch.delenv("TF_CONFIG", raising=False)
    return put


@pytest.fixture
def in_srun(monkeypatch, tmp_path):
    """Sets the environment of the third of four tasks on two nodes, with a scontrol that knows them."""
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[2,10]" ] && printf "n2\\nn10\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)


def test_one_process_is_alone(tf_config):
    assert find_cluster("", -1) is find_cluster("a:1", 0) is ALONE
    tf_config(worker=["a:1"])
    assert find_cluster("", -1) is ALONE
    assert ALONE.is_chief


def test_flags_come_before_tf_config(tf_config):
    tf_config(worker=["c:1", "d:1"])
    found = find_cluster("a:2222,[::1]:2222,b.local:2223", 1)
    assert found.addresses == ("a:2222", "[::1]:2222", "b.local:2223")
    assert (found.index, found.is_chief) == (1, False)
    assert found.describe(2) == "worker 2 (b.local:2223)"
    assert RunConfig(worker_hosts="a:1,b:1", worker_index=1).cluster == find_cluster("a:1,b:1", 1)


@pytest.mark.parametrize(
    ("hosts", "index", "named"),
    [
        ("a:1,b", 0, ["'b'"]),
        ("a:1,a:1", 0, ["a:1"]),
        ("a:1,b:1", -1, ["--worker_index", -1, 2]),
        ("a:1,b:1", 2, ["--worker_index", 2]),
        ("", 1, ["--worker_index=1", "--worker_hosts"]),
    ],
)
def test_wrong_flags(tf_config, hosts, index, named):
    with refused(*named):
        find_cluster(hosts, index)


@pytest.mark.parametrize(
    ("task", "addresses", "index"),
    [
        ({"index": 1}, ("a:1", "b:1"), 1),
        ({"index": 1, "chief": ["c:1"]}, ("c:1", "a:1", "b:1"), 2),
        ({"kind": "chief", "chief": ["c:1"]}, ("c:1", "a:1", "b:1"), 0),
    ],
)
def test_tf_config(tf_config, task, addresses, index):
    tf_config(worker=["a:1", "b:1"], **task)
    found = find_cluster("", -1)
    assert (found.addresses, found.index, found.is_chief) == (addresses, index, index == 0)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"worker": ["a:1", "b:1"], "ps": ["p:1"]}, ["ps"]),
        ({"worker": ["a:1", "b:1"], "index": 2}, [2]),
        ({"worker": ["a:1", "b:1"], "index": "1"}, [1]),
        *(
            ({"text": text}, ["JSON", "cluster", "task"])
            for text in ("{", "[]", '"x"', '{"cluster": 3}', '{"cluster": {"worker": 3}}', '{"task": "x"}')
        ),
    ],
)
def test_wrong_tf_config(tf_config, wrong, named):
    tf_config(**wrong)
    with refused("TF_CONFIG", *named):
        find_cluster("", -1)


def test_tasks_of_slurm_keep_the_order_of_their_nodes(tf_config, in_srun, monkeypatch):
    found = find_cluster("slurm", -1)
    assert found.addresses == ("n2:12321", "n2:12322", "n10:12321", "n10:12322")
    assert found.index == 2
    with refused("srun"):
        find_cluster("slurm", 0)
    monkeypatch.setenv("SLURM_PROCID", "1")  # dealt out in turn: the second task is on the second node
    with refused("n10:12321,", "n2:12322"):
        find_cluster("slurm", -1)


def test_slurm_that_is_not_there(tf_config, in_srun, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with refused("scontrol", "n[2,10]"):
        find_cluster("slurm", -1)
    monkeypatch.delenv("SLURM_PROCID")
    with refused("SLURM_PROCID"):
        find_cluster("slurm", -1)
