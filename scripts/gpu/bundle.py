#!/usr/bin/env python3
"""Run by scripts/gpu_bundle.sh after the build: lays out a folder that runs on a machine with only a driver and Python,
and packs it."""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = (
    "worker",
    "nmt",
    "test_ops",
    "test_layers",
    "test_model",
    "test_decode",
    "test_parallel",
    "test_metering",
    "test_train",
    "test_cuda",
    "test_mpi_nccl",
    "bench_ops",
    "bench_train_step",
    "bench_decode",
    "bench_all_reduce",
)
MODULE = "libbabelring_cuda.so"
OF_TESTS = ("libbabelring_cuda_emulated.so", "libfake_nvml.so", "libfake_old_nvml.so")
# Libraries that the machine provides: the C library, and NVIDIA's on a machine with a GPU.
LEFT_OUT = re.compile(
    r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|anl|mvec)\.so" r"|lib(cuda|cublas|nccl|nvrtc|nvJitLink))"
)
# Open MPI's plug-ins for networks and job managers, which would need more libraries, and for OpenSHMEM.
PLUGINS_LEFT_OUT = re.compile(
    r"ofi|openib|psm|ucx|slurm|gridengine|flux|_rsh|simulator|atomic|memheap|scoll|spml|sshmem"
)
SYSTEM_LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
PLUGINS = pathlib.Path("lib/x86_64-linux-gnu/openmpi/lib/openmpi3")  # fixed relative to the prefix; Open MPI 4's
#: What mpirun starts, by the first number of Open MPI's version. Debian's Open MPI 5 has its plug-ins in its libraries.
LAUNCHERS = {4: ("orted",), 5: ("prterun", "prted")}
HELP = ("openmpi", "prte")  # folders of /usr/share with the texts of error messages; Open MPI 5 has both
CARRIED = (
    "LICENSE",
    "scripts/gpu_check.sh",
    "scripts/gpu/*.py",
    "scripts/bench/torch_gpu_step.py",
    "scripts/bench/torch_attention.py",
    "configs/*.yaml",
    "tests/golden/model/*.json",
)
MAX_BYTES = 50 << 20
# Name, vocabulary size, and the files for nmt prepare in the text folder.
TEXTS = (
    (
        "multi30k",
        8000,
        {"--train": ["multi30k/train"], "--valid": ["multi30k/val"], "--test": ["multi30k/test_2016_flickr"]},
    ),
    ("tatoeba", 16000, {"--train": ["tatoeba/train"], "--valid": ["tatoeba/dev"]}),
    ("wmt", 32000, {"--train": ["wmt16-train/europarl-v7-head", "wmt16-train/opennmt-10k"]}),
)


def stop(text: str) -> None:
    stem = pathlib.Path(sys.argv[0]).stem
    print(f"{'gpu_bundle' if stem == 'bundle' else stem}: {text}", file=sys.stderr)
    raise SystemExit(1)


def run(*words: object) -> str:
    command = [str(word) for word in words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        stop(f"{command[0]}: {error}")
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        stop(f"{' '.join(command[:3])}: exit code {done.returncode}: {last[-1] if last else ''}")
    return done.stdout


def parse_ldd(output: str, file: str) -> dict[str, pathlib.Path]:
    """Returns paths of libraries by name, without those of LEFT_OUT. Ends this program if a library is missing."""
    found = {}
    for line in output.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if not arrow or LEFT_OUT.match(pathlib.Path(name).name):
            continue
        if path.startswith("not found"):
            stop(f"{file}: {name} is not found here")
        found[name] = pathlib.Path(path.rsplit(" (", 1)[0])
    return found


def libraries(files: Iterable[pathlib.Path]) -> dict[str, pathlib.Path]:
    """Returns all libraries that the files need, by name."""
    found: dict[str, pathlib.Path] = {}
    for file in files:
        found |= parse_ldd(run("ldd", file), file.name)
    return found


def open_mpi_major(version: str) -> int:
    """Returns the first number of the version that `mpirun --version` prints. Ends this program if it is not 4 or 5."""
    found = re.match(r"mpirun \(Open MPI\) (4|5)\.", version)
    if found is None:
        stop(f"mpirun is {(version.splitlines() or ['silent'])[0]!r}, expected Open MPI 4 or 5")
    return int(found[1])


def put(source: pathlib.Path, target: pathlib.Path, rpath: str = "", strip: bool = False) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source.resolve(), target)
    target.chmod(target.stat().st_mode | 0o200)
    if strip:
        run("strip", "--strip-unneeded", target)
    if rpath:
        run("patchelf", "--set-rpath", rpath, target)


def lay_programs(ours: list[pathlib.Path], out: pathlib.Path, folder: str, plugins_left_out: re.Pattern[str]) -> None:
    """Copies programs and modules into `folder` of `out`, adds Open MPI's launcher and plug-ins, and all their libraries."""
    major = open_mpi_major(run("mpirun", "--version"))
    names = ("mpirun", *LAUNCHERS[major])
    launchers = [pathlib.Path(shutil.which(name) or stop(f"no {name} on PATH") or "") for name in names]
    plugins = [
        file
        for file in sorted((SYSTEM_LIBRARIES / "openmpi/lib/openmpi3").glob("mca_*.so"))
        if not plugins_left_out.search(file.name)
    ]
    if not plugins and major == 4:
        stop(f"no plugins of Open MPI in {SYSTEM_LIBRARIES}/openmpi/lib/openmpi3: is it Debian's?")
    for file in ours:
        put(file, out / folder / file.name, f"$ORIGIN/{'../' * len(pathlib.PurePath(folder).parts)}lib", strip=True)
    for file in launchers:
        put(file, out / "bin" / file.name, "$ORIGIN/../lib")
    for file in plugins:
        put(file, out / PLUGINS / file.name, "$ORIGIN/../../../..")
    for name, file in sorted(libraries([*ours, *launchers, *plugins]).items()):
        put(file, out / "lib" / name, "$ORIGIN")
    for name in HELP:
        if pathlib.Path("/usr/share", name).is_dir():
            shutil.copytree(
                pathlib.Path("/usr/share", name),
                out / "share" / name,
                dirs_exist_ok=True,
                ignore=lambda folder, names: [name for name in names if not name.endswith((".txt", ".conf", ".ini"))],
            )


def programs_of(programs: pathlib.Path) -> list[pathlib.Path]:
    """Returns the programs and modules of a build that the bundle contains."""
    ours = [programs / name for name in (*PROGRAMS, MODULE, *OF_TESTS) if (programs / name).is_file()]
    missing = sorted({"worker", "nmt", MODULE} - {file.name for file in ours})
    if missing:
        stop(f"{programs} has no {', '.join(missing)}")
    return ours


def lay_texts(programs: pathlib.Path, text: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Prepares the available texts; returns their names."""
    done = []
    for name, pieces, sets in TEXTS:
        words: list[object] = []
        for option, stems in sets.items():
            for stem in stems:
                words += [option, *(text / f"{stem}.{language}.gz" for language in ("en", "de"))]
        absent = [word for word in words if isinstance(word, pathlib.Path) and not word.is_file()]
        if absent:
            print(f"gpu_bundle: without {name}: no {absent[0]}", file=sys.stderr)
            continue
        run(programs / "nmt", "prepare", *words, "--output", out / "data" / name, "--vocabulary-size", pieces)
        done.append(name)
    return done


def lay_scripts(out: pathlib.Path) -> None:
    for pattern in CARRIED:
        for file in sorted(ROOT.glob(pattern)):
            put(file, out / file.relative_to(ROOT))


def describe(programs: pathlib.Path, texts: list[str]) -> dict[str, object]:
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "version": run(programs / "nmt", "--version").strip(),
        "commit": commit.stdout.strip(),
        "packed": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "texts": texts,
    }


def pack(folder: pathlib.Path, file: pathlib.Path) -> int:
    """Packs with xz, which Python can unpack; returns the size in bytes."""
    with tarfile.open(file, "w:xz", preset=6) as tar:
        tar.add(folder, arcname=folder.name)
    return file.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/gpu_bundle.sh")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument(
        "--text", type=pathlib.Path, help="folder with multi30k, tatoeba and wmt16-train, NAME.{en,de}.gz in each"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "build" / "gpu-bundle", help="folder; FOLDER.tar.xz is the bundle"
    )
    options = parser.parse_args()
    out = options.out.resolve()
    if out.exists() and not (out / "bundle.json").exists() and any(out.iterdir()):
        stop(f"--out: {out} is no earlier bundle and not empty")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "bundle.json").write_text("{}")  # whose folder this is, also when something fails
    lay_programs(programs_of(options.bin.resolve()), out, "bin", PLUGINS_LEFT_OUT)
    lay_scripts(out)
    texts = lay_texts(options.bin.resolve(), options.text.resolve(), out) if options.text else []
    (out / "bundle.json").write_text(json.dumps(describe(options.bin.resolve(), texts)) + "\n")
    file = out.with_name(out.name + ".tar.xz")
    size = pack(out, file)
    print(f"{file}: {size / 2**20:.1f} MiB, with {', '.join(texts) or 'no text'}")
    if size > MAX_BYTES:
        stop(f"{file} has {size / 2**20:.1f} MiB, at most {MAX_BYTES >> 20} are wanted")


if __name__ == "__main__":
    main()
