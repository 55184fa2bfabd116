"""Stands for every program that scripts/gpu_check.sh runs, by the name it is called by; small figures that fit each other.
FAKE_FAULT says what one of them does wrong."""

import json
import os
import pathlib
import sys
import time

NAME = pathlib.Path(sys.argv[0]).name
ARGUMENTS = sys.argv[1:]
FAULT = os.environ.get("FAKE_FAULT", "")


def value(option: str, default: str = "") -> str:
    for place, word in enumerate(ARGUMENTS):
        if word == option:
            return ARGUMENTS[place + 1]
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return default


def figures(text: str, **more: object) -> dict[str, object]:
    """An object of members NAME=NUMBER or NAME=WORD, and more."""
    pairs = [pair.split("=") for pair in text.split()]
    return {name: json.loads(said) if said[0].isdigit() or said[0] == "-" else said for name, said in pairs} | more


def say(found: object) -> None:
    print("a table\n" + json.dumps(found))


def append(file: str, rows: list[dict[str, object]]) -> None:
    with open(file, "a", encoding="utf-8") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in rows))


def test_program() -> None:
    if "--gtest_list_tests" in ARGUMENTS:
        print("Running main()\nGpu/LinearTest.\n  Works/cuda_f32  # GetParam()\nGpu/AdamTest.\n  Works/cuda_f32")
        return
    if FAULT == f"crash of {NAME}":
        os.abort()
    if FAULT == f"hang of {NAME}":
        time.sleep(600)
    tests = [{"name": "Works/cuda_f32", "result": "COMPLETED"}, {"name": "Waits", "result": "SKIPPED"}]
    print("some_test.cc:7: Skipped\na second GPU is needed")
    if FAULT == NAME:
        tests.append({"name": "Breaks/cuda_bf16", "result": "COMPLETED", "failures": [{"failure": "off"}]})
    if value("--gtest_output"):
        suites = {"testsuites": [{"name": "Gpu/LinearTest", "testsuite": tests}]}
        pathlib.Path(value("--gtest_output").removeprefix("json:")).write_text(json.dumps(suites))
    raise SystemExit(1 if FAULT == NAME else 0)


def worker() -> None:
    if os.environ.get("FAKE_RANKS") and "training.device=cuda" in ARGUMENTS:
        print("error: device cuda: ranks 0 and 1 on here would share one GPU, each rank needs its own", file=sys.stderr)
        raise SystemExit(2)
    folder = pathlib.Path(value("--run-dir"))
    stop = value("training.stop_after", "60e")
    last = int(stop[:-1]) if stop.endswith("u") else 50
    before = [int(path.name[7:]) for path in folder.glob("checkpoints/*")]
    (folder / "checkpoints" / f"update-{last:08}").mkdir(parents=True, exist_ok=True)
    spool = folder / "spool" / f"attempt-{len(before) + 1}" / "rank-0.jsonl"
    spool.parent.mkdir(parents=True)
    off = 0.1 if FAULT == "worker" and ("second" in folder.name or folder.name == "moved") else 0
    times = "step_ms=10 data_ms=1 forward_ms=3 backward_ms=4 exposed_communication_ms=0 optimizer_ms=1.9 other_ms=0.1"
    step = figures(f"kind=step update_target_tokens=6000 {times}")
    for update in range(1 + max((one for one in before if one < last), default=0), last + 1):
        moving = {"loss": 9 - update / 100 + off, "weights_digest": f"{update}-{off}"}
        append(str(spool), [step | {"update": update, "epoch": update} | moving])


def nmt() -> None:
    if ARGUMENTS[0] == "average":
        pathlib.Path(value("--output")).mkdir()
    if ARGUMENTS[0] == "evaluate":
        score = 12.0 if FAULT == "nmt" else 40.5
        print(json.dumps(figures("signature=s perplexity=4.5 sentences_per_second=900", sacrebleu=score)))
    if ARGUMENTS[:2] == ["probe", "backends"]:
        twice = value("--a") == value("--b")
        different = 1 if FAULT == "backends" and twice else 0 if twice else 5
        row = figures("op=fill member=y dtype=f32 relative=1e-7 ulp=3", different=different)
        say({value("--preset"): {"ops": [row]}})
    if ARGUMENTS[0] == "--version":
        print("nmt 9.9")


def products() -> None:
    row = figures("preset=base layer=logits candidates=8 first_ms=0.4 chosen_ms=0.3 waves=1.5", epilogue="", found=True)
    row |= {"product": "x W^T 6400x32000x512 bf16", "algorithm": "algorithm 66, tile 21"}
    rows = [row, row | {"product": "x W^T 25600x2048x512 bf16", "epilogue": "bias and ReLU", "found": False}]
    if FAULT == "bench_ops product":
        rows.append(figures("preset=big layer=logits", failure="cuda: a matmul: CUBLAS_STATUS_INVALID_VALUE"))
    append(value("--rows"), rows)
    say({"backend": "cuda (a device)", "tokens": 25600, "rows": rows})


def bench_ops() -> None:
    if "--products" in ARGUMENTS:
        return products()
    kind = "f32" if value("--only") == "f32" else "bf16"
    row = figures("rate=4e5 unit=GFLOP/s share_of_peak=0.5", type=kind, error=None if FAULT == NAME else 1e-5)
    rows = [row | {"op": f"{value('--only')} of {value('--preset')}", "ms": 0.09}]
    if kind == "f32":
        rows.append(row | {"op": "adam_update f32 10000000", "ms": 0.1, "type": "f32"})
    if FAULT == "bench_ops case":
        rows.append({"op": "dropout bf16", "type": "bf16", "failure": "cuda: an illegal memory access was encountered"})
    append(value("--rows"), rows)
    if FAULT == "hang of bench_ops":
        time.sleep(600)
    peaks = figures("bf16_gflop_per_s=8e5 f32_gflop_per_s=5e4 triad_gb_per_s=4000 read_gb_per_s=4100")
    say({"backend": "cuda (a device)", "peaks": peaks, "rows": rows, "left_out": 0})


def bench_train_step() -> None:
    if value("--write-batches"):
        pathlib.Path(value("--write-batches")).write_text("{}\n")
        return
    last_loss = 9.5 + (0.5 if FAULT == NAME and "--cuda-graphs" in ARGUMENTS else 0)
    sizes = "parameters=100 device_used_bytes=10000000000"
    speeds = "target_tokens_per_s=7e5 step_ms=35 flop_utilisation=0.46 matmul_gflop_per_s=3e5"
    say(figures(f"{speeds} {sizes} first_loss=10.5", last_loss=last_loss, ops=[]))


def bench_decode() -> None:
    speeds = (
        "beam=4 sentences=64 sentences_per_s=1000.0 target_tokens_per_s=12000.0 roofline_fraction=0.1 parameters=100"
    )
    say(figures(speeds, mean_log_probability=-5.0 - (0.1 if FAULT == NAME and value("--device") == "cpu" else 0)))


def bench_all_reduce() -> None:
    row = figures("payload_bytes=100000000 bucket_bytes=4000000 median_ms=1.0 error=1e-7")
    rates = (("nccl", 150.0), ("nccl", 120.0), ("ring", 6.5))
    say({"rows": [row | {"algorithm": name, "bus_gb_per_s": rate} for name, rate in rates]})


def torch_python() -> None:
    if "-c" in ARGUMENTS:
        print("2.11.0+cu130" if "torch" in value("-c") else "")
    elif FAULT == f"hang of {NAME}":
        time.sleep(600)
    elif FAULT == NAME:
        raise SystemExit("no kernel for this device")
    elif "torch_attention.py" in " ".join(ARGUMENTS):
        row = figures("length=2048 kernel=flash forward_ms=0.5 backward_ms=1.2 out=2e-3 dq=3e-3 dk=2e-3 dv=2e-3")
        print(json.dumps({"rows": [row, figures("length=2048 kernel=cudnn", failed="RuntimeError: no kernel")]}))
    else:
        speeds = "target_tokens_per_s=5e5 step_ms=50 parameters=100 device_used_bytes=20000000000"
        how = "first_loss=10.6 last_loss=9.6 attention=varlen compile=default padding=0.01"
        print(json.dumps(figures(f"{speeds} {how}", tried=[], failed=[])))


def mpirun() -> None:
    place = next(i for i, word in enumerate(ARGUMENTS) if word.startswith("/"))
    os.environ["FAKE_RANKS"] = value("-np")
    os.execv(ARGUMENTS[place], ARGUMENTS[place:])


def compute_sanitizer() -> None:
    bad = FAULT == "compute-sanitizer" and "Adam" in " ".join(ARGUMENTS) and value("--tool") == "racecheck"
    print("========= Race reported" if bad else "========= ERROR SUMMARY: 0 errors")
    raise SystemExit(86 if bad else 0)


if NAME.startswith("test_"):
    test_program()
elif "--help" not in ARGUMENTS:
    globals()[NAME.replace("-", "_")]()
