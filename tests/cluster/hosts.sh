# shellcheck shell=bash
# Several machines on this one, for the tests of several ranks; to be sourced. Each is a set of namespaces with its
# own name, network address, processes, shared memory and sshd; they share the file system. Between them is a network
# as slow as asked for (wire.cc).
#   hosts_up COUNT MBIT_PER_SECOND ROUND_TRIP_MS   makes host1, host2, ... in $hosts_dir, a new directory
#   on HOST COMMAND...                             runs a command on one
#   mpirun_on openmpi|mpich HOSTS COMMAND...       one rank on each of "host1 host2 ...", started from the first
#   running HOST [NAME]                            the numbers, on HOST, of its processes called NAME, or of all that
#                                                  jobs have there
#   hosts_down                                     takes all away; hosts_up sees to it that an exit does
# Nothing of the machine's /etc or of anyone's ~/.ssh is used or changed. Where something is missing, hosts_up says
# what and exits with 77.
hosts_dir=""
hosts_jobs=()

hosts_skip() {
  echo "skipped: $1" >&2
  exit 77
}

# hosts_need PROGRAM...: what machines and their network are made of, and these, are here.
hosts_need() {
  [[ $(id -u) -eq 0 ]] || hosts_skip "machines of their own need root"
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || hosts_skip "no $program"
  done
  [[ -c /dev/net/tun ]] || hosts_skip "no /dev/net/tun"
  unshare --net --uts --mount --ipc --pid --fork true 2>/dev/null || hosts_skip "namespaces cannot be made here"
  [[ -x ${FOLIO_WIRE:=build/release/tests/cluster/folio_wire} ]] || hosts_skip "no $FOLIO_WIRE: make test-cluster"
}

# hosts_wait SECONDS COMMAND...: until the command succeeds.
hosts_wait() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < until)) || return 1
    sleep 0.05
  done
}

hosts_down() {
  # With the first process of a machine the kernel ends all of them, stopped ones too.
  if [[ ${#hosts_jobs[@]} -gt 0 ]]; then
    kill -KILL "${hosts_jobs[@]}" 2>/dev/null || true
    wait "${hosts_jobs[@]}" 2>/dev/null || true
  fi
  hosts_jobs=()
  if [[ -n $hosts_dir ]]; then
    rm -rf "$hosts_dir"
  fi
  hosts_dir=""
}

hosts_up() {
  local count="$1" mbit="$2" round_trip="$3" here name number pids=()
  here="$(dirname "${BASH_SOURCE[0]}")"
  hosts_need ip unshare nsenter setpriv ssh ssh-keygen /usr/sbin/sshd
  trap hosts_down EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  hosts_dir="$(mktemp -d "${TMPDIR:-/tmp}/folio-hosts.XXXXXX")"

  ssh-keygen -q -t ed25519 -N '' -C '' -f "$hosts_dir/key"
  cat >"$hosts_dir/sshd_config" <<END
HostKey $hosts_dir/key
AuthorizedKeysFile $hosts_dir/key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PidFile none
MaxStartups 100
END
  echo "* $(cat "$hosts_dir/key.pub")" >"$hosts_dir/known_hosts"
  cat >"$hosts_dir/ssh_config" <<END
IdentityFile $hosts_dir/key
IdentitiesOnly yes
UserKnownHostsFile $hosts_dir/known_hosts
GlobalKnownHostsFile none
BatchMode yes
ServerAliveInterval 5
ServerAliveCountMax 2
END
  printf '#!/bin/sh\nexec ssh -F %q "$@"\n' "$hosts_dir/ssh_config" >"$hosts_dir/ssh"
  chmod +x "$hosts_dir/ssh"
  echo "127.0.0.1 localhost" >"$hosts_dir/hosts"
  for ((number = 1; number <= count; ++number)); do
    echo "10.77.0.$number host$number" >>"$hosts_dir/hosts"
    mkdir -p "$hosts_dir/tmp/host$number"
  done

  # Should this script be killed, the kernel kills these.
  for ((number = 1; number <= count; ++number)); do
    name="host$number"
    setpriv --pdeathsig KILL unshare --net --uts --mount --ipc --pid --fork --kill-child=KILL \
      "$here/machine.sh" "$hosts_dir" "$name" </dev/null >"$hosts_dir/$name.log" 2>&1 &
    hosts_jobs+=("$!")
  done
  for ((number = 1; number <= count; ++number)); do
    name="host$number"
    hosts_wait 10 test -e "$hosts_dir/$name.pid" || {
      cat "$hosts_dir/$name.log" >&2
      return 1
    }
    pids+=("$(cat "$hosts_dir/$name.pid")")
  done
  setpriv --pdeathsig KILL nice -n -10 "$FOLIO_WIRE" "$mbit" "$round_trip" "${pids[@]}" 2>"$hosts_dir/wire.log" &
  hosts_jobs+=("$!")
  for ((number = 1; number <= count; ++number)); do
    name="host$number"
    hosts_wait 10 on "$name" test -e /sys/class/net/eth0 || {
      cat "$hosts_dir/wire.log" >&2
      return 1
    }
    on "$name" ip link set eth0 address "02:00:00:00:00:$(printf %02x "$number")" up
    on "$name" ip address add "10.77.0.$number/24" dev eth0
  done
  for ((number = 2; number <= count; ++number)); do
    hosts_wait 10 on host1 "$hosts_dir/ssh" "host$number" true 2>"$hosts_dir/ssh.log" || {
      cat "$hosts_dir/ssh.log" "$hosts_dir/host$number.sshd.log" >&2
      return 1
    }
  done
}

on() {
  local name="$1"
  shift
  nsenter --target "$(cat "$hosts_dir/$name.pid")" --net --uts --mount --ipc --pid --wdns="$PWD" \
    env TMPDIR="$hosts_dir/tmp/$name" "$@"
}

running() {
  if [[ $# -gt 1 ]]; then
    on "$1" pgrep -x "$2" || true
  else
    on "$1" ps -eo pid=,stat=,comm= | awk '$2 !~ /^Z/ && $3 !~ /^(machine.sh|bash|sshd|ps)$/ { print $1 }'
  fi
}

mpirun_on() {
  local kind="$1" hosts first
  read -ra hosts <<<"$2"
  first="${hosts[0]}"
  shift 2
  case "$kind" in
    openmpi)
      on "$first" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun.openmpi --mca plm_rsh_agent "$hosts_dir/ssh" --mca btl self,tcp \
        --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --bind-to none \
        -H "$(IFS=, && echo "${hosts[*]}")" -np "${#hosts[@]}" "$@"
      ;;
    mpich)
      on "$first" mpirun.mpich -launcher ssh -launcher-exec "$hosts_dir/ssh" -iface eth0 \
        -hosts "$(IFS=, && echo "${hosts[*]}")" -n "${#hosts[@]}" "$@"
      ;;
  esac
}
