# shellcheck shell=bash
# Stages of tests: each is a function stage_NAME that prints to $LOGS/NAME.log and leaves results as NAME.xml (JUnit) or
# NAME.tests (unittest) there. Sourced after common.sh; the script sets LOGS.

SKIPPED=77 # a stage's exit code; the last line that it printed says why
passed=0 failed=0 skipped=0 summary=() stage_failed=0

# skip_stage WHY: for a stage that this machine cannot run.
skip_stage() {
  echo "skipped: $*"
  return $SKIPPED
}

# needs_node FOLDER WHAT: skips the stage without Node; installs the folder's packages.
needs_node() {
  has_node || skip_stage "$2 needs Node 20.19 or newer and npm"
  npm_packages "$1"
}

# run_stage NAME: runs it, adds its results to the totals and a line to the summary, shows what failed. Sets stage_failed (0: no).
# Call it in no condition: there bash ignores errexit, inside the stage too.
run_stage() {
  local stage=$1 log=$LOGS/$1.log status=0 began=$SECONDS ok left detail processor TIMEFORMAT='%U %S'
  rm -f "$LOGS/$stage".*
  printf '%-9s ' "$stage" >&2
  set +e
  {
    time { # without these braces the time goes to the log
      (
        set -euo pipefail
        "stage_$stage"
      ) >"$log" 2>&1
    }
  } 2>"$LOGS/$stage.times"
  status=$?
  set -e
  read -r ok stage_failed left detail < <(python3 "$ROOT/scripts/lib/count_tests.py" --stage "$LOGS" "$stage" "$status")
  passed=$((passed + ok)) failed=$((failed + stage_failed)) skipped=$((skipped + left))
  processor=$(awk '{ printf "%.1f", ($1 + $2) / 60 }' "$LOGS/$stage.times")
  summary+=("$(printf '%-9s %6s min, %5s of processor time  %s' "$stage" "$(minutes $((SECONDS - began)))" "$processor" "$detail")")
  if [ "$stage_failed" -eq 0 ]; then
    say "ok ($detail, $((SECONDS - began)) s)"
    return
  fi
  say "FAILED ($detail, $((SECONDS - began)) s); the last lines of $log:"
  {
    tail -n 60 "$log"
    if [ -e "$LOGS/$stage.xml" ]; then python3 "$ROOT/scripts/lib/count_tests.py" --failures "$LOGS/$stage.xml"; fi
  } | sed 's/^/  | /' >&2
}

# leave_out STAGE WHY: a line of the summary for a stage that does not run.
leave_out() { summary+=("$(printf '%-9s                                     not run: %s' "$1" "$2")"); }

# print_summary SECONDS: the lines of all stages and the totals. Fails if a test failed.
print_summary() {
  printf '\n'
  printf '%s\n' "${summary[@]}"
  printf 'in all    %6s min, %d skipped\n' "$(minutes "$1")" "$skipped"
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ]
}
