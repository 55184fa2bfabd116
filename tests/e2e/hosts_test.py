"""mpirun over two hosts: network namespaces of this machine with a TCP link between them (tests/mpi/two_hosts.sh)."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases import TwoHostTest
from system import (
    BIN,
    HOST_A,
    HOST_A_OPTIONS,
    HOST_OF,
    RANKS,
    SLOTS,
    Server,
    TwoHostRun,
    mpirun_daemon,
    wait_ended,
    wait_for,
)
from timeline_check import TimelineCheck

GBIT = 1e9 / 8 / 1000  # bytes per ms
DEADLINE_S = 12
OPEN_MPI_5 = "Open MPI) 5" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True).stdout
# mpirun's own connections: after 2 s of silence ask every second; two questions without an answer are a lost host. All
# before the deadline, when a rank's farewell to the lost host would be waiting for an answer: then TCP asks no more.
NOTICE_LOST_HOST = "--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 " "--mca oob_tcp_keepalive_probes 2"
# When a rank has died, mpirun tells the others to end and kills them a second later: too soon on a busy machine.
LAST_WORDS = "--mca odls_base_sigkill_timeout 5"

MPIRUN_LOST_B = r"RTE has lost communication with a remote daemon\.[^~]*Remote daemon: .* on node hostB"


class HostsTest(TwoHostTest):
    def assert_network_is_true(self, steps: list[list[dict]], senders: int = SLOTS) -> None:
        """A host's first rank counts the host's interfaces: from outside comes and to outside goes what `senders` ranks
        send (on two levels all ranks of a host, each its shard; in a ring one), a little more for headers and small
        messages. The host's others report nothing."""
        for rank, own in enumerate(steps):
            self.assertEqual({step["host"] for step in own}, {HOST_OF[rank]})
            self.assertEqual(own[-1]["network_link_bytes_per_second"], 0, "a veth pair's speed is nominal")
            for key in ("network_tx_bytes", "network_rx_bytes"):
                counted = sum(step[key] for step in own)
                if rank % SLOTS != 0:
                    self.assertEqual(counted, 0)
                    continue
                payload = self.payload(steps[rank : rank + senders])
                self.assertGreaterEqual(counted, payload, f"rank {rank} {key}")
                self.assertLess(counted, 1.25 * payload, f"rank {rank} {key}")

    def payload(self, steps: list[list[dict]]) -> int:
        """Bytes that the ranks of `steps` sent for all-reduces."""
        return sum(step["communication_bytes"] for own in steps for step in own)

    def test_a_ring_over_two_hosts_trains_the_same_weights_as_one(self) -> None:
        run = self.finish_on_two_hosts(overrides=["communication.all_reduce=ring"])
        self.assertIn("4 ranks on 2 hosts, ring all-reduce", run.text())
        steps = self.by_rank()
        self.assert_network_is_true(steps, senders=1)
        # Ranks of one host would add in memory that they share, in another order.
        self.finish_run("one-host", len(RANKS), overrides=["communication.all_reduce=ring"])
        for two, one in zip(steps, self.by_rank("one-host")):
            self.assertEqual([step["update"] for step in two], list(range(1, 61)))
            for key in ("loss", "weights_digest"):  # the ring adds in the order of ranks, wherever they are
                self.assertEqual([step[key] for step in two], [step[key] for step in one])

    def test_two_levels_train_like_the_ring_with_fewer_bytes_and_resume(self) -> None:
        run = self.finish_on_two_hosts()
        self.assertIn("4 ranks on 2 hosts, all-reduce on two levels: shared memory within hosts", run.text())
        whole = self.by_rank()
        self.assert_network_is_true(whole)
        for own in whole:
            self.assertEqual([step["update"] for step in own], list(range(1, 61)))
            self.assertEqual([step["weights_digest"] for step in own], [step["weights_digest"] for step in whole[0]])
        self.finish_run("one-host", len(RANKS), overrides=["communication.all_reduce=ring"])
        ring = self.by_rank("one-host")
        for step, other in zip(whole[0], ring[0]):
            self.assertAlmostEqual(step["loss"], other["loss"], delta=1e-4 * other["loss"])
        # A rank of the ring sends 2 x 3/4 of the gradients, a host on two levels 2 x 1/2.
        self.assertEqual(round(self.payload(whole[:SLOTS]) / self.payload(ring[:1]), 3), round(1 / 1.5, 3))
        shutil.rmtree(self.folder / "run/checkpoints/update-00000060")
        self.finish_on_two_hosts()
        for own, before in zip(self.by_rank(), whole):
            self.assertEqual([step["update"] for step in own[60:]], list(range(41, 61)))
            for key in ("loss", "weights_digest"):
                self.assertEqual([step[key] for step in own[60:]], [step[key] for step in before[40:]])

    def test_hosts_that_keep_shares_of_the_optimizer_train_the_same_weights(self) -> None:
        # A digest or an evaluation waits for weights that are on their way, so most updates have neither.
        often = ["training.digest_every=20u", "validation.every=10u", "validation.bleu_every=30u"]
        often.append(f"validation.other_sets=general={self.prepared}:test")
        self.finish_on_two_hosts(name="whole", overrides=often)
        shares = [*often, "communication.optimizer=sharded"]
        run = self.finish_on_two_hosts(overrides=[*shares, "training.stop_after=30u"])
        self.assertIn("optimizer: each of 2 hosts keeps a shard of the optimizer's state", run.text())
        self.finish_on_two_hosts(overrides=shares)
        for own, expected in zip(self.by_rank(), self.by_rank("whole")):
            for key in ("loss", "weights_digest"):
                self.assertEqual([step.get(key) for step in own], [step.get(key) for step in expected])
        self.assertEqual(sum(1 for step in expected if step.get("weights_digest")), 3)
        found, expected = (
            [[record[key] for key in ("update", "set", "loss", "sacrebleu")] for record in self.records(name, "eval")]
            for name in ("run", "whole")
        )
        self.assertEqual(found, expected)
        self.assertGreaterEqual(len(found), 12)
        self.assertEqual([record[1] for record in found[:4]], ["valid", "general", "valid", "general"])
        one_host = self.finish_run("one-host", SLOTS, overrides=[*shares, "training.stop_after=2u"])
        self.assertIn("communication.optimizer sharded has no effect on one host", one_host.text())

    def test_a_link_of_one_gigabit_is_reported_as_such(self) -> None:
        overrides = ["model.width=256", "model.inner=1024", "communication.bucket_mb=1", "training.stop_after=8u"]
        self.finish_on_two_hosts(overrides=overrides, options=["--rate", "1gbit"])
        steps = self.by_rank()
        self.assert_network_is_true(steps)
        for first in range(0, len(RANKS), SLOTS):
            payload = self.payload(steps[first : first + SLOTS])
            self.assertGreater(payload, 8 * 14e6)
            for own in steps[first : first + SLOTS]:
                self.assertEqual(len(own), 8)
                # At most the link's rate, apart from bursts of 256 kB.
                self.assertGreater(sum(step["communication_ms"] for step in own), 0.95 * payload / GBIT)
            own = steps[first]
            counted = sum(step["network_tx_bytes"] for step in own)
            self.assertLess(counted, 1.05 * GBIT * sum(step["step_ms"] for step in own))

    def test_two_hosts_share_one_timeline(self) -> None:
        overrides = ["training.stop_after=8u", "lab.trace.start=5u", "lab.trace.updates=2"]
        self.finish_on_two_hosts(overrides=overrides)
        TimelineCheck(self, self.folder / "run" / "lab" / "trace-update-00000005.json.gz", HOST_OF).all()

    def test_a_server_on_one_host_shows_both(self) -> None:
        self.server().stop()  # makes the administrator's token
        overrides = ["training.stop_after=200u", "checkpoint.every=0"]
        run = self.start_on_two_hosts(server="http://hostA:8080", overrides=overrides)
        self.start_server_on_host_a(run)
        self.assertEqual(run.wait(), 0, run.text())
        server = self.server()  # the same data, now on loopback
        run_id = server.first_run()
        ranks = server.get(f"/api/v1/runs/{run_id}/ranks")["items"]
        self.assertEqual([(rank["rank"], rank["host"]) for rank in ranks], list(zip(RANKS, HOST_OF)))
        for rank in RANKS:
            self.assertEqual(server.series(run_id, "loss", rank), list(range(1, 201)))

    def test_a_host_that_cannot_reach_the_server_does_not_spoil_the_end(self) -> None:
        """It tries for longer than the other waits for a collective."""
        self.server().end()  # makes the administrator's token
        names = self.folder / "names"
        wrong = f'sed "s/10.77.0.1 /10.77.0.99 /" /etc/hosts > "{names}" && mount --bind "{names}" /etc/hosts'
        script = f'case $(hostname) in hostB) {wrong};; esac && exec "$@"'
        overrides = ["communication.deadline_s=20"]  # shorter than the 30 s for which a rank tries
        run = self.start_on_two_hosts(script=script, slots=1, server="http://hostA:8080", overrides=overrides)
        self.start_server_on_host_a(run)
        self.assertEqual(run.wait(), 0, run.text())
        self.assertRegex(run.text(), r"warning: \d+ records of rank 1 were not confirmed by http://hostA:8080")
        self.assertNotIn("records of rank 0 were not confirmed", run.text())

    def test_a_request_to_stop_reaches_both_hosts(self) -> None:
        run = self.start_on_two_hosts(overrides=["training.stop_after=1000000u", "checkpoint.every=0"])
        run.wait_for("first updates", lambda: '"update":20,' in self.spool())
        run.ask_to_stop()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual(len(self.checkpoints()), 1)

    def spool(self) -> str:
        """The text of rank 0's."""
        file = self.folder / "run" / "spool" / "attempt-1" / "rank-0.jsonl"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def start_server_on_host_a(self, run: TwoHostRun) -> None:
        """Runs in the namespace of the run; the script ends it with the namespace."""
        address = ["ip", "-n", run.namespace("hostA"), "-o", "addr"]
        wait_for(
            "address of hostA", lambda: "10.77.0.1" in subprocess.run(address, capture_output=True, text=True).stdout
        )
        server = Server(self.folder / "server", self.folder, HOST_A_OPTIONS)
        server.wrapper, server.listen = ["ip", "netns", "exec", run.namespace("hostA")], HOST_A
        self.addCleanup(server.end)
        self.addCleanup(run.end)  # before that
        server.start(wait=False)
        self.assertIn("listening on", server.said)

    def start_and_lose(self, lose: Callable[[TwoHostRun], Any], options: str = "", deadline_s: int = DEADLINE_S) -> str:
        """Output of a run of which `lose` removes a part in the middle; everything ends in bounded time. With bf16 weights
        the optimizer is sharded."""
        end = ["training.stop_after=1000000u", "checkpoint.every=0", "training.precision=bf16"]
        run = self.start_on_two_hosts(
            overrides=[*end, f"communication.deadline_s={deadline_s}"],
            options=["--mpirun", f"{NOTICE_LOST_HOST} {options}"],
        )
        run.wait_for("first updates", lambda: '"update":20,' in self.spool())
        self.assertIn("optimizer: each of 2 hosts keeps a shard", run.text())
        pids = run.rank_pids()
        self.assertEqual(len(pids), len(RANKS))
        lose(run)
        wait_ended(pids)
        code = run.wait()
        end = json.loads((self.folder / "run/run.json").read_text(encoding="utf-8")).get("end")
        if OPEN_MPI_5:  # which exits 0 when it has lost a host
            self.assertNotEqual(end, "finished", run.text())
        else:
            self.assertNotEqual(code, 0)
        return run.text()

    def test_a_lost_link_ends_all_ranks_naming_the_lost(self) -> None:
        text = self.start_and_lose(
            lambda run: subprocess.run(["ip", "-n", run.namespace("hostB"), "link", "set", "linkB", "down"], check=True)
        )
        # Open MPI 5 may kill its ranks before they say so.
        lost = MPIRUN_LOST_B if OPEN_MPI_5 else r"on rank [01] \(host hostA\): no answer from rank [23] \(host hostB\)"
        self.assertRegex(text, lost)

    def test_a_stopped_rank_ends_all_ranks_by_their_deadline_and_is_named(self) -> None:
        text = self.start_and_lose(lambda run: os.kill(run.rank_pids()[3], signal.SIGSTOP))
        self.assertRegex(
            text,
            r"made no progress for \d+\.\d s on rank [012] \(host host[AB]\): "
            r"no answer from rank 3 \(host hostB\): stopped or lost",
        )

    def test_a_stopped_daemon_does_not_hold_the_end_of_training(self) -> None:
        """mpirun's own daemon on hostB: MPI_Finalize never returns then, and mpirun waits for it as long as it is stopped."""
        run = self.start_on_two_hosts(overrides=["training.stop_after=60u", "communication.deadline_s=4"])
        run.wait_for("first updates", lambda: '"update":5,' in self.spool())
        pids = run.rank_pids()
        self.assertEqual(len(pids), len(RANKS))
        os.kill(mpirun_daemon(run.namespace("hostB")), signal.SIGSTOP)
        wait_ended(pids)
        self.assertTrue((self.folder / "run/checkpoints/update-00000060").is_dir())
        if OPEN_MPI_5:
            return  # its ranks end without that
        self.assertRegex(
            run.text(),
            r"warning: rank [01] on hostA: MPI_Finalize has not returned within 4 s: another rank or a "
            "daemon of mpirun's is stopped or cannot be reached; this rank's work is done, and it ends "
            "with exit code 0",
        )

    def test_a_killed_daemon_ends_all_ranks_and_mpirun_names_its_host(self) -> None:
        """mpirun's own daemon on hostB, the parent of that host's ranks."""
        text = self.start_and_lose(
            lambda run: os.kill(mpirun_daemon(run.namespace("hostB")), signal.SIGKILL), deadline_s=120
        )
        self.assertRegex(text, MPIRUN_LOST_B)

    def test_another_first_host_does_not_begin_anew(self) -> None:
        self.change_to_folder()
        run = self.start_with_a_disk_each(["training.stop_after=10u", "checkpoint.every=5u"])
        self.assertEqual(run.wait(), 0, run.text())
        files = [json.loads((self.folder / host / "split/run.json").read_text()) for host in ("hostA", "hostB")]
        self.assertEqual(files[0].pop("end"), "finished", "rank 0 notes the end on its host")
        self.assertEqual(files[0].pop("detail"), "finished: 10u of training")
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0]["host"], "hostA")
        self.assertFalse((self.folder / "hostB/split/checkpoints").exists())
        on_b = ["unshare", "--uts", "sh", "-c", 'hostname hostB && cd hostB && exec "$@"', "sh"]
        worker = [BIN / "worker", "--config", self.config, "--run-dir", "split", "training.stop_after=20u"]
        alone = subprocess.run([*on_b, *worker], capture_output=True, text=True, timeout=600)
        self.assertEqual(alone.returncode, 2, alone.stderr)
        self.assertIn(
            f"run folder {self.folder}/hostB/split: run {files[0]['run']} has its checkpoints on hostA, where rank 0 was, not on hostB",
            alone.stderr,
        )
        (self.folder / "hostB/split/run.json").unlink()  # as a worker of version 0.1 left it
        shutil.rmtree(self.folder / "hostA/split")
        run = self.start_with_a_disk_each(["training.stop_after=20u"])
        self.assertNotEqual(run.wait(), 0)
        self.assertIn(f"hostB has a spool of run {files[0]['run']}, attempt 1, but no run.json", run.text())
        self.assertFalse((self.folder / "hostA/split/run.json").exists())

    def test_a_relative_run_folder_is_that_of_rank_0_on_all_hosts(self) -> None:
        self.change_to_folder()
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        script = f'case $(hostname) in hostB) cd "{elsewhere}";; esac && exec "$@"'
        overrides = ["training.stop_after=2u"]
        self.finish_on_two_hosts(script=script, slots=1, folder=Path("relative"), overrides=overrides)
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.assertEqual(len(self.records("relative", "step", 1)), 2)

    def run_with_another_host_b(self, prepare: str, overrides: list[str] | None = None) -> str:
        """Output of a run in whose namespace of files `prepare` was run on hostB before. It ends as wrong usage, in one
        line."""
        script = f'case $(hostname) in hostB) {prepare};; esac && exec "$@"'
        run = self.start_on_two_hosts(script=script, slots=1, overrides=overrides or [])
        self.assertEqual(run.wait(), 2, run.text())
        text = run.text()
        self.assertNotIn("MPI_ABORT", text)
        self.assertEqual(len(re.findall(r"\berror: ", text)), 1, text)
        run.log.unlink()
        return text

    def test_an_error_on_one_host_ends_all_ranks_with_one_line(self) -> None:
        data, copy, folder = self.prepared, self.folder / "copy", self.folder / "run"
        damaged = f'mkdir "{copy}" && cp "{data}"/* "{copy}" && %s && mount --bind "{copy}" "{data}"'
        ids, text = copy / "train.target.ids", copy / "valid.target.txt"
        cases = (
            (f'mount -t tmpfs tmpfs "{data}"', f"rank 1 on hostB: {data}: no manifest.json there"),
            (damaged % f'truncate -s 100 "{ids}"', "train.target.ids: truncated or damaged, 100 bytes"),
            (damaged % f'rm "{text}"', "valid.target.txt: No such file or directory"),
            (
                f'mkdir -p "{folder}" && mount -t tmpfs -o ro tmpfs "{folder}"',
                f"rank 1 on hostB: write {folder}/run.json",
            ),
            (f'mount -t tmpfs tmpfs "{self.folder}" && touch "{folder}"', f"rank 1 on hostB: run folder {folder}: "),
        )
        for prepare, message in cases:
            with self.subTest(message):
                shutil.rmtree(copy, ignore_errors=True)
                shutil.rmtree(folder, ignore_errors=True)
                self.assertIn(message, self.run_with_another_host_b(prepare))
        shutil.rmtree(folder, ignore_errors=True)
        said = self.run_with_another_host_b("true", ["communication.all_reduce=shared_memory"])
        self.assertIn(
            "communication.all_reduce shared_memory is impossible on hostA, hostB: there are several hosts", said
        )

    def test_a_damaged_copy_of_the_data_ends_the_run_and_its_host_is_named(self) -> None:
        copy = self.folder / "copy"
        zeros = f'dd if=/dev/zero of="{copy}/train.target.ids" bs=1000 seek=20 count=10 conv=notrunc status=none'
        prepare = (
            f'mkdir "{copy}" && cp "{self.prepared}"/* "{copy}" && {zeros} && mount --bind "{copy}" "{self.prepared}"'
        )
        for updates in (1, 1000000):
            shutil.rmtree(copy, ignore_errors=True)
            text = self.run_with_another_host_b(prepare, [f"training.stop_after={updates}u"])
            self.assertRegex(
                text, rf"error: rank 1 on hostB: {self.prepared}/train.target.ids: damaged, its SHA-256 is"
            )

    def test_a_killed_rank_of_the_other_host_is_named(self) -> None:
        # Open MPI may tell the other host many seconds after its own: no rank must give up before.
        text = self.start_and_lose(lambda run: os.kill(run.rank_pids()[3], signal.SIGKILL), LAST_WORDS, deadline_s=120)
        self.assertRegex(text, r"process rank 3 with PID \d+ on node hostB")
        self.assertIn("[rank 2] warning: received SIGTERM; already ended: rank 3 (host hostB)", text)


if __name__ == "__main__":
    unittest.main()
