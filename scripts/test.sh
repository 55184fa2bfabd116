#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test that this machine can run.
#
#   scripts/test.sh                 everything but tests labelled slow
#   scripts/test.sh --fast          without clang-tidy, the address sanitizer and the fuzzers
#   scripts/test.sh --slow          what nightly.sh does: tests labelled slow, the page under load, long faults and fuzzing,
#                                   clang-tidy over all sources, and all unit tests under the sanitizers with every check
#   scripts/test.sh --only STAGE    one stage and those that it needs: setup checks scripts build ctest system contract page browser
#                                   tidy asan fuzz, or of --slow: slow page_load faults_long fuzz_long tidy_all asan_full tsan
#   scripts/test.sh --help          this text
#
# A test of the stage system (whole programs, MPI ranks, hosts, faults) that fails runs once more; the summary names each that needed
# its second try. The output of each stage goes to build/test-logs/STAGE.log, of which the end is shown if it fails. A summary with the
# minutes of each stage comes at the end, and the last line is "N passed, N failed". Exits 0 when nothing failed.
# BABELRING_JOBS sets how many compilers run at once.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

LOGS=$ROOT/build/test-logs
EXCHANGES=$LOGS/exchanges.jsonl
TOOLS=$ROOT/build/tools
PROMTOOL=${PROMTOOL:-$TOOLS/promtool}
UNIT_TESTS=(-L unit -LE 'slow|learning')
# Rooms that read bytes from outside, without those checks of each pointer's use that take half of the compile time (null, vptr,
# object-size, alignment). The nightly run has all rooms and every check.
ASAN_TESTS=("${UNIT_TESTS[@]}" -R '^(base|checkpoint|data|metrics|server(_.*)?)$')
# Rooms with threads of their own, in the nightly run. Computation (oneDNN with OpenMP) is left out: the sanitizer cannot see into
# libgomp. So is core: the sanitizer takes the owner's death, which a robust mutex survives, for a fault.
TSAN_TESTS=("${UNIT_TESTS[@]}" -R '^(base|(alerts|client|comm|data|gssm|launch|runs|translate|worker|server)([_.-].*)?)$')
STAGES=(setup checks scripts build ctest system contract page browser tidy asan fuzz)
SKIPPED=77
SLOW_STAGES=(setup build slow page_load faults_long fuzz_long tidy_all asan_full tsan)
# A unity build; --slow compiles each source alone, which finds sources that rely on their neighbours' includes.
PRESET=ci

passed=0 failed=0 skipped=0 summary=()
meanwhile=''       # process of the background build, if it was started
fixed_addresses=() # command that starts programs without address space randomisation, if they need that

parse_arguments() {
  local only
  stages=("${STAGES[@]}")
  while [ $# -gt 0 ]; do
    case $1 in
      --fast) stages=(setup checks scripts build ctest system contract page browser) ;;
      --slow) stages=("${SLOW_STAGES[@]}") PRESET=dev ;;
      --only)
        only=$(option_value "$1" $# "${2:-}")
        stages_for "$only"
        shift
        ;;
      --help | -h) print_header && exit 0 ;;
      *) usage_error "unknown option $1" ;;
    esac
    shift
  done
}

stages_for() {
  case " ${STAGES[*]} ${SLOW_STAGES[*]} " in *" $1 "*) ;; *) usage_error "--only: found '$1', expected one of: ${STAGES[*]} ${SLOW_STAGES[*]:2}" ;; esac
  case $1 in
    contract) stages=(build ctest contract) ;;
    ctest | system | browser | page_load | tidy | slow | tidy_all | faults_long) stages=(build "$1") ;;
    *) stages=("$1") ;;
  esac
}

# --- stages: each prints to its log and leaves test results as NAME.xml or NAME.tests in $LOGS ---------------------------

stage_setup() {
  scripts/setup.sh --test
  if has_package promtool; then fetch_tool usr/bin/promtool promtool; else fetch_tool usr/bin/promtool prometheus; fi # Debian 13, 12
}

# has_package PACKAGE: whether this release has it under this name.
has_package() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

# fetch_tool FILE PACKAGE...: a program that a test needs, unpacked into the build folder from packages of Debian's, the last
# ones its libraries, whose installation would start a daemon. Packages that this release does not have (libraries' other names) are
# left out.
fetch_tool() {
  local file=$1 program=${1##*/} folder package packages
  shift
  if command -v "$program" >/dev/null || [ -x "$TOOLS/$program" ] || [ "${BABELRING_SKIP_SETUP:-}" = 1 ]; then return 0; fi
  folder=$TOOLS/$program.files
  rm -rf "$folder" && mkdir -p "$folder/packages"
  mapfile -t packages < <(for package in "$@"; do if has_package "$package"; then echo "$package"; fi; done)
  if ! (cd "$folder/packages" && apt-get -qq download "${packages[@]:-$1}" && for package in *.deb; do dpkg-deb -x "$package" .. || exit; done && [ -x "../$file" ]); then
    echo "$program is not available: its test is skipped"
    return 0
  fi
  rm -rf "$folder/packages"
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/usr/lib/%s-linux-gnu exec %s/%s "$@"\n' "$folder" "$(uname -m)" "$folder" "$file" >"$TOOLS/$program"
  chmod +x "$TOOLS/$program"
}

stage_checks() {
  local status=0 check
  for check in check_format.sh check_layers.py check_sizes.py check_words.py; do
    "scripts/$check" || { echo "$check: failed" && status=1; }
  done
  mapfile -t shell < <(git ls-files '*.sh' .ci/run)
  shellcheck -x "${shell[@]}" || { echo "shellcheck: failed" && status=1; }
  return $status
}

# Each file of tests by itself, three at once: the longest wait for the programs that they start.
stage_scripts() {
  local status=0
  # shellcheck disable=SC2016
  (cd scripts/tests && printf '%s\n' test_*.py) |
    xargs -P 3 -I{} sh -c 'python3 -m unittest discover -s scripts/tests -p "$2" >"$1/scripts.$2.tests" 2>&1' sh "$LOGS" {} || status=1
  cat "$LOGS"/scripts.*.tests
  return $status
}

stage_build() {
  cmake --preset "$PRESET"
  cmake --build --preset "$PRESET" -j "$(build_jobs)"
}

# CTEST_PARALLEL_LEVEL tests at once, by default as many as there are processors.
run_ctest() { # BUILD-FOLDER RESULT-NAME CTEST-ARGUMENTS...
  local folder=$1 name=$2
  shift 2
  PATH=$PATH:$TOOLS "${fixed_addresses[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error --output-junit "$LOGS/$name.xml" \
    --test-output-size-passed 100000 --test-output-size-failed 200000 "$@"
}

# The client of the server's tests appends every answer to $EXCHANGES, for the stage contract.
stage_ctest() {
  rm -f "$EXCHANGES"
  if [ -x "$PROMTOOL" ]; then export PROMTOOL; fi
  BABELRING_EXCHANGES=$EXCHANGES run_ctest "build/$PRESET" ctest -LE 'slow|e2e|mpi'
}

# Tests of whole programs, ranks and hosts: they wait for most of their time, and depend on what else the machine does.
stage_system() {
  CTEST_PARALLEL_LEVEL=$((CTEST_PARALLEL_LEVEL + 2)) run_ctest "build/$PRESET" system -L 'e2e|mpi' -LE slow --repeat until-pass:2
}

# Checks the answers that the server's tests received against the openapi.json that it served there.
stage_contract() {
  if ! has_node; then
    echo "skipped: holding answers against openapi.json needs Node 20.19 or newer and npm"
    return $SKIPPED
  fi
  cd tests/contract
  [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund
  npm run --silent validate -- "$EXCHANGES" "$LOGS/contract.xml"
}

stage_slow() {
  fetch_tool usr/sbin/nginx nginx
  fetch_tool usr/bin/caddy caddy
  fetch_tool usr/sbin/apache2 apache2-bin libapr1{,t64} libaprutil1{,t64} liblua5.4-0
  fetch_tool usr/sbin/haproxy haproxy liblua5.{3,4}-0 libopentracing-c-wrapper0{,t64} libopentracing1
  run_ctest "build/$PRESET" slow -L slow -j 1
}

stage_tidy() { scripts/check_tidy.sh --quick base client nmt/core worker; }

stage_tidy_all() { scripts/check_tidy.sh; }

npm_packages() {
  (cd server/dashboard && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund; })
}

# Checks and tests the dashboard's sources. Their build is in the repository, so only this stage needs Node.
stage_page() {
  if ! has_node; then
    echo "skipped: the dashboard's tests need Node 20.19 or newer and npm"
    return $SKIPPED
  fi
  npm_packages
  cd server/dashboard
  npm run check-dist
  npx vitest run --reporter=default --reporter=junit --outputFile.junit="$LOGS/page.xml"
}

in_browser() { # SECONDS SCRIPT ARGUMENTS...
  local seconds=$1 script=$2
  shift 2
  CHROMIUM=$(command -v "${CHROMIUM:-chromium}") || CHROMIUM=''
  if ! has_node || [ -z "$CHROMIUM" ]; then
    echo "skipped: the test of the page in a browser needs Node 20.19 or newer with npm, and Chromium"
    return $SKIPPED
  fi
  npm_packages
  export CHROMIUM
  timeout --verbose "$seconds" node "tests/dashboard/$script" --server-binary "build/$PRESET/bin/server" "$@"
}

# The page in Chromium, served by the server that was just built; walk_test.mjs also starts workers and a translator.
stage_browser() {
  in_browser 900 browser_test.mjs && in_browser 900 run_page_test.mjs && in_browser 900 walk_test.mjs
}

# The page with a million updates, hundreds of metrics, and live charts for minutes.
stage_page_load() { in_browser 1200 load_test.mjs; }

# Prints the targets of the unit tests that ctest would run with these arguments: test NAME is built as test_NAME, and
# NAME_without_THING is the same program. (ctest names a test's program only once it is built.)
test_targets() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --show-only=json-v1 "$@" |
    python3 -c '
import json, sys
names = {test["name"].split("_without_")[0] for test in json.load(sys.stdin)["tests"]}
print("\n".join("test_" + name for name in sorted(names)))'
}

compile_sanitized() { # PRESET CTEST-ARGUMENTS...
  local preset=$1 targets
  shift
  cmake --preset "$preset"
  mapfile -t targets < <(test_targets "build/$preset" "$@")
  cmake --build --preset "$preset" -j "$(build_jobs)" --target "${targets[@]}"
}

# Compiles at the lowest priority, beside other stages, the tests of the stages asan and fuzz. It always succeeds: these stages do
# and report the rest.
compile_meanwhile() {
  set +e
  renice -n 19 -p "$BASHPID"
  compile_sanitized asan "${ASAN_TESTS[@]}"
  scripts/fuzz.sh --build
}

under_asan() { # PRESET CTEST-ARGUMENTS...
  local preset=$1
  shift
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export LSAN_OPTIONS=suppressions=$ROOT/scripts/lib/lsan.supp:print_suppressions=0
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  compile_sanitized "$preset" "$@"
  run_ctest "build/$preset" "${preset//-/_}" "$@"
}

stage_asan() { under_asan asan "${ASAN_TESTS[@]}"; }

stage_asan_full() { under_asan asan-full "${UNIT_TESTS[@]}"; }

# g++ 12's thread sanitizer needs the addresses that a kernel without randomisation gives.
stage_tsan() {
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$ROOT/scripts/lib/tsan.supp
  if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi
  compile_sanitized tsan "${TSAN_TESTS[@]}"
  run_ctest build/tsan tsan "${TSAN_TESTS[@]}"
}

# Each fuzzer for a while. Skipped without clang.
stage_fuzz() { scripts/fuzz.sh --seconds 10; }

stage_fuzz_long() { scripts/fuzz.sh --seconds 300; }

# The long forms of the fault tests; ctest has the fast ones.
stage_faults_long() { BABELRING_BIN=$ROOT/build/$PRESET/bin scripts/faults.sh --long; }

# ----------------------------------------------------------------------------------------------------------------------

# Adds a stage's results to the totals. A stage without counted tests is one test itself.
count() { # STAGE STATUS
  local files counts ok bad left
  if [ "$2" -eq $SKIPPED ]; then
    skipped=$((skipped + 1)) detail=$(tail -n 1 "$LOGS/$1.log")
    return
  fi
  mapfile -t files < <(compgen -G "$LOGS/$1.xml" || compgen -G "$LOGS/$1.*tests")
  if [ ${#files[@]} -gt 0 ]; then
    counts=$(python3 scripts/lib/count_tests.py "${files[@]}")
    read -r ok bad left <<<"$counts"
    if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))
    detail="$ok passed, $bad failed, $left skipped"
    return
  fi
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)) detail=passed; else failed=$((failed + 1)) detail=FAILED; fi
}

# The names of tests that failed at their first try, in a stage that repeats them.
repeated_tests() { # STAGE
  sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*\*\*\*.*/\1/p; s/^ *Test +#[0-9]+: ([^ ]+) .*\*\*\*.*/\1/p' "$LOGS/$1.log" |
    sort -u | paste -sd ' '
}

# Output of failed tests, which may be anywhere in a long log.
told_by_failed_tests() { # STAGE
  if [ ! -e "$LOGS/$1.xml" ]; then return; fi
  python3 scripts/lib/count_tests.py --failures "$LOGS/$1.xml" | head -n -1
}

run_stage() {
  local stage=$1 log=$LOGS/$1.log status=0 began=$SECONDS detail again
  rm -f "$LOGS/$stage".*
  printf '%-9s ' "$stage" >&2
  # Not "|| status=$?": in such a place bash ignores errexit, inside the subshell too.
  set +e
  (
    set -euo pipefail
    "stage_$stage"
  ) >"$log" 2>&1
  status=$?
  set -e
  count "$stage" "$status"
  if [ "$stage" = system ] && [ "$status" -eq 0 ]; then
    again=$(repeated_tests "$stage")
    if [ -n "$again" ]; then detail+="; needed a second try: $again"; fi
  fi
  summary+=("$(printf '%-9s %6s min  %s' "$stage" "$(minutes $((SECONDS - began)))" "$detail")")
  if [ "$status" -eq 0 ] || [ "$status" -eq $SKIPPED ]; then
    say "ok ($detail, $((SECONDS - began)) s)"
  else
    say "FAILED ($detail, $((SECONDS - began)) s); the last lines of $log:"
    { tail -n 60 "$log" && told_by_failed_tests "$stage"; } | sed 's/^/  | /' >&2
    if [ "$stage" = build ]; then built=no; fi
  fi
}

main() {
  local stage stages built=yes began=$SECONDS # run_stage sets built
  parse_arguments "$@"
  cd "$ROOT"
  unset "${!OMPI_@}" # settings of this shell, which another machine does not have
  CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
  export CTEST_PARALLEL_LEVEL
  mkdir -p "$LOGS"
  for stage in "${stages[@]}"; do
    if [ "$built" = no ] && [[ $stage =~ ^(ctest|system|contract|browser|page_load|tidy|slow|tidy_all)$ ]]; then
      summary+=("$(printf '%-9s             not run: the build failed' "$stage")")
      continue
    fi
    if [ "$stage" = scripts ] && [[ " ${stages[*]} " = *" asan fuzz "* ]]; then
      set -m # its own process group, which ends with this script
      compile_meanwhile >"$LOGS/meanwhile.log" 2>&1 &
      meanwhile=$!
      set +m
      trap 'kill -- "-$meanwhile" 2>/dev/null || true' EXIT
    fi
    if [ "$stage" = asan ] && [ -n "$meanwhile" ]; then wait "$meanwhile" || true; fi
    run_stage "$stage"
  done
  printf '\n'
  printf '%s\n' "${summary[@]}"
  printf 'in all    %6s min, %d skipped\n' "$(minutes $((SECONDS - began)))" "$skipped"
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ]
}

main "$@"
