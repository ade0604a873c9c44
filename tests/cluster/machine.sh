#!/usr/bin/env bash
# The first process of a machine of hosts.sh, in namespaces of its own: with it all processes of the machine end.
#   tests/cluster/machine.sh DIRECTORY NAME
set -euo pipefail
directory="$1" name="$2"

# What belongs to a machine: its name, processes, devices and shared memory. The rest of the file system is shared.
read -r pid _ </proc/self/stat  # the number outside
hostname "$name"
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount --bind "$directory/hosts" /etc/hosts
ip link set lo up
# TCP gives up after some 13 s without an answer, in place of a quarter of an hour: so long mpirun waits for a machine
# that is cut off.
echo 5 >/proc/sys/net/ipv4/tcp_retries2
mkdir /run/sshd
chmod 755 /run/sshd

echo "$pid" >"$directory/$name.pid.part"
mv "$directory/$name.pid.part" "$directory/$name.pid"
# A server that listens everywhere need not wait for the network.
/usr/sbin/sshd -D -f "$directory/sshd_config" -E "$directory/$name.sshd.log" &
# Bash as the first process also collects those whose parents have ended.
wait "$!"
