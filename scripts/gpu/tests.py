"""Parts that run the test programs: on the GPU against the reference, and under compute-sanitizer."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import threading

import machine
from bundle import PROGRAMS
from stage import Done, Failed, Figures, Late, Missing, Stage, flags, in_parallel

# On a GPU whatever names it; on the processor what runs on memory that is shut to the host, in a GPU's place. The module
# without a GPU, thread by thread, is slow and tested elsewhere.
NOT_EMULATED = "-*emulated*"
ON_DEVICE = "*cuda*:*Cuda*:*Gpu*:*GPU*" + NOT_EMULATED
IN_ITS_PLACE = "*closed*:*Closed*"
ROUTES = ("auto", "matmuls")
SANITIZED = "Gpu/*cuda*"
SANITIZER_FOUND = 86
LIBRARY_KERNELS = ("nvjet_",)  # beginnings of the names of cuBLASLt's kernels, in which racecheck reports hazards


@dataclasses.dataclass(frozen=True)
class Counts:
    passed: int
    failed: tuple[str, ...]
    skipped: tuple[str, ...]  # why


def count(file: pathlib.Path, output: str) -> Counts:
    """Counts results in the file of --gtest_output=json. Reasons for skips are only in the program's output."""
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


def run_tests(
    stage: Stage, program: str, tests: str, name: str, environment: dict[str, str] | None = None
) -> tuple[Counts, Done]:
    report = stage.folder / f"{name}.json"
    done = stage.run(
        stage.setting.program(program),
        f"--gtest_filter={tests}",
        "--gtest_brief=1",
        f"--gtest_output=json:{report}",
        environment=environment,
    )
    if not report.exists():
        done.require()
        raise Failed(f"{program}: it wrote no report")
    return count(report, done.output), done


def judge(stage: Stage, counts: Counts, done: Done, figures: Figures) -> tuple[str, Figures]:
    """Raises Failed for failed tests, and, unless in quick mode, for tests that were skipped because they found no GPU."""
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
    """Runs the test program with the name of the part."""
    tests = IN_ITS_PLACE if stage.setting.quick else ON_DEVICE
    if stage.name in ("test_cuda", "test_decode", "test_metering", "test_parallel", "test_train"):
        tests = "*" + NOT_EMULATED  # these are small
    counts, done = run_tests(stage, stage.name, tests, "all")
    return judge(stage, counts, done, {})


def tests_by_suite(listing: str) -> dict[str, list[str]]:
    """Parses the output of --gtest_list_tests. Names of suites end with a dot."""
    found: dict[str, list[str]] = {}
    suite = ""
    for line in listing.splitlines():
        name = line.split("#")[0].strip()
        if not name or line.startswith("Running"):
            continue
        if line.startswith(" "):
            found[suite].append(name)
        else:
            suite = name
            found[suite] = []
    return found


def suites_of_ops(stage: Stage) -> tuple[str, Figures]:
    """Runs the tests of ops in memory that is NaN until it is written, one suite per process, so that a suite that breaks
    the device fails alone."""
    tests = IN_ITS_PLACE if stage.setting.quick else ON_DEVICE
    program = stage.setting.program("test_ops")
    listed = tests_by_suite(stage.run(program, f"--gtest_filter={tests}", "--gtest_list_tests").require().output)
    figures: Figures = {"passed": 0, "skipped": 0, "failed": [], "clean": [], "out_of_time": []}
    why_skipped: set[str] = set()
    lock = threading.Lock()

    def one(number: int, suite: str, names: list[str]) -> None:
        try:
            counts, done = run_tests(
                stage,
                "test_ops",
                ":".join(suite + name for name in names),
                f"suite-{number}",
                {"BABELRING_CUDA_POISON": "1"},
            )
            failed = list(counts.failed) or ([f"{suite}: exit code {done.code}"] if done.code != 0 else [])
        except Late:
            with lock:
                figures["out_of_time"].append(suite)
            return
        except Failed as failure:
            counts, failed = Counts(0, (), ()), [f"{suite}: {failure}"]
        with lock:
            figures["passed"] += counts.passed
            figures["skipped"] += len(counts.skipped)
            figures["failed"] += failed
            why_skipped.update(counts.skipped)
            if not failed:
                figures["clean"].append(suite)
            stage.keep(figures)

    results = in_parallel(
        [lambda number=number, item=item: one(number, *item) for number, item in enumerate(listed.items())],
        2 if stage.setting.quick else 12,
    )
    for result in results:
        if isinstance(result, Exception):
            raise result
    found = f"{figures['passed']} tests in {len(figures['clean'])} suites passed, {len(figures['failed'])} failed"
    if why_skipped:
        found += f", {figures['skipped']} skipped ({'; '.join(sorted(why_skipped))[:150]})"
    if figures["failed"]:
        raise Failed(f"{found}: {', '.join(figures['failed'])[:300]}", figures)
    if not stage.setting.quick and any(why.startswith("no GPU") for why in why_skipped):
        raise Failed(f"{found}: expected a GPU that can be used", figures)
    if figures["out_of_time"]:
        raise Late(
            f"{found}; {len(figures['out_of_time'])} suites not finished in time: {', '.join(sorted(figures['out_of_time']))[:300]}",
            figures,
        )
    if figures["passed"] == 0:
        raise Failed(f"{found}: expected some", figures)
    return found, figures


def routes(stage: Stage) -> tuple[str, Figures]:
    """Runs attention's tests by each route."""
    tests = "*Attention*closed*" if stage.setting.quick else "Gpu/*Attention*cuda*"
    figures: Figures = {}
    found = []
    for route in ("auto",) if stage.setting.quick else ROUTES:
        counts, done = run_tests(stage, "test_ops", tests, route, {"BABELRING_CUDA_ATTENTION": route})
        figures[route] = {}
        text, _ = judge(stage, counts, done, figures[route])
        found.append(f"{route}: {text}")
    return "; ".join(found), figures


def sanitizer(stage: Stage) -> tuple[str, Figures]:
    """Runs the tests of ops under compute-sanitizer, one suite per process: memcheck for all, then racecheck, then
    synccheck."""
    tool = machine.find_tool("compute-sanitizer")
    if tool is None:
        raise Missing("no compute-sanitizer")
    if stage.setting.quick:
        raise Missing("compute-sanitizer is for GPUs")
    program = stage.setting.program("test_ops")
    listed = list(
        tests_by_suite(stage.run(program, f"--gtest_filter={SANITIZED}", "--gtest_list_tests").require().output)
    )
    work = [(kind, suite) for kind in ("memcheck", "racecheck", "synccheck") for suite in listed]

    def check(kind: str, suite: str) -> Done:
        return stage.run(
            tool,
            *flags(tool=kind, error_exitcode=SANITIZER_FOUND),
            program,
            f"--gtest_filter={suite}*cuda*",
            "--gtest_brief=1",
        )

    results = in_parallel([lambda one=one: check(*one) for one in work], 4)
    return judge_sanitizer(work, results)


def only_hazards_of_libraries(output: str) -> bool:
    """Returns whether racecheck's report has hazards, and all are inside kernels of libraries."""
    kernels = re.findall(r"(?:Read|Write|Atomic) access at (.+?)\+0x", output)
    reported = re.search(r"RACECHECK SUMMARY: (\d+) hazards", output)
    return (
        reported is not None
        and len(kernels) == 2 * int(reported[1]) > 0
        and all(name.startswith(LIBRARY_KERNELS) for name in kernels)
    )


def judge_sanitizer(work: list[tuple[str, str]], results: list[Done | Exception]) -> tuple[str, Figures]:
    """Raises Failed for errors. Suites that did not finish are named, and are no failure if others finished. Hazards inside
    libraries' kernels are named, and are no failure."""
    clean, late, bad, libraries = [], [], [], []
    if any(isinstance(result, Done) and "Device not supported" in result.output + result.errors for result in results):
        raise Missing("compute-sanitizer does not support the device of this machine")
    for (kind, suite), result in zip(work, results):
        name = f"{kind} {suite.removesuffix('.')}"
        if isinstance(result, Late):
            late.append(name)
        elif isinstance(result, Exception):
            bad.append(f"{name}: {result}")
        elif result.code == 0:
            clean.append(name)
        elif kind == "racecheck" and only_hazards_of_libraries(result.output):
            libraries.append(name)
        else:
            errors = [line for line in result.output.splitlines() if "=========" in line]
            bad.append(f"{name}: exit code {result.code}, {errors[0] if errors else result.output[-200:]}")
    figures: Figures = {"clean": clean, "hazards_in_libraries": libraries, "out_of_time": late, "errors": bad}
    found = f"{len(clean)} suites clean, {len(bad)} with errors, {len(late)} not finished in time"
    if libraries:
        found += f", {len(libraries)} with hazards in kernels of libraries only"
    if bad:
        raise Failed(f"{found}: {bad[0][:300]}", figures)
    if not clean:
        raise Failed(f"{found}: expected some", figures)
    return found, figures


def start(stage: Stage) -> tuple[str, Figures]:
    """Checks that every program starts (no missing library or unknown instruction), and that mpirun starts two."""
    figures: Figures = {
        "packages": machine.packages(stage.setting.torch_python),
        "loopback": machine.loopback_is_up(),
        "libraries": stage.setting.environment.get("LD_LIBRARY_PATH", ""),
    }
    stage.keep(figures)
    if not figures["loopback"]:
        raise Failed(
            "the loopback interface is down, without which Open MPI starts nothing: ip link set lo up", figures
        )
    names = [name for name in PROGRAMS if (stage.setting.programs / name).is_file()]
    doctor = stage.run(stage.setting.program("nmt"), "doctor", most=60)
    figures["doctor"] = (doctor.output + doctor.errors).splitlines()[-40:]
    stage.keep(figures)

    def try_one(name: str) -> None:
        flag = "--gtest_list_tests" if name.startswith("test_") else "--help"
        stage.run(stage.setting.program(name), flag, most=60).require()

    for result in in_parallel([lambda name=name: try_one(name) for name in names], 4):
        if isinstance(result, Exception):
            raise result
    figures["version"] = stage.run(stage.setting.program("nmt"), "--version").require().output.strip()
    stage.run("mpirun", "--oversubscribe", "-np", 2, stage.setting.program("nmt"), "--version", most=60).require()
    return f"{len(names)} programs start, {figures['version']}, mpirun starts two", figures
