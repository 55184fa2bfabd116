#!/bin/bash
# Runs a program under mpirun on two simulated hosts: network namespaces of this machine with a TCP link between them.
# Each has its own name (hostA, hostB), address, IPC and /dev/shm, so MPI sees two machines.
#
#   two_hosts.sh [--rate 1gbit] [--hosts N] [--slots N] [--bridges] [--name NAME] [--mpirun "more options"] -- PROGRAM ARGS...
#   two_hosts.sh --agent FILE -- PROGRAM ARGS...
#
# --agent runs only PROGRAM, on hostA, and writes to FILE the plm_rsh_agent that mpirun needs to reach hostB.
# --rate limits each host's link in both directions (tc tbf). --hosts is the number of hosts, 2 to 16 (default 2): more
# than two (hostA, hostB, hostC, ...) are joined by a bridge. --slots is the number of ranks per host (default 1), or
# one number for each host: 1,3 are one rank on hostA and three on hostB. --bridges gives each host a docker0 with the same
# address, and does not tell Open MPI which network to take. --name calls each host NAME for itself, as cloned machines do.
# The exit code is the program's, or 77 if this machine does not allow namespaces. Everything is removed at the end.
set -euo pipefail

rate="" hosts=2 slots=1 more=() agent="" bridges="" name_of_all=""
network=(--mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24)
while [ $# -gt 0 ]; do
  case $1 in
    --rate)
      rate=$2
      shift 2
      ;;
    --hosts)
      hosts=$2
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
    --bridges)
      bridges=1 network=()
      shift
      ;;
    --name)
      name_of_all=$2
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
      echo "two_hosts.sh: unknown option $1 (--rate, --hosts, --slots, --bridges, --name, --mpirun, --agent, --)" >&2
      exit 2
      ;;
  esac
done
[ $# -gt 0 ] || {
  echo "usage: two_hosts.sh [--rate 1gbit] [--hosts N] [--slots N] [--bridges] [--name NAME] [--mpirun OPTIONS] -- PROGRAM ARGS..." >&2
  exit 2
}

skip() {
  echo "two_hosts.sh: skipped: $1" >&2
  exit 77
}
[ "$(id -u)" = 0 ] || skip "creating network namespaces requires root"
for tool in ip tc unshare mpirun; do command -v $tool >/dev/null || skip "$tool is not installed"; done

id=$$
letters=(A B C D E F G H I J K L M N O P)
[[ $hosts =~ ^([2-9]|1[0-6])$ ]] || {
  echo "two_hosts.sh: --hosts: expected 2 to 16, found $hosts" >&2
  exit 2
}
letters=("${letters[@]:0:hosts}")
declare -A namespace=()
for letter in "${letters[@]}"; do namespace[host$letter]=babelring-$id-${letter,,}; done
switch=babelring-$id-switch
folder=$(mktemp -d "/tmp/babelring-hosts-$id.XXXX")

# shellcheck disable=SC2317  # called by the trap
clean_up() {
  trap - EXIT
  for name in "${namespace[@]}" "$switch"; do
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

addresses="127.0.0.1 localhost" number=0
for letter in "${letters[@]}"; do addresses+=$'\n'"10.77.0.$((++number)) host$letter"; done
for name in "${namespace[@]}"; do
  ip netns add "$name" 2>/dev/null || skip "no permission to create network namespaces"
  mkdir -p "/etc/netns/$name"
  echo "$addresses" >"/etc/netns/$name/hosts"
  ip -n "$name" link set lo up
done
if [ "$hosts" = 2 ]; then
  ip link add linkA netns "${namespace[hostA]}" type veth peer name linkB netns "${namespace[hostB]}" 2>/dev/null ||
    skip "no permission to create veth links"
else
  ip netns add "$switch"
  ip -n "$switch" link add bridge0 type bridge 2>/dev/null || skip "no permission to create bridges"
  ip -n "$switch" link set bridge0 up
  for letter in "${letters[@]}"; do
    ip link add "link$letter" netns "${namespace[host$letter]}" type veth peer name "port$letter" netns "$switch" 2>/dev/null ||
      skip "no permission to create veth links"
    ip -n "$switch" link set "port$letter" master bridge0 up
  done
fi
if [ -n "$bridges" ]; then
  for name in "${namespace[@]}"; do
    ip -n "$name" link add docker0 type bridge 2>/dev/null || skip "no permission to create bridges"
    ip -n "$name" addr add 172.17.0.1/16 dev docker0
    ip -n "$name" link set docker0 up
    ip -n "$name" link add container0 type veth peer name container1 # with a member it has a carrier
    ip -n "$name" link set container0 master docker0 up
    ip -n "$name" link set container1 up
  done
fi
number=0
for letter in "${letters[@]}"; do
  ip -n "${namespace[host$letter]}" addr add "10.77.0.$((++number))/24" dev "link$letter"
  ip -n "${namespace[host$letter]}" link set "link$letter" up
  [ -n "$rate" ] || continue
  ip netns exec "${namespace[host$letter]}" \
    tc qdisc add dev "link$letter" root tbf rate "$rate" burst 256kb latency 50ms || skip "tc cannot shape to $rate"
done

# Enters a host: sets its name, IPC and shared memory.
cat >"$folder/enter" <<'END'
#!/bin/bash
name=${BABELRING_HOST_NAME:-$1} namespace=$2
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
case \$host in host[${letters[0]}-${letters[-1]}]) ;; *) exit 2 ;; esac
letter=\${host#host}
namespace=babelring-$id-\${letter,,}
export BABELRING_HOST_NAME=$name_of_all
exec "$folder/enter" "\$host" "\$namespace" bash -c "\$*"
END
chmod +x "$folder/enter" "$folder/agent"
"$folder/enter" hostA "${namespace[hostA]}" true 2>/dev/null || skip "no permission to create UTS and IPC namespaces"

code=0
export BABELRING_HOST_NAME=$name_of_all
# Runs in the background, so that a signal to this script is handled immediately.
if [ -n "$agent" ]; then
  cp "$folder/agent" "$agent"
  "$folder/enter" hostA "${namespace[hostA]}" "$@" <&0 &
  wait $! || code=$?
  exit $code
fi
places=() ranks=0
for letter in "${letters[@]}"; do
  count=${slots%%,*} slots=${slots#*,}
  places+=("host$letter:$count")
  ranks=$((ranks + count))
done
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  "$folder/enter" hostA "${namespace[hostA]}" \
  mpirun --bind-to none --mca plm_rsh_agent "$folder/agent" -H "$(
    IFS=,
    echo "${places[*]}"
  )" -np "$ranks" \
  ${network[@]+"${network[@]}"} \
  ${more[@]+"${more[@]}"} "$@" <&0 &
wait $! || code=$?
exit $code
