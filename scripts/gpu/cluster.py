"""Parts on several hosts (gpu_check.sh --cluster): sums of gradients, weak scaling, and the same bits on each run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from stage import Failed, Figures, Host, Missing, Stage, flags
from training import SHORT, Run, apart, course

TOKENS_OF_A_RANK = 25_000  # of an update, as the part `updates` has them on one GPU
EXPORTED = ("LD_LIBRARY_PATH", "BABELRING_SOURCE_DIR")  # and NCCL_*; mpirun passes OMPI_MCA_* on by itself


def hosts_of(text: str) -> tuple[Host, ...]:
    """Hosts and their numbers of GPUs, of a text such as gpu-a:8,gpu-b:8. Raises ValueError."""
    found = []
    for word in text.split(","):
        match = re.fullmatch(r"([A-Za-z0-9._-]+):([1-9][0-9]{0,2})", word)
        if not match:
            raise ValueError(f"found '{word}', expected HOST:GPUS, such as gpu-a:8,gpu-b:8")
        found.append(Host(match[1], int(match[2])))
    if len({host.name for host in found}) != len(found):
        raise ValueError(f"found '{text}', expected each host once")
    return tuple(found)


def ranks_of(hosts: Sequence[Host]) -> int:
    return sum(host.gpus for host in hosts)


def mpirun(stage: Stage, hosts: Sequence[Host]) -> list[object]:
    """The words that start a rank on each GPU of these hosts."""
    environment = stage.setting.environment
    exported = [name for name in environment if name in EXPORTED or name.startswith("NCCL_")]
    slots = ",".join(f"{host.name}:{host.gpus}" for host in hosts)
    words = ["mpirun", "--bind-to", "none", "-H", slots, "-np", ranks_of(hosts)]
    return [*words, *(word for name in exported for word in ("-x", name))]


def start(stage: Stage) -> tuple[str, Figures]:
    """Asks each host for its machine, and the first for its network to the others."""
    setting = stage.setting
    figures: Figures = {"hosts": {}}
    for host in setting.hosts:
        words = [*mpirun(stage, [Host(host.name, 1)]), setting.program("nmt"), "doctor", "--json"]
        findings = stage.run(*words, most=stage.left() / 2).json()["findings"]
        figures["hosts"][host.name] = {"gpus": host.gpus, "findings": findings}
        stage.keep(figures)
        bad = [finding["text"] for finding in findings if finding["verdict"] == "error"]
        if bad:
            raise Failed(f"{host.name}: {bad[0]}", figures)
    others = ",".join(host.name for host in setting.hosts[1:])
    shell = os.environ.get("OMPI_MCA_plm_rsh_agent") or os.environ.get("PRTE_MCA_plm_ssh_agent")
    words = ["--remote-shell", shell] if shell else []
    if others:
        done = stage.run(setting.program("nmt"), "doctor", "--hosts", others, *words, "--json")
        figures["network"] = done.json()["findings"]
    counts = ", ".join(f"{host.name} with {host.gpus}" for host in setting.hosts)
    return f"{len(setting.hosts)} hosts: {counts}", figures


def groups(hosts: Sequence[Host]) -> list[tuple[Host, ...]]:
    """One GPU, one host, two hosts, all hosts: as far as they differ."""
    wanted = [(Host(hosts[0].name, 1),), tuple(hosts[:1]), tuple(hosts[:2]), tuple(hosts)]
    return list(dict.fromkeys(wanted))


def sums(stage: Stage) -> tuple[str, Figures]:
    """Sums gradients within a host and between hosts, by each algorithm."""
    setting = stage.setting
    sizes = flags(device=setting.device, repeats=2 if setting.quick else 10, largest_mb=1 if setting.quick else 240)
    figures: Figures = {"rows": []}
    best: dict[str, float] = {}
    for hosts in groups(setting.hosts)[1:] or [setting.hosts]:
        ranks = ranks_of(hosts)
        if ranks < 2:
            continue
        found = stage.run(*mpirun(stage, hosts), setting.program("bench_all_reduce"), *sizes).json()
        figures["rows"] += [row | {"hosts": len(hosts), "ranks": ranks} for row in found["rows"]]
        stage.keep(figures)
        rates = [row["bus_gb_per_s"] for row in found["rows"]]
        if not rates:
            raise Failed(f"{ranks} ranks: no row of figures", figures)
        best[f"{ranks} GPUs of {'one host' if len(hosts) == 1 else f'{len(hosts)} hosts'}"] = max(rates)
    if not best:
        raise Missing("skipped: there is one GPU")
    return "GB/s of a bus at best: " + ", ".join(f"{name} {rate:.2f}" for name, rate in best.items()), figures


def train(stage: Stage, hosts: Sequence[Host], run: Run, updates: int, *settings: str) -> Run:
    """Trains one rank on each GPU with as many tokens for each rank."""
    setting = stage.setting
    tokens = 256 if setting.quick else TOKENS_OF_A_RANK
    stage.run(
        *mpirun(stage, hosts),
        setting.program("worker"),
        *flags(config=setting.root / "configs" / "multi30k-tiny.yaml", server="none", run_dir=run.folder),
        f"data.folder={setting.prepared('multi30k' if setting.quick else 'wmt')}",
        f"training.device={setting.device}",
        f"data.tokens_per_update={tokens * ranks_of(hosts)}",
        f"preset=transformer-{'tiny' if setting.quick else 'base'}",
        f"training.stop_after={updates}u",
        *SHORT,
        *settings,
    ).require()
    return run


def scaling(stage: Stage) -> tuple[str, Figures]:
    """Trains base (on processors tiny) on one GPU, one host, two and all hosts, an equal number of tokens on each GPU."""
    figures: Figures = {"rows": []}
    for hosts in groups(stage.setting.hosts):
        ranks = ranks_of(hosts)
        run = train(stage, hosts, Run(stage.folder / f"{len(hosts)}-{ranks}"), 6 if stage.setting.quick else 60)
        found = course(run)
        steps = run.records("step")
        late = steps[len(steps) // 2 :]
        busy = sum(step["communication_ms"] for step in late)
        exposed = sum(step["exposed_communication_ms"] for step in late)
        row = {
            "hosts": len(hosts),
            "ranks": ranks,
            "hidden": 1 - exposed / busy if ranks > 1 and busy else None,
        } | found
        row["efficiency"] = 1.0
        if figures["rows"]:
            one = figures["rows"][0]["target_tokens_per_s"]
            row["efficiency"] = found["target_tokens_per_s"] / (ranks * one)
        figures["rows"].append(row)
        stage.keep(figures)
    rows = [
        f"{row['ranks']} GPUs {row['target_tokens_per_s']:,.0f} ({row['efficiency']:.0%})" for row in figures["rows"]
    ]
    return "target tokens/s: " + ", ".join(rows), figures


def bits(stage: Stage) -> tuple[str, Figures]:
    """Trains on all GPUs twice and compares all bits, then through the hosts' memory and compares losses."""
    many = 4 if stage.setting.quick else 20
    digests, losses = [], {}
    for name, settings in (("first", ()), ("second", ()), ("ring", ("communication.all_reduce=ring",))):
        run = Run(stage.folder / name)
        if name != "first":
            run.take_products(Run(stage.folder / "first"))
        train(stage, stage.setting.hosts, run, many, "training.digest_every=1u", *settings)
        digests.append(run.digests())
        losses[name] = list(run.losses().values())
    figures: Figures = {"updates": len(digests[0]), "digest": digests[0][-1] if digests[0] else ""}
    if len(digests[0]) != many or not all(digests[0]):
        raise Failed(f"{len(digests[0])} updates with digests, expected {many}", figures)
    if digests[0] != digests[1]:
        first = next(i for i, pair in enumerate(zip(*digests[:2])) if pair[0] != pair[1])
        raise Failed(f"two trainings have other weights after update {first + 1}", figures)
    figures["apart"] = worst = max(apart(a, b) for a, b in zip(losses["first"], losses["ring"]))
    if worst > 1e-2:
        raise Failed(f"losses by auto and through the hosts' memory differ by {worst:.1e}, expected 1e-2", figures)
    return f"the same bits after each of {many} updates; through the hosts' memory losses within {worst:.1e}", figures
