#!/usr/bin/env bash
# Runs clang-tidy 19 (rules in .clang-tidy) with the compile commands of a build folder.
#
#   scripts/check_tidy.sh [FOLDER...]   sources under these folders (default: all)
#   scripts/check_tidy.sh --changed     sources that differ from the last commit
#   scripts/check_tidy.sh --quick FOLDER...  as the unity build joins them, without the analyzer: a fifth of the time
#   scripts/check_tidy.sh --help        this text
#
# BABELRING_BUILD names the build folder (default build/dev, with --quick build/ci). It is configured anew each time: an old list of compile
# commands lacks new sources. Files with coroutines (server/http, server/api) are left out: clang-tidy cannot read
# coroutines as g++ 12's library defines them. So are those of nmt/ops/cuda, which the emulation compiles too, with
# options that only g++ knows.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

PRESET=dev

# Prints the sources to check, one per line, relative to the root.
candidates() {
  if [ "${1:-}" = --changed ]; then
    git diff --name-only --diff-filter=d HEAD -- '*.cc'
    git ls-files --others --exclude-standard -- '*.cc'
  elif [ $# -eq 0 ]; then
    find base insight nmt lab client cli capi worker server -name '*.cc'
  else
    find "$@" -name '*.cc'
  fi
}

# Prints the sources on standard input that the build compiles and that hold no coroutine.
readable() {
  grep -vE '^(server/(http|api)/|tests/(server|e2e)/|nmt/ops/cuda/)' | while read -r source; do
    if grep -qF "\"file\": \"$ROOT/$source\"" "$BUILD/compile_commands.json" && ! grep -qE '\bco_(await|return|yield)\b' "$source"; then
      printf '%s\n' "$source"
    fi
  done
}

# The unity build's sources of the rooms under these folders.
unity_sources() {
  local room
  for room in "$@"; do find "$BUILD/$room" -name 'unity_*_cxx.cxx'; done
}

# check CLANG-TIDY-ARGUMENTS... < SOURCES
check() {
  # g++'s omp.h, changed so that clang reads it: clang's is in a package that may be missing.
  mkdir -p "$BUILD/openmp"
  sed 's/__malloc__ (omp_free)/__malloc__/' "$(g++ -print-file-name=include/omp.h)" >"$BUILD/openmp/omp.h"
  # g++ warns about what is deprecated; clang 19 also of what g++ 12's library itself uses, and of g++'s parameters.
  xargs -n 1 -P "$(nproc)" clang-tidy-19 --quiet -p "$BUILD" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations \
    --extra-arg=-Wno-unused-command-line-argument --extra-arg="-isystem$BUILD/openmp" "$@" \
    2> >(grep -vE 'warnings? generated|^Suppressed' >&2)
}

# The analyzer takes most of the time, and looks into the unity source only, not into what that includes.
quick() {
  local sources
  mapfile -t sources < <(unity_sources "$@")
  [ ${#sources[@]} -gt 0 ] || { say "check_tidy: no unity sources under $*" && return 1; }
  say "check_tidy: ${#sources[@]} unity sources"
  printf '%s\n' "${sources[@]}" | check --checks='-clang-analyzer-*,-bugprone-suspicious-include' \
    --header-filter="$ROOT/($(IFS='|' && echo "$*"))/.*"
}

configure() {
  BUILD=${BABELRING_BUILD:-$ROOT/build/$PRESET}
  if [ -e "$BUILD/CMakeCache.txt" ]; then cmake "$BUILD" >/dev/null; else cmake --preset "$PRESET" -B "$BUILD" >/dev/null; fi
}

main() {
  local sources
  cd "$ROOT"
  case ${1:-} in
    --help | -h) print_header && exit 0 ;;
    --changed) ;;
    --quick)
      shift
      PRESET=ci
      configure
      quick "$@"
      return
      ;;
    -*) usage_error "unknown option $1" ;;
  esac
  configure
  mapfile -t sources < <(candidates "$@" | sort -u | readable || true)
  [ ${#sources[@]} -gt 0 ] || { say "check_tidy: nothing to check" && return; }
  say "check_tidy: ${#sources[@]} sources"
  printf '%s\n' "${sources[@]}" | check
}

main "$@"
