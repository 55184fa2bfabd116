#!/usr/bin/env bash
# Open MPI 5.0.7's mpirun does not start if an earlier one with its process number was killed: in a container that is started again,
# whose process numbers repeat while its /tmp stays. 4.1.4's starts.
#
#   findings/open_mpi_5_session_folder_of_a_killed_run.sh    needs root, debootstrap, unshare and Debian's mirror; takes minutes
#
# Packages, nothing else: openmpi-bin 4.1.4-3+b1 of Debian 12 and 5.0.7-1 of Debian 13, each in a temporary system made by debootstrap. A
# namespace of processes stands for the container: mpirun is its second process, and is killed with it. Then the same again, in the same
# system. Exits 0 if both behave as stated below, 1 if one does not any more, 77 if this machine lacks something.
#
# Seen on 1 December 2026, on two cores of an AMD EPYC under Debian 12:
#
#   4.1.4-3+b1: exit code 0 the second time
#   5.0.7-1: exit code 213 the second time, because the folder prterun.HOST.2.0 of the first is still in /tmp; mpirun says
#     PMIX ERROR: PMIX_ERR_EXISTS in file ../../../../../../3rd-party/prrte/src/util/session_dir.c at line 95
#     PRTE ERROR: Exists in file ../../../../../../3rd-party/prrte/src/util/session_dir.c at line 172
#     prte_session_dir failed
#     --> Returned value Exists (-14) instead of PRTE_SUCCESS
#
# With PRTE_MCA_prte_local_tmpdir_base naming another folder for each start it starts.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=scripts/lib/debian.sh
source "$ROOT/scripts/lib/debian.sh"

folder=''

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

require() {
  local name
  [ "$(id -u)" -eq 0 ] || lacking "needs root"
  for name in debootstrap unshare; do
    command -v "$name" >/dev/null || lacking "there is no $name"
  done
}

# The container's first process. Arguments: the system's folder, then "kill" or "wait". mpirun is the second.
# shellcheck disable=SC2016  # expanded by the shell that runs it
CONTAINER='
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
'
# shellcheck disable=SC2016
FIRST_PROCESS='
seconds=1
if [ "$1" = kill ]; then seconds=60; fi
mpirun --allow-run-as-root --oversubscribe -np 2 sh -c "touch /started; exec sleep $seconds" >/output 2>&1 </dev/null &
if [ "$1" = wait ]; then wait $! && exit 0 || exit $?; fi
until [ -e /started ]; do :; done
kill -KILL $$
'

# run SYSTEM kill|wait [NAME=VALUE]
run() {
  rm -f "$1/started"
  # shellcheck disable=SC2016
  timeout 120 unshare --mount bash -c "$CONTAINER"' exec unshare --pid --fork --kill-child chroot "$1" env -i PATH=/usr/bin:/bin HOME=/root \
    ${3:+"$3"} bash -c "$4" bash "$2"' bash "$1" "$2" "${3:-}" "$FIRST_PROCESS"
}

# check RELEASE VERSION EXIT-CODE: makes the system, kills a run there, starts it again and compares. Sets `changed`.
check() {
  local release=$1 version=$2 expected=$3 system=$folder/$1 found status=0 elsewhere=0
  mkdir "$system"
  say "making $release with openmpi-bin"
  (debian_system "$release" "$system" openmpi-bin) || lacking "debootstrap made no $release"
  # shellcheck disable=SC2016  # the dollar sign is dpkg-query's
  found=$(chroot "$system" dpkg-query -W -f '${Version}' openmpi-bin)
  run "$system" kill || true
  run "$system" wait || status=$?
  say "openmpi-bin $found: exit code $status the second time; mpirun says:"
  grep -v '^ *$' "$system/output" | sed 's/^/  | /' >&2 || true
  [ "$found" = "$version" ] || changed+=("openmpi-bin of $release is $found, expected $version")
  [ "$status" = "$expected" ] || changed+=("$found exits $status, expected $expected")
  run "$system" wait PRTE_MCA_prte_local_tmpdir_base=/tmp/second || elsewhere=$?
  [ $elsewhere -eq 0 ] || changed+=("$found exits $elsewhere with another session folder, expected 0")
}

main() {
  local changed=()
  if [ "${1:-}" = --help ]; then print_header && exit 0; fi
  [ $# -eq 0 ] || usage_error "unknown option $1"
  require
  folder=$(mktemp -d "${TMPDIR:-/tmp}/babelring-finding-XXXXXX")
  trap 'rm -rf --one-file-system "$folder"' EXIT
  check bookworm 4.1.4-3+b1 0
  check trixie 5.0.7-1 213
  if [ ${#changed[@]} -gt 0 ]; then
    printf 'changed: %s\n' "${changed[@]}"
    exit 1
  fi
  echo "as stated: 4.1.4 starts again after a kill under the same process number, 5.0.7 does not"
}

main "$@"
