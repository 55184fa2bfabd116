#!/usr/bin/env bash
# Runs every measurement: builds missing programs, measures, prints a table and, as the last line of standard
# output, a JSON object.
#
#   scripts/bench.sh train-step [options]   updates of a model on random tokens: tokens a second, ops, roofline, memory
#     --against-pytorch [--pairs 5]         in turns with PyTorch on the same model and batch (--baseline FILE: that script)
#     --against-build FOLDER                in turns with another build's bench_train_step, such as an older commit's
#     --compare-ranks                       2 ranks of 1 thread in turns with 1 rank of 2 threads, the same update
#     --weak-scaling                        2 ranks in turns with 1 rank, the same work for each rank
#     --text SRC,TGT                        updates of real text in turns with sentences of one length, as many tokens
#     --metrics-cost                        with spool and server at every update, in turns with neither
#     --tracing-cost parameters|timeline|ledger  with a tool of the lab on in turns with it off
#   scripts/bench.sh ops [options]          every op at a model's shapes: time, share of the peak, error
#   scripts/bench.sh all-reduce [options]   our ring against MPI's, by size; --device cuda: NCCL against both
#   scripts/bench.sh decode [options]       beam search over text: sentences a second and its roofline
#   scripts/bench.sh data [options]         preparing text, and batches a second
#   scripts/bench.sh plan [options]         the order of many sentence pairs: time to the first update, memory
#   scripts/bench.sh emulate [options]      the emulator: settings measured in turns with the times of one rank, each predicted
#                                           with a calibration to the others; can be interrupted and continued (--minutes)
#     --real-time                           emulated runs beside the real ones instead of predictions
#   scripts/bench.sh server [options]       the server's load bars in turns with nginx (packages nginx-light, wrk), 3 minutes
#     --against-build FOLDER                in turns with the server in that folder, such as an older commit's
#     --hostile [--seconds 120]             attackers, a training run and ordinary users; exit code 1 if others are harmed
#   scripts/bench.sh translate --checkpoint DIR --text FILE   1, 8 and 64 clients that translate by a server, a sentence a
#                                           request: sentences a second, p50 and p99
#     --against-build FOLDER                in turns with the server and nmt in that folder, such as an older commit's
#
# "scripts/bench.sh MODE --help" tells every option, "scripts/bench.sh MODE -- --help" those of the program behind it.
# Nothing else should run on the machine meanwhile; each figure names the load of other programs. BABELRING_BIN names a folder of
# programs to use as they are, instead of build/bench/bin.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

PROGRAMS=(bench_train_step bench_ops bench_all_reduce bench_decode bench_data bench_plan bench_server nmt server worker)

build() {
  local log=$ROOT/build/bench/build.log
  mkdir -p "$ROOT/build/bench"
  : >"$log"
  [ -e "$ROOT/build/bench/build.ninja" ] || (cd "$ROOT" && quietly "$log" "configuring" cmake --preset bench)
  quietly "$log" "the build" cmake --build "$ROOT/build/bench" -j "$(build_jobs)" --target "${PROGRAMS[@]}"
}

# asks_for_options MODE WORD...: whether only options are asked for that need no program to tell them.
asks_for_options() {
  local word
  case $1 in ops | plan) return 1 ;; esac
  for word in "${@:2}"; do
    case $word in
      --) return 1 ;;
      --help | -h) return 0 ;;
    esac
  done
  return 1
}

case ${1:-} in
  --help | -h) print_header && exit 0 ;;
  train-step | ops | all-reduce | decode | data | plan | emulate | server | translate) ;;
  '') usage_error "found no mode, expected train-step, ops, all-reduce, decode, data, plan, emulate, server or translate" ;;
  *) usage_error "found mode '$1', expected train-step, ops, all-reduce, decode, data, plan, emulate, server or translate" ;;
esac
[ -n "${BABELRING_BIN:-}" ] || asks_for_options "$@" || build
exec python3 "$ROOT/scripts/bench/main.py" --programs "${BABELRING_BIN:-$ROOT/build/bench/bin}" "$@"
