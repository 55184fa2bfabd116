#!/usr/bin/env bash
# Open MPI 5.0.7's mpirun exits 0 after it has lost communication with a host's daemon; 4.1.4's exits 205.
#
#   findings/open_mpi_5_lost_host_exit_code.sh    needs root, debootstrap, ip, unshare, nsenter and Debian's mirror; takes minutes
#
# Packages, nothing else: openmpi-bin 4.1.4-3+b1 of Debian 12 and 5.0.7-1 of Debian 13, each in a temporary system made by debootstrap.
# Two hosts are network namespaces of this machine, joined by a virtual link; the remote shell enters the second. mpirun starts a
# shell that sleeps on each; then host B's link is set down. Exits 0 if both behave as stated below, 1 if one does not any more, 77 if this
# machine lacks something.
#
# Seen on 28 November 2026, on two cores of an AMD EPYC under Debian 12:
#
#   4.1.4-3+b1: exit code 205
#     ORTE has lost communication with a remote daemon.
#       HNP daemon   : [[42112,0],0] on node hostA
#       Remote daemon: [[42112,0],1] on node hostB
#   5.0.7-1: exit code 0, after 4 s
#     PRTE has lost communication with a remote daemon.
#       HNP daemon   : [prterun-hostA-1@0,0] on node hostA
#       Remote daemon: [prterun-hostA-1@0,1] on node hostB
#   both, after that:
#     This is usually due to either a failure of the TCP network connection to the node, or possibly an internal failure of the daemon
#     itself. We cannot recover from this failure, and therefore will terminate the job.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=scripts/lib/debian.sh
source "$ROOT/scripts/lib/debian.sh"

A=finding-$$-a B=finding-$$-b
folder=''

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

require() {
  local name
  [ "$(id -u)" -eq 0 ] || lacking "needs root"
  for name in debootstrap ip unshare nsenter; do
    command -v "$name" >/dev/null || lacking "there is no $name"
  done
}

# In namespaces of mounts and processes. Arguments: the system's folder, A's network namespace, then what the first host runs.
# shellcheck disable=SC2016  # expanded by the shell that runs it
HOST_A='
set -e
mount --bind "$1" "$1"
mkdir -p "$1/run/netns"
mount --rbind /run/netns "$1/run/netns"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
hostname hostA
root=$1 network=$2
shift 2
exec nsenter --net="/run/netns/$network" chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root "$@"
'

make_network() {
  ip netns add "$A"
  ip netns add "$B"
  ip link add vA netns "$A" type veth peer name vB netns "$B"
  ip -n "$A" addr add 10.77.0.1/24 dev vA
  ip -n "$B" addr add 10.77.0.2/24 dev vB
  for host in "$A:vA" "$B:vB"; do
    ip -n "${host%:*}" link set lo up
    ip -n "${host%:*}" link set "${host#*:}" up
  done
}

remove_network() {
  ip netns del "$A" 2>/dev/null || true
  ip netns del "$B" 2>/dev/null || true
}

prepare() { # SYSTEM
  printf '127.0.0.1 localhost\n10.77.0.1 hostA\n10.77.0.2 hostB\n' >"$1/etc/hosts"
  cat >"$1/agent.sh" <<AGENT
#!/bin/bash
while [ "\${1#-}" != "\$1" ]; do shift; done
shift
exec nsenter --net=/run/netns/$B unshare --uts --ipc --mount bash -c "hostname hostB; mount -t tmpfs tmpfs /dev/shm; \$*"
AGENT
  chmod +x "$1/agent.sh"
}

# lose_host SYSTEM VERSION: prints mpirun's exit code; its output is in SYSTEM/output.
lose_host() {
  local pid status=0 waited=0
  rm -f "$1"/started.*
  make_network
  prepare "$1"
  # shellcheck disable=SC2016  # the host's shell expands it
  timeout 120 unshare --mount --uts --ipc --pid --fork --kill-child bash -c "$HOST_A" bash "$1" "$A" \
    mpirun --allow-run-as-root --bind-to none --host hostA:1,hostB:1 -np 2 --mca plm_rsh_agent /agent.sh \
    --mca oob_tcp_if_include 10.77.0.0/24 --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2 \
    sh -c 'touch "/started.$(hostname)"; exec sleep 60' >"$1/output" 2>&1 </dev/null &
  pid=$!
  until [ -e "$1/started.hostA" ] && [ -e "$1/started.hostB" ]; do
    sleep 0.2
    waited=$((waited + 1))
    [ $waited -lt 300 ] || break
  done
  ip -n "$B" link set vB down
  wait $pid || status=$?
  remove_network
  printf '%s' $status
}

# check RELEASE VERSION EXIT-CODE WORDS: makes the system, loses a host there and compares. Sets `changed`.
check() {
  local release=$1 version=$2 expected=$3 words=$4 system=$folder/$1 found status
  mkdir "$system"
  say "making $release with openmpi-bin"
  (debian_system "$release" "$system" openmpi-bin) || lacking "debootstrap made no $release"
  # shellcheck disable=SC2016  # the dollar sign is dpkg-query's
  found=$(chroot "$system" dpkg-query -W -f '${Version}' openmpi-bin)
  status=$(lose_host "$system")
  say "openmpi-bin $found: exit code $status; mpirun says:"
  tr -d '\0' <"$system/output" | grep -v '^ *$' | sed 's/^/  | /' >&2
  [ "$found" = "$version" ] || changed+=("openmpi-bin of $release is $found, expected $version")
  [ "$status" = "$expected" ] || changed+=("$found exits $status, expected $expected")
  grep -aq "$words" "$system/output" || changed+=("$found does not say \"$words\"")
}

main() {
  local changed=()
  if [ "${1:-}" = --help ]; then print_header && exit 0; fi
  [ $# -eq 0 ] || usage_error "unknown option $1"
  require
  folder=$(mktemp -d "${TMPDIR:-/tmp}/babelring-finding-XXXXXX")
  trap 'remove_network; rm -rf --one-file-system "$folder"' EXIT
  check bookworm 4.1.4-3+b1 205 "ORTE has lost communication with a remote daemon"
  check trixie 5.0.7-1 0 "PRTE has lost communication with a remote daemon"
  if [ ${#changed[@]} -gt 0 ]; then
    printf 'changed: %s\n' "${changed[@]}"
    exit 1
  fi
  echo "as stated: 4.1.4 exits 205 after it has lost a host, 5.0.7 exits 0"
}

main "$@"
