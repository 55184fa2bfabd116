#!/usr/bin/env bash
# Packs what scripts/gpu_check.sh needs on a machine that has a GPU's driver, NVIDIA's libraries and Python, and nothing of
# ours and no network: programs, test programs, the GPU module, Open MPI, their libraries, and prepared text.
#
#   scripts/gpu_bundle.sh [--text FOLDER] [--out FOLDER] [--bin FOLDER]
#
# Builds build/gpu first, for any x86-64 processor and for GPUs of CUDA_ARCHITECTURES (90-real), unless --bin names a folder
# of programs, of a build without BABELRING_NATIVE if they are to run on other processors. FOLDER of --text has
# multi30k, tatoeba and wmt16-train with NAME.en.gz and NAME.de.gz; absent ones are left out, with the parts that need them.
# Leaves --out (build/gpu-bundle) and beside it the same as .tar.xz, at most 50 MiB. What Debian has of what it needs is
# installed first (scripts/setup.sh --bundle); the CUDA toolkit is not (docs/gpu.md).
#
# There:  python3 -m tarfile -e gpu-bundle.tar.xz && gpu-bundle/scripts/gpu_check.sh
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

bin=$ROOT/build/gpu/bin others=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) print_header && exit 0 ;;
    --bin)
      bin=$(option_value "$1" $# "${2:-}")
      shift
      ;;
    --text | --out)
      value=$(option_value "$1" $# "${2:-}")
      others+=("$1" "$value")
      shift
      ;;
    *) usage_error "unknown option $1" ;;
  esac
  shift
done
"$ROOT/scripts/setup.sh" --bundle
command -v patchelf >/dev/null || die "patchelf is missing"

if [ "$bin" = "$ROOT/build/gpu/bin" ]; then
  log=$ROOT/build/gpu/build.log
  mkdir -p "$ROOT/build/gpu"
  : >"$log"
  targets=$(python3 -c "import sys; sys.path.insert(0, '$ROOT/scripts/gpu'); import bundle; print(*bundle.PROGRAMS)")
  (cd "$ROOT" && quietly "$log" "configuring" cmake --preset bench -B build/gpu -DBABELRING_CUDA=ON -DBABELRING_WERROR=OFF \
    "-DCMAKE_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-90-real}")
  # shellcheck disable=SC2086  # names, one word each
  quietly "$log" "the build" cmake --build "$ROOT/build/gpu" -j "$(build_jobs)" --target babelring_cuda $targets
fi
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$ROOT/scripts/gpu/bundle.py" --bin "$bin" "${others[@]}"
