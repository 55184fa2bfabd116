"""Tests of scripts/gpu_check.sh and gpu_bundle.sh, with small programs in place of the real ones and no GPU."""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "gpu"))

import bundle  # noqa: E402
import main as gpu_main  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import stage  # noqa: E402
import tests as test_parts  # noqa: E402
import training  # noqa: E402

FAKES = (*bundle.PROGRAMS, "mpirun", "compute-sanitizer", "torch_python")
# The check with a GPU that is not there.
WITH_A_GPU = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "scripts" / "gpu")!r})
import machine
machine.count_gpus = lambda: (int(os.environ.get("FAKE_GPUS", "1")), "")
machine.loopback_is_up = lambda: os.environ.get("FAKE_LOOPBACK") != "down"
import main, report
def no_space(path, text):
    raise OSError(28, "No space left on device", str(path))
if os.environ.get("FAKE_FULL_DISK"):
    report.replace_file = no_space
main.main()
"""


def runs(process: int) -> bool:
    """Not ended, whether or not anybody has asked how."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Check(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        text = (ROOT / "scripts" / "tests" / "fake_gpu_programs.py").read_text(encoding="utf-8")
        (self.folder / "bin").mkdir()
        for name in FAKES:
            (self.folder / "bin" / name).write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
            (self.folder / "bin" / name).chmod(0o755)
        for name in ("multi30k", "tatoeba", "wmt"):
            (self.folder / "data" / name).mkdir(parents=True)
            (self.folder / "data" / name / "manifest.json").write_text("{}", encoding="utf-8")

    def start(self, words: str, gpu: bool = True, **fakes: str) -> subprocess.Popen[str]:
        """The check with options; FAULT="worker" is FAKE_FAULT."""
        program = [sys.executable, "-c", WITH_A_GPU] if gpu else [str(ROOT / "scripts" / "gpu_check.sh")]
        environment = os.environ | {f"FAKE_{name}": value for name, value in fakes.items()}
        environment |= {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        environment["TMPDIR"] = str(self.folder)  # a killed check leaves its files
        places = ["--bin", self.folder / "bin", "--data", self.folder / "data", "--out", self.out]
        return subprocess.Popen(
            [*program, *places, "--torch-python", self.folder / "bin" / "torch_python", *words.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def check(
        self,
        words: str,
        code: int,
        states: dict[str, str] | None = None,
        found: dict[str, str] | None = None,
        **fakes: Any,
    ) -> tuple[str, str, dict]:
        """Runs a check that ends with the code, whose parts have the states and say what was found. Output, errors, results."""
        process = self.start(words, **fakes)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, code, errors)
        whole = self.results()
        parts = {part["part"]: part for part in whole.get("parts", [])}
        for name, state in (states or {}).items():
            self.assertEqual(parts[name]["status"], state, name)
        for name, text in (found or {}).items():
            self.assertIn(text, parts[name]["found"])
        return output, errors, whole

    def results(self) -> dict:
        """The content of the file that the check writes; empty without a file."""
        file = self.out / "gpu_check.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def tables(self) -> str:
        return (self.out / "gpu_check.md").read_text(encoding="utf-8")

    def log(self) -> str:
        return (self.out / "gpu_check.log").read_text(encoding="utf-8")

    def wait_for(self, process: subprocess.Popen[str], reached: Callable[[dict], bool]) -> None:
        end = time.monotonic() + 120
        while not reached(whole := self.results()):
            self.assertIsNone(process.poll(), "the check has ended")
            self.assertLess(time.monotonic(), end, whole)
            time.sleep(0.02)

    def test_every_part_passes_and_is_reported(self) -> None:
        output, _, whole = self.check("", 0)
        others = [
            (part["part"], part["status"], part["found"]) for part in whole["parts"] if part["status"] != "passed"
        ]
        self.assertEqual(others, [("all_reduce", "missing", "skipped: there is one GPU, and each rank needs its own")])
        for line in (
            "29 passed, 0 failed, 0 cut short, 1 missing",
            "1 tests passed, 0 failed, 1 skipped (a second GPU is needed)",
            "2 tests in 2 suites passed, 0 failed, 2 skipped (a second GPU is needed)",
            "base | ours | 700,000",
            "ms of forward and backward of sentences of 2048: flash 0.50 and 1.20",
            "| 2048 | flash | 500.0 | 1,200.0 | 3.0e-03 |",
            "| 2048 | cudnn | RuntimeError: no kernel | - | - |",
            "2 products, each once: 0.60 ms, by cuBLASLt's first proposals 0.80 ms; 1 without their epilogue: bias and ReLU",
            "| x W^T 25600x2048x512 bf16 | bias and ReLU: MISSING | 1.50 | 400.0 | 300.0 | algorithm 66, tile 21 |",
        ):
            self.assertIn(line, output)
        self.assertNotIn("adam_update", output.split("## Bars")[0])
        self.assertIn("| adam_update f32 10000000 in f32 | 100.0 |", self.tables())
        bars = {
            "transformer-base, target tokens/s": "no",
            "transformer-base, beside PyTorch compiled": "yes",
            "transformer-big, share of the measured peak": "no",
            "embedding_backward bf16 of base, ms": "yes",
            "an update's time that no part has": "yes",
        }
        self.assertEqual({bar["what"]: bar["reached"] for bar in whole["bars"]}, bars)
        self.assertTrue((self.out / "rows" / "ops-by-matmuls.jsonl").exists())
        self.assertIn("== ranks: mpirun", self.log())

    def test_several_gpus_sum_gradients(self) -> None:
        sums = {"all_reduce": "4 ranks, GB/s of a bus: nccl 150.00, ring 6.50"}
        self.check("--only all_reduce", 0, {"all_reduce": "passed"}, sums, GPUS="4")
        self.assertIn("-np 4", self.log())
        self.assertIn("bench_all_reduce --device cuda", self.log())
        self.assertIn("| nccl | 100.00 | 4.00 | 1.000 | 150.00 |", self.tables())

    def test_a_faulty_program_fails_its_part(self) -> None:
        for fault, part, said in (
            ("worker", "determinism", "after update 1"),
            ("worker", "exchange", "expected 1e-4"),
            ("nmt", "multi30k", "expected 37"),
            ("bench_ops", "ops", "off by more"),
            ("bench_ops case", "hot_ops", "dropout bf16: cuda: an illegal memory access"),
            ("bench_ops product", "products", "logits of big: cuda: a matmul"),
            ("bench_train_step", "graphs", "with CUDA graphs"),
            ("crash of test_ops", "test_ops", "Gpu/LinearTest.: test_ops: signal SIGABRT"),
            ("torch_python", "torch_base", "no kernel for this device"),
            ("torch_python", "torch", "no kernel"),
            ("torch_python", "torch_attention", "no kernel for this device"),
            ("bench_decode", "decode multi30k", "expected 1e-3"),
            ("compute-sanitizer", "sanitizer", "racecheck Gpu/AdamTest"),
            ("backends", "backends", "differ from the same inputs: fill.y f32"),
        ):
            with self.subTest(fault=fault, part=part):
                name = part.split()[0]
                self.check(f"--only {part}", 1, {name: "failed"}, {name: said}, FAULT=fault)

    def test_a_failure_stops_no_other_part(self) -> None:
        states = {"test_ops": "failed", "test_layers": "passed", "multi30k": "passed", "decode": "passed"}
        output, _, whole = self.check("--only test_ops test_layers decode multi30k", 1, states, FAULT="test_ops")
        self.assertEqual(len(whole["parts"]), len(states))
        self.assertIn("Breaks/cuda_bf16", output)

    def test_no_part_begins_when_its_time_would_not_do(self) -> None:
        cut = {"determinism": "cut short"}  # code 1: nothing has passed
        self.check("--only start determinism decode --minutes 0.3", 1, cut, {"determinism": "not run"})

    def test_first_runs_only_the_deciding_parts(self) -> None:
        _, _, whole = self.check("--first", 0)
        names = [part["part"] for part in whole["parts"]]
        self.assertEqual(set(names[1:3]), {"test_ops", "compile_base"}, "at once")
        self.assertEqual(names[:1] + names[3:], ["start", "updates", "products", "hot_ops", "torch_base"])
        self.assertEqual([row["preset"] for row in whole["parts"][3]["figures"]["rows"]], ["base", "big", "tiny"])

    def test_a_killed_check_keeps_its_measurements(self) -> None:
        for part, fault in (("hot_ops", "hang of bench_ops"), ("torch_base", "hang of torch_python")):
            with self.subTest(part):
                process = self.start(f"--only updates {part}", FAULT=fault)
                states = ["passed", "running"]
                self.wait_for(process, lambda whole: [one["status"] for one in whole.get("parts", [])] == states)
                process.kill()
                process.communicate()
                updates, running = self.results()["parts"]
                self.assertEqual((len(updates["figures"]["rows"]), running["status"]), (3, "running"))
                self.assertIn("base | ours | 700,000", self.tables())

    def test_sigterm_ends_it_with_all_that_was_measured(self) -> None:
        process = self.start("--only updates hot_ops decode", FAULT="hang of bench_ops")
        rows = self.out / "rows" / "hot_ops.jsonl"
        self.wait_for(process, lambda _: rows.exists() and rows.read_text(encoding="utf-8").endswith("\n"))
        process.terminate()
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 143, errors)
        parts = self.results()["parts"]
        self.assertEqual([one["status"] for one in parts], ["passed", "cut short", "cut short"])
        self.assertEqual(len(parts[1]["figures"]["rows"]), 1, "written before the end")
        self.assertIn("1 passed, 0 failed, 2 cut short", output)

    def test_one_suite_that_hangs_is_named_beside_those_that_pass(self) -> None:
        states = {"test_ops": "cut short", "updates": "passed"}
        late = {"test_ops": "2 suites not finished in time: Gpu/AdamTest., Gpu/LinearTest."}
        self.check("--only test_ops updates --minutes 0.65", 0, states, late, FAULT="hang of test_ops")

    def test_a_full_output_folder_loses_no_result_that_is_printed(self) -> None:
        self.out.mkdir()
        output, errors, whole = self.check("--only updates determinism", 1, FULL_DISK="1")
        self.assertEqual(whole, {})
        self.assertIn("base | ours | 700,000", output)
        self.assertIn("2 passed", output)
        self.assertEqual(errors.count("No space left on device"), 1, "told once")

    def test_without_loopback_the_check_says_so(self) -> None:
        self.check("--only start", 1, found={"start": "the loopback interface is down"}, LOOPBACK="down")

    def test_a_missing_part_is_no_failure_beside_those_that_pass(self) -> None:
        shutil.rmtree(self.folder / "data" / "wmt")
        (self.folder / "bin" / "bench_decode").unlink()
        states = {"updates": "passed", "multi30k": "passed", "decode": "missing"}
        self.check("--only updates decode multi30k", 0, states, {"updates": "base: no prepared text"})
        self.assertEqual(len(self.results()["parts"]), len(states))
        shutil.rmtree(self.folder / "data" / "multi30k")
        self.check("--only updates", 1)

    def test_without_a_gpu_it_ends_with_one_line_and_code_3(self) -> None:
        if machine.count_gpus()[0] > 0:
            self.skipTest("this machine has a GPU")
        _, errors, whole = self.check("", 3, gpu=False)
        self.assertEqual((whole, len(errors.splitlines())), ({}, 1))
        self.assertIn("no GPU: ", errors)

    def test_wrong_usage_is_reported(self) -> None:
        self.assertIn("found part 'everything'", self.check("--only everything", 2, gpu=False)[1])


class Programs(unittest.TestCase):
    def test_a_bundle_comes_before_builds_for_a_gpu_and_those_before_others(self) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(gpu_main, "ROOT", pathlib.Path(folder)),
            mock.patch("sys.stderr"),
        ):
            with self.assertRaises(SystemExit):
                gpu_main.find_programs(mock.Mock(bin=None))
            for place in ("build/dev/bin", "build/gpu/bin", "bin"):
                (pathlib.Path(folder) / place).mkdir(parents=True)
                (pathlib.Path(folder) / place / "worker").touch()
                self.assertEqual(gpu_main.find_programs(mock.Mock(bin=None)), pathlib.Path(folder) / place)

    def test_children_of_a_killed_program_are_killed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            setting = mock.Mock(work=pathlib.Path(folder), environment=dict(os.environ))
            told = ""
            for seconds in (0.5, 5, 50):  # longer, where it was killed before it had said a word
                said: list[str] = []
                one = stage.Stage(setting, "part", seconds, said.append)
                with self.assertRaises(stage.Late):
                    one.run("/bin/sh", "-c", "sleep 600 & echo $!; wait")
                told = said[0].splitlines()[1]
                if told.isdigit():
                    break
            end = time.monotonic() + 120
            while runs(int(told)):
                self.assertLess(time.monotonic(), end, "it lives on")
            with self.assertRaisesRegex(stage.Late, "no time was left"):
                one.run("/bin/true")

    def test_a_failure_shows_the_last_line_of_output(self) -> None:
        with self.assertRaisesRegex(stage.Failed, "worker: exit code 2: it is broken"):
            stage.Done("worker", 2, "", "begin\nit is broken\n\n", 1).require()
        with self.assertRaisesRegex(stage.Failed, "nmt: signal SIGILL"):
            stage.Done("nmt", -4, "", "", 1).require()
        with self.assertRaisesRegex(stage.Failed, "no JSON object: 'table'"):
            stage.Done("bench_ops", 0, "table\n", "", 1).json()

    def test_parallel_calls_return_results_and_exceptions(self) -> None:
        found = stage.in_parallel([lambda: 1, lambda: 1 / 0, lambda: 3], 2)
        self.assertEqual((found[0], found[2]), (1, 3))
        self.assertIsInstance(found[1], ZeroDivisionError)


class Judging(unittest.TestCase):
    def test_a_sanitizer_that_knows_no_such_device_is_missing(self) -> None:
        unknown = stage.Done("compute-sanitizer", 1, "========= Error: Device not supported", "", 1)
        with self.assertRaisesRegex(stage.Missing, "does not support"):
            test_parts.judge_sanitizer([("memcheck", "Gpu/A.")], [unknown])

    def test_suites_that_were_not_finished_are_named(self) -> None:
        work = [("memcheck", "Gpu/A."), ("memcheck", "Gpu/B.")]
        clean = stage.Done("compute-sanitizer", 0, "", "", 1)
        found, figures = test_parts.judge_sanitizer(work, [clean, stage.Late("killed")])
        self.assertEqual((figures["clean"], figures["out_of_time"]), (["memcheck Gpu/A"], ["memcheck Gpu/B"]))
        self.assertIn("1 not finished in time", found)
        with self.assertRaises(stage.Failed):
            test_parts.judge_sanitizer(work, [stage.Late("killed")] * 2)

    def test_hazards_inside_kernels_of_libraries_are_no_failure(self) -> None:
        def report(reader: str, writer: str, summary: int = 1) -> stage.Done:
            text = (
                f"========= Error: Race reported between Read access at {reader}+0xac0\n"
                f"=========     and Write access at {writer}+0x27b0 [4 hazards]\n========= \n"
                f"========= RACECHECK SUMMARY: {summary} hazards displayed ({summary} errors, 0 warnings)\n"
            )
            return stage.Done("compute-sanitizer", 86, text, "", 1)

        library = "nvjet_sm90_tss_64x8_64x16_1x1_h_bz_TNT"
        own = "void babelring::cuda::<unnamed>::sum_kernel<(int)8>(float *)"
        clean = stage.Done("compute-sanitizer", 0, "", "", 1)
        work = [("racecheck", "Gpu/A."), ("racecheck", "Gpu/B.")]
        found, figures = test_parts.judge_sanitizer(work, [clean, report(library, library)])
        self.assertEqual(figures["hazards_in_libraries"], ["racecheck Gpu/B"])
        self.assertIn("1 with hazards in kernels of libraries only", found)
        for bad in (report(library, own), report(own, own), report(library, library, summary=2)):
            with self.assertRaisesRegex(stage.Failed, "racecheck Gpu/B"):
                test_parts.judge_sanitizer(work, [clean, bad])

    def test_no_tests_and_no_gpu_are_failures(self) -> None:
        done, without = stage.Done("test_ops", 0, "", "", 1), test_parts.Counts(3, (), ("no GPU: it is gone",))
        quick, whole = (mock.Mock(setting=mock.Mock(quick=which)) for which in (True, False))
        with self.assertRaisesRegex(stage.Failed, "expected some"):
            test_parts.judge(quick, test_parts.Counts(0, (), ()), done, {})
        with self.assertRaisesRegex(stage.Failed, "expected a GPU"):
            test_parts.judge(whole, without, done, {})
        self.assertIn("3 tests passed", test_parts.judge(quick, without, done, {})[0])

    def test_the_score_wanted_grows_with_the_epochs(self) -> None:
        self.assertAlmostEqual(training.expected_bleu(2), 6.7)
        self.assertAlmostEqual(training.expected_bleu(16), 35.5)
        self.assertAlmostEqual(training.expected_bleu(99), 41.5)

    def test_only_missing_parts_are_no_success(self) -> None:
        for states, passed in (("missing",), False), (("passed", "failed"), False), (("passed", "cut short"), True):
            self.assertIs(report.all_passed({"parts": [{"status": state} for state in states]}), passed, states)


class Bundle(unittest.TestCase):
    def test_libraries_of_the_system_and_of_nvidia_stay_behind(self) -> None:
        text = (
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\tlibgomp.so.1 => /lib/libgomp.so.1 (0x3)\n"
            "\tlibcublasLt.so.13 => not found\n\tlibmpi.so.40 => /lib/libmpi.so.40 (0x4)\n\t/lib64/ld-linux-x86-64.so.2 (0x5)\n"
        )
        self.assertEqual(
            bundle.parse_ldd(text, "worker"),
            {"libgomp.so.1": pathlib.Path("/lib/libgomp.so.1"), "libmpi.so.40": pathlib.Path("/lib/libmpi.so.40")},
        )
        with self.assertRaises(SystemExit), mock.patch("sys.stderr"):
            bundle.parse_ldd("\tlibdnnl.so.2 => not found\n", "worker")

    def test_the_launcher_is_that_of_the_version(self) -> None:
        self.assertEqual(bundle.open_mpi_major("mpirun (Open MPI) 4.1.4\n\nReport bugs to …\n"), 4)
        self.assertEqual(bundle.open_mpi_major("mpirun (Open MPI) 5.0.7\n"), 5)
        for other in ("mpirun (Open MPI) 3.1.3\n", "HYDRA build details:\n", ""):
            with self.assertRaises(SystemExit), mock.patch("sys.stderr", new_callable=io.StringIO) as errors:
                bundle.open_mpi_major(other)
            self.assertIn("expected Open MPI 4 or 5\n", errors.getvalue())

    @unittest.skipUnless(shutil.which("mpirun") and shutil.which("patchelf"), "needs Debian's Open MPI and patchelf")
    def test_open_mpi_starts_programs_from_its_place_in_a_bundle(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "bundle"
            bundle.lay_programs([], out, "bin", bundle.PLUGINS_LEFT_OUT)
            daemons = {file.name for file in (out / "bin").iterdir()} - {"mpirun"}
            self.assertIn(daemons, [set(names) for names in bundle.LAUNCHERS.values()])
            moved = out.rename(pathlib.Path(folder) / "moved")
            variables = machine.environment(moved, moved / "bin", sys.executable) | {"OPAL_PREFIX": str(moved)}
            variables |= {
                "LD_DEBUG": "files",
                "LD_DEBUG_OUTPUT": f"{folder}/loaded",
                "PATH": f"{moved}/bin:/usr/bin:/bin",
            }
            command = ["mpirun", "--oversubscribe", "-np", "2", "/bin/echo", "started"]
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, done.stdout), (0, "started\n" * 2), done.stderr)
            loaded = "".join(file.read_text(errors="replace") for file in pathlib.Path(folder).glob("loaded.*"))
            its_own = set(re.findall(r"calling init: (\S*/lib(?:open-|prrte|pmix)\S*)", loaded))
            self.assertGreater(len(its_own), 0)
            self.assertEqual([file for file in its_own if not file.startswith(str(moved))], [])

    def test_a_folder_that_is_no_bundle_is_left_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "letter").write_text("dear", encoding="utf-8")
            command = [sys.executable, ROOT / "scripts" / "gpu" / "bundle.py", "--bin", folder, "--out", folder]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is no earlier bundle", done.stderr)
            self.assertTrue((pathlib.Path(folder) / "letter").exists())


if __name__ == "__main__":
    unittest.main()
