"""Runs over two hosts, for the tests about them: network namespaces of this machine with a TCP link between them
(tests/mpi/two_hosts.sh)."""

import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from system import Run, SystemTest

SCRIPT = Path(__file__).resolve().parents[1] / "mpi" / "two_hosts.sh"
SLOTS = 2  # ranks of each host
RANKS = range(2 * SLOTS)
HOST_OF = ["hostA"] * SLOTS + ["hostB"] * SLOTS


def daemon_in(namespace: str) -> int:
    """The process of mpirun's daemon in a namespace."""
    inside = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True)
    names = ("orted\n", "prted\n")  # Open MPI 4 and 5; 5's starts another process of its name, which is its child
    daemons = [int(pid) for pid in inside.stdout.split() if Path(f"/proc/{pid}/comm").read_text() in names]
    first = [pid for pid in daemons if int(Path(f"/proc/{pid}/stat").read_text().split()[3]) not in daemons]
    assert len(first) == 1, f"{namespace}: expected a daemon, found {daemons}"
    return first[0]


class TwoHostRun(Run):
    """`mpirun -H hostA:2,hostB:2 worker`."""

    def namespace(self, host: str) -> str:
        return f"babelring-{self.process.pid}-{host[-1].lower()}"

    def pids(self) -> list[int]:
        pids = []
        for host in ("hostA", "hostB"):
            inside = subprocess.run(["ip", "netns", "pids", self.namespace(host)], capture_output=True, text=True)
            pids += map(int, inside.stdout.split())
        return pids

    def daemon(self) -> int:
        """The process of mpirun's daemon on hostB."""
        return daemon_in(self.namespace("hostB"))

    def ask_to_stop(self) -> None:
        """By SIGUSR1 to mpirun, which passes it on to all ranks."""
        for pid in self.pids():
            if Path(f"/proc/{pid}/comm").read_text() in ("mpirun\n", "prterun\n"):
                os.kill(pid, signal.SIGUSR1)

    def end(self) -> None:
        """The script ends everything that it started."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=120)


class TwoHostTest(SystemTest):
    """Skipped where this machine does not allow namespaces."""

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("mpirun") is None:
            raise unittest.SkipTest("mpirun is not installed")
        tried = subprocess.run([SCRIPT, "--rate", "1gbit", "--", "true"], capture_output=True, text=True)
        if tried.returncode == 77:
            raise unittest.SkipTest(tried.stderr.strip())
        super().setUpClass()

    def start_on_two_hosts(
        self,
        server: str = "none",
        overrides: list[str] | None = None,
        options: list[str] | None = None,
        name: str = "run",
    ) -> TwoHostRun:
        launcher = [SCRIPT, "--slots", str(SLOTS), *(options or []), "--"]
        run = TwoHostRun(launcher, self.folder / name, self.config, server, overrides or [])
        self.addCleanup(run.end)
        return run

    def steps(self, name: str = "run") -> list[list[dict]]:
        """By rank."""
        return [self.records(name, "step", rank) for rank in RANKS]

    def start_with_a_disk_each(self, overrides: list[str]) -> TwoHostRun:
        """Each host has its own disk under one name, and relative names start there."""
        for host in ("hostA", "hostB", "disk"):
            (self.folder / host).mkdir(exist_ok=True)
        disk = self.folder / "disk"
        script = f'mount --bind "{self.folder}/$(hostname)" "{disk}" && cd "{disk}" && exec "$@"'
        launcher = [SCRIPT, "--", "sh", "-c", script, "sh"]
        run = TwoHostRun(launcher, Path("split"), self.config, "none", overrides)
        self.addCleanup(run.end)
        return run

    def spool(self, rank: int) -> str:
        file = self.folder / "run" / "spool" / "attempt-1" / f"rank-{rank}.jsonl"
        return file.read_text(encoding="utf-8") if file.exists() else ""
