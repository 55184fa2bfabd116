"""Parts that run the test programs: on the GPU against the reference, and under compute-sanitizer."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import machine
from bundle import PROGRAMS
from stage import Done, Failed, Figures, Late, Missing, Stage, in_parallel

# On a GPU whatever names it; on the processor what runs on memory that is shut to the host, in a GPU's place. The module
# without a GPU, thread by thread, is slow and tested elsewhere.
NOT_EMULATED = "-*emulated*"
ON_DEVICE = "*cuda*:*Cuda*:*Gpu*:*GPU*" + NOT_EMULATED
IN_ITS_PLACE = "*closed*:*Closed*"
ROUTES = ("products", "short", "cudnn")
SANITIZED = "Gpu/*cuda*"
SANITIZER_FOUND = 86


@dataclasses.dataclass(frozen=True)
class Counts:
    passed: int
    failed: tuple[str, ...]
    skipped: tuple[str, ...]  # why


def count(file: pathlib.Path, output: str) -> Counts:
    """What a test program wrote with --gtest_output=json, and what it printed: why it skipped is there alone."""
    passed, failed = 0, []
    for suite in json.loads(file.read_text(encoding="utf-8")).get("testsuites", []):
        for test in suite["testsuite"]:
            if test.get("failures"):
                failed.append(f"{suite['name']}.{test['name']}")
            elif test.get("result") == "COMPLETED":
                passed += 1
    lines = output.splitlines()
    skipped = [why for line, why in zip(lines, lines[1:]) if line.endswith(": Skipped")]
    return Counts(passed, tuple(failed), tuple(skipped))


def run_tests(stage: Stage, program: str, tests: str, name: str, environment: dict[str, str] | None = None) -> tuple[Counts, Done]:
    report = stage.folder / f"{name}.json"
    done = stage.run(stage.setting.program(program), f"--gtest_filter={tests}", "--gtest_brief=1",
                     f"--gtest_output=json:{report}", environment=environment)
    if not report.exists():
        done.require()
        raise Failed(f"{program}: it wrote no report")
    return count(report, done.output), done


def judge(stage: Stage, counts: Counts, done: Done, figures: Figures) -> tuple[str, Figures]:
    """Where a GPU is checked, a test that finds none has found something."""
    figures |= {"passed": counts.passed, "failed": list(counts.failed), "skipped": len(counts.skipped)}
    found = f"{counts.passed} tests passed, {len(counts.failed)} failed"
    if counts.skipped:
        found += f", {len(counts.skipped)} skipped ({'; '.join(sorted(set(counts.skipped)))[:150]})"
    if counts.failed:
        raise Failed(f"{found}: {', '.join(counts.failed)[:300]}", figures)
    if not stage.setting.quick and any(why.startswith("no GPU") for why in counts.skipped):
        raise Failed(f"{found}: expected a GPU that can be used", figures)
    if done.code != 0:
        raise Failed(f"{found}, yet exit code {done.code}", figures)
    if counts.passed == 0:
        raise Failed(f"{found}: expected some", figures)
    return found, figures


def test_program(stage: Stage) -> tuple[str, Figures]:
    """The part test_NAME runs the program of that name."""
    tests = IN_ITS_PLACE if stage.setting.quick else ON_DEVICE
    if stage.name in ("test_cuda", "test_decode", "test_train"):
        tests = "*" + NOT_EMULATED  # these are small
    counts, done = run_tests(stage, stage.name, tests, "all")
    return judge(stage, counts, done, {})


def routes(stage: Stage) -> tuple[str, Figures]:
    """Attention's tests by each route."""
    tests = "*Attention*closed*" if stage.setting.quick else "Gpu/*Attention*cuda*"
    figures: Figures = {}
    found = []
    for route in ("auto",) if stage.setting.quick else ROUTES:
        counts, done = run_tests(stage, "test_ops", tests, route, {"BABELRING_CUDA_ATTENTION": route})
        figures[route] = {}
        text, _ = judge(stage, counts, done, figures[route])
        found.append(f"{route}: {text}")
    return "; ".join(found), figures


def suites(listing: str) -> list[str]:
    """Names of test suites in the output of --gtest_list_tests."""
    return [line.split("#")[0].strip() for line in listing.splitlines() if line and not line.startswith((" ", "Running"))]


def sanitizer(stage: Stage) -> tuple[str, Figures]:
    """Ops' tests, a suite a process: first all for memory, then all for races in shared memory."""
    tool = machine.find_tool("compute-sanitizer")
    if tool is None:
        raise Missing("no compute-sanitizer")
    if stage.setting.quick:
        raise Missing("compute-sanitizer is for GPUs")
    program = stage.setting.program("test_ops")
    listed = suites(stage.run(program, f"--gtest_filter={SANITIZED}", "--gtest_list_tests").require().output)
    work = [(kind, suite) for kind in ("memcheck", "racecheck") for suite in listed]

    def check(kind: str, suite: str) -> Done:
        return stage.run(tool, "--tool", kind, "--error-exitcode", SANITIZER_FOUND, program,
                         f"--gtest_filter={suite}*cuda*", "--gtest_brief=1")

    results = in_parallel([lambda one=one: check(*one) for one in work], 4)
    return judge_sanitizer(work, results)


def judge_sanitizer(work: list[tuple[str, str]], results: list[Done | Exception]) -> tuple[str, Figures]:
    """Suites for which the time did not last are named, and are no failure where others were checked."""
    clean, late, bad = [], [], []
    for (kind, suite), result in zip(work, results):
        name = f"{kind} {suite.removesuffix('.')}"
        if isinstance(result, Late):
            late.append(name)
        elif isinstance(result, Exception):
            bad.append(f"{name}: {result}")
        elif result.code == 0:
            clean.append(name)
        else:
            errors = [line for line in result.output.splitlines() if "=========" in line]
            bad.append(f"{name}: exit code {result.code}, {errors[0] if errors else result.output[-200:]}")
    figures: Figures = {"clean": clean, "out_of_time": late, "errors": bad}
    found = f"{len(clean)} suites clean, {len(bad)} with errors, {len(late)} not finished in time"
    if bad:
        raise Failed(f"{found}: {bad[0][:300]}", figures)
    if not clean:
        raise Failed(f"{found}: expected some", figures)
    return found, figures


def start(stage: Stage) -> tuple[str, Figures]:
    """Every program starts: no library is missing, and the processor knows the instructions."""
    names = [name for name in PROGRAMS if (stage.setting.programs / name).is_file()]
    for name in names:
        flag = "--gtest_list_tests" if name.startswith("test_") else "--help"
        stage.run(stage.setting.program(name), flag, most=60).require()
    figures: Figures = {"version": stage.run(stage.setting.program("nmt"), "--version").require().output.strip()}
    stage.run("mpirun", "--oversubscribe", "-np", 2, stage.setting.program("nmt"), "--version", most=60).require()
    return f"{len(names)} programs start, {figures['version']}, mpirun starts two", figures
