#!/usr/bin/env bash
# Everything that takes too long for each change: tests labelled slow, clang-tidy over every source, every check of the address sanitizer, the
# thread sanitizer, and, where there is a CUDA toolkit, the bundle for GPU machines, which must not be too large to send; then, as root,
# the quickstart and the tests on Debian's other release. Takes test.sh's place in nightly jobs.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$scripts/test.sh" --slow
if PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
  "$scripts/gpu_bundle.sh"
else
  echo "nightly: no nvcc, so the GPU bundle is not packed"
fi
status=0
"$scripts/other_release.sh" || status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || exit "$status" # 77: not on this machine, for the reason that it gave
