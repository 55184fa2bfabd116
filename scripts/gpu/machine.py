"""Describes the machine: its GPU and the environment variables that programs need."""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
import shutil
import subprocess

# Libraries that the GPU module opens, apart from the driver. NVIDIA's wheels and packages install them in different places.
CUDA_LIBRARIES = ("libcublasLt.so.13", "libnccl.so.2")
TOOLKIT = pathlib.Path("/usr/local/cuda")


def count_gpus() -> tuple[int, str]:
    """Returns the number of GPUs and, if it is 0, the reason."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, "there is no NVIDIA driver (libcuda.so.1)"
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status != 0:
        return 0, f"the driver answers error {status}"
    return count.value, "" if count.value > 0 else "the driver sees no device"


def said(*words: str) -> str:
    """Returns the output of a program; empty if it cannot run."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def describe() -> dict[str, object]:
    asked = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.memory"
    processor = [
        line.partition(":")[2].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "gpus": [
            line.strip() for line in said("nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader").splitlines()
        ],
        "processor": processor[0] if processor else platform.machine(),
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
    }


def wheel_folders(python: str) -> list[pathlib.Path]:
    """Returns the library folders of NVIDIA's Python packages."""
    paths = said(python, "-c", "import nvidia; print('\\n'.join(nvidia.__path__))").splitlines()
    return sorted(folder for path in paths for folder in pathlib.Path(path).glob("*/lib"))


def library_folders(python: str) -> list[str]:
    """Returns LD_LIBRARY_PATH with a folder appended for each library that the loader does not find."""
    known = said("/sbin/ldconfig", "-p")
    given = [pathlib.Path(path) for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    candidates = [*wheel_folders(python), TOOLKIT / "lib64"]
    folders = [str(path) for path in given]
    for library in CUDA_LIBRARIES:
        if library in known or any((folder / library).exists() for folder in given):
            continue
        folders += [str(folder) for folder in candidates if (folder / library).exists()][:1]
    return list(dict.fromkeys(folders))


def loopback_is_up() -> bool:
    """Returns whether the loopback interface is up. Without it Open MPI starts no rank."""
    try:
        flags = int(pathlib.Path("/sys/class/net/lo/flags").read_text(encoding="utf-8"), 16)
    except (OSError, ValueError):
        return True  # not known
    return bool(flags & 1)


def packages(python: str) -> list[str]:
    """Returns NVIDIA's and PyTorch's Python packages with versions."""
    lines = said(python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check").splitlines()
    return [line for line in lines if line.lower().startswith(("nvidia", "torch", "triton"))]


def environment(root: pathlib.Path, programs: pathlib.Path, python: str) -> dict[str, str]:
    """Returns the environment of our programs. A bundle's Open MPI is not in the folder that it was built for, and has no ssh."""
    # Containers often forbid process_vm_readv, which Open MPI's shared memory would use for large messages.
    changed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "BABELRING_SOURCE_DIR": str(root),
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }
    folders = library_folders(python)
    if folders:
        changed["LD_LIBRARY_PATH"] = ":".join(folders)
    if (root / "bundle.json").exists():
        changed |= {
            "OPAL_PREFIX": str(root),
            "PATH": f"{programs}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "OMPI_MCA_plm": "isolated",
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "self,vader,tcp",
            "PMIX_MCA_pcompress_base_silence_warning": "1",
        }
    return dict(os.environ) | changed


def find_tool(name: str) -> str | None:
    """Returns the path of a program on PATH or in the folder of the CUDA toolkit."""
    return shutil.which(name) or shutil.which(name, path=str(TOOLKIT / "bin"))


def torch_version(python: str) -> str:
    """Returns the version of PyTorch; empty if `python` has none."""
    return said(python, "-c", "import torch; print(torch.__version__)")
