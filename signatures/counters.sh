# Prints the bytes that the adapters of a container have moved, as far as one of its processes has them open, twice:
#
#   adapter NAME:PORT BYTES    sent and received
#   requests NAME:PORT COUNT   RDMA writes and reads that arrived, which IP over InfiniBand has none of
#   after SECONDS              between the two
#   end                        at the end
#
# Sources, 2026-11-25: Linux Documentation/ABI/stable/sysfs-class-infiniband (`port_xmit_data` is in units of 4 bytes;
# `uverbsN/ibdev` is the name of the adapter); Linux drivers/infiniband/hw/mlx5 (on Ethernet, the same file counts RDMA
# alone; `hw_counters/rx_write_requests` and `rx_read_requests`); amzn/amzn-drivers kernel/linux/efa/src/efa_verbs.c
# (`tx_bytes` and `rx_bytes` of a port).
sys=/sys/class
open=$(ls -l /proc/[0-9]*/fd 2>/dev/null | grep -o '/dev/infiniband/uverbs[0-9]*$' | sort -u)

sum() {
    total=0
    for file in "$@"; do
        value=$(cat "$file" 2>/dev/null)
        case $value in
            '' | *[!0-9]*) return 1 ;;
        esac
        total=$((total + value))
    done
}

count() {
    for verbs in $open; do
        name=$(cat "$sys/infiniband_verbs/${verbs##*/}/ibdev" 2>/dev/null) || continue
        adapter=$sys/infiniband/$name
        for port in "$adapter"/ports/*; do
            case $(readlink "$adapter/device/driver") in
                */efa)
                    sum "$port/hw_counters/tx_bytes" "$port/hw_counters/rx_bytes" &&
                        echo "adapter $name:${port##*/} $total"
                    ;;
                */mlx5_*)
                    sum "$port/counters/port_xmit_data" "$port/counters/port_rcv_data" &&
                        echo "adapter $name:${port##*/} $((total * 4))"
                    sum "$port/hw_counters/rx_write_requests" "$port/hw_counters/rx_read_requests" || total=0
                    echo "requests $name:${port##*/} $total"
                    ;;
            esac
        done
    done
}

count
sleep 4
echo "after 4"
count
echo end
