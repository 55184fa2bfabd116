#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test that this machine can run.
#
#   scripts/test.sh                 everything but tests labelled slow
#   scripts/test.sh --fast          without clang-tidy, the address sanitizer and the fuzzers
#   scripts/test.sh --slow          what nightly.sh does: each source compiled alone, tests labelled slow, the page under load, long
#                                   faults and fuzzing, clang-tidy over all sources, and all unit tests under the sanitizers
#                                   with every check
#   scripts/test.sh --only STAGE    one stage and those that it needs: setup checks scripts build ctest system contract page browser
#                                   tidy asan fuzz, or of --slow: alone slow page_load faults_long fuzz_long tidy_all asan_full tsan
#   scripts/test.sh --help          this text
#
# The output of each stage goes to build/test-logs/STAGE.log, of which the end is shown if it fails. A summary with the minutes of each
# stage, and with those of processors that it took, comes at the end, and the last line is "N passed, N failed". Exits 0 when nothing failed.
# BABELRING_JOBS sets how many compilers run at once. Stages of ctest are test presets of CMakePresets.json.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib/common.sh
source "$scripts/lib/common.sh"
# shellcheck source=scripts/lib/test_stages.sh
source "$scripts/lib/test_stages.sh"
# shellcheck source=scripts/lib/fetch_tool.sh
source "$scripts/lib/fetch_tool.sh"

LOGS=$ROOT/build/test-logs
EXCHANGES=$LOGS/exchanges.jsonl
STAGES=(setup checks scripts build ctest system contract page browser tidy asan fuzz)
SLOW_STAGES=(setup build alone slow page_load faults_long fuzz_long tidy_all asan_full tsan)
meanwhile='' # process of the background build, if it was started

parse_arguments() {
  local only
  stages=("${STAGES[@]}")
  while [ $# -gt 0 ]; do
    case $1 in
      --fast) stages=(setup checks scripts build ctest system contract page browser) ;;
      --slow) stages=("${SLOW_STAGES[@]}") ;;
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
  [[ " ${STAGES[*]} ${SLOW_STAGES[*]} " = *" $1 "* ]] || usage_error "--only: found '$1', expected one of: ${STAGES[*]} ${SLOW_STAGES[*]:2}"
  case $1 in
    contract) stages=(build ctest contract) ;;
    ctest | system | slow | browser | page_load | tidy | tidy_all | faults_long) stages=(build "$1") ;;
    *) stages=("$1") ;;
  esac
}

stage_setup() {
  scripts/setup.sh --test
  if has_package promtool; then fetch_tool usr/bin/promtool promtool; else fetch_tool usr/bin/promtool prometheus; fi # Debian 13, 12
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
  cmake --preset ci
  cmake --build --preset ci -j "$(build_jobs)"
}

# Reads each source by itself. Finds those that rely on includes of their neighbours in a unity build, without making `dev`.
stage_alone() {
  cmake --preset dev
  sed -nE 's/^ *"command": "(.*) -o [^ ]+ -c ([^ ]+\.cc)",?$/\1 -fsyntax-only \2/p' build/dev/compile_commands.json |
    sed 's/^.*ccache //; s/\\\\\\"/\\"/g' | awk '$NF !~ /\/build\// && !seen[$NF]++' |
    xargs -d '\n' -P "$(build_jobs)" -I{} sh -c 'cd build/dev && {}'
}

stage_ctest() {
  rm -f "$EXCHANGES"
  if [ -x "${PROMTOOL:=$TOOLS/promtool}" ]; then export PROMTOOL; fi
  ctest --preset ctest
}

stage_system() {
  if has_node; then npm_packages tests/interop; fi                         # of interop_markup
  CTEST_PARALLEL_LEVEL=$((CTEST_PARALLEL_LEVEL + 6)) ctest --preset system # they mostly wait
}

# Checks the answers that the server's tests received against the openapi.json that it served there.
stage_contract() {
  needs_node tests/contract "holding answers against openapi.json"
  npm run --silent --prefix tests/contract validate -- "$EXCHANGES" "$LOGS/contract.xml"
}

stage_slow() {
  if has_node; then npm_packages tests/interop; fi # of interop_models
  fetch_tool usr/sbin/nginx nginx
  fetch_tool usr/bin/caddy caddy
  fetch_tool usr/sbin/apache2 apache2-bin libapr1{,t64} libaprutil1{,t64} liblua5.4-0
  fetch_tool usr/sbin/haproxy haproxy liblua5.{3,4}-0 libopentracing-c-wrapper0{,t64} libopentracing1
  ctest --preset slow
}

stage_tidy() { scripts/check_tidy.sh --quick base client nmt/core worker; }
stage_tidy_all() { scripts/check_tidy.sh; }

# Checks and tests the dashboard's sources. Their build is in the repository, so only this stage needs Node.
stage_page() {
  needs_node server/dashboard "testing the dashboard"
  cd server/dashboard
  npm run check-dist
  npx vitest run --reporter=default --reporter=junit --outputFile.junit="$LOGS/page.xml"
}

in_browser() { # SECONDS SCRIPT
  needs_node server/dashboard "testing the page in a browser"
  CHROMIUM=$(command -v "${CHROMIUM:-chromium}") || skip_stage "testing the page in a browser needs Chromium"
  export CHROMIUM
  timeout --verbose "$1" node "tests/dashboard/$2" --server-binary "build/ci/bin/server"
}

# The page in Chromium, served by the server that was just built; walk_test.mjs also starts workers and a translator, load_test.mjs
# shows a million updates, hundreds of metrics, and live charts for minutes.
stage_browser() { for script in browser_test.mjs run_page_test.mjs walk_test.mjs; do in_browser 900 "$script"; done; }
stage_page_load() { in_browser 1200 load_test.mjs; }

# compile_sanitized TEST-PRESET: the programs of its tests, test_NAME; NAME_avx2 or NAME_without_THING starts that of another test.
compile_sanitized() {
  local preset=${1//_/-} targets
  cmake --preset "$preset"
  mapfile -t targets < <(ctest --preset "$1" -N | sed -nE 's/^ *Test +#[0-9]+: ([^ ]+)$/test_\1/p' |
    grep -Fxf <(ninja -C "build/$preset" -t targets all | sed -n 's/: phony$//p') | sort -u)
  cmake --build --preset "$preset" -j "$(build_jobs)" --target "${targets[@]}"
}

# Compiles at the lowest priority, beside other stages, the tests of the stages asan and fuzz, which do and report what this cannot.
compile_meanwhile() {
  set +e
  renice -n 19 -p "$BASHPID"
  compile_sanitized asan
  scripts/fuzz.sh --build
}

# begin_stage NAME: the compilation beside it begins with the stage scripts, and has ended when asan does.
begin_stage() {
  if [ "$1" = scripts ] && [[ " ${stages[*]} " = *" asan fuzz "* ]]; then
    set -m # its own process group, which ends with this script
    compile_meanwhile >"$LOGS/meanwhile.log" 2>&1 &
    meanwhile=$!
    set +m
    trap 'kill -- "-$meanwhile" 2>/dev/null || true' EXIT
  fi
  if [ "$1" = asan ] && [ -n "$meanwhile" ]; then wait "$meanwhile" || true; fi
}

sanitized() { # TEST-PRESET COMMAND-BEFORE-CTEST...
  compile_sanitized "$1"
  "${@:2}" ctest --preset "$1"
}
stage_asan() { sanitized asan; }
stage_asan_full() { sanitized asan_full; }

# g++ 12's thread sanitizer needs the addresses that a kernel without randomisation gives.
stage_tsan() { if setarch -R true 2>/dev/null; then sanitized tsan setarch -R; else sanitized tsan; fi; }

stage_fuzz() { scripts/fuzz.sh --seconds 10; }
stage_fuzz_long() { scripts/fuzz.sh --seconds 300; }
stage_faults_long() { BABELRING_BIN=$ROOT/build/ci/bin scripts/faults.sh --long; }

main() {
  local stage stages built=yes began=$SECONDS
  parse_arguments "$@"
  cd "$ROOT"
  unset "${!OMPI_@}" # settings of this shell, which another machine does not have
  export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
  mkdir -p "$LOGS"
  for stage in "${stages[@]}"; do
    if [ "$built" = no ] && [[ $stage =~ ^(ctest|system|contract|browser|page_load|tidy|slow|tidy_all)$ ]]; then
      leave_out "$stage" "the build failed" && continue
    fi
    begin_stage "$stage"
    run_stage "$stage"
    if [ "$stage" = build ] && [ "$stage_failed" -ne 0 ]; then built=no; fi
  done
  print_summary $((SECONDS - began))
}

main "$@"
