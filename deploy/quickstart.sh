#!/usr/bin/env bash
# Checks an installation in about ten seconds: prepares a toy corpus, starts a server, trains on two ranks that report to it,
# and translates. Needs babelring-server, babelring-worker (a build folder has them as server and worker), nmt and mpirun in
# PATH, writes into a temporary folder, and leaves nothing behind.
#
#   deploy/quickstart.sh
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d "${TMPDIR:-/tmp}/babelring-quickstart-XXXXXX")
server_pid=''

clean_up() {
  if [ -n "$server_pid" ]; then
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" || true
  fi
  rm -rf "$folder"
}
trap clean_up EXIT

# program NAME: its name in PATH.
program() { if command -v "babelring-$1" >/dev/null; then echo "babelring-$1"; else echo "$1"; fi; }

fail() {
  echo "quickstart: $1 failed; its last lines:" >&2
  tail -n 20 "$folder/$1.log" >&2
  exit 1
}

# step NAME COMMAND...: runs it with its output in NAME.log.
step() {
  local name=$1 begin=$SECONDS
  shift
  "$@" >"$folder/$name.log" 2>&1 || fail "$name"
  echo "quickstart: $name: $((SECONDS - begin)) s"
}

# corpus NAME LINES SEED: sentences of a small grammar, and the same words marked and in another order.
corpus() {
  awk -v name="$folder/$1" -v lines="$2" -v seed="$3" 'BEGIN {
    srand(seed)
    n = split("cat dog house tree river stone bird child book lamp road cloud", noun)
    v = split("sees likes finds takes wants paints hears follows", verb)
    a = split("old small green quiet bright heavy round kind", adjective)
    for (i = 0; i < lines; i++) {
      A = adjective[int(rand() * a) + 1]; N = noun[int(rand() * n) + 1]
      V = verb[int(rand() * v) + 1]; M = noun[int(rand() * n) + 1]
      print "the " A " " N " " V " the " M " ." > (name ".en")
      print "das " N "e " A "es " M "e " V "t ." > (name ".de")
    }
  }'
}

start_server() {
  "$(program server)" --listen 127.0.0.1:0 --data "$folder/server" --checkpoint-root "$folder" >"$folder/server.log" 2>&1 &
  server_pid=$!
  for _ in $(seq 300); do
    if [ -s "$folder/server/address" ] && [ -s "$folder/server/admin.token" ]; then
      address=$(tr -d '\n' <"$folder/server/address")
      address=${address%/}
      return
    fi
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  fail server
}

cat >"$folder/config.yaml" <<YAML
name: ten-seconds
preset: transformer-tiny
model: {encoder_layers: 2, decoder_layers: 2, width: 64, inner: 128, dropout: 0}
data: {folder: "$folder/ids", tokens_per_update: 800}
optimizer: {learning_rate: 0.004, warm_up: 50u}
training: {stop_after: 300u, max_minutes: 0.1, precision: f32, threads: 1}
validation: {every: 0, bleu_every: 0, beam: 1}
checkpoint: {every: 0}
YAML

corpus train 3000 1
corpus valid 60 2
step prepare nmt prepare --train "$folder"/train.{en,de} --valid "$folder"/valid.{en,de} --output "$folder/ids" \
  --vocabulary-size 120
start_server
step train mpirun -np 2 --bind-to none --oversubscribe "$(program worker)" --config "$folder/config.yaml" --run-dir "$folder/run" \
  --server "$address" --token-file "$folder/server/admin.token"
step runs nmt run list --json --server "$address" --token-file "$folder/server/admin.token"
grep -q '"name": *"ten-seconds"' "$folder/runs.log" || fail runs
echo 'the old cat sees the dog .' >"$folder/sentence"
step translate nmt translate --checkpoint "$folder/run" --input "$folder/sentence" --output "$folder/translation" --beam 1
[ -s "$folder/translation" ] || fail translate
echo "quickstart: '$(cat "$folder/sentence")' -> '$(cat "$folder/translation")'"
echo "quickstart: everything works"
