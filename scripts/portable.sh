#!/usr/bin/env bash
# Packs programs, Open MPI and all their libraries but the C library for hosts without root: babelring-VERSION-MACHINE.tar.gz.
#
#   scripts/portable.sh [--build FOLDER] [--out FOLDER]
#     --build FOLDER  build folder with the programs (default build/release)
#     --out FOLDER    where the archive goes (default: the folder packages of the build folder)
#     --help          this text
#
# There: tar -xf babelring-*.tar.gz && source babelring-*/env.sh (deploy/debian/README.md). Needs patchelf.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

build=$ROOT/build/release out=''
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) print_header && exit 0 ;;
    --build)
      build=$(option_value "$1" $# "${2:-}")
      shift
      ;;
    --out)
      out=$(option_value "$1" $# "${2:-}")
      shift
      ;;
    *) usage_error "unknown option $1" ;;
  esac
  shift
done
command -v patchelf >/dev/null || die "patchelf is missing (package patchelf)"
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$ROOT/scripts/portable.py" --build "$build" --out "${out:-$build/packages}"
