"""Which processes train together: by flags, by TF_CONFIG, by srun."""

import json

import pytest

from t2t.errors import UserError
from t2t.runs.settings import Settings
from t2t.training.cluster import ALONE, find_cluster

SLURM = {
    "SLURM_STEP_NODELIST": "n[2,10]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "2", "SLURM_LOCALID": "0",
    "SLURMD_NODENAME": "n10",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def in_srun(monkeypatch, tmp_path):
    """Sets the environment of the third of four tasks on two nodes, with a scontrol that knows them."""
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[2,10]" ] && printf "n2\\nn10\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)


def set_tf_config(monkeypatch, cluster, kind="worker", index=0):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))


def refused(*arguments):
    with pytest.raises(UserError) as caught:
        find_cluster(*arguments)
    return str(caught.value)


def test_one_process_is_alone(monkeypatch):
    assert find_cluster("", -1) is ALONE
    assert find_cluster("a:1", 0) is ALONE
    set_tf_config(monkeypatch, {"worker": ["a:1"]})
    assert find_cluster("", -1) is ALONE
    assert ALONE.is_chief


def test_flags():
    found = find_cluster("a:2222,[::1]:2222,b.local:2223", 1)
    assert found.addresses == ("a:2222", "[::1]:2222", "b.local:2223")
    assert found.index == 1
    assert not found.is_chief
    assert found.describe(2) == "worker 2 (b.local:2223)"
    assert Settings(worker_hosts="a:1,b:1", worker_index=1).cluster == find_cluster("a:1,b:1", 1)


def test_flags_come_before_tf_config(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["c:1", "d:1"]})
    assert find_cluster("a:1,b:1", 0).addresses == ("a:1", "b:1")


def test_wrong_flags():
    assert "'b' is no host:port" in refused("a:1,b", 0)
    assert "a:1 is there twice" in refused("a:1,a:1", 0)
    assert "--worker_index is -1; with 2 workers it is one of 0 to 1" in refused("a:1,b:1", -1)
    assert "--worker_index is 2" in refused("a:1,b:1", 2)
    assert "--worker_index=1: it is a number among --worker_hosts" in refused("", 1)


def test_tf_config(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"]}, index=1)
    assert (find_cluster("", -1).addresses, find_cluster("", -1).index) == (("a:1", "b:1"), 1)
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"], "chief": ["c:1"]}, index=1)
    assert (find_cluster("", -1).addresses, find_cluster("", -1).index) == (("c:1", "a:1", "b:1"), 2)
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"], "chief": ["c:1"]}, kind="chief")
    assert find_cluster("", -1).is_chief


def test_wrong_tf_config(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"], "ps": ["p:1"]})
    assert "TF_CONFIG: it has a ps" in refused("", -1)
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"]}, index=2)
    assert "the number of the task is 2" in refused("", -1)
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"]}, index="1")
    assert "the number of the task is 1" in refused("", -1)
    for text in ("{", "[]", '"x"', '{"cluster": 3}', '{"cluster": {"worker": 3}}', '{"task": "x"}'):
        monkeypatch.setenv("TF_CONFIG", text)
        assert "no JSON of cluster and task" in refused("", -1)


@pytest.mark.usefixtures("in_srun")
def test_tasks_of_slurm_keep_the_order_of_their_nodes(monkeypatch):
    found = find_cluster("slurm", -1)
    assert found.addresses == ("n2:12321", "n2:12322", "n10:12321", "n10:12322")
    assert found.index == 2
    assert "takes it from srun" in refused("slurm", 0)
    monkeypatch.setenv("SLURM_PROCID", "1")  # dealt out in turn: the second task is on the second node
    assert "task 1 is n10:12321, not n2:12322" in refused("slurm", -1)


@pytest.mark.usefixtures("in_srun")
def test_slurm_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "scontrol show hostnames n[2,10] fails" in refused("slurm", -1)
    monkeypatch.delenv("SLURM_PROCID")
    assert "there is no SLURM_PROCID in the environment" in refused("slurm", -1)
