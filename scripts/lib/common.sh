# shellcheck shell=bash
# Helpers the shell scripts share. Sourced, never run.
#
# People's text goes to standard error through say/warn/die; standard output belongs to the calling script.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export ROOT

say() { printf '%s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

usage_error() {
  printf '%s: %s (see --help)\n' "$(basename "$0")" "$*" >&2
  exit 2
}

# print_header: the comment block at the top of the running script is its --help text.
print_header() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# option_value NAME ARGS-LEFT VALUE: the value of an option, or a usage error when there is none.
option_value() {
  [ "$2" -ge 2 ] || usage_error "$1 needs a value"
  printf '%s' "$3"
}

# quietly LOG WHAT COMMAND...: runs a command with its output in LOG; on failure shows the log's end.
quietly() {
  local log=$1 what=$2 status=0
  shift 2
  "$@" >>"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    say "$what failed with exit code $status; the last lines of $log:"
    tail -n 25 "$log" | sed 's/^/  | /' >&2
  fi
  return "$status"
}

# has_node: whether Node, with npm, is as new as the dashboard's tools want it (20.19).
has_node() {
  command -v npm >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

# npm_packages FOLDER: installs what its package-lock.json names, if that is newer. npm 9.2, of Debian 13, says that this file is
# absent where "overrides" names another package, as the dashboard's do: there a newer npm, from the registry, installs them.
npm_packages() (
  local npm=(npm)
  cd "$ROOT/$1" || exit
  if [ node_modules/.package-lock.json -nt package-lock.json ]; then return; fi
  case $(npm --version) in [0-9].*) npm=(npx --yes npm@11.19.1) ;; esac
  "${npm[@]}" ci --silent --no-audit --no-fund
)

# minutes SECONDS: as a number with two decimals.
minutes() { awk -v s="$1" 'BEGIN { printf "%.2f", s / 60 }'; }

# build_jobs: as many compilers as there are cores, but no more than memory allows (1.5 GiB each).
build_jobs() {
  local cores memory_kib jobs
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
  jobs=$((memory_kib / 1572864))
  [ "$jobs" -ge 1 ] || jobs=1
  [ "$jobs" -le "$cores" ] || jobs=$cores
  printf '%s' "${BABELRING_JOBS:-$jobs}"
}
