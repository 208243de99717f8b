"""Clusters that lose nodes: a run ends with the same bits, or stops soon and keeps every finished shard."""

import os
import signal
import subprocess
import sys
import time

import pytest

import identiformer as idf
from tests.engines.cluster import cluster
from tests.runs.tiny import bits, texts, write_tsv

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SHARDS = 12
MINUTE = 60


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(32 * SHARDS))


@pytest.fixture(scope="module")
def serial(tiny_path, corpus, tmp_path_factory):
    return idf.run(corpus, tiny_path, ["token_attribution"], out=tmp_path_factory.mktemp("runs") / "serial")


class Started:
    """`identiformer run` started on the head of a cluster, with the token in a file and no variable set for it."""

    def __init__(self, nodes, corpus, model, out, **environment):
        self.out = out
        command = [
            sys.executable,
            "-c",
            "from identiformer.cli import main; main()",
            "run",
            corpus,
            "--model",
            model,
            "--out",
            out,
        ]
        command += ["--measures", "token_attribution", "--engine", "ray", "--workers", 3, "--address", nodes.address, "--resume"]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        without_ray = {name: value for name, value in nodes.environment.items() if not name.startswith("RAY_")}
        self.process = subprocess.Popen(
            [str(word) for word in (*nodes.head.inside, *command, "--json")],
            env={**without_ray, "PYTHONPATH": path, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    @property
    def finished_shards(self):
        return len(list(self.out.glob("shards/[!.]*.state")))

    def wait_for_shards(self, number):
        limit = time.monotonic() + 300
        while self.finished_shards < number and self.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        assert number <= self.finished_shards < SHARDS, self.process.poll()

    def wait(self, limit):
        """Return the exit status and standard error; standard output must hold JSON lines only."""
        output, errors = self.process.communicate(timeout=limit)
        assert all(line.startswith("{") for line in output.splitlines()), output
        return self.process.returncode, errors

    def stops_soon(self, reason, may_finish=False):
        status, errors = self.wait(MINUTE)
        if may_finish and status == 0:
            return
        assert status == 1
        lines = errors.strip().splitlines()
        assert len(lines) == 1, errors
        assert lines[0].startswith("error: ")
        assert reason in lines[0]
        kept = self.finished_shards
        assert f"; {kept} of {SHARDS} shards are finished and kept in {self.out}, so continue with --resume." in lines[0]
        assert 0 < kept < SHARDS

    def finishes(self):
        status, errors = self.wait(600)
        assert (status, errors) == (0, "")


def resumed(run, corpus, model):
    return idf.run(corpus, model, ["token_attribution"], out=run.out, resume=True)


def test_a_killed_node_does_not_change_the_bits(corpus, tiny_path, serial, tmp_path):
    with cluster(1, 1, 1) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        run.wait_for_shards(2)
        assert nodes.nodes[1].kill("raylet")
        run.finishes()
    assert bits(idf.open_run(run.out)) == bits(serial)


def test_killing_all_nodes_but_the_head_does_not_change_the_bits(corpus, tiny_path, serial, tmp_path):
    with cluster(1, 1, 1) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        run.wait_for_shards(2)
        for node in nodes.nodes[1:]:
            assert node.kill("raylet")
        run.finishes()
    assert bits(idf.open_run(run.out)) == bits(serial)


@pytest.mark.parametrize("program", ["raylet/raylet", "gcs_server"])
def test_a_killed_head_stops_the_run_which_can_be_resumed(corpus, tiny_path, serial, tmp_path, program):
    with cluster(1, 1, 1) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        run.wait_for_shards(1)
        assert nodes.head.kill(program)
        # Without the head's raylet, shards that are running elsewhere may be the last ones.
        run.stops_soon(f"the Ray cluster at {nodes.address} was lost", may_finish=program != "gcs_server")
    assert bits(resumed(run, corpus, tiny_path)) == bits(serial)


def test_the_driver_is_killed_and_resumed(corpus, tiny_path, serial, tmp_path):
    with cluster(1, 1, 1) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        run.wait_for_shards(2)
        run.process.send_signal(signal.SIGKILL)
        run.process.communicate()
        kept = {path.name: path.stat().st_mtime_ns for path in run.out.glob("shards/[!.]*.state")}
        again = Started(nodes, corpus, tiny_path, run.out)
        again.finishes()
    after = {path.name: path.stat().st_mtime_ns for path in run.out.glob("shards/*")}
    assert kept.items() <= after.items()
    assert bits(idf.open_run(run.out)) == bits(serial)


def test_workers_without_memory_stop_the_run(corpus, tiny_path, tmp_path):
    """Ray kills workers when memory use exceeds a threshold, which here is close to zero."""
    allowed = {"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "50"}
    with cluster(1, 1, **allowed) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        status, errors = run.wait(3 * MINUTE)
    assert (status, errors.count("\n")) == (1, 1), errors
    assert "memory" in errors
    assert f"; {run.finished_shards} of {SHARDS} shards are finished and kept in {run.out}, so continue with" in errors


@pytest.mark.parametrize("how", ["killed", "unplugged"])
def test_losing_all_hosts_stops_the_run(corpus, tiny_path, serial, tmp_path, how):
    """The head has no CPU for workers, and the other hosts are killed or leave the network."""
    with cluster(0, 1, 1, in_namespaces=True) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        run.wait_for_shards(1)
        for node in nodes.nodes[1:]:
            if how == "killed":
                assert node.kill()
            else:
                subprocess.run(["ip", "-n", node.host, "link", "set", "eth0", "down"], check=True)
        run.stops_soon("no node with a CPU for a worker has answered")
    assert bits(resumed(run, corpus, tiny_path)) == bits(serial)


def test_losing_one_host_does_not_change_the_bits(corpus, tiny_path, serial, tmp_path):
    with cluster(1, 1, 1, in_namespaces=True) as nodes:
        run = Started(nodes, corpus, tiny_path, tmp_path / "run")
        run.wait_for_shards(1)
        subprocess.run(["ip", "-n", nodes.nodes[2].host, "link", "set", "eth0", "down"], check=True)
        run.finishes()
    assert bits(idf.open_run(run.out)) == bits(serial)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"HOME": "/nonexistent"}, "expects its token, and none was found here; copy ~/.ray/auth_token from the head"),
        ({"RAY_AUTH_TOKEN": "fedcba98" * 8}, "expects its token, and got another one from here; copy ~/.ray/auth_token"),
        ({"RAY_AUTH_MODE": "disabled"}, "but RAY_AUTH_MODE forbids sending it; unset that variable"),
        ({"RAY_AUTH_MODE": "token", "HOME": "/nonexistent"}, "expects its token, and none was found here"),
    ],
)
def test_a_missing_or_wrong_token_is_an_error_of_one_sentence(one_node, corpus, tiny_path, tmp_path, environment, reason):
    run = Started(one_node, corpus, tiny_path, tmp_path / "run", **environment)
    status, errors = run.wait(MINUTE)
    assert (status, errors.count("\n")) == (2, 1)
    assert reason in errors
    assert f"the Ray cluster at {one_node.address} expects" in errors


@pytest.fixture(scope="module")
def one_node():
    with cluster(1) as nodes:
        yield nodes
