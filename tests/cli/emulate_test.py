"""`nmt emulate` as a program: records, predictions, tables, figures, timelines, and one line for each bad input."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import CommandTest  # noqa: E402
from system import ROOT, call, prepare, toy_corpus  # noqa: E402

LAB = Path(os.environ.get("BABELRING_LAB", ROOT.parent / "shared" / "lab"))
with_lab = unittest.skipUnless(LAB.exists(), f"no published tables in {LAB} (BABELRING_LAB)")
CONFIG = """
name: tiny
preset: transformer-tiny
model: {{encoder_layers: 1, decoder_layers: 1, width: 16, inner: 32, heads: 2, dropout: 0}}
data: {{folder: {}, tokens_per_update: 400}}
training: {{precision: f32, device: cpu}}
"""
GENERATOR = """
task: gssm
model: {decoder_layers: 1, width: 16, heads: 2, inner: 32}
gssm: {nodes: [{name: Z, state_dim: 4, parents: [X]}, {name: X, state_dim: 8, parents: [Z]}], alpha_X: 0.3, alpha_Z: 0.3}
data: {sequence_length: 64}
"""
LINKS = ("--inside", "98gbit,5us", "--between", "25gbit,20us")


def made_up_table() -> str:
    """Nearly linear times of one model on two GPUs, for batches of 16 to 256."""
    rows = ["gpu,model,batch,transfer_ms,compute_ms"]
    for gpu, slower in (("p100", 2), ("v100", 1)):
        for batch in (*range(16, 33), 64, 128, 256):
            rows.append(
                f"{gpu},resnet18,{batch},{0.05 * batch:.3f},{slower * (6 + 2.8 * batch + 0.2 * (batch % 3)):.3f}"
            )
    return "\n".join(rows) + "\n"


class EmulateTest(CommandTest):
    command = ("emulate",)

    def setUp(self) -> None:
        super().setUp()
        self.table = self.folder / "compute.csv"
        self.table.write_text(made_up_table(), encoding="utf-8")
        self.record = self.folder / "resnet18.json"
        self.result(
            "record", "--from-table", self.table, "--gpu", "v100", "--model", "resnet18", "--output", self.record
        )

    def run_json(self, *arguments: str | Path) -> dict:
        return json.loads(self.result("run", "--record", self.record, "--updates", "20", "--json", *arguments))

    def test_one_rank_takes_the_time_of_the_table(self) -> None:
        one = self.run_json()
        self.assertAlmostEqual(one["step_ms"]["median"], 6 + 2.8 * 256 + 0.2 + 0.05 * 256, 3)
        self.assertAlmostEqual(sum(one["parts"].values()), one["step_ms"]["mean"], 6)
        self.assertLess(one["step_ms"]["low"], one["step_ms"]["median"])

    def test_the_number_of_ranks_is_bounded(self) -> None:
        refused = self.refusal("run", "--record", self.record, "--hosts", "100000", "--ranks-per-host", "10000", *LINKS)
        self.assertIn("--hosts, --ranks-per-host: found 1,000,000,000 ranks, expected at most 1,000,000", refused)

    def test_the_text_states_the_error(self) -> None:
        text = self.result("run", "--record", self.record, "--hosts", "2", "--ranks-per-host", "2", *LINKS)
        self.assertRegex(text, r"step +[\d.]+ ms, [\d.]+ to [\d.]+ \(compute ± 0\.\d+ %, 20 comparisons\)")
        self.assertIn("resnet18 on v100: 4 ranks on 2 hosts, ring, f32", text)
        self.assertIn("exposed_communication_ms", text)
        self.assertNotIn("warning", text)

    def test_half_the_bytes_and_other_algorithms(self) -> None:
        f32 = self.run_json("--hosts", "2", *LINKS)
        bf16 = self.run_json("--hosts", "2", *LINKS, "--wire", "bf16")
        self.assertAlmostEqual(bf16["host_megabytes"], f32["host_megabytes"] / 2, 6)
        tree = self.run_json("--hosts", "2", *LINKS, "--algorithm", "tree")
        self.assertFalse(tree["offered"])
        self.assertIn("the worker does not offer the algorithm tree", tree["warnings"])

    def test_a_published_run_is_predicted_within_its_interval(self) -> None:
        self.record = self.folder / "published.json"
        made = ("--compute-ms", "70-200", "--size", "15605", "--parameters", "60880896", "--output", self.record)
        self.result("record", *made)
        found = self.run_json(
            "--hosts", "2", "--ranks-per-host", "2", "--inside", "98gbit", "--between", "217.9-231.2MB/s"
        )
        self.assertAlmostEqual(found["host_megabytes"], 365.29, 1)
        self.assertLess(abs(found["step_ms"]["median"] / 1713 - 1), 0.05)
        self.assertLess(found["step_ms"]["low"], 1713)
        self.assertGreater(found["step_ms"]["high"], 1713)
        self.assertTrue(any("tests the traffic" in warning for warning in found["warnings"]))

    def test_scale_prints_tables_and_draws(self) -> None:
        svg = self.folder / "scale.svg"
        shared = (
            "scale",
            "--record",
            self.record,
            "--ranks",
            "1,2,8",
            "--ranks-per-host",
            "2",
            "--updates",
            "10",
            *LINKS,
        )
        rows = list(csv.DictReader(io.StringIO(self.result(*shared, "--csv", "--svg", svg))))
        self.assertEqual([row["ranks"] for row in rows], ["1", "2", "8"])
        self.assertEqual([row["hosts"] for row in rows], ["1", "1", "4"])
        self.assertEqual(float(rows[0]["efficiency"]), 1)
        self.assertIn("<svg", svg.read_text())
        strong = json.loads(self.result(*shared, "--strong", "--json"))["points"]
        self.assertLess(strong[2]["step_ms"]["median"], strong[0]["step_ms"]["median"] / 4)
        self.assertTrue(any("times smaller" in w for w in strong[2]["warnings"]) or strong[2]["efficiency"] < 1)
        self.assertIn("EFFICIENCY", self.result(*shared))
        self.assertIn("found 3, expected a multiple of", self.refusal(*shared[:3], "--ranks", "3", *shared[5:]))

    @with_lab
    def test_two_gpus_are_taken_apart(self) -> None:
        fit = json.loads(self.result("gpus", "--table", LAB / "gpu-profiles" / "one_and_two_gpus.csv", "--json"))[
            "fits"
        ][0]
        self.assertLess(fit["largest_error"], 0.01)
        self.assertGreater(fit["largest_error_by_halving"], 0.12)
        text = self.result("gpus", "--table", LAB / "gpu-profiles" / "one_and_two_gpus.csv")
        self.assertIn("REPLICATE, REDUCE", text)

    @with_lab
    def test_figures_are_written_as_csv_and_svg(self) -> None:
        for figure, plots in ((3, 1), (4, 2), (5, 4), (6, 1), (9, 2)):
            output = self.folder / f"figures-{figure}"
            tables = LAB / ("gpu-profiles" if figure == 9 else "stalls")
            text = self.result("stalls", "--figure", str(figure), "--data", tables, "--output", output)
            self.assertEqual(len(list(output.glob("*.svg"))), plots)
            text_of_csv = (output / f"figure{figure}.csv").read_text(encoding="utf-8")
            rows = list(csv.DictReader(io.StringIO(text_of_csv)))
            self.assertLessEqual({row["origin"] for row in rows}, {"measured", "redrawn", "predicted"})
            if figure in (4, 5, 9):
                self.assertIn("mean error", text)
        self.assertIn(
            "found no", self.refusal("stalls", "--figure", "3", "--data", self.folder, "--output", self.folder / "x")
        )

    def test_a_predicted_timeline_reads_as_a_recorded_one(self) -> None:
        trace = self.folder / "predicted.json.gz"
        self.run_json("--hosts", "2", "--ranks-per-host", "2", *LINKS, "--trace", trace)
        shown = call("nmt", "trace", "timeline", trace, "--json", check=True)
        summary = json.loads(shown.stdout)
        self.assertEqual((summary["updates"], len(summary["ranks"])), (20, 4))
        predicted = self.run_json("--hosts", "2", "--ranks-per-host", "2", *LINKS)
        for rank in summary["ranks"]:
            self.assertAlmostEqual(rank["total_ms"], 20 * predicted["step_ms"]["mean"], 0)
            self.assertAlmostEqual(
                rank["exposed_communication_ms"], 20 * predicted["parts"]["exposed_communication_ms"], 0
            )

    def prepared(self) -> Path:
        train, valid = (toy_corpus(self.folder, lines, seed) for lines, seed in ((400, 1), (20, 2)))
        prepare(self.folder / "data", train, valid, "--vocabulary-size", 120)
        return self.folder / "data"

    def test_real_updates_of_a_prepared_folder(self) -> None:
        data = self.prepared()
        self.record = self.folder / "published.json"
        made = ("--compute-ms", "50", "--size", "200", "--parameters", "1000", "--output", self.record)
        self.result("record", *made)
        found = self.run_json("--hosts", "2", *LINKS, "--data", data, "--epochs", "2")
        self.assertGreater(found["updates"], 2)
        self.assertGreater(found["waiting_for_slowest_ms"], 0, "sentences are not cut, so ranks differ")

    def test_a_record_of_this_machine(self) -> None:
        config = self.folder / "config.yaml"
        config.write_text(CONFIG.format(self.prepared()), encoding="utf-8")
        self.record = self.folder / "own.json"
        text = self.result(
            "record", "--config", config, "--output", self.record, "--updates", "4", "training.threads=1"
        )
        crowded = self.folder / "crowded.json"
        self.result("record", "--config", config, "--output", crowded, "--updates", "2", "--neighbours", "2")
        self.assertEqual(json.loads(crowded.read_text())["neighbours"], 2)
        self.assertIn("tiny on ", text)
        record = json.loads(self.record.read_text())
        self.assertEqual((record["compute_comparisons"], record["threads"]), (3, 1))
        self.assertEqual({op["phase"] for op in record["ops"]}, {"forward", "backward", "optimizer"})
        self.assertEqual(len(record["jitter"]), 4)
        one = self.run_json("--data", self.folder / "data")
        self.assertGreater(one["parts"]["backward_ms"], 0)
        two = self.run_json("--hosts", "2", *LINKS)
        self.assertGreater(two["communication_ms"], 0)
        self.assertAlmostEqual(two["host_megabytes"], record["parameters"] * 4e-6, 6)
        self.assertIn(
            "expected 1 among them", self.refusal("record", "--config", config, "--output", self.record, "--sizes", "2")
        )
        self.assertIn(
            "found 'x'", self.refusal("record", "--config", config, "--output", self.record, "--sizes", "1,x")
        )

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is missing")
    def test_a_link_between_two_ranks_of_this_host(self) -> None:
        link = json.loads(self.result("link", "--megabytes", "4", "--repeats", "3", "--json"))
        self.assertGreater(link["gbit_per_s"], 0)
        self.assertGreater(link["latency_us"], 0)
        self.assertGreater(link["busy_ms_per_gb"], 0)
        self.assertEqual(link["large_mb"], 4)
        self.run_json("--ranks-per-host", "2", "--inside", link["link"])
        self.assertIn("expected two, such as hostA,hostB", self.refusal("link", "--hosts", "a"))

    def write_run(self, ranks: int, updates: int, name: str = "run", slower: float = 0) -> Path:
        """Spools of a run whose ranks, each on a host, took 20 + 40 + 6 ms for an update, and `slower` ms more."""
        run = self.folder / f"{name}-{ranks}-{updates}"
        spool = run / "spool" / "attempt-1"
        spool.mkdir(parents=True)
        for rank in range(ranks):
            header = {"run": "r_" + "0" * 26, "attempt": 1, "rank": rank, "host": f"host{rank}", "kind": "step"}
            parts = {"step_ms": 66 + slower, "forward_ms": 20 + slower, "backward_ms": 40, "other_ms": 6}
            parts["target_tokens"] = 200
            lines = [header | {"sequence": u, "update": u, "time_ms": u} | parts for u in range(1, updates + 1)]
            started = {
                "kind": "lifecycle",
                "event": "started",
                "parameters": 1000,
                "sequence": updates + 1,
                "time_ms": 1,
            }
            lines += [header | started] if rank == 0 else []
            (spool / f"rank-{rank}.jsonl").write_text(
                "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
            )
        return run

    def test_predictions_are_compared_with_runs(self) -> None:
        record, calibrated = self.folder / "published.json", self.folder / "calibrated.json"
        self.result("record", "--compute-ms", "60", "--size", "200", "--parameters", "1000", "--output", record)
        runs = (self.write_run(1, 20), self.write_run(2, 20))
        shared = ("compare", "--record", record, "--between", "inf", "--measured", *runs)
        found = json.loads(self.result(*shared, "--json", "--output", calibrated))
        self.assertEqual([run["hosts"] for run in found["runs"]], [1, 2])
        self.assertAlmostEqual(found["mean_error"], 6 / 66, 6)
        self.assertEqual(found["runs"][0]["parts"]["backward_ms"], {"measured": 40, "predicted": 40})
        self.assertIn("error of the step: mean 9.1 %, largest 9.1 %, 2 runs", self.result(*shared))
        self.record = calibrated
        self.assertEqual(self.run_json()["step_comparisons"], 2)
        self.assertEqual(self.run_json()["step_ranks"], 2)
        text = "64 ranks, but the error rests on runs of up to 2: it may be larger"
        self.assertIn(text, self.run_json("--hosts", "64", "--between", "inf")["warnings"])
        scaled = self.result("scale", "--record", calibrated, "--ranks", "2,64", "--between", "inf")
        self.assertIn(f"warning, 64 ranks: {text}", scaled)
        self.assertNotIn("warning, 2 ranks: 2 ranks", scaled)
        self.assertIn("± 9.1 % (2 comparisons with runs)", self.result("run", "--record", calibrated))
        (self.folder / "latest").symlink_to(runs[1])
        again = self.call(*shared, self.folder / "latest", f"{self.folder}/./{runs[0].name}")
        self.assertIn("largest 9.1 %, 2 runs", again.stdout)
        self.assertEqual(again.stderr.count("again and counts once"), 2, again.stderr)
        (runs[1] / "config.yaml").write_text("name: toy\ntraining:\n  device: emulated\n", encoding="utf-8")
        self.assertIn("the run was emulated, expected a real one", self.refusal(*shared))
        self.assertIn("2 runs", self.result(*shared, "--emulated"))
        short = self.write_run(1, 10)
        self.assertIn("found 7 updates", self.refusal("compare", "--record", record, "--measured", short))
        self.assertIn(
            "expected the folder of a run",
            self.refusal("compare", "--record", record, "--measured", self.folder / "absent"),
        )

    def test_a_record_of_another_model_task_or_precision_is_refused(self) -> None:
        record, run = self.folder / "published.json", self.write_run(1, 20)
        self.result("record", "--compute-ms", "60", "--size", "200", "--parameters", "1000", "--output", record)
        shared = ("compare", "--record", record, "--measured", run)
        (run / "config.yaml").write_text("task: gssm\ntraining:\n  precision: f32\n", encoding="utf-8")
        self.assertIn("1 run", self.result(*shared))
        made = json.loads(record.read_text(encoding="utf-8"))
        for changed, words in (
            ({"task": "translation"}, "the record is of task translation, the run of task gssm"),
            ({"precision": "bf16"}, "the record is of precision bf16, the run of f32"),
            ({"parameters": 2000}, "the record is of a model with 2,000 parameters, the run's has 1,000"),
        ):
            record.write_text(json.dumps(made | changed), encoding="utf-8")
            refused = self.refusal(*shared)
            self.assertIn(words, refused)
            self.assertIn(str(run), refused)

    def test_each_setting_is_predicted_from_the_others(self) -> None:
        record, calibrated = self.folder / "published.json", self.folder / "calibrated.json"
        self.result("record", "--compute-ms", "60", "--size", "200", "--parameters", "1000", "--output", record)
        for number in range(3):
            self.write_run(2, 20, f"setting-{number}/pair", 12 + number)
        self.write_run(2, 20, "setting-2/again", 15)
        settings = [self.folder / f"setting-{number}" for number in range(3)]
        shared = ("compare", "--leave-one-out", "--record", record, "--between", "inf", "--measured")
        found = json.loads(self.result(*shared, *settings, "--json", "--output", calibrated))
        self.assertEqual([run["runs"] for run in found["runs"]], [1, 1, 2])
        self.assertLess(found["largest_error"], 0.04)
        self.assertAlmostEqual(found["calibration"]["crowding"], 79 / 60, 1)
        self.assertIn("3 settings, each predicted from the others", self.result(*shared, *settings))
        self.assertRegex(
            self.result("run", "--record", calibrated, "--hosts", "2", "--between", "inf"),
            r"\(3 comparisons with runs\)",
        )
        self.assertIn("found 2 settings in --measured, expected at least 3", self.refusal(*shared, *settings[:2]))
        run = settings[0] / "pair-2-20"
        (run / "between.json").write_text('{"rate": 1}', encoding="utf-8")
        self.assertIn("between.json: found no member link", self.refusal(*shared, *settings))
        (run / "between.json").write_text('{"link": "1gbit,50us"}', encoding="utf-8")
        slow = json.loads(self.result(*shared, *settings, "--json"))
        self.assertGreater(slow["runs"][0]["predicted_ms"], found["runs"][0]["predicted_ms"])
        (run / "rank.json").write_text(self.record.read_text(encoding="utf-8"), encoding="utf-8")
        self.assertIn("its sizes are images, expected target tokens", self.refusal(*shared, *settings))

    def test_a_slow_storage_serves_every_byte(self) -> None:
        """The order of an epoch is made of the lengths of sentences: reading them is charged, too."""

        def bytes_read() -> int:
            return int(re.search(r"^read_bytes: (\d+)", Path("/proc/self/io").read_text("utf-8"), re.MULTILINE)[1])

        data, output = self.prepared(), self.folder / "slow"
        files = [data / "train.source.ids", data / "train.target.ids"]
        for file in files:
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                before = bytes_read()
                stream.read()
            if bytes_read() == before:
                self.skipTest("reads of this file system are not counted")
        own = ("stalls", "--own", "--data", data, "--output", output, "--workers", "1", "--cached", "0,0")
        self.result(*own, "--compute-ms", "0", "--tokens-per-update", "400", "--read-rate", "0.05MB")
        rows = list(csv.DictReader(io.StringIO((output / "own.csv").read_text(encoding="utf-8"))))
        parts = [float(row["value"]) for row in rows if row["category"] == "0 %"]
        self.assertEqual(len(parts), 6, "three parts of two epochs")
        for epoch in (parts[:3], parts[3:]):
            self.assertGreater(sum(epoch), 0.9 * sum(file.stat().st_size for file in files) / 50_000)

    def test_our_own_stalls_are_measured(self) -> None:
        output, data = self.folder / "own", self.prepared()
        own = ("stalls", "--own", "--data", data, "--output", output)
        few = ("--workers", "1,2", "--cached", "0,1", "--compute-ms", "1", "--tokens-per-update", "400")
        text = self.result(*own, *few, "--read-rate", "50MB")
        self.assertIn("found cached by mincore", text)
        rows = list(csv.DictReader(io.StringIO((output / "own.csv").read_text(encoding="utf-8"))))
        self.assertEqual({row["group"] for row in rows}, {"1 worker", "2 workers"})
        self.assertEqual({row["category"] for row in rows}, {"0 %", "100 %"})
        for row in rows:
            self.assertEqual(row["origin"], "measured")
            self.assertGreaterEqual(float(row["value"]), 0)
            if row["part"] == "compute":
                self.assertGreater(float(row["value"]), 0.005, "several updates of 1 ms")
            if row["part"] == "fetch stall" and row["category"] == "100 %":
                self.assertEqual(float(row["value"]), 0)
        self.assertEqual(len(list(output.glob("own-*.svg"))), 2)
        self.assertIn("--cached: found '2', expected fractions from 0 to 1", self.refusal(*own, "--cached", "0,2"))
        self.assertIn("--workers: found '0'", self.refusal(*own, "--workers", "0"))
        self.assertIn("--read-rate: found '0MB'", self.refusal(*own, "--read-rate", "0MB"))
        self.assertIn("expected one of --figure and --own, found both", self.refusal(*own, "--figure", "3"))
        self.assertIn("expected one of --figure and --own, found none", self.refusal(own[0], *own[2:]))

    def test_our_own_stalls_are_measured_on_sequences(self) -> None:
        config, data, output = self.folder / "gssm.yaml", self.folder / "sequences", self.folder / "own"
        config.write_text(GENERATOR, encoding="utf-8")
        call("nmt", "gssm", "data", "--config", config, "--output", data, "--train", 40, "--test", 4, check=True)
        few = ("--workers", "1", "--cached", "1", "--compute-ms", "1", "--tokens-per-update", "256")
        text = self.result("stalls", "--own", "--data", data, "--output", output, *few)
        self.assertIn("found cached by mincore", text)
        rows = list(csv.DictReader(io.StringIO((output / "own.csv").read_text(encoding="utf-8"))))
        [compute] = [float(row["value"]) for row in rows if row["part"] == "compute"]
        self.assertGreater(compute, 0.009, "ten updates of 1 ms")

    def test_bad_inputs_are_refused_with_one_line(self) -> None:
        run = ("run", "--record", self.record, "--hosts", "2")
        self.assertIn("--between: expected the link between hosts", self.refusal(*run))
        self.assertIn("--between: found '0gbit', expected a rate above 0", self.refusal(*run, "--between", "0gbit"))
        self.assertIn("--hosts", self.refusal("run", "--record", self.record, "--hosts", "0"))
        self.assertIn("--ranks-per-host", self.refusal("run", "--record", self.record, "--ranks-per-host", "0"))
        self.assertIn(
            "--inside: found '0MB/s,5us', expected a rate above 0",
            self.refusal("run", "--record", self.record, "--ranks-per-host", "2", "--inside", "0MB/s,5us"),
        )
        self.assertIn(
            "--ranks: found '0', expected numbers from 1 to 1000000",
            self.refusal("scale", "--record", self.record, "--ranks", "0,2", *LINKS),
        )
        self.assertIn(
            "--data: the record's sizes are images", self.refusal("run", "--record", self.record, "--data", self.folder)
        )
        self.assertIn("--epochs: expected --data", self.refusal("run", "--record", self.record, "--epochs", "1"))
        for change, message in (
            ({"colour": 1}, "colour: unknown member"),
            ({"format": "babelring-rank-record-9"}, "format: found 'babelring-rank-record-9'"),
            ({"size": 0}, "size: found 0"),
        ):
            wrong = self.folder / "wrong.json"
            wrong.write_text(json.dumps(json.loads(self.record.read_text()) | change), encoding="utf-8")
            self.assertIn(f"wrong.json: {message}", self.refusal("run", "--record", wrong))
        table = ("record", "--output", self.folder / "x.json", "--from-table", self.table)
        self.assertIn("expected --gpu and --model", self.refusal(*table))
        self.assertIn(
            "expected one of the table's, p100, v100", self.refusal(*table, "--gpu", "k80", "--model", "resnet18")
        )
        self.assertIn("did you mean 'resnet18'?", self.refusal(*table, "--gpu", "v100", "--model", "resnet81"))
        self.assertIn(
            "expected one of --config, --from-table and --compute-ms, found 0",
            self.refusal("record", "--output", self.folder / "x.json"),
        )
        self.assertIn(
            "expected LOW-HIGH", self.refusal("record", "--output", self.folder / "x.json", "--compute-ms", "5-3")
        )

    def test_rows_without_a_time_and_far_sizes_are_warned_of(self) -> None:
        table = self.folder / "table.csv"
        table.write_text("gpu,model,batch,transfer_ms,compute_ms\nk80,a,64,3,100\nk80,a,128,3,N/A\n", encoding="utf-8")
        record = self.folder / "a.json"
        shared = ("record", "--from-table", table, "--gpu", "k80", "--model", "a", "--output", record, "--batch", "256")
        done = self.call(*shared)
        self.assertEqual((done.returncode, done.stderr), (0, "warning: 1 rows have no compute time and are left out\n"))
        self.record = record
        warnings = "\n".join(self.run_json()["warnings"])
        self.assertIn("size 256 is 4.0 times the largest recorded one, 64", warnings)
        self.assertIn("one batch size only", warnings)
        self.assertIn("the error of the compute times is unknown", warnings)
        self.assertIn("make it with --parameters", self.refusal("run", "--record", record, "--hosts", "2", *LINKS))


if __name__ == "__main__":
    unittest.main()
