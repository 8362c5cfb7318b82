//! Jobs that ended, or that use TCP, behind the lines of a job on the fabric.

use super::generator::{Form, Network, Prefix, RELEASES};
use super::{diagnose, verdict};

/// What a rank writes when it ends, and the cause.
const ENDS: &[(&str, &str)] = &[
    // What is only a consequence.
    (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.cpp:94, remote process exited",
        "nccl_error",
    ),
    ("ncclInternalError: Internal check failed.", "nccl_error"),
    ("[rank3]: ncclRemoteError: A call failed possibly due to a network error", "nccl_error"),
    ("[rank3]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "nccl_error"),
    ("train-0: Test NCCL failure common.cu:961 'internal error - please report this issue'", "nccl_error"),
    ("[train-0:100:0:900] Caught signal 4 (Illegal instruction: illegal operand)", "signal"),
    ("[train-0:00100] *** Process received signal ***", "signal"),
    ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "process_ended"),
    ("srun: error: node-1: tasks 0-7: Exited with exit code 132", "process_ended"),
    ("Segmentation fault (core dumped)", "process_ended"),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN a new warning\ntrain-0:100:900 [0] NCCL INFO transport/net.cc:137 -> 6",
        "nccl_error",
    ),
    // Completions of any status.
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB : Got completion from peer 10.1.3.2<1> with status=9 opcode=0 len=0 vendor err 138 (Send)",
        "completion_failed",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB : Got completion from peer 10.1.3.2<1> with error 5, opcode 0, len 0, vendor err 249",
        "transfers_flushed",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.1.3.2<1> with status=IBV_WC_REM_ACCESS_ERR(10) opcode=IBV_WC_SEND(0)",
        "gpu_not_reachable",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.1.3.2<1> with status=IBV_WC_REM_INV_REQ_ERR(9)",
        "completion_failed",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access violation work queue error",
        "gpu_not_reachable",
    ),
    (
        "train-0:100:900 [4] f():1463 NCCL WARN NET/OFI Remote write completed with error. RC: 5. Flags: 264",
        "efa_completion",
    ),
    (
        "train-0:100:900 [4] f():5076 NCCL WARN NET/OFI Unexpected number of remote rails for dev 4. Expected 1 but got 2",
        "efa_rails",
    ),
    // Registrations.
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Unknown error 524 errno 524",
        "dmabuf_unsupported",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/MLX5: Call to mlx5dv_reg_dmabuf_mr failed with error Operation not supported",
        "dmabuf_unsupported",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr_iova2 failed with error No such device errno 19",
        "registration_failed",
    ),
    // What ends a job before it connects.
    (
        "train-0:100:900 [0] x.cc:1 (nvlsAllocateMem) NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 1 : CUDA error 401",
        "nvls_bind",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN Error : no algorithm/protocol available for function AllGather",
        "no_algorithm",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN No algorithm/protocol available for function AllGather with datatype ncclInt8.",
        "no_algorithm",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN Could not find any local path from gpu 0 to net.",
        "no_local_path",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB: no GID with a visible backing netdev found on ibp0 port 1",
        "no_gid",
    ),
    (
        "train-0:100:900 [0] x.cc:1 NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
        "empty_gid",
    ),
    ("Failed to create dmabuf importer context", "rxdm_without_dmabuf"),
];

#[test]
fn a_job_that_ended_is_a_crash_with_its_cause() {
    for release in RELEASES {
        for network in [Network::Ib, Network::Efa, Network::FasTrak] {
            let Some(form) = Form::of(release, network, Prefix::None) else { continue };
            for (end, cause) in ENDS {
                let text = format!("{}{end}\n", form.job(2, 2));
                let found = diagnose(&[("a", text.as_bytes())], 4096);
                assert_eq!(found["verdict"], "crash", "{release} {network:?}: {end}");
                assert_eq!(found["cause"]["code"], *cause, "{release} {network:?}: {end}");
            }
        }
    }
}

#[test]
fn a_consequence_shows_the_first_warning_of_its_rank() {
    let form = Form::of("2.27.7", Network::Ib, Prefix::None).unwrap();
    let warning = "train-0:100:900 [0] x.cc:1 NCCL WARN a new warning";
    let text =
        format!("{}{warning}\ntrain-0: Test NCCL failure common.cu:961 'internal error'\n", form.job(2, 2));
    let found = diagnose(&[("a", text.as_bytes())], 4096);
    assert_eq!(
        (&found["cause"]["code"], &found["cause"]["evidence"]["line"]),
        (&"nccl_error".into(), &warning.into())
    );
}

/// An elastic job begins again, and the communicators of one that is done are destroyed.
#[test]
fn a_job_that_goes_on_has_not_ended() {
    let form = Form::of("2.27.7", Network::Ib, Prefix::None).unwrap();
    let job = form.job(2, 2);
    for (end, _) in ENDS {
        assert_eq!(verdict(&format!("{job}{end}\n{job}")), "fabric", "{end}");
    }
    let closed =
        "train-0:100:900 [0] x.cc:1 NCCL WARN socketProgress: Connection closed by remote peer train-1<1>\n";
    let returned = "train-0:100:900 [0] NCCL INFO proxy.cc:872 -> 6 [Progress Thread]\n";
    let done =
        "train-0:100:900 [0] NCCL INFO comm 0x55 rank 0 nranks 4 cudaDev 0 busId 18000 - Destroy COMPLETE\n";
    assert_eq!(verdict(&format!("{job}{closed}")), "fabric");
    assert_eq!(verdict(&format!("{job}{done}{closed}{returned}")), "fabric");
    assert_eq!(verdict(&format!("{job}{closed}{returned}")), "crash");
}

/// What a job without the fabric writes, and its verdict and cause.
const WITHOUT: &[(&str, &str, &str)] = &[
    ("NCCL INFO NET/Plugin: Could not find: aws-ofi libnccl-net-aws-ofi.so", "tcp", "plugin_not_found"),
    (
        "NCCL WARN NCCL/NET (shim) Error loading libnccl-net_internal.so: libcudart.so.13: cannot open",
        "tcp",
        "tcpxo_cuda",
    ),
    (
        "NCCL WARN NET/OFI EFA provider requires at least libfabric version 1.22.0.",
        "tcp",
        "libfabric_too_old",
    ),
    ("NCCL WARN NET/OFI CUDA initialization failed.", "tcp", "ofi_without_cuda"),
    (
        "NCCL WARN NET/OFI FI_OPT_EFA_EMULATED_WRITE is true when the protocol is RDMA write.",
        "tcp",
        "efa_without_write",
    ),
    ("NCCL WARN NET/OFI Unexpected group size 0", "tcp", "efa_topology"),
    ("NCCL WARN NET/OFI Initializing plugin failed", "tcp", "ofi_not_started"),
];

#[test]
fn what_keeps_a_plugin_from_starting_precedes_the_missing_device() {
    let form = Form::of("2.27.7", Network::Socket, Prefix::None).unwrap();
    for (line, wanted, cause) in WITHOUT {
        let text = format!("train-0:100:900 [0] {line}\n{}", form.job(2, 2));
        let found = diagnose(&[("a", text.as_bytes())], 4096);
        assert_eq!(
            (&found["verdict"], &found["cause"]["code"]),
            (&(*wanted).into(), &(*cause).into()),
            "{line}"
        );
    }
}

/// A log, and its verdict.
fn assert_all(logs: &[(&str, &str)]) {
    for (text, wanted) in logs {
        assert_eq!(verdict(text), *wanted, "{text}");
    }
}

#[test]
fn a_quotation_proves_nothing() {
    let line = "train-0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA";
    let warned = "train-0:1:1 [0] x.cc:1 NCCL WARN MNNVL is not used\n";
    for quotation in [
        format!("+ grep -c '{line}' nccl.log\n"),
        format!("+ echo {line}\n"),
        format!("looking for \"{line}\"\n"),
        "looking for NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n".to_owned(),
        "NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n".to_owned(),
    ] {
        assert_eq!(verdict(&quotation), "unknown", "{quotation}");
        assert_eq!(verdict(&format!("{warned}{quotation}")), "unknown", "{quotation}");
    }
    assert_eq!(verdict(&format!("{line}\n")), "fabric");
}

#[test]
fn only_connections_between_nodes_prove_the_fabric() {
    let start = |host: &str, rank: u32, network: &str| {
        format!(
            "{host}:1:1 [0] NCCL INFO Using network {network}\n{host}:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} \
             nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init START\n"
        )
    };
    let two = |network: &str| format!("{}{}", start("a-0", 0, network), start("a-1", 1, network));
    let complete =
        "a-0:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x9 - Init COMPLETE\n";
    let row = "  8388608  2097152  float  sum  -1  2000.1  4.2  24.2  0  2000.1  4.2  24.2  0\n";
    let adapters =
        |name: &str| format!("a-0:1:1 [0] NCCL INFO NET/IB : Using [0]{name}:1/RoCE [RO]; OOB eth0:1<0>\n");
    let names: Vec<String> = (0..9).map(|n| format!("a-0:1:1 [0] NCCL INFO Using network IB{n}\n")).collect();
    let names = names.concat();
    let within = |host: &str, nodes: u32| {
        format!(
            "{host}:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 1 nNodes {nodes} localRanks 1 localRank 0 MNNVL 1\n\
             {host}:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/MNNVL\n"
        )
    };
    let path =
        |name: &str| format!("a-0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/{name}\n");
    let provider = "a-0:1:1 [0] NCCL INFO NET/OFI Selected provider is tcp, fabric is tcp (found 1 nics)\n";
    let cfg = |lanes: &str| {
        format!("[17.1] [a-0:231  :0]      ucp_worker.c:1888 UCX  INFO      a-0 inter-node cfg#3 {lanes}\n")
    };
    assert_all(&[
        // Both ranks have chosen TCP, on two hosts.
        (&two("Socket"), "tcp"),
        (&two("IB"), "unknown"),
        (
            &format!("{}{provider}", start("a-0", 0, "Libfabric").replace("Using network Libfabric", "x")),
            "unknown",
        ),
        (&format!("{provider}{}", two("Libfabric")), "tcp"),
        // The communicator is ready, and connects later.
        (&format!("{}{}{complete}", adapters("mlx5_0"), two("IB")), "unknown"),
        (&format!("{}{}{complete}{}", adapters("mlx5_0"), start("a-0", 0, "IB"), path("IB/0")), "fabric"),
        (&format!("{}{}{complete}{row}", adapters("mlx5_0"), start("a-0", 0, "IB")), "unknown"),
        // Software RDMA, whatever its name is.
        (&format!("{}{}", adapters("my_rxe0"), path("IB/0")), "tcp"),
        (&format!("{}{}", adapters("soft_roce"), path("IB/0")), "tcp"),
        (&format!("{}{}", adapters("siw_eth0"), path("IB/0")), "tcp"),
        // The name of TCP behind many others.
        (&format!("{names}{}{}", path("IB/0/GDRDMA"), path("Socket/0")), "mixed"),
        // NVLink on one host, and behind a beginning that is lost.
        (&within("a-0", 1), "single-node"),
        (
            &format!(
                "{}a-0:1:1 [0] NCCL INFO Using network Socket\n",
                within("a-0", 1).split_once('\n').unwrap().1
            ),
            "unknown",
        ),
        // GPUDirect RDMA by any plugin.
        (&path("NewPlugin_v9/0/GDRDMA"), "fabric"),
        (&path("NewPlugin_v9/0"), "unknown"),
        // UCX alone, and next to NCCL.
        (&cfg("rma(tcp/ens32) am(tcp/ens32)"), "tcp"),
        (&cfg("rma(rc_mlx5/mlx5_0:1) am(tcp/ens32)"), "fabric"),
        (&cfg("tag(dc_mlx5/mlx5_0:1 cuda_copy/cuda)"), "fabric"),
        (&cfg("tag(rc_verbs/my_rxe0:1)"), "tcp"),
        (&format!("{}{}", cfg("tag(tcp/ens32)"), path("IB/0/GDRDMA")), "fabric"),
    ]);
}

#[test]
fn gpu_direct_is_not_on_where_a_rank_says_that_it_is_off() {
    let job = Form::of("2.27.7", Network::Ib, Prefix::None).unwrap().job(2, 2);
    let direct = |text: &str| diagnose(&[("a", text.as_bytes())], 4096)["jobs"][0]["gpuDirect"].clone();
    assert_eq!(direct(&job), true);
    assert_eq!(direct(&job.replacen("GDR 1", "GDR 0", 1)), false);
    assert_eq!(direct(&job.replacen("/GDRDMA", "", 1)), false);
}
