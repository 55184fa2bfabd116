#!/usr/bin/env bash
# Builds the wheel of the Python package (docs/python.md) without the network.
#
#   scripts/wheel.sh [FOLDER]     into FOLDER (default: build/wheels); prints its path
#   scripts/wheel.sh --help       this text
#
# The wheel is for the Debian release that it was built on, whose libraries it needs. BABELRING_BUILD names a configured build folder
# to take the library from; without it build/release is built.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${1:-} in
  --help | -h) print_header && exit 0 ;;
  -*) usage_error "unknown option $1" ;;
esac
folder=${1:-$ROOT/build/wheels}
mkdir -p "$folder"
name=$(PYTHONPATH="$ROOT/python" python3 -c 'import sys, build_backend; print(build_backend.build_wheel(sys.argv[1]))' "$folder" | tail -n 1)
printf '%s\n' "$folder/$name"
