#!/usr/bin/env bash
# Checks everything that involves a GPU, in one call within ten minutes, on a machine that has one: tests of ops, layers,
# models and search against the reference, speed (updates, each op compared with the card's measured peak, PyTorch), repeatability,
# checkpoints between processor and GPU, real trainings to a BLEU score, translation, compute-sanitizer.
#
#   scripts/gpu_check.sh --first          two minutes: the machine, the ops' tests, updates of base and big, PyTorch's base
#   scripts/gpu_check.sh [--minutes 9] [--only PART ...] [--skip PART ...] [--data FOLDER] [--out FOLDER] [--bin FOLDER]
#   scripts/gpu_check.sh --device cpu     the same in small on the processor: whether the check itself works
#   scripts/gpu_check.sh --cluster gpu-a:8,gpu-b:8 --data FOLDER      on several hosts, run on the first: how fast gradients are summed, weak
#                                          scaling of base, the same bits on each run. gpu_check.json has it all in one file
#   scripts/gpu_check.sh --list           names the parts
#   scripts/gpu_check.sh --help           every option
#
# Takes the programs of --bin, or of the first of these folders that has a worker: bin (what scripts/gpu_bundle.sh packs for
# a machine that has only a driver and Python), build/gpu/bin (from which it packs), build/dev/bin, build/ci/bin.
#
# Each part has its own time limit, and none stops the others. What a machine lacks (compute-sanitizer, PyTorch, text) is
# reported as missing, parts without enough time as cut short; neither is a failure. Writes gpu_check.json,
# gpu_check.md, gpu_check.log and rows/ to --out (gpu_check), all anew after each step, so that a check that is killed leaves
# what it has measured; SIGTERM ends it early. Exits 0 if nothing failed, 1 if a part did, 2 on wrong usage, 3 if there is no
# GPU, 143 after SIGTERM.
set -euo pipefail
# Machines without a network have it down, and Open MPI starts nothing then.
ip link set lo up 2>/dev/null || true
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/scripts/gpu/main.py" "$@"
