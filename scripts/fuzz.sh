#!/usr/bin/env bash
# Builds the fuzzers of what comes from outside (requests, records, configurations, generators of sequences, safetensors, npz, prices
# of queries, probes, parallel text) with clang's libFuzzer and runs each over its kept corpus for a while. An input that breaks something is left in
# build/fuzz/findings.
#
#   scripts/fuzz.sh                 10 seconds each
#   scripts/fuzz.sh --seconds N     longer
#   scripts/fuzz.sh --runs N        N inputs each, without a time limit
#   scripts/fuzz.sh --build         only builds them
#   scripts/fuzz.sh --help          this text
#
# Exits 77 where clang with libFuzzer is not installed. What it learns goes to build/fuzz/corpus, never into the tree.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

limit=-max_total_time=10 run=yes
while [ $# -gt 0 ]; do
  case $1 in
    --seconds)
      limit=-max_total_time=$(option_value "$1" $# "${2:-}")
      shift
      ;;
    --runs)
      limit=-runs=$(option_value "$1" $# "${2:-}")
      shift
      ;;
    --build) run=no ;;
    --help | -h) print_header && exit 0 ;;
    *) usage_error "unknown option $1" ;;
  esac
  shift
done

if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer - -o /dev/null 2>/dev/null; then
  echo "skipped: fuzzing needs clang++ with libFuzzer (scripts/setup.sh --test installs both)"
  exit 77
fi

cd "$ROOT"
mkdir -p build/fuzz
log=build/fuzz/build.log
: >"$log"
quietly "$log" "configuring" cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang
quietly "$log" "the build" cmake --build build/fuzz -j "$(build_jobs)"
if [ "$run" = no ]; then exit; fi

fuzz() { # TARGET
  local target=$1
  mkdir -p "build/fuzz/corpus/$target" build/fuzz/findings
  if "build/fuzz/fuzz_$target" "$limit" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
    >"build/fuzz/$target.log" 2>&1; then
    awk -v target="$target" '/^stat::number_of_executed_units/ { runs = $2 } /^stat::average_exec_per_sec/ { rate = $2 }
      END { printf "%s: %d inputs, %d a second\n", target, runs, rate }' "build/fuzz/$target.log"
  else
    say "fuzz $target: FAILED; the last lines of build/fuzz/$target.log:"
    tail -n 40 "build/fuzz/$target.log" >&2
    return 1
  fi
}

# Two at a time: each is one thread.
status=0
for pair in "request records" "config safetensors" "query_price gssm" "probe npz" "corpus"; do
  say "fuzz $pair: $limit"
  processes=()
  for target in $pair; do
    fuzz "$target" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || status=1; done
done
exit $status
