"""A Ray cluster of several nodes for tests, on one host or each in its own network namespace."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

RAY = str(Path(sys.executable).with_name("ray"))
TRIES = 3
"""Attempts to start a node: Ray allows 30 seconds, which a busy machine may exceed."""


class Node:
    """One node, and its processes, which share the session in which it was started."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.host = cluster.hosts[number] if cluster.hosts else None
        self.ip = f"10.77.0.{number + 1}" if self.host else "127.0.0.1"
        self.inside = ["ip", "netns", "exec", self.host] if self.host else []

    def start(self, *place):
        for _ in range(TRIES):
            ports = [f"--{name}={free_port()}" for name in ("dashboard-agent-grpc-port", "dashboard-agent-listen-port")]
            sizes = [f"--num-cpus={self.cluster.cpus[self.number]}", "--object-store-memory=80000000"]
            own = [
                f"--temp-dir={self.cluster.folder / str(self.number)}",
                f"--node-ip-address={self.ip}",
                "--disable-usage-stats",
            ]
            command = [*self.inside, RAY, "start", *place, *own, *sizes, *ports]
            with tempfile.TemporaryFile("w+") as output:
                process = subprocess.Popen(
                    command, env=self.cluster.environment, start_new_session=True, stdout=output, stderr=output
                )
                self.session = process.pid
                if process.wait(120) == 0:
                    return
                output.seek(0)
                printed = output.read()
            self.kill()
        pytest.fail(f"a node did not start: {printed}")

    def processes(self, name=""):
        """The ids of the processes whose command contains a name."""
        ids = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if session == self.session and name in command:
                ids.append(int(folder.name))
        return ids

    def kill(self, name=""):
        ids = self.processes(name)
        for process in ids:
            os.kill(process, signal.SIGKILL)
        return ids


class Cluster:
    """A head and other nodes."""

    def __init__(self, folder, environment, cpus, hosts):
        self.folder, self.environment, self.cpus, self.hosts = folder, environment, cpus, hosts
        self.nodes = [Node(self, number) for number in range(len(cpus))]
        self.port = free_port()

    @property
    def head(self):
        return self.nodes[0]

    @property
    def address(self):
        return f"{self.head.ip}:{self.port}"

    def start(self):
        self.head.start("--head", f"--port={self.port}", "--include-dashboard=false")
        for node in self.nodes[1:]:
            node.start(f"--address={self.address}")

    def stop(self):
        for _ in range(20):
            if not [node.kill() for node in self.nodes if hasattr(node, "session") and node.processes()]:
                return
            time.sleep(0.1)


@contextmanager
def cluster(*cpus, in_namespaces=False, **variables):
    """Start nodes with these numbers of CPUs, which share a token as described in docs/corpus_runs.md; the first is the head."""
    folder = Path(tempfile.mkdtemp(prefix="idf", dir="/tmp"))  # the names of sockets must be short
    token = folder / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("0123456789abcdef" * 4)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"HOME": str(folder), "RAY_AUTH_MODE": "token", **variables}
    hosts = [f"idf{os.getpid()}-{number}" for number in range(len(cpus))] if in_namespaces else []
    made = Cluster(folder, environment, cpus, hosts)
    try:
        _connect(hosts)
        made.start()
        yield made
    finally:
        made.stop()
        _disconnect(hosts)
        shutil.rmtree(folder, ignore_errors=True)


def _connect(hosts):
    """Connect the hosts to a switch, which is another namespace, so that nothing leaves them."""
    if not hosts:
        return
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the program ip, of Debian's iproute2")
    switch = f"{hosts[0]}s"
    if subprocess.run(["ip", "netns", "add", switch], capture_output=True).returncode:
        pytest.skip("network namespaces cannot be made here")
    _ip(f"-n {switch} link add bridge type bridge", f"-n {switch} link set bridge up")
    for number, host in enumerate(hosts):
        _ip(
            f"netns add {host}",
            f"-n {host} link set lo up",
            f"-n {host} link add eth0 type veth peer name port{number} netns {switch}",
            f"-n {switch} link set port{number} master bridge up",
            f"-n {host} address add 10.77.0.{number + 1}/24 dev eth0",
            f"-n {host} link set eth0 up",
        )


def _disconnect(hosts):
    for host in (*hosts, f"{hosts[0]}s") if hosts else ():
        subprocess.run(["ip", "netns", "delete", host], capture_output=True)


def _ip(*commands):
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True, capture_output=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
