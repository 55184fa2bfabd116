"""Tests of scripts/bench.sh: the arithmetic of comparisons, and every mode with small programs in place of the real ones."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "bench"))

import comparison  # noqa: E402
import figures  # noqa: E402
import runs  # noqa: E402
import texts  # noqa: E402

# Stands for bench_train_step: prints what it was asked for, with rates by which the two sides can be told apart.
TRAIN_STEP = r"""
import json, os, sys
arguments = sys.argv[1:]
value = lambda name, default: arguments[arguments.index(name) + 1] if name in arguments else default
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0": sys.exit(0)
rate = 1000 * ranks * int(value("--threads", "2")) / (2 if {"--spool", "--lab"} & set(arguments) else 1)
print("a table")
print(json.dumps({"arguments": arguments, "ranks": ranks, "target_tokens_per_s": rate, "target_tokens_per_s_mean": rate,
                  "tokens_per_s_mean": 2 * rate if "--data" in arguments else 4 * rate, "peak_memory_bytes": 10**9,
                  "source_tokens_per_step": 1930, "target_tokens_per_step": 2040, "vocabulary": 77, "first_loss": 9.5,
                  "last_loss": 9.25, "roofline_fraction": 0.5, "step_ms": 100, "report_ms": 0.25,
                  "reporter_processor_s": 0.0035, "ops": [], "omp": os.environ.get("OMP_PROC_BIND")}))
"""
BASELINE = r"""
import json, sys
print(json.dumps({"tokens_per_s": 500, "first_loss": 9.75, "last_loss": 9.5, "arguments": sys.argv[1:]}))
"""
NMT = r"""
import pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--output") + 1])
folder.mkdir(parents=True)
(folder / "manifest.json").write_text("{}")
"""
SERVER = r"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("listening on http://127.0.0.1:4321", flush=True)
time.sleep(600)
"""


class Arithmetic(unittest.TestCase):
    def test_the_median_stands_with_its_extremes(self) -> None:
        self.assertEqual(figures.spread([3, 1, 2]), {"median": 2, "min": 1, "max": 3})
        self.assertEqual(figures.spread([4, 1, 2, 3])["median"], 2.5)

    def test_each_run_is_held_against_its_neighbour(self) -> None:
        self.assertEqual(figures.ratios([2, 9], [1, 3]), [2, 3])
        with self.assertRaises(ValueError):
            figures.ratios([1], [1, 2])

    def test_processor_times_count_a_guest_once(self) -> None:
        times = figures.ProcessorTimes.of("cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
        self.assertEqual(times, figures.ProcessorTimes(busy=73, stolen=8, all=531))

    def test_disturbance_is_the_share_of_others(self) -> None:
        before, after = figures.ProcessorTimes(100, 5, 1000), figures.ProcessorTimes(260, 15, 1200)
        found = figures.disturbance(before, after, others_seconds=0.4, ticks_per_second=100)
        self.assertAlmostEqual(found["others_busy"], 0.2)
        self.assertAlmostEqual(found["steal"], 0.05)
        self.assertEqual(figures.disturbance(before, after, -0.1, 100)["others_busy"], 0)

    def test_the_time_of_other_processes_counts(self) -> None:
        before = runs.seconds_of_other_processes()
        burn = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"]
        with subprocess.Popen(burn, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
            assert busy.stdout is not None
            busy.stdout.readline()
            others = runs.seconds_of_other_processes() - before
            busy.communicate(b"\n")
        self.assertGreaterEqual(others, 0.4)

    def test_orphans_are_waited_for(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "written"
            script = (
                f"import runs, subprocess; runs.adopt_orphans(); "
                f"subprocess.run(['sh', '-c', '(sleep 0.3; touch {file}) &'], check=True); runs.wait_for_orphans(60)"
            )
            subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT / "scripts/bench")
            self.assertTrue(file.exists())

    def test_the_last_line_must_be_an_object(self) -> None:
        self.assertEqual(figures.last_json('a table\n{"a": 1}\n'), {"a": 1})
        for output in ("", "table\n", "[1]\n"):
            with self.assertRaises(ValueError):
                figures.last_json(output)

    def test_sentences_of_one_length_hold_as_many_tokens(self) -> None:
        self.assertEqual(figures.same_length(2040, 64), 32)
        self.assertEqual(figures.same_length(3, 64), 1)


def fake_run(rate: float, others: float = 0.0) -> runs.Run:
    result = {"rate": rate, "first_loss": 2.0, "last_loss": 1.0}
    return runs.Run(result, "", others_busy=others, steal=0.0, memory_bytes=int(rate), companion_s=0.0)


class Turns(unittest.TestCase):
    def side(self, name: str, done: list[runs.Run], order: list[str]) -> comparison.Side:
        def run() -> runs.Run:
            order.append(name)
            return done.pop(0)

        return comparison.Side(name, run, lambda one: one.number("rate"), lambda one: one.memory_bytes)

    def compare(self, ours: list[runs.Run], theirs: list[runs.Run], pairs: int) -> tuple[dict, list[str]]:
        order: list[str] = []
        a, b = self.side("a", ours, order), self.side("b", theirs, order)
        with mock.patch("sys.stderr"):
            done, left_out = runs.in_turns(a.run, b.run, pairs)
        self.assertIn("ratio", comparison.table(a, b, done, "tok/s"))
        return comparison.summary(a, b, done, left_out), order

    def test_the_two_take_turns(self) -> None:
        found, order = self.compare([fake_run(6), fake_run(8), fake_run(9)], [fake_run(2), fake_run(4), fake_run(3)], 3)
        self.assertEqual(order, ["a", "b"] * 3)
        self.assertEqual(found["ratios"], [3, 2, 3])
        self.assertEqual(found["ratio"], {"median": 3, "min": 2, "max": 3})
        self.assertEqual(found["theirs"]["rate"], {"median": 3, "min": 2, "max": 4})
        self.assertEqual(found["ours"]["peak_memory_bytes"], 9)

    def test_a_disturbed_pair_is_done_again(self) -> None:
        found, _ = self.compare([fake_run(1, others=0.5), fake_run(4)], [fake_run(1), fake_run(2)], 1)
        self.assertEqual(
            (found["ratios"], found["disturbed_pairs_left_out"], found["disturbed_pairs_kept"]), ([2], 1, 0)
        )

    def test_disturbed_pairs_are_kept_and_counted_where_all_are(self) -> None:
        busy = [fake_run(rate, others=0.5) for rate in (1, 2, 3, 4)]
        found, _ = self.compare(busy, [fake_run(1) for _ in range(4)], 2)
        self.assertEqual(
            (found["ratios"], found["disturbed_pairs_left_out"], found["disturbed_pairs_kept"]), ([3, 4], 2, 2)
        )


class Modes(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, source in (
            ("bench_train_step", TRAIN_STEP),
            ("nmt", NMT),
            ("server", SERVER),
            ("baseline.py", BASELINE),
        ):
            program = self.folder / name
            program.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
            program.chmod(0o755)

    def bench(self, *arguments: str, code: int = 0) -> tuple[dict, str]:
        environment = dict(os.environ, BABELRING_BIN=str(self.folder), OMP_PROC_BIND="close")
        done = subprocess.run(
            [ROOT / "scripts" / "bench.sh", *arguments], capture_output=True, text=True, env=environment, check=False
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return (json.loads(done.stdout.splitlines()[-1]) if code == 0 else {}), done.stdout + done.stderr

    def compare(self, *arguments: str) -> dict:
        return self.bench("train-step", "--pairs", "1", *arguments)[0]

    def test_a_measurement_passes_options_on_and_reports_disturbance(self) -> None:
        found, output = self.bench("train-step", "--preset", "tiny", "--dropout", "0.2", "--", "--norm", "pre")
        self.assertIn("a table", output)
        self.assertIn("others busy", output)
        given = " ".join(found["arguments"])
        for expected in ("--preset tiny", "--dropout 0.2", "--threads 2", "--norm pre"):
            self.assertIn(expected, given)
        self.assertNotIn("--vocabulary", given)
        self.assertIsNone(found["omp"])
        self.assertIn("steal", found)

    def test_against_a_baseline(self) -> None:
        found = self.compare(
            "--against-pytorch", "--baseline", str(self.folder / "baseline.py"), "--baseline-python", sys.executable
        )
        self.assertEqual(found["ratios"], [4])
        self.assertEqual(found["theirs"]["first_and_last_loss"], [9.75, 9.5])

    def test_the_vocabulary_of_a_foreign_baseline_is_its_own(self) -> None:
        _, output = self.bench(
            "train-step",
            "--against-pytorch",
            "--baseline",
            str(self.folder / "baseline.py"),
            "--vocabulary",
            "500",
            code=1,
        )
        self.assertIn("--vocabulary: only this repository's baseline", output)

    def test_against_another_build(self) -> None:
        older = self.folder / "older"
        older.mkdir()
        program = older / "bench_train_step"
        program.write_text(f"#!{sys.executable}\n{TRAIN_STEP}".replace("rate = 1000", "rate = 400"), encoding="utf-8")
        program.chmod(0o755)
        self.assertEqual(self.compare("--against-build", str(older))["ratios"], [2.5])

    def test_ranks_against_threads(self) -> None:
        found = self.compare("--compare-ranks")
        self.assertEqual(found["ratios"], [1])
        self.assertEqual(found["last_of_ours"]["ranks"], 2)

    def test_weak_scaling_counts_tokens_of_a_rank(self) -> None:
        found = self.compare("--weak-scaling", "--sentences", "10")
        self.assertEqual(found["ratios"], [1])
        arguments = found["last_of_ours"]["arguments"]
        self.assertEqual(arguments[arguments.index("--sentences") + 1], "20")

    def test_text_against_sentences_of_one_length(self) -> None:
        source, target = self.folder / "a.en", self.folder / "a.de"
        source.write_text("a\n", encoding="utf-8")
        target.write_text("b\n", encoding="utf-8")
        work = texts.folder_for((source.resolve(), target.resolve()), 8000)
        self.addCleanup(lambda: (work / "manifest.json").unlink() or work.rmdir())
        found = self.compare("--text", f"{source},{target}")
        self.assertEqual(found["ratios"], [0.5])
        self.assertEqual(found["lengths"], {"source_length": 30, "target_length": 32})

    def test_a_prepared_folder_is_taken_as_it_is(self) -> None:
        (self.folder / "manifest.json").write_text("{}", encoding="utf-8")
        found, _ = self.bench("train-step", "--pairs", "1", "--text", str(self.folder))
        self.assertEqual(found["text"], str(self.folder))

    def test_a_text_is_two_files(self) -> None:
        _, output = self.bench("train-step", "--text", "nothing.en", code=1)
        self.assertIn("--text: found 'nothing.en', expected two files SRC,TGT or a folder of nmt prepare", output)

    def test_reporting_against_silence(self) -> None:
        found = self.compare("--metrics-cost")
        self.assertEqual(found["ratios"], [0.5])
        self.assertIn("http://127.0.0.1:4321", found["last_of_ours"]["arguments"])
        cost = {key: value["median"] for key, value in found["cost"].items()}
        self.assertEqual(cost["update_ms"], 0.25)
        self.assertAlmostEqual(cost["reporter_ms"], 0.5)  # seven updates, warm-up included
        self.assertAlmostEqual(cost["share"], (0.75 + cost["server_ms"]) / 100 / (os.cpu_count() or 1))

    def test_a_tool_of_the_lab_on_against_off(self) -> None:
        for tool in ("parameters", "timeline", "ledger"):
            with self.subTest(tool=tool):
                found = self.compare("--tracing-cost", tool)
                self.assertEqual(found["ratios"], [0.5])
                self.assertEqual(found["tool"], tool)
                arguments = found["last_of_ours"]["arguments"]
                self.assertEqual(arguments[arguments.index("--lab") + 1], tool)

    def test_a_failing_program_ends_it(self) -> None:
        (self.folder / "bench_train_step").write_text(f"#!{sys.executable}\nimport sys; sys.exit(3)", encoding="utf-8")
        self.assertIn("exit code 3", self.bench("train-step", code=1)[1])

    def test_help_behind_two_dashes_is_that_of_the_program(self) -> None:
        self.assertEqual(self.bench("train-step", "--", "--help")[0]["arguments"], ["--help"])

    def test_a_missing_program_is_reported_in_one_line(self) -> None:
        (self.folder / "bench_train_step").unlink()
        for arguments, name in (
            (["train-step"], "bench_train_step"),
            (["train-step", "--", "--help"], "bench_train_step"),
            (["ops", "--help"], "bench_ops"),
            (["all-reduce", "--", "--help"], "bench_all_reduce"),
            (["data", "--", "-h"], "bench_data"),
            (["plan", "--help"], "bench_plan"),
        ):
            with self.subTest(arguments=arguments):
                _, output = self.bench(*arguments, code=1)
                self.assertEqual(
                    output,
                    f"bench: no program {self.folder / name}; scripts/bench.sh builds it in build/bench "
                    "unless BABELRING_BIN names another folder\n",
                )

    def test_only_modes_with_programs_build(self) -> None:
        for folder in ("bench", "lib"):
            shutil.copytree(ROOT / "scripts" / folder, self.folder / "scripts" / folder)
        shutil.copy(ROOT / "scripts" / "bench.sh", self.folder / "scripts")
        cmake = self.folder / "cmake"
        cmake.write_text(f"#!/bin/sh\ntouch {self.folder}/built\n", encoding="utf-8")
        cmake.chmod(0o755)
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("BABELRING_BIN", None)
        for words, builds in (
            ("train-step --help", False),
            ("all-reduce --ranks 3 -h", False),
            ("train-step -- --help", True),
            ("ops --help", True),
            ("train-step --preset tiny", True),
        ):
            with self.subTest(words=words):
                done = subprocess.run(
                    [self.folder / "scripts" / "bench.sh", *words.split()],
                    capture_output=True,
                    text=True,
                    env=environment,
                    check=False,
                )
                self.assertEqual(
                    ((self.folder / "built").exists(), done.returncode), (builds, int(builds)), done.stderr
                )
                (self.folder / "built").unlink(missing_ok=True)

    def test_a_wrong_mode_is_refused(self) -> None:
        self.assertIn("found mode 'trainstep', expected train-step", self.bench("trainstep", code=2)[1])
        self.assertIn("found no mode", self.bench(code=2)[1])


if __name__ == "__main__":
    unittest.main()
