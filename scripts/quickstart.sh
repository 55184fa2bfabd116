#!/usr/bin/env bash
# From a clean clone to a trained translation model: installs missing packages, builds, fetches a real English-German
# corpus, starts the server, trains with MPI workers, evaluates with SacreBLEU and leaves the dashboard up.
#
#   scripts/quickstart.sh [option...]
#     --minutes N          minutes of training (default 12); a later, larger N continues the same run
#     --corpus WHAT        libreoffice (default), wmt16, or SOURCE,TARGET: two text files, plain or compressed
#     --dir DIR            where everything is kept (default runs/quickstart)
#     --config FILE        training configuration (default by corpus, from configs/)
#     --vocabulary-size N  subwords (default: one for four training pairs, at most 8000)
#     --ranks N            MPI workers (default: one for each GPU that can be used; else 2, or 1 on a single core)
#     --listen HOST:PORT   where the server listens, on loopback (default 127.0.0.1:0, a free port)
#     --stop               stops the server that an earlier run left up, and nothing else
#     --help               this text
#
# On Ctrl-C it saves and stops; the next start continues. The last line of standard output is a
# JSON summary; progress goes to standard error, and everything is in DIR/logs. BABELRING_BIN names a folder with the
# programs, when they are built already. Where nvidia-smi answers and nvcc is, the GPU module is built too.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/server.sh
source "$ROOT/scripts/lib/server.sh"
# shellcheck source=scripts/lib/stages.sh
source "$ROOT/scripts/lib/stages.sh"

minutes=12 corpus=libreoffice dir=$ROOT/runs/quickstart config='' vocabulary_size='' ranks='' listen=127.0.0.1:0 stop_only=no
BIN=${BABELRING_BIN:-$ROOT/build/release/bin}
mpirun_pid=''
stage_names=(setup build corpus prepare train evaluate translate)

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --minutes)
        minutes=$(option_value "$1" $# "${2:-}")
        require_positive "$1" "$minutes"
        shift
        ;;
      --corpus)
        corpus=$(option_value "$1" $# "${2:-}")
        shift
        ;;
      --dir)
        dir=$(option_value "$1" $# "${2:-}")
        shift
        ;;
      --config)
        config=$(option_value "$1" $# "${2:-}")
        shift
        ;;
      --vocabulary-size)
        vocabulary_size=$(option_value "$1" $# "${2:-}")
        require_positive "$1" "$vocabulary_size"
        shift
        ;;
      --ranks)
        ranks=$(option_value "$1" $# "${2:-}")
        require_positive "$1" "$ranks"
        shift
        ;;
      --listen)
        listen=$(option_value "$1" $# "${2:-}")
        shift
        ;;
      --stop) stop_only=yes ;;
      --help | -h) print_header && exit 0 ;;
      *) usage_error "unknown option $1" ;;
    esac
    shift
  done
}

require_positive() {
  [[ $2 =~ ^[0-9]+(\.[0-9]+)?$ && ! $2 =~ ^0+(\.0+)?$ ]] || usage_error "$1: found '$2', expected a positive number"
}

# Fills in the options that depend on the corpus and the machine.
complete_options() {
  case $corpus in
    wmt16) config=${config:-$ROOT/configs/wmt16-transformer-base.yaml} vocabulary_size=${vocabulary_size:-32768} ;;
    *) config=${config:-$ROOT/configs/quickstart.yaml} vocabulary_size=${vocabulary_size:-auto} ;;
  esac
  [ -r "$config" ] || usage_error "--config: cannot read $config"
  case $corpus in
    libreoffice | wmt16) source_language=en target_language=de ;;
    *,*) source_language=src target_language=tgt ;;
    *) usage_error "--corpus: found '$corpus', expected libreoffice, wmt16 or SOURCE,TARGET" ;;
  esac
}

# A folder holds one corpus and one vocabulary: anything else would mix two runs.
claim_folder() {
  local wanted="corpus $corpus, vocabulary $vocabulary_size" held part
  for part in corpus data run; do
    [ -e "$dir/options" ] || [ ! -e "$dir/$part" ] || die "$dir/$part is there, and not from a run of quickstart.sh: give another --dir"
  done
  mkdir -p "$dir/logs" "$dir/stamps"
  dir=$(cd "$dir" && pwd)
  if [ -e "$dir/options" ]; then
    held=$(cat "$dir/options")
    [ "$held" = "$wanted" ] || die "$dir holds a run with $held; asked for $wanted: give another --dir"
  fi
  printf '%s\n' "$wanted" >"$dir/options"
  exec 9>"$dir/lock"
  flock -n 9 || die "another quickstart.sh works in $dir"
}

# --- stages -----------------------------------------------------------------------------------------------------------

stage_setup() { "$ROOT/scripts/setup.sh"; }

# In a subshell: relative names of options count from the caller's folder.
stage_build() {
  if [ -n "${BABELRING_BIN:-}" ]; then return; fi
  : >"$dir/logs/build.log"
  ticker "$dir/logs/build.log"
  (cd "$ROOT" && build "$dir/logs/build.log")
}

build() {
  local log=$1 targets=(server worker nmt)
  quietly "$log" "configuring" cmake --preset release
  if [ "$(gpus)" -gt 0 ]; then
    if grep -qs '^CMAKE_CUDA_COMPILER:[A-Z]*=/' build/release/CMakeCache.txt; then
      targets+=(babelring_cuda)
    else
      say "  a GPU answers, but nvcc (CUDA 13.0 or newer) was not found: training uses the processor (docs/gpu.md)"
    fi
  fi
  quietly "$log" "building" cmake --build --preset release -j "$(build_jobs)" --target "${targets[@]}"
}

# gpus: the number of GPUs of NVIDIA's driver.
gpus() {
  local list
  list=$(timeout 30 nvidia-smi -L 2>/dev/null) || list=''
  printf '%s' "$list" | grep -c '^GPU ' || true
}

# workers: the requested number, else one per usable GPU, else by processors.
workers() {
  local count
  if [ -n "$ranks" ]; then printf '%s' "$ranks" && return; fi
  count=$(gpus)
  if [ "$count" -eq 0 ] || [ ! -e "$BIN/libbabelring_cuda.so" ]; then count=$(($(nproc) < 2 ? 1 : 2)); fi
  printf '%s' "$count"
}

stage_corpus() {
  "$ROOT/scripts/fetch_corpus.sh" --corpus "$corpus" --downloads "$dir/downloads" "$dir/corpus" >"$dir/logs/corpus.json"
  python3 - "$dir/logs/corpus.json" >&2 <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
print("  " + report["corpus"] + ": " + ", ".join(f'{part} {counts["pairs"]:,} pairs' for part, counts in report["parts"].items()))
PYTHON
}

both_sides() { printf '%s\n' "$dir/corpus/$1.$source_language" "$dir/corpus/$1.$target_language"; }

# corpus_fact NAME DEFAULT: what the corpus' report says, if it does.
corpus_fact() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2], sys.argv[3]))' "$dir/corpus/report.json" "$1" "$2"
}

# Size of the vocabulary: as requested, else by the size of the training text. Each character needs an entry: where they would fill
# half of it (Chinese), they come on top.
pieces() {
  if [ "$vocabulary_size" != auto ]; then printf '%s' "$vocabulary_size" && return; fi
  awk -v characters="$(corpus_fact characters 0)" \
    'END { n = int(NR / 4); n = n < 100 ? 100 : (n > 8000 ? 8000 : n); print n + (2 * characters > n ? characters : 0) }' \
    "$dir/corpus/train.$source_language"
}

stage_prepare() {
  : >"$dir/logs/prepare.log"
  ticker "$dir/logs/prepare.log"
  quietly "$dir/logs/prepare.log" "nmt prepare" prepare_as_large_as_possible
}

# A small text may have fewer subwords than pieces() says; SentencePiece then names their number.
prepare_as_large_as_possible() {
  local max
  prepare_data "$(pieces)" && return
  max=$(sed -nE 's/.*Vocabulary size too high.*value <= ([0-9]+).*/\1/p' "$dir/logs/prepare.log" | tail -n 1)
  [ "$vocabulary_size" = auto ] && [ -n "$max" ] && prepare_data "$max"
}

# prepare_data SIZE: with a vocabulary of this size.
prepare_data() {
  local train valid test
  mapfile -t train < <(both_sides train)
  mapfile -t valid < <(both_sides valid)
  mapfile -t test < <(both_sides test)
  "$BIN/nmt" prepare --train "${train[@]}" --valid "${valid[@]}" --test "${test[@]}" --output "$dir/data" --vocabulary-size "$1" \
    --model bpe --normalization "$(corpus_fact normalization nmt_nfkc)"
}

# The 60 epochs of configs/quickstart.yaml end, with a small corpus, before its 400 updates of warm-up have had an effect: 2,000 updates
# then, as far as the minutes go. Validations choose the best checkpoint of them.
length_of_training() {
  [ "$config" = "$ROOT/configs/quickstart.yaml" ] && [ -e "$dir/data/manifest.json" ] || return 0
  python3 - "$dir/data/manifest.json" <<'PYTHON'
import json, sys
train = next(part for part in json.load(open(sys.argv[1]))["sets"] if part["name"] == "train")
epochs, tokens_per_update, updates = 60, 2048, 2000
if epochs * train["target_tokens"] / tokens_per_update < updates:
    print(f"training.stop_after={updates}u")
PYTHON
}

# mpirun gets its own session: a Ctrl-C on the terminal would make it kill the workers within a second. It passes
# SIGUSR1 on to them, upon which they save and end; see interrupted().
stage_train() {
  local status=0 count shown=() length
  count=$(workers)
  mapfile -t length < <(length_of_training)
  local progress=never
  if [ -t 2 ]; then shown=(--terminal) progress=always; fi
  local mpirun=(mpirun --host "localhost:$count" -np "$count" --bind-to none)
  if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  say "  workers: $count, $minutes min; dashboard: $(dashboard)"
  setsid "${mpirun[@]}" "$BIN/worker" --config "$config" "data.folder=$dir/data" "training.max_minutes=$minutes" \
    "${length[@]}" --server "$address" --token-file "$(server_token_file "$dir")" --run-dir "$dir/run" --progress "$progress" \
    </dev/null > >(python3 "$ROOT/scripts/lib/train_lines.py" "$dir/logs/train.log" "${shown[@]}" >&2) 2>&1 &
  mpirun_pid=$!
  wait "$mpirun_pid" || status=$?
  mpirun_pid=''
  [ "$status" -eq 0 ] || die "training ended with exit code $status; see $dir/logs/train.log and run again to resume"
  # Open MPI 5 exits 0 when it has lost a host.
  grep -q '"end":"' "$dir/run/run.json" || die "mpirun ended before training; see $dir/logs/train.log and run again to resume"
}

stage_evaluate() {
  ticker "$dir/logs/evaluate.log"
  quietly "$dir/logs/evaluate.log" "nmt evaluate" evaluate_to "$dir/evaluation.json"
}

# The server records it with the run.
evaluate_to() {
  "$BIN/nmt" evaluate --checkpoint "$(best_checkpoint)" --set test --data "$dir/data" --tokenize "$(corpus_fact tokenizer 13a)" --json \
    --report "$(run_id)" --server "$address" --token-file "$(server_token_file "$dir")" >"$1.part" &&
    mv "$1.part" "$1"
}

run_id() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["run"])' "$dir/run/run.json"; }

# Five sentences spread evenly over the test set.
stage_translate() {
  local language lines
  lines=$(wc -l <"$dir/corpus/test.$source_language")
  for language in "$source_language" "$target_language"; do
    awk -v every=$((lines / 5 > 0 ? lines / 5 : 1)) 'NR % every == 0 && ++n <= 5' "$dir/corpus/test.$language" >"$dir/samples.$language"
  done
  quietly "$dir/logs/translate.log" "nmt translate" translate_samples
}

translate_samples() {
  "$BIN/nmt" translate --checkpoint "$(best_checkpoint)" <"$dir/samples.$source_language" >"$dir/samples.hypothesis.part" &&
    mv "$dir/samples.hypothesis.part" "$dir/samples.hypothesis"
}

best_checkpoint() { printf '%s' "$dir/run/checkpoints"; }

# ----------------------------------------------------------------------------------------------------------------------

show_samples() {
  paste -d '\n' "$dir/samples.$source_language" "$dir/samples.$target_language" "$dir/samples.hypothesis" |
    awk 'BEGIN { split("source reference translation", name) } { i = (NR - 1) % 3 + 1; printf "%s%-12s %s\n", i == 1 ? "\n" : "", name[i], $0 }'
}

what_next() {
  printf '\n%s\n\n' "$(python3 "$ROOT/scripts/lib/quickstart_summary.py" --words "$dir")"
  printf '%-17s %s\n' 'dashboard' "$(dashboard)" \
    'try it' "echo \"$(head -n 1 "$dir/samples.$source_language" | tr -d '"\`$')\" | $BIN/nmt translate --checkpoint $(best_checkpoint)" \
    'train longer' "scripts/quickstart.sh --minutes $(awk -v m="$minutes" 'BEGIN { print m * 5 }')$(repeated_options)" \
    'stop the server' "scripts/quickstart.sh --stop --dir $dir"
}

# A further call reads this file to find the run.
repeated_options() {
  [ "$corpus" = libreoffice ] || printf ' --corpus %s' "$corpus"
  [ "$dir" = "$ROOT/runs/quickstart" ] || printf ' --dir %s' "$dir"
}

# dashboard: the address with the key that opens it.
dashboard() { printf '%s/#token=%s' "${address%/}" "$(cat "$(server_token_file "$dir")")"; }

# Announces the server's address before the build, so that it can be opened early. Sets `listen`.
announce() {
  local known
  if server_pid "$dir" >/dev/null && known=$(cat "$dir/server.address"); then
    say "dashboard: $known/#token=$(cat "$(server_token_file "$dir")")"
    return
  fi
  if [[ $listen == *:0 ]]; then listen=${listen%:0}:$(free_port); fi
  say "dashboard: http://$listen, from when the server is built (stage 2); its key follows then"
}

# Stops what runs, in order: the workers save first, then the server takes their last records.
interrupted() {
  trap '' INT TERM HUP
  ticker_stop
  say ''
  say "stopping; run the same command again to go on"
  if [ -n "$mpirun_pid" ]; then
    kill -USR1 "$mpirun_pid" 2>/dev/null || true
    wait_for_end "$mpirun_pid" 60 || kill -TERM "$mpirun_pid" 2>/dev/null || true
    wait_for_end "$mpirun_pid" 10 || warn "mpirun (process $mpirun_pid) has not ended"
  fi
  server_stop "$dir"
  exit 130
}

# wait_for_end PID SECONDS: of a child; fails if it has not ended by then.
wait_for_end() {
  local deadline=$((SECONDS + $2))
  while kill -0 "$1" 2>/dev/null; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.2
  done
}

main() {
  parse_arguments "$@"
  if [ "$stop_only" = yes ]; then server_stop "$dir" && return; fi
  complete_options
  claim_folder
  trap note_time EXIT
  trap interrupted INT TERM HUP
  say "Babelring quickstart: ${#stage_names[@]} stages, $minutes min of training; everything is kept in $dir"
  announce
  stage setup
  stage build
  address=$(server_start "$dir" "$BIN/server" "$listen")
  say "dashboard: $(dashboard)"
  stage corpus once
  stage prepare once
  stage train until "$minutes"
  stage evaluate after train
  stage translate after train
  show_samples
  what_next
  python3 "$ROOT/scripts/lib/quickstart_summary.py" "$dir" "$address"
}

main "$@"
