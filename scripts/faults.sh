#!/usr/bin/env bash
# Faults as tests: kills, full and failing disks, damaged checkpoints, clocks that jump, clients that hold still. Seeded,
# bounded, on loopback and in separate folders. Builds missing programs. Prints figures as JSON lines at the end.
#
#   scripts/faults.sh            the fast set, as scripts/test.sh runs it
#   scripts/faults.sh --long     the long forms: 50 killed ranks, 100 crashes with a database of 1 GB, 10,000 connections,
#                                every damage (about a quarter of an hour)
#   scripts/faults.sh --seed N   another seed
#   scripts/faults.sh --seeds N  number of killed ranks (F1): 50 in the long form, 2 in the fast one
#   scripts/faults.sh --help     this text
#
# Some faults want root (a small file system, a cgroup) or a package (faketime); without, they are skipped, saying so.
# BABELRING_BIN names a folder of programs to use as they are, instead of build/dev/bin.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

seeds=
while [ $# -gt 0 ]; do
  case $1 in
    --long) export BABELRING_FAULTS=long ;;
    --seeds)
      seeds=$(option_value "$1" $# "${2:-}")
      shift
      ;;
    --seed)
      BABELRING_SEED=$(option_value "$1" $# "${2:-}")
      export BABELRING_SEED
      shift
      ;;
    --help | -h) print_header && exit 0 ;;
    *) usage_error "unknown option $1" ;;
  esac
  shift
done

if [ -n "${BABELRING_BIN:-}" ]; then BABELRING_BIN=$(realpath "$BABELRING_BIN"); fi # the tests run in their own folders
cd "$ROOT"
if [ -z "${BABELRING_BIN:-}" ]; then
  mkdir -p build/dev
  [ -e build/dev/build.ninja ] || quietly build/dev/build.log "configuring" cmake --preset dev
  quietly build/dev/build.log "the build" cmake --build --preset dev -j "$(build_jobs)" \
    --target server worker nmt test_checkpoint
  BABELRING_BIN=$ROOT/build/dev/bin
fi
export BABELRING_BIN
# Thousands of connections on both sides of the loopback.
ulimit -n "$(ulimit -Hn)"
BABELRING_FIGURES=$(mktemp)
export BABELRING_FIGURES PYTHONDONTWRITEBYTECODE=1
status=0
default_seeds=2
[ "${BABELRING_FAULTS:-}" != long ] || default_seeds=50
(cd tests/e2e && BABELRING_SEEDS=${seeds:-$default_seeds} python3 -m unittest -v kills_test) || status=1
(cd tests/faults && python3 -m unittest -v crash_test storage_test clock_test clients_test memory_test checkpoint_disk_test) ||
  status=1
if [ -x "$BABELRING_BIN/test_checkpoint" ]; then
  "$BABELRING_BIN/test_checkpoint" --gtest_brief=1 --gtest_filter='CheckpointTest.Torn*:CheckpointTest.ThousandBit*:*Test.Damage*:StoreTest.FullDisk*' || status=1
fi
cat "$BABELRING_FIGURES"
rm -f "$BABELRING_FIGURES"
exit $status
