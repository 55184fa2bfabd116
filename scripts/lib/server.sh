# shellcheck shell=bash
# Starting, finding and stopping the server that belongs to a folder. Sourced after common.sh.
# The folder has server.pid, server.address, logs/server.log and the server's own data in server/.

# server_pid DIR: prints the process id of the folder's server; fails when it does not run (a pid may be anybody's by now).
server_pid() {
  local pid
  pid=$(cat "$1/server.pid" 2>/dev/null) || return 1
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF -- "$1/server" || return 1
  printf '%s' "$pid"
}

# free_port: prints a port of loopback that nobody listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

server_answers() { curl --silent --fail --max-time 5 --noproxy '*' --output /dev/null "$1/healthz"; }

# server_start DIR PROGRAM HOST:PORT: prints the address of the folder's server, which it starts if need be.
server_start() {
  local folder=$1 program=$2 listen=$3 log=$1/logs/server.log pid address
  if server_pid "$folder" >/dev/null && address=$(cat "$folder/server.address") && server_answers "$address"; then
    printf '%s' "$address"
    return
  fi
  server_stop "$folder"
  mkdir -p "$folder/run/checkpoints"
  (umask 077 && : >"$log")
  chmod 600 "$log"
  # In its own session, so that it outlives this script and no Ctrl-C reaches it; 9 is the script's lock.
  setsid "$program" --listen "$listen" --data "$folder/server" --checkpoint-root "$folder/run/checkpoints" \
    >>"$log" 2>&1 </dev/null 9>&- &
  pid=$!
  printf '%s\n' "$pid" >"$folder/server.pid"
  address=$(server_wait "$pid" "$log") || { tail -n 20 "$log" >&2 && die "the server did not start; see $log"; }
  printf '%s\n' "$address" >"$folder/server.address"
  printf '%s' "$address"
}

# server_wait PID LOG: the address that the server's log names, as soon as it answers there; fails after 30 s or if it ended.
server_wait() {
  local address
  for _ in {1..150}; do
    kill -0 "$1" 2>/dev/null || return 1
    address=$(grep -oE 'http://[0-9A-Za-z.:[-]+[]]?:[0-9]+' "$2" | head -n 1) || address=''
    if [ -n "$address" ] && server_answers "$address"; then
      printf '%s' "$address"
      return
    fi
    sleep 0.2
  done
  return 1
}

# server_token_file DIR: where the folder's server keeps its administrator's token.
server_token_file() { printf '%s' "$1/server/admin.token"; }

# server_stop DIR: asks the folder's server to end and waits for it, 15 s at most. Nothing to do is no error.
server_stop() {
  local pid
  if pid=$(server_pid "$1"); then
    kill -TERM "$pid" 2>/dev/null || true
    for _ in {1..75}; do
      server_pid "$1" >/dev/null || break # a zombie that nobody reaps has ended, too
      sleep 0.2
    done
    if server_pid "$1" >/dev/null; then warn "the server (process $pid) has not ended after 15 s"; fi
  fi
  rm -f "$1/server.pid" "$1/server.address"
}
