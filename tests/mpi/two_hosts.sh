#!/bin/bash
# Runs a program under mpirun on two simulated hosts: network namespaces of this machine with a TCP link between them.
# Each has its own name (hostA, hostB), address, IPC and /dev/shm, so MPI sees two machines.
#
#   two_hosts.sh [--rate 1gbit] [--slots N] [--mpirun "more options"] -- PROGRAM ARGS...
#   two_hosts.sh --agent FILE -- PROGRAM ARGS...
#
# --agent runs only PROGRAM, on hostA, and writes to FILE the plm_rsh_agent that mpirun needs to reach hostB.
# --rate limits the link in both directions (tc tbf). --slots is the number of ranks per host (default 1),
# or two numbers: 1,3 are one rank on hostA and three on hostB.
# The exit code is the program's, or 77 if this machine does not allow namespaces. Everything is removed at the end.
set -euo pipefail

rate="" slots=1 more=() agent=""
while [ $# -gt 0 ]; do
  case $1 in
    --rate)
      rate=$2
      shift 2
      ;;
    --slots)
      slots=$2
      shift 2
      ;;
    --agent)
      agent=$2
      shift 2
      ;;
    --mpirun)
      read -ra more <<<"$2"
      shift 2
      ;;
    --)
      shift
      break
      ;;
    *)
      echo "two_hosts.sh: unknown option $1 (--rate, --slots, --mpirun, --agent, --)" >&2
      exit 2
      ;;
  esac
done
[ $# -gt 0 ] || {
  echo "usage: two_hosts.sh [--rate 1gbit] [--slots N] [--mpirun OPTIONS] -- PROGRAM ARGS..." >&2
  exit 2
}

skip() {
  echo "two_hosts.sh: skipped: $1" >&2
  exit 77
}
[ "$(id -u)" = 0 ] || skip "creating network namespaces requires root"
for tool in ip tc unshare mpirun; do command -v $tool >/dev/null || skip "$tool is not installed"; done

id=$$
declare -A namespace=([hostA]=babelring-$id-a [hostB]=babelring-$id-b)
folder=$(mktemp -d "/tmp/babelring-hosts-$id.XXXX")

# shellcheck disable=SC2317  # called by the trap
clean_up() {
  trap - EXIT
  for name in "${namespace[@]}"; do
    # Remaining processes in the namespace belong to this run.
    for pid in $(ip netns pids "$name" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns del "$name" 2>/dev/null || true
    rm -rf "/etc/netns/$name"
  done
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for name in "${namespace[@]}"; do
  ip netns add "$name" 2>/dev/null || skip "no permission to create network namespaces"
  mkdir -p "/etc/netns/$name"
  printf '127.0.0.1 localhost\n10.77.0.1 hostA\n10.77.0.2 hostB\n' >"/etc/netns/$name/hosts"
  ip -n "$name" link set lo up
done
ip link add linkA netns "${namespace[hostA]}" type veth peer name linkB netns "${namespace[hostB]}" 2>/dev/null ||
  skip "no permission to create veth links"
ip -n "${namespace[hostA]}" addr add 10.77.0.1/24 dev linkA
ip -n "${namespace[hostB]}" addr add 10.77.0.2/24 dev linkB
ip -n "${namespace[hostA]}" link set linkA up
ip -n "${namespace[hostB]}" link set linkB up
if [ -n "$rate" ]; then
  for end in A B; do
    ip netns exec "${namespace[host$end]}" \
      tc qdisc add dev "link$end" root tbf rate "$rate" burst 256kb latency 50ms || skip "tc cannot shape to $rate"
  done
fi

# Enters a host: sets its name, IPC and shared memory.
cat >"$folder/enter" <<'END'
#!/bin/bash
name=$1 namespace=$2
shift 2
exec ip netns exec "$namespace" unshare --uts --ipc bash -c '
  hostname "$0" && mount -t tmpfs tmpfs /dev/shm && exec "$@"' "$name" "$@"
END
# mpirun's remote shell: agent [-options] HOST COMMAND...
cat >"$folder/agent" <<END
#!/bin/bash
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
case \$host in hostA) namespace=${namespace[hostA]} ;; hostB) namespace=${namespace[hostB]} ;; *) exit 2 ;; esac
exec "$folder/enter" "\$host" "\$namespace" bash -c "\$*"
END
chmod +x "$folder/enter" "$folder/agent"
"$folder/enter" hostA "${namespace[hostA]}" true 2>/dev/null || skip "no permission to create UTS and IPC namespaces"

code=0
# Runs in the background, so that a signal to this script is handled immediately.
if [ -n "$agent" ]; then
  cp "$folder/agent" "$agent"
  "$folder/enter" hostA "${namespace[hostA]}" "$@" <&0 &
  wait $! || code=$?
  exit $code
fi
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  "$folder/enter" hostA "${namespace[hostA]}" \
  mpirun --bind-to none --mca plm_rsh_agent "$folder/agent" -H "hostA:${slots%,*},hostB:${slots#*,}" -np $((${slots%,*} + ${slots#*,})) \
  --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
  ${more[@]+"${more[@]}"} "$@" <&0 &
wait $! || code=$?
exit $code
