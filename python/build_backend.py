"""Builds the Python package for pip (PEP 517) with CMake and the standard library alone, so that `pip install .` needs no
network. The wheel holds the package, libbabelring and, where it was built, the CUDA module.

BABELRING_BUILD names a configured build folder, whose library is taken after it was brought up to date; without it
build/release is configured and built. BABELRING_JOBS: compilers at once.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY, CUDA_MODULE = "libbabelring.so.1", "libbabelring_cuda.so"


class UnsupportedOperation(Exception):
    """Told to pip where a hook does nothing here."""


def get_requires_for_build_wheel(config_settings: dict[str, str] | None = None) -> list[str]:
    return []


def build_sdist(sdist_directory: str, config_settings: dict[str, str] | None = None) -> str:
    raise UnsupportedOperation("the package is built from Babelring's tree, in which the C++ sources are")


def build_wheel(
    wheel_directory: str, config_settings: dict[str, str] | None = None, metadata_directory: str | None = None
) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = {f"babelring/{path.name}": path.read_bytes() for path in sorted((ROOT / "python/babelring").glob("*.py*"))}
    files["babelring/py.typed"] = b""
    built = built_folder()
    files[f"babelring/{LIBRARY}"] = stripped(built / LIBRARY)
    if (built / CUDA_MODULE).exists():
        files[f"babelring/{CUDA_MODULE}"] = stripped(built / CUDA_MODULE)
    tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    info = f"{project['name']}-{project['version']}.dist-info"
    files[f"{info}/METADATA"] = metadata(project).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: babelring\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    name = f"{project['name']}-{project['version']}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():  # the same bytes of the same files: without their times
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return name


def built_folder() -> pathlib.Path:
    """The folder of the library, which is brought up to date."""
    given = os.environ.get("BABELRING_BUILD")
    build = pathlib.Path(given).resolve() if given else ROOT / "build/release"
    jobs = ["-j", os.environ.get("BABELRING_JOBS") or str(len(os.sched_getaffinity(0)))]
    if not given:
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
    targets = ["babelring_c"]
    if CUDA_MODULE in (build / "build.ninja").read_text():
        targets.append("babelring_cuda")
    subprocess.run(["cmake", "--build", build, *jobs, "--target", *targets], cwd=ROOT, check=True)
    return build / "bin"


def stripped(library: pathlib.Path) -> bytes:
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run(["strip", "--strip-unneeded", "-o", copy.name, library], check=True)
        return pathlib.Path(copy.name).read_bytes()


def metadata(project: dict) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    for extra, packages in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {package}; extra == "{extra}"' for package in packages]
    return "\n".join(lines) + "\n"


def record(files: dict[str, bytes], own: str) -> str:
    """The list of a wheel's files with their digests; that of the list itself is empty."""
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{own},,"]) + "\n"
