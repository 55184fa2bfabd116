#!/usr/bin/env bash
# Checks every C++ source against .clang-format.
#
#   scripts/check_format.sh          names the lines that differ and exits 1
#   scripts/check_format.sh --fix    rewrites them
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

main() {
  local how=(--dry-run -Werror) sources
  case ${1:-} in
    '') ;;
    --fix) how=(-i) ;;
    --help | -h) print_header && exit 0 ;;
    *) usage_error "unknown option $1" ;;
  esac
  mapfile -d '' -t sources < <(find "$ROOT"/{base,nmt,client,cli,worker,server,tests} -name node_modules -prune -o \
    \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0)
  printf '%s\0' "${sources[@]}" | xargs -0 -n 16 -P "$(nproc)" clang-format "${how[@]}"
}

main "$@"
