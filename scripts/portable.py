#!/usr/bin/env python3
"""Packs an installation for hosts without root and without our packages: programs, Open MPI, and the libraries of both
but the C library. deploy/debian/README.md says how to use it."""

from __future__ import annotations

import argparse
import pathlib
import platform
import re
import shutil
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from gpu import bundle  # noqa: E402

PROGRAMS = ("server", "worker", "nmt")
# Plug-ins for networks that need libraries of their hardware, and for OpenSHMEM.
PLUGINS_LEFT_OUT = re.compile(r"ofi|openib|psm|ucx|simulator|atomic|memheap|scoll|spml|sshmem")
ENVIRONMENT = """\
# Source this file in bash or zsh: it puts the programs, Open MPI and the manual pages into the environment.
babelring_home=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
export PATH=$babelring_home/bin:$babelring_home/lib/babelring:$PATH OPAL_PREFIX=$babelring_home MANPATH=$babelring_home/share/man:${MANPATH:-}
unset babelring_home
# PMIx's plug-in that compresses messages is not here, and a host that has one must not send what others cannot read.
export PMIX_MCA_pcompress=^zlib PMIX_MCA_pcompress_base_silence_warning=1
# Without ssh, Open MPI 4 has to be told to start ranks on this host alone.
command -v ssh >/dev/null || export OMPI_MCA_plm=isolated
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/portable.sh")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with the programs")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the archive")
    options = parser.parse_args()
    programs = options.build.resolve() / "bin"
    missing = [name for name in PROGRAMS if not (programs / name).is_file()]
    if missing:
        bundle.stop(f"{programs} has no {', '.join(missing)}")
    version = bundle.run(programs / "nmt", "--version").split()[-1]
    out = options.out.resolve() / f"babelring-{version}-{platform.machine()}"
    shutil.rmtree(out, ignore_errors=True)
    for component in (*PROGRAMS, "common"):
        bundle.run("cmake", "--install", options.build, "--component", component, "--prefix", out)
    bundle.lay_programs([programs / name for name in PROGRAMS], out, "lib/babelring", PLUGINS_LEFT_OUT)
    module = programs / bundle.MODULE
    if module.is_file():
        bundle.put(module, out / "lib/babelring" / module.name, "$ORIGIN/..", strip=True)
    (out / "env.sh").write_text(ENVIRONMENT, encoding="utf-8")
    archive = out.with_name(out.name + ".tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
        tar.add(out, arcname=out.name)
    shutil.rmtree(out)
    print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
