#!/usr/bin/env python3
"""Runs scripts/gpu_check.sh on the processor with a build's programs, on a little text made here: every part that needs
no GPU, in small. No figure is judged.

    gpu_check_test.py BIN                one host
    gpu_check_test.py BIN --cluster      two hosts, network namespaces; exits 77 where they are not allowed"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "one two three four five six seven eight nine ten".split()
# Without those that run test programs: these run by themselves.
PARTS = "start updates products hot_ops test_cuda determinism graphs meter exchange multi30k ops backends decode all_reduce".split()


def prepare(programs: pathlib.Path, folder: pathlib.Path, name: str) -> None:
    lines = [
        [" ".join(random.Random(seed).choices(WORDS, k=4 + seed % 5)) for seed in range(first, first + many)]
        for first, many in ((0, 300), (1000, 12), (2000, 12))
    ]
    words: list[str | pathlib.Path] = []
    for which, texts in zip(("train", "valid", "test"), lines):
        for side, change in (("source", str), ("target", str.upper)):
            (folder / f"{which}.{side}").write_text("".join(change(text) + "\n" for text in texts), encoding="utf-8")
        words += [f"--{which}", folder / f"{which}.source", folder / f"{which}.target"]
    subprocess.run(
        [programs / "nmt", "prepare", *words, "--output", folder / "data" / name, "--vocabulary-size", "60"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def check(command: list[str | pathlib.Path], folder: pathlib.Path, expected: list[str], **options: object) -> None:
    done = subprocess.run(command, check=False, **options)
    if done.returncode == 77:
        raise SystemExit(77)
    parts = json.loads((folder / "out" / "gpu_check.json").read_text(encoding="utf-8"))["parts"]
    wrong = [part for part in parts if part["status"] != "passed"]
    if done.returncode != 0 or wrong or [part["part"] for part in parts] != expected:
        sys.stderr.write((folder / "out" / "gpu_check.log").read_text(encoding="utf-8")[-8000:])
        raise SystemExit(f"exit code {done.returncode}; not passed: {wrong}")


def check_cluster(command: list[str | pathlib.Path], folder: pathlib.Path) -> None:
    agent = folder / "agent"
    network = "10.77.0.0/24"
    environment = os.environ | {"OMPI_MCA_plm_rsh_agent": str(agent), "PRTE_MCA_plm_ssh_agent": str(agent)}
    environment |= {
        f"{name}_if_include": network for name in ("OMPI_MCA_btl_tcp", "OMPI_MCA_oob_tcp", "PRTE_MCA_oob_tcp")
    }
    hosts = [ROOT / "tests/mpi/two_hosts.sh", "--agent", agent, "--"]
    parts = ["cluster_start", "cluster_sums", "cluster_scaling", "cluster_bits"]
    check([*hosts, *command, "--cluster", "hostA:2,hostB:1"], folder, parts, env=environment)
    figures = {
        part["part"]: part["figures"] for part in json.loads((folder / "out/gpu_check.json").read_text())["parts"]
    }
    assert list(figures["cluster_start"]["hosts"]) == ["hostA", "hostB"]
    assert [(row["hosts"], row["ranks"]) for row in figures["cluster_scaling"]["rows"]] == [(1, 1), (1, 2), (2, 3)]
    assert {row["ranks"] for row in figures["cluster_sums"]["rows"]} == {2, 3}
    table = (folder / "out" / "gpu_check.md").read_text(encoding="utf-8")
    assert "## Weak scaling" in table and "2 hosts, 3 GPUs" in table, table
    for wrong in ("hostA", "hostA:0", "hostA:1,hostA:1", ""):
        done = subprocess.run([*command, f"--cluster={wrong},"], check=False, capture_output=True, text=True)
        assert done.returncode == 2 and "--cluster: found" in done.stderr, done.stderr


def main() -> None:
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(programs, folder, "multi30k")
        places = ["--bin", programs, "--data", folder / "data", "--out", folder / "out"]
        command = [ROOT / "scripts" / "gpu_check.sh", "--device", "cpu", *places]
        if "--cluster" in sys.argv:
            check_cluster(command, folder)
        else:
            check([*command, "--only", *PARTS], folder, PARTS)


if __name__ == "__main__":
    main()
