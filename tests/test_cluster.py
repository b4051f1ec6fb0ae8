"""Which workers a training has: by flags, by TF_CONFIG, by SLURM."""

import json
from typing import Any

import pytest

from bilm.cluster import Cluster, find_cluster
from bilm.errors import InputError

ADDRESSES = ("gpu1:2222", "10.0.0.2:2222", "[::1]:2223")


def tf_config(cluster: Any, kind: Any = "worker", index: Any = 0) -> dict[str, str]:
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def test_addresses_and_the_place_among_them() -> None:
    found = find_cluster(",".join(ADDRESSES), 2, {})
    assert found == Cluster(ADDRESSES, 2) and found.n_workers == 3
    assert found.name(1) == "worker 1 (10.0.0.2:2222)"


def test_this_process_alone() -> None:
    for environment in ({}, {"TF_CONFIG": " "}, tf_config({}), tf_config(None)):
        assert find_cluster(environment=environment) is None
    assert find_cluster("gpu1:2222", 0, {}) is None
    assert find_cluster(environment=tf_config({"worker": ["a:1"]})) is None


def test_the_chief_of_tf_config_comes_first() -> None:
    jobs = {"worker": ["a:1", "b:1"]}
    assert find_cluster(environment=tf_config(jobs, index="1")) == Cluster(
        ("a:1", "b:1"), 1
    )
    jobs["chief"] = ["c:1"]
    for kind, index, expected in (("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)):
        found = find_cluster(environment=tf_config(jobs, kind, index))
        assert found == Cluster(("c:1", "a:1", "b:1"), expected)


def test_flags_come_before_tf_config() -> None:
    environment = tf_config({"worker": ["a:1", "b:1"]})
    found = find_cluster("c:1,d:1", 1, environment)
    assert found == Cluster(("c:1", "d:1"), 1)


def slurm(rank: int, nodes: str, tasks: str, **more: str) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
    } | more


def test_slurm_names_nodes_and_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    for rank, tasks, expected in (
        (1, "1(x3)", ("n1:8888", "n2:8888", "n3:8888")),
        (2, "2,1", ("n1:8888", "n1:8889", "n2:8888")),
    ):
        environment = slurm(rank, "n[1-3]", tasks)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert find_cluster("slurm", None, environment) == Cluster(expected, rank)


def test_a_node_of_slurm_finds_itself_where_names_do_not_sort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SLURM counts n2, n10, n11; by name n2 is the last."""
    environment = slurm(
        0, "n[2,10-11]", "1(x3)", SLURMD_NODENAME="n2", SLURM_LOCALID="0"
    )
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = find_cluster("slurm", None, environment)
    assert found == Cluster(("n10:8888", "n11:8888", "n2:8888"), 2)


@pytest.mark.parametrize(
    ("flag", "index", "environment", "message"),
    [
        (None, 1, {}, "--worker_index 1 counts the addresses .* there is no --clus"),
        ("slurm", 1, {}, "--cluster slurm knows the worker itself: leave one"),
        ("a:1,b:1", None, {}, "--cluster a:1,b:1 needs --worker_index, from 0 to 1"),
        ("a:1,b:1", 2, {}, "has 2 addresses, .* is from 0 to 1, but it is 2"),
        ("a:1,b", 0, {}, "--cluster has addresses such as gpu1:2222, but 'b' is none"),
        ("a:1,b:70000", 0, {}, "but 'b:70000' is none"),
        ("a:1,", 0, {}, "but '' is none"),
        ("a:1,a:1", 0, {}, "once, but a:1 more often: give two workers of a machine"),
        ("slurm", None, {}, "SLURM_PROCID is not set: start bilm train by srun"),
        (
            "slurm",
            None,
            slurm(0, "n[1-", "1(x3)"),
            "SLURM's variables cannot be read: .*hostlist",
        ),
        (None, None, {"TF_CONFIG": "{"}, "TF_CONFIG must be JSON with .*JSONDecode"),
        (None, None, {"TF_CONFIG": "[1]"}, "TF_CONFIG must be JSON with cluster"),
        (None, None, {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "KeyError"),
        (
            None,
            None,
            tf_config({"worker": ["a:1"], "ps": ["b:1"]}),
            "workers and perhaps a chief, .* but has the jobs ps, worker",
        ),
        (
            None,
            None,
            tf_config({"worker": ["a:1", "b:1"]}, index=2),
            "the jobs worker and the task worker 2",
        ),
        (
            None,
            None,
            tf_config({"worker": ["a:1", "b:1"]}, kind="evaluator"),
            "the task evaluator 0",
        ),
        (None, None, tf_config({"worker": ["a:1", 3]}), "TF_CONFIG has .* but 3 is n"),
    ],
)
def test_what_is_no_cluster(
    flag: Any,
    index: Any,
    environment: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message):
        find_cluster(flag, index, environment)
