#!/usr/bin/env bash
# Installs everything Babelring needs, by package name, on Debian 12 (bookworm) and 13 (trixie); where npm is, also ONNX Runtime for
# browsers, from which the build takes what translates there (the dashboard's "try offline").
#
#   scripts/setup.sh            what building and running need
#   scripts/setup.sh --test     also what only the tests and checks need (a browser only where there is Node)
#   scripts/setup.sh --bundle   also what only scripts/gpu_bundle.sh needs
#   scripts/setup.sh --check    installs nothing; names missing packages and exits 1 if there are any
#   scripts/setup.sh --list     prints the package names of this release, one per line; on Ubuntu 24.04 and 26.04 too (not tried)
#   scripts/setup.sh --replace  lets apt remove packages that are in the way (Boost 1.74's -dev packages)
#   scripts/setup.sh --help     this text
#
# The GPU module needs NVIDIA's CUDA toolkit (nvcc, cuBLASLt; 13.0 or newer), which this script does not install: without
# it everything else is built. See docs/gpu.md.
#
# Needs root or sudo only when something is missing. Quiet: apt's output goes to a log file, whose last lines are
# shown when something fails. BABELRING_SKIP_SETUP=1 makes it do nothing, for machines kept by other means.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Prints "ID VERSION_ID" of this system, such as "debian 12".
system() {
  if [ -r /etc/os-release ]; then (. /etc/os-release && printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}"); else printf unknown; fi
}

# The names that differ between releases. Boost by version on Debian 12: its unversioned libboost-*-dev is 1.74, and the two sets
# exclude each other. clang-format and clang-tidy are 19 everywhere: another version formats and reports otherwise. Ubuntu's names
# were looked up in its package lists and not tried.
boost='' clang_rt=libclang-rt-dev launcher=()
case $(system) in
  "debian 12") boost=1.81 clang_rt=libclang-rt-14-dev ;;
  "ubuntu 24.04") clang_rt=libclang-rt-18-dev ;;
  "ubuntu 26.04") launcher=(libprrte-bin) ;;
esac
BUILD_PACKAGES=(
  build-essential g++ cmake ninja-build ccache git pkg-config file # cpack -G DEB needs file
  "libboost$boost-dev" "libboost-json$boost-dev" "libboost-url$boost-dev"
  libopenmpi-dev libdnnl-dev libsentencepiece-dev libicu-dev libcld2-dev
  libsqlite3-dev libssl-dev zlib1g-dev liblzma-dev libbz2-dev libzstd-dev libzip-dev libexpat1-dev libjemalloc-dev prometheus-cpp-dev
  libspdlog-dev libfmt-dev libyaml-cpp-dev libcli11-dev
)
RUN_PACKAGES=(openmpi-bin "${launcher[@]}" openssh-client python3 curl ca-certificates)
TEST_PACKAGES=(
  libgtest-dev libgmock-dev
  clang-format-19 clang-tidy-19 black shfmt shellcheck universal-ctags iproute2 libarchive-tools openssl
  python3-protobuf python3-crcmod python3-yaml python3-jsonschema fish zsh man-db
  python3-venv python3-pip python3-numpy python3-pandas # of the Python package
  python3-torch                                         # 50 to 130 MB; reads exported models
  debootstrap patchelf buildah netavark docker-compose  # Debian 13's buildah starts no build without netavark
  faketime clang "$clang_rt"                            # libFuzzer: 45 MB in addition to clang-tidy's packages
  slurm-wlm munge                                       # 13 MB; the tests start their own daemons and leave the installed ones alone
)
BUNDLE_PACKAGES=(patchelf libgtest-dev libgmock-dev)
PAGE_TEST_PACKAGES=(chromium) # 180 MB with what it needs: only where Node is, without which the page is not tested

test_too=no bundle_too=no mode=install replace=no

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --test) test_too=yes ;;
      --bundle) bundle_too=yes ;;
      --check) mode=check ;;
      --list) mode=list ;;
      --replace) replace=yes ;;
      --help | -h) print_header && exit 0 ;;
      *) usage_error "unknown option $1" ;;
    esac
    shift
  done
}

wanted() {
  printf '%s\n' "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
  if [ "$bundle_too" = yes ]; then printf '%s\n' "${BUNDLE_PACKAGES[@]}"; fi
  [ "$test_too" = yes ] || return 0
  printf '%s\n' "${TEST_PACKAGES[@]}"
  if has_node; then printf '%s\n' "${PAGE_TEST_PACKAGES[@]}"; fi
}

# Prints the wanted packages that are not fully installed, one per line, by a single dpkg-query.
missing() {
  local installed names
  mapfile -t names < <(wanted)
  # dpkg-query exits 1 when it has never heard of one of them, which is an answer here and no failure.
  # shellcheck disable=SC2016  # the dollar signs are dpkg-query's
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${names[@]}" 2>/dev/null |
    awk '$2 == "installed" { print $1 }' || true)
  printf '%s\n' "${names[@]}" | grep -vxF -f <(printf '%s\n' "${installed:-none}") || true
}

explain_elsewhere() {
  cat >&2 <<TEXT
setup.sh installs packages on Debian 12 and 13; this is $1.
Elsewhere please install these yourself, then run with BABELRING_SKIP_SETUP=1:
  a C++20 compiler (g++ 12 or newer), CMake 3.25, Ninja, git, pkg-config; ccache if you like
  Boost 1.81 or newer: headers (Beast, Asio), json, url
  Open MPI 4.1 or 5.0 with mpirun and an ssh client; oneDNN 2.6 or 3; SentencePiece 0.1.97; ICU; CLD2
  npm, if the dashboard is to translate in the browser: run 'npm ci' in server/page before the build
  SQLite 3.40, OpenSSL 3, zlib, liblzma 5.4, bzip2, zstd 1.5, libzip 1.7, Expat 2.5, jemalloc 5.2, prometheus-cpp 1.0 (core); spdlog 1.10, fmt 9, yaml-cpp 0.7, CLI11 2.1
  python3 and curl for the scripts; dpkg-deb for the corpus of the quickstart
  tests only: GoogleTest 1.12 with gmock, clang-format and clang-tidy 19, black, shfmt, shellcheck, ctags, ip, openssl;
    Node 20.19 with npm for those of exported models and the dashboard, Chromium for the latter
  for GPUs only: NVIDIA's CUDA toolkit 13.0 or newer (nvcc, cuBLASLt)
On Debian and Ubuntu this script's --list (and --list --test) prints the package names; those of Ubuntu were looked up, not tried.
TEXT
}

require_known_release() {
  local here
  here=$(system)
  [[ $here =~ ^debian\ (12|13)$ ]] && command -v apt-get >/dev/null && return
  explain_elsewhere "$here"
  exit 1
}

# Sets AS_ROOT to the words that run a command as root, or says what to ask an administrator for.
AS_ROOT=()
become_root() {
  [ "$(id -u)" -ne 0 ] || return 0
  if command -v sudo >/dev/null; then
    AS_ROOT=(sudo)
  else
    die "not root and no sudo; ask an administrator for: apt-get install --no-install-recommends $*"
  fi
}

# Fails if apt would remove packages, and names them.
refuse_removals() {
  local removed
  removed=$(LC_ALL=C apt-get -s install --no-install-recommends "$@" 2>/dev/null | awk '/^Remv / { printf " %s", $2 }') || true
  [ -z "$removed" ] || [ "$replace" = yes ] ||
    die "installing would remove:$removed. Boost 1.74's and 1.81's -dev packages exclude each other;" \
      "run again with --replace to let apt remove them, or use another machine or container"
}

install_packages() {
  local log apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300)
  log=$(mktemp "${TMPDIR:-/tmp}/babelring-setup-XXXXXX.log")
  say "setup: installing $# packages ($log)"
  quietly "$log" "apt-get update" "${AS_ROOT[@]}" "${apt[@]}" update || exit 1
  refuse_removals "$@"
  quietly "$log" "apt-get install" "${AS_ROOT[@]}" "${apt[@]}" install --no-install-recommends "$@" || exit 1
  rm -f "$log"
}

# The server is built without it, too, and its page then says what it lacks.
install_page_package() {
  [ -e "$ROOT/server/page/package-lock.json" ] && command -v npm >/dev/null || return 0
  npm_packages server/page ||
    warn "npm did not install the package of server/page (run 'npm ci' there to see why): the page will not translate offline"
}

main() {
  parse_arguments "$@"
  if [ "$mode" = list ]; then wanted && return; fi
  if [ "${BABELRING_SKIP_SETUP:-}" = 1 ]; then return; fi
  require_known_release
  local absent
  mapfile -t absent < <(missing)
  if [ "$mode" = check ]; then
    if [ ${#absent[@]} -eq 0 ]; then return; fi
    printf 'missing: %s\n' "${absent[*]}"
    exit 1
  fi
  if [ ${#absent[@]} -gt 0 ]; then
    become_root "${absent[*]}"
    install_packages "${absent[@]}"
    mapfile -t absent < <(missing)
    [ ${#absent[@]} -eq 0 ] || die "apt-get succeeded, yet these are missing: ${absent[*]}"
  fi
  install_page_package
}

main "$@"
