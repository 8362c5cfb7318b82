# Runs all_reduce_perf over the pods of an indexed Job. Pod 0 starts the ranks by ssh, with a key that only this Job has.
set -eu
port=2222
keys=/etc/nccl-test
mkdir -p /run/sshd
"$(command -v sshd || echo /usr/sbin/sshd)" -f /dev/null -p $port -h $keys/key -o StrictModes=no -o PidFile=none \
  -o AuthorizedKeysFile=$keys/key.pub -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password
if [ "$JOB_COMPLETION_INDEX" != 0 ]; then
  until [ -e /tmp/nccl-test-done ]; do sleep 1; done
  exit 0
fi
agent="ssh -p $port -i $keys/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
hosts= index=0
while [ $index -lt "$NODES" ]; do
  host=$JOB_NAME-$index.$JOB_NAME
  until $agent "$host" true 2> /dev/null; do echo "waiting for $host"; sleep 2; done
  hosts=$hosts${hosts:+,}$host:$GPUS index=$((index + 1))
done
test=$(command -v all_reduce_perf || find / -xdev -name all_reduce_perf -perm -1 2> /dev/null | head -n 1)
if [ -z "$test" ]; then echo "the image has no all_reduce_perf" >&2; fi
# An sshd does not hand on the environment of its container.
names=$(env | sed -n 's/^\(\(NCCL\|FI\|UCX\|OMPI\)_[A-Z0-9_]*\|LD_LIBRARY_PATH\|PATH\)=.*/-x \1/p')
status=0
# shellcheck disable=SC2086
mpirun --allow-run-as-root --host "$hosts" -np $((NODES * GPUS)) --bind-to none --tag-output \
  --mca plm_rsh_agent "$agent" --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include "$MPI_INTERFACE" \
  --mca oob_tcp_if_include "$MPI_INTERFACE" $names \
  -x NCCL_DEBUG=INFO -x NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH "${test:-all_reduce_perf}" -b 8M -e "$LARGEST" -f 2 -g 1 || status=$?
index=1
while [ $index -lt "$NODES" ]; do
  $agent "$JOB_NAME-$index.$JOB_NAME" touch /tmp/nccl-test-done || true
  index=$((index + 1))
done
exit $status
