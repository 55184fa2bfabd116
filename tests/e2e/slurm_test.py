"""Runs of the server's as jobs of a Slurm that the test starts itself: one node or two, own ports, own key."""

import os
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from cases import ControlTest
from system import AS_ROOT, BIN, ControlServer, MPIRUN, held_port, wait_for

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "salloc", "squeue", "scancel", "sinfo"]
CONFIGURATION = """
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=60
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""


class Slurm:
    """munged, slurmctld and a slurmd for each node, in a folder. All nodes are this machine."""

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        self.folder = folder
        self.holders: list[socket.socket] = []
        folder.mkdir()
        for part in ("munge", "state", "spool"):
            (folder / part).mkdir(mode=0o755 if part == "munge" else 0o700)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        self.conf = folder / "slurm.conf"
        name = socket.gethostname().split(".")[0]
        names = [f"n{number + 1}" for number in range(nodes)]
        described = "\n".join(
            f"NodeName={node} NodeHostname={name} NodeAddr=127.0.0.1 Port={self.port()} CPUs=8 State=UNKNOWN"
            for node in names
        )
        self.conf.write_text(
            CONFIGURATION.format(name=name, port=self.port(), folder=folder, nodes=described), encoding="utf-8"
        )
        self.env = dict(os.environ, SLURM_CONF=str(self.conf))
        self.processes: list[subprocess.Popen] = []
        try:
            self.start_all(names)
        except BaseException:
            self.end()
            raise

    def start_all(self, nodes: list[str]) -> None:
        folder = self.folder
        self.start(
            "munged",
            "--foreground",
            "--force",
            "--num-threads=2",
            f"--key-file={folder}/munge.key",
            f"--socket={folder}/munge/socket",
            f"--pid-file={folder}/munge/pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munge/seed",
        )
        wait_for("munge's socket", (folder / "munge/socket").exists)
        self.controller = self.start("slurmctld", "-D", "-f", self.conf)
        for node in nodes:
            self.start("slurmd", "-D", "-N", node, "-f", self.conf)
        listing = ["sinfo", "--noheader", "--Node", "--partition=p", "--format=%T"]
        wait_for("idle nodes", lambda: self.say(*listing).split() == ["idle"] * len(nodes))

    def port(self) -> int:
        self.holders.append(held_port())
        return self.holders[-1].getsockname()[1]

    def start(self, *command) -> subprocess.Popen:
        with open(self.folder / f"{command[0]}.out", "ab") as out:
            process = subprocess.Popen([shutil.which(command[0]), *command[1:]], env=self.env, stdout=out, stderr=out)
        self.processes.append(process)
        return process

    def restart_controller(self) -> None:
        self.controller.kill()
        self.controller.wait()
        self.controller = self.start("slurmctld", "-D", "-f", self.conf)

    def say(self, *command: str) -> str:
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120).stdout

    def both(self, *command: str) -> str:
        """The output of a program, with standard error, where srun lists its plugins."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr

    def end(self) -> None:
        self.say("scancel", "--state=RUNNING", "--state=PENDING", "--signal=KILL", "--full", "--user=root")
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for holder in self.holders:
            holder.close()


class SlurmServer(ControlServer):
    """The profile's cool-down is the default, so that a restart after a fault meets it."""

    profile = "max_running: 1\nbatch:\n  launcher: slurm\n  max_running: 4\n  heartbeat_timeout_s: 120"


class SlurmCase(ControlTest):
    """Tests with their own Slurm."""

    nodes: int = 1
    server_type = SlurmServer

    @classmethod
    def setUpClass(cls) -> None:
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise unittest.SkipTest(f"Slurm is not installed: no {', '.join(missing)} (package slurm-wlm)")
        if os.geteuid() != 0:
            raise unittest.SkipTest("a Slurm of one's own is started by root")
        super().setUpClass()
        cls.slurm = Slurm(cls.base / "slurm", cls.nodes)
        cls.addClassCleanup(cls.slurm.end)
        os.environ["SLURM_CONF"] = str(cls.slurm.conf)
        cls.addClassCleanup(os.environ.pop, "SLURM_CONF")

    def job(self, run: str) -> str:
        return self.control.get(f"/api/v1/runs/{run}/attempts")["items"][-1]["job"]


class SlurmTest(SlurmCase):
    def test_a_job_succeeds(self) -> None:
        run = self.submit(self.config_text(), profile="batch")
        item = self.wait_state(run, "succeeded")
        self.assertEqual((item["update"], item["profile"]), (60, "batch"))
        self.assertRegex(self.job(run), r"^\d+$")

    def test_a_cancelled_job_is_stopped_and_a_killed_rank_restarted_from_the_checkpoint(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u"), profile="batch", max_restarts=5)
        self.wait_update(run, 25)
        self.slurm.say("scancel", self.job(run))  # a user cancels the job
        self.wait_state(run, "stopped")
        self.control.ask("POST", f"/runs/{run}/resume")
        self.wait_update(run, 45, attempt=2)
        os.kill(self.rank_pids(run)[1], signal.SIGKILL)
        self.assertEqual(self.wait_update(run, 60, attempt=3)["attempt"], 3)
        self.assertRegex(self.causes(run)[0], r"rank 1 on \S+ was killed by signal 9")
        self.end(run)

    def test_stops_and_survives_restarts_of_controller_and_server(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="0"), profile="batch")
        self.wait_update(run, 5)
        self.slurm.restart_controller()
        self.control.kill()
        self.control.start()
        update = self.run_item(run)["update"]
        self.assertEqual(self.wait_update(run, update + 20)["attempt"], 1)
        self.control.ask("POST", f"/runs/{run}/stop", {"grace_s": 60})
        item = self.wait_state(run, "stopped")
        self.assertEqual(self.control.get(f"/api/v1/runs/{run}/checkpoints")["items"][0]["update"], item["update"])
        wait_for("the job's end", lambda: self.job(run) not in self.slurm.say("squeue", "--noheader", "--format=%i"))


class SrunTest(SlurmCase):
    """Runs that a user starts, without a server."""

    server_type = None

    def run_in_slurm(self, *command: object) -> subprocess.CompletedProcess:
        worker = [BIN / "worker", "--config", self.config, "--run-dir", self.folder / "run", "training.stop_after=5u"]
        return subprocess.run(
            [*command, *worker], env=self.slurm.env | AS_ROOT, capture_output=True, text=True, timeout=600
        )

    def test_srun_with_pmix_starts_the_ranks(self) -> None:
        if "pmix" not in self.slurm.both("srun", "--mpi=list"):
            self.skipTest("this Slurm has no PMIx")
        done = self.run_in_slurm("srun", "--mpi=pmix", "--ntasks=2", "--overcommit")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(": 2 ranks on ", done.stderr)
        self.assertEqual([len(self.steps("run", rank)) for rank in (0, 1)], [5, 5])

    def test_srun_without_it_is_refused(self) -> None:
        done = self.run_in_slurm("srun", "--mpi=none", "--ntasks=2", "--overcommit")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(
            done.stderr, "error: SLURM_STEP_NUM_TASKS=2 promises 2 ranks, but MPI has 1: .*`srun --mpi=pmix worker …`"
        )
        self.assertFalse((self.folder / "run").exists())

    def test_mpirun_in_an_allocation_and_a_step_of_one_rank(self) -> None:
        for launcher in ([*MPIRUN, "-np", "2"], ["srun", "--ntasks=1"]):
            done = self.run_in_slurm("salloc", "--quiet", "--ntasks=4", *launcher)
            self.assertEqual(done.returncode, 0, done.stderr)


class TwoNodeServer(ControlServer):
    profile = (
        "max_running: 1\nbatch:\n  launcher: slurm\n  max_running: 4\n  heartbeat_timeout_s: 120\n  cool_down_s: 0\n"
        "both:\n  launcher: slurm\n  submit: [--nodes=2, --ntasks-per-node=1]\n  heartbeat_timeout_s: 120\n  cool_down_s: 0"
    )


class TwoNodeSlurmTest(SlurmCase):
    nodes, server_type = 2, TwoNodeServer

    def node(self, run: str) -> str:
        return self.slurm.say("squeue", "--noheader", f"--jobs={self.job(run)}", "--format=%N").strip()

    def test_a_job_spans_both_nodes(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="0"), profile="both")
        self.wait_update(run, 5)
        self.assertEqual(self.node(run), "n[1-2]")
        self.end(run)

    def test_a_run_continues_from_its_checkpoint_when_its_node_goes_down(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u"), profile="batch", max_restarts=3)
        self.wait_update(run, 25)
        node = self.node(run)
        self.slurm.say("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        self.addCleanup(self.slurm.say, "scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.wait_update(run, 80, attempt=2)
        causes = self.causes(run)
        self.assertEqual(len(causes), 1)
        self.assertRegex(causes[0], "NODE[ _]FAIL")
        resumed = self.control.get(f"/api/v1/runs/{run}/attempts")["items"]
        self.assertEqual(len(resumed), 2)
        self.end(run)
        # Bit-equal to an undisturbed run: the updates after the checkpoint were repeated.
        calm = self.submit(self.config_text(training_stop_after="60u"))
        self.wait_state(calm, "succeeded")
        disturbed, undisturbed = self.digests(run), self.digests(calm)
        self.assertEqual({update: disturbed[update] for update in undisturbed}, undisturbed)


if __name__ == "__main__":
    unittest.main()
