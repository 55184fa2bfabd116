# shellcheck shell=bash
# Stages of quickstart.sh: each runs stage_NAME, and leaves $dir/stamps/NAME when it is done, and in $dir/stamps/timings
# one line "NAME SECONDS" for each time it ran, finished or not. Sourced; the script sets `dir` and `stage_names`.

: "${dir:=}" # the sourcing script's folder
stage_names=()
running_stage='' running_since='' ticker_pid=''

# stage_title NAME: "[2/7] build".
stage_title() {
  local i
  for i in "${!stage_names[@]}"; do
    if [ "${stage_names[$i]}" = "$1" ]; then printf '[%d/%d] ' $((i + 1)) "${#stage_names[@]}"; fi
  done
  printf '%s' "$1"
}

# stage NAME                runs always (it is quick when there is nothing to do)
# stage NAME once           not when it was done before
# stage NAME until MINUTES  not when it was done for as many minutes or more
# stage NAME after OTHER    not when it was done since OTHER was done last
stage() {
  if stage_is_done "$@"; then
    say "$(stage_title "$1"): done before"
    return
  fi
  say "$(stage_title "$1") ..."
  rm -f "$dir/stamps/$1"
  running_stage=$1 running_since=$EPOCHREALTIME
  "stage_$1"
  note_time
  printf '%s\n' "${3:-}" >"$dir/stamps/$1"
}

# Records the time of the running stage; called at its end, also after a failure.
note_time() {
  [ -n "$running_stage" ] || return 0
  local seconds
  seconds=$(awk -v a="$running_since" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  printf '%s %s\n' "$running_stage" "$seconds" >>"$dir/stamps/timings"
  ticker_stop
  say "$(stage_title "$running_stage"): $(elapsed "${seconds%.*}")"
  running_stage=''
}

# elapsed SECONDS: "21 s", "5:16 min".
elapsed() {
  if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); fi
}

# ticker LOG: on a terminal, from now until the stage ends, a moving last line: the time and what the log ended with. For stages
# that say nothing themselves.
ticker() {
  [ -t 2 ] || return 0
  local log=$1 title since=$SECONDS
  title=$(stage_title "$running_stage")
  (
    trap - EXIT INT TERM HUP
    while sleep 1; do
      printf '\r\033[K%s  %s  %s' "$title" "$(elapsed $((SECONDS - since)))" "$(last_words "$log")" >&2
    done
  ) 9>&- &
  ticker_pid=$!
}

# last_words LOG: the end of its last line that is not empty, without the time, printable, short enough for a terminal.
last_words() {
  tail -c 2000 "$1" 2>/dev/null | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 |
    sed -E 's/^[0-9-]{10} [0-9:.]+ [a-z]+: //' | tr -cd '[:print:]' | cut -c 1-50 || true
}

ticker_stop() {
  [ -n "$ticker_pid" ] || return 0
  kill "$ticker_pid" 2>/dev/null || true
  wait "$ticker_pid" 2>/dev/null || true
  ticker_pid=''
  printf '\r\033[K' >&2
}

stage_is_done() {
  local stamp=$dir/stamps/$1
  [ -e "$stamp" ] || return 1
  case ${2:-always} in
    once) return 0 ;;
    until) awk -v done_for="$(cat "$stamp")" -v asked="$3" 'BEGIN { exit !(done_for + 0 >= asked + 0) }' ;;
    after) [ ! "$dir/stamps/$3" -nt "$stamp" ] ;;
    *) return 1 ;;
  esac
}
