#!/usr/bin/env bash
# Measures the difficulty of a grid of generators (docs/lab/sequences.md), here on all processors or as a Slurm job
# array. Options after the file go to `nmt gssm difficulty`. Results are appended to RESULTS, one JSON line a cell;
# cells that it holds are not repeated, so that an interrupted grid goes on.
#
#   scripts/gssm_difficulty.sh RESULTS [--tasks N] --config FILE [OPTION ...]
#   sbatch --array=1-N --export=ALL,BABELRING_ROOT=$PWD scripts/gssm_difficulty.sh RESULTS --config FILE [OPTION ...]
#
# --tasks N: that many processes (one for each processor). Slurm runs a copy of this script: BABELRING_ROOT names the repository.
# BABELRING_BIN names the folder of the programs (build/release/bin).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "${BABELRING_ROOT:-$(dirname "${BASH_SOURCE[0]}")/..}/scripts/lib/common.sh"

case ${1:-} in
  --help | -h) print_header && exit 0 ;;
  '' | --*) usage_error "found no file for the results" ;;
esac
results=$1 tasks=$(nproc)
shift
if [ "${1:-}" = --tasks ]; then
  tasks=$(option_value "$1" $# "${2:-}")
  shift 2
fi
bin=${BABELRING_BIN:-$ROOT/build/release/bin}
[ -x "$bin/nmt" ] || die "no programs in $bin; build them (cmake --preset release && cmake --build --preset release)"

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
  task=$((SLURM_ARRAY_TASK_ID - ${SLURM_ARRAY_TASK_MIN:-1} + 1))
  exec "$bin/nmt" gssm difficulty --json-lines "$results" --task "$task" --tasks "$SLURM_ARRAY_TASK_COUNT" "$@"
fi
processes=() status=0
for ((task = 1; task <= tasks; task++)); do
  "$bin/nmt" gssm difficulty --json-lines "$results" --task "$task" --tasks "$tasks" "$@" >/dev/null &
  processes+=($!)
done
for process in "${processes[@]}"; do wait "$process" || status=1; done
say "$results: $(wc -l <"$results") cells"
exit $status
