# shellcheck shell=bash
# Stages of quickstart.sh: each runs stage_NAME, and leaves $dir/stamps/NAME when it is done, and in $dir/stamps/timings
# one line "NAME SECONDS" for each time it ran, finished or not. Sourced; the script sets `dir`.

: "${dir:=}"  # the sourcing script's folder
running_stage='' running_since=''

# stage NAME                runs always (it is quick when there is nothing to do)
# stage NAME once           not when it was done before
# stage NAME until MINUTES  not when it was done for as many minutes or more
# stage NAME after OTHER    not when it was done since OTHER was done last
stage() {
  if stage_is_done "$@"; then
    say "$1: done before"
    return
  fi
  say "$1 ..."
  rm -f "$dir/stamps/$1"
  running_stage=$1 running_since=$EPOCHREALTIME
  "stage_$1"
  note_time
  printf '%s\n' "${3:-}" >"$dir/stamps/$1"
}

# Writes down what the running stage took so far; called when it ends, however it ends.
note_time() {
  [ -n "$running_stage" ] || return 0
  local seconds
  seconds=$(awk -v a="$running_since" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  printf '%s %s\n' "$running_stage" "$seconds" >>"$dir/stamps/timings"
  say "$running_stage: $seconds s"
  running_stage=''
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
