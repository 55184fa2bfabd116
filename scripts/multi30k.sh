#!/usr/bin/env bash
# Trains configs/multi30k-tiny.yaml on Multi30k with two ranks, averages the last 15 checkpoints and scores test_2016_flickr:
# the figures of docs/measurements/2026-11-22-multi30k.md. Seeds differ by more than a point of BLEU, so a claim needs five.
#
#   scripts/multi30k.sh [--seeds N] TEXT [FOLDER] [key=value ...]
#
# TEXT holds train, val and test_2016_flickr as NAME.en.gz and NAME.de.gz. Seeds 1 to N (1) are trained one after the other, to
# FOLDER/seed-K (runs/multi30k). The last line of standard output is a JSON object with the scores of each seed, their means and
# 95 % intervals; a table goes to standard error. After an interruption the same command continues. BABELRING_BIN names the folder
# of the programs (build/release/bin).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

seeds=1
case ${1:-} in
  --help | -h) print_header && exit 0 ;;
  --seeds)
    seeds=$(option_value "$1" $# "${2:-}")
    [[ $seeds =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "--seeds: found '$seeds', expected a number from 1 to 999"
    shift 2
    ;;
esac
[ -n "${1:-}" ] || usage_error "found no folder with the text"
text=$1 folder=${2:-$ROOT/runs/multi30k}
shift $(($# < 2 ? $# : 2))
[[ $folder != *=* ]] || usage_error "found '$folder' for the folder of the results, expected FOLDER before key=value"
bin=${BABELRING_BIN:-$ROOT/build/release/bin}
[ -x "$bin/worker" ] || die "no programs in $bin; build them (cmake --preset release && cmake --build --preset release)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# train_and_score SEED [key=value ...]: leaves scores.json in the seed's folder, by which a later call knows that it is done.
train_and_score() {
  local seed=$1 seed_folder=$folder/seed-$1
  shift
  [ ! -e "$seed_folder/scores.json" ] || return 0
  mpirun -np 2 --bind-to none "$bin/worker" --config "$ROOT/configs/multi30k-tiny.yaml" --run-dir "$seed_folder/run" \
    "data.folder=$folder/data" "training.seed=$seed" "$@" >&2
  rm -rf "$seed_folder/average"
  "$bin/nmt" average --last 15 --output "$seed_folder/average" "$seed_folder/run" >&2
  "$bin/nmt" evaluate --checkpoint "$seed_folder/average" --data "$folder/data" --set test --output "$seed_folder/test.de" --json \
    >"$seed_folder/cased.json"
  "$bin/nmt" score --reference "$text/test_2016_flickr.de.gz" --hypothesis "$seed_folder/test.de" --lowercase --json \
    >"$seed_folder/lowercased.json"
  mv "$seed_folder/lowercased.json" "$seed_folder/scores.json"
}

[ -e "$folder/data/manifest.json" ] || "$bin/nmt" prepare --vocabulary-size 8000 --output "$folder/data" \
  --train "$text"/train.{en,de}.gz --valid "$text"/val.{en,de}.gz --test "$text"/test_2016_flickr.{en,de}.gz >&2
for ((seed = 1; seed <= seeds; ++seed)); do train_and_score "$seed" "$@"; done
python3 "$ROOT/scripts/lib/seed_scores.py" "$folder" "$seeds"
