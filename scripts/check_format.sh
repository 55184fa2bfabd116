#!/usr/bin/env bash
# Checks every source against its formatter: clang-format 19 for C++, black for Python, shfmt for shell, Prettier for TypeScript
# and JavaScript. Lines have 120 columns. Without Node, TypeScript and JavaScript are skipped with a message.
#
#   scripts/check_format.sh [FILE...]          names what differs and exits 1
#   scripts/check_format.sh --fix [FILE...]    rewrites it
#
# Configuration: .clang-format, pyproject.toml, .prettierrc.json; scripts/format pins Prettier's version, scripts/setup.sh clang-format's.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

FOLDERS=(base insight nmt lab client cli capi python worker server tests scripts deploy)
PRETTIER=$ROOT/scripts/format/node_modules/prettier/bin/prettier.cjs
fix=no files=()

# sources SUFFIX...: the given files with these suffixes, or all in the tree; each ends with a zero byte.
sources() {
  local suffix found tests=()
  if [ ${#files[@]} -gt 0 ]; then
    for suffix in "$@"; do
      for found in "${files[@]}"; do
        if [ "${found##*.}" = "$suffix" ]; then printf '%s\0' "$found"; fi
      done
    done
    return
  fi
  for suffix in "$@"; do tests+=(-o -name "*.$suffix"); done
  find "${FOLDERS[@]/#/$ROOT/}" \( -name node_modules -o -path "$ROOT/server/dashboard/dist" \) -prune -o \
    -type f ! -name '*.d.ts' \( "${tests[@]:1}" \) -print0
}

# format FILES-PER-CALL SUFFIX... -- COMMAND...: runs the command on all sources with these suffixes.
format() {
  local batch=$1 suffixes=()
  shift
  while [ "$1" != -- ]; do suffixes+=("$1") && shift; done
  shift
  sources "${suffixes[@]}" | xargs -0 -r -n "$batch" -P "$(nproc)" "$@"
}

format_cpp() {
  local how=(--dry-run -Werror)
  if [ "$fix" = yes ]; then how=(-i); fi
  format 16 h cc cu cuh -- clang-format-19 "${how[@]}"
}

format_python() {
  local how=(--check)
  if [ "$fix" = yes ]; then how=(); fi
  format 16 py -- black --quiet --config "$ROOT/pyproject.toml" "${how[@]}" && return
  if [ "$fix" = no ]; then name_python; fi
  return 1
}

# black --quiet says nothing about the files that differ.
name_python() {
  format 16 py -- black --check --config "$ROOT/pyproject.toml" 2>&1 | grep '^would reformat\|^error' >&2 || true
}

format_shell() {
  local how=(-d)
  if [ "$fix" = yes ]; then how=(-w); fi
  format 64 sh -- shfmt -i 2 -ci "${how[@]}"
}

format_typescript() {
  local how=(--check)
  if [ "$fix" = yes ]; then how=(--write); fi
  if ! has_node; then
    say "check_format: TypeScript and JavaScript are skipped: Node 20.19 or newer with npm is missing"
    return
  fi
  npm_packages scripts/format
  format 64 ts mjs -- node "$PRETTIER" --config "$ROOT/.prettierrc.json" --log-level warn "${how[@]}"
}

main() {
  local status=0 language
  while [ $# -gt 0 ]; do
    case $1 in
      --fix) fix=yes ;;
      --help | -h) print_header && exit 0 ;;
      -*) usage_error "unknown option $1" ;;
      *) files+=("$1") ;;
    esac
    shift
  done
  for language in cpp python shell typescript; do
    "format_$language" || { say "check_format: $language differs: run scripts/check_format.sh --fix" && status=1; }
  done
  return $status
}

main "$@"
