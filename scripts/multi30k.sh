#!/usr/bin/env bash
# Repeats the figures of docs/measurements/2026-11-22-multi30k.md: prepares the text, trains configs/multi30k-tiny.yaml on two ranks,
# averages the last 15 checkpoints and scores test_2016_flickr.
#
#   scripts/multi30k.sh TEXT [FOLDER] [key=value ...]
#
# TEXT holds train, val and test_2016_flickr as NAME.en.gz and NAME.de.gz. Results go to FOLDER (runs/multi30k). The last
# line of standard output is a JSON object. After an interruption the next run continues. BABELRING_BIN names the folder of the
# programs (build/release/bin).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${1:-} in
  --help | -h) print_header && exit 0 ;;
  '') usage_error "found no folder with the text" ;;
esac
text=$1 folder=${2:-$ROOT/runs/multi30k}
shift $(($# < 2 ? $# : 2))
bin=${BABELRING_BIN:-$ROOT/build/release/bin}
[ -x "$bin/worker" ] || die "no programs in $bin; build them (cmake --preset release && cmake --build --preset release)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

[ -e "$folder/data/manifest.json" ] || "$bin/nmt" prepare --vocabulary-size 8000 --output "$folder/data" \
  --train "$text"/train.{en,de}.gz --valid "$text"/val.{en,de}.gz --test "$text"/test_2016_flickr.{en,de}.gz >&2
mpirun -np 2 --bind-to none "$bin/worker" --config "$ROOT/configs/multi30k-tiny.yaml" --run-dir "$folder/run" \
  "data.folder=$folder/data" "$@" >&2
rm -rf "$folder/average"
"$bin/nmt" average --last 15 --output "$folder/average" "$folder/run" >&2
"$bin/nmt" evaluate --checkpoint "$folder/average" --data "$folder/data" --set test --output "$folder/test.de" --json \
  >"$folder/cased.json"
"$bin/nmt" score --reference "$text/test_2016_flickr.de.gz" --hypothesis "$folder/test.de" --lowercase --json \
  >"$folder/lowercased.json"
python3 - "$folder" <<'PYTHON'
import json, sys
cased, lowercased = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("cased", "lowercased"))
print(json.dumps({"cased": cased, "lowercased": lowercased}))
PYTHON
