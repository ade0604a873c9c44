# shellcheck shell=bash
# A Slurm on the machines of hosts.sh; to be sourced after it.
#   slurm_up COUNT CPUS   partitions of host1, host2, ... (hosts_up has made them) that claim CPUS each: `test`, and
#                         `urgent`, whose jobs preempt those of `test`. slurmctld is on host1: on host1 sbatch ...
# Configuration, keys, state and logs are in $hosts_dir/slurm; with the machines the daemons end.
: "${hosts_dir?is of hosts.sh}"

slurm_need() {
  hosts_need slurmctld slurmd munged sbatch scontrol
}

# slurm_start HOST COMMAND...: a daemon of that machine, as a child of its first process.
slurm_start() {
  local name="$1"
  shift
  on "$name" setsid --fork "$@" </dev/null >>"$hosts_dir/slurm/$name.out" 2>&1
}

slurm_ready() {
  [[ $(on host1 sinfo -h -o %T 2>/dev/null | sort -u) == idle ]]
}

slurm_up() {
  local count="$1" cpus="$2" slurm="$hosts_dir/slurm" name number
  slurm_need
  mkdir -p "$slurm/state" "$slurm"/{spool,tmp}.host{1..9}
  export SLURM_CONF="$slurm/slurm.conf"
  (umask 077 && head -c 1024 /dev/urandom >"$slurm/munge.key")
  # More processors than there are, and an empty plug-in wherever there is one: what is tested is how a job is started,
  # signalled, ended and put back into the queue.
  cat >"$slurm/slurm.conf" <<END
ClusterName=folio
SlurmctldHost=host1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool.%n
TmpFS=$slurm/tmp.%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
MpiDefault=none
KillWait=10
JobRequeue=1
NodeName=host[1-$count] CPUs=$cpus State=UNKNOWN
PartitionName=test Nodes=host[1-$count] Default=YES PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=host[1-$count] PriorityTier=2 PreemptMode=OFF
END
  echo "CgroupPlugin=cgroup/v1" >"$slurm/cgroup.conf"
  for ((number = 1; number <= count; ++number)); do
    name="host$number"
    on "$name" mkdir -p /run/munge
    slurm_start "$name" munged --force --foreground --key-file="$slurm/munge.key" --log-file="$slurm/munged.$name.log" \
      --pid-file=/run/munge/munged.pid --seed-file=/run/munge/munged.seed
    hosts_wait 10 on "$name" test -S /run/munge/munge.socket.2
  done
  slurm_start host1 slurmctld -D
  for ((number = 1; number <= count; ++number)); do
    slurm_start "host$number" slurmd -D
  done
  hosts_wait 30 slurm_ready || {
    on host1 sinfo || true
    tail -n 20 "$slurm"/*.log "$slurm"/*.out >&2
    return 1
  }
}
