//! Logs in the forms of each release of NCCL, as `docs/slow-jobs.md` and the sources of NCCL have them.

#![expect(clippy::match_overlapping_arm, reason = "the first release that is newer counts")]

use std::fmt::Write;
use std::ops::Range;

/// Releases that each write some lines in a different form than the one before.
pub(super) const RELEASES: [&str; 12] = [
    "2.4.8", "2.7.8", "2.12.12", "2.16.5", "2.18.3", "2.20.5", "2.21.5", "2.23.4", "2.24.3", "2.27.7",
    "2.28.9", "2.30.7",
];

fn number(release: &str) -> u32 {
    let mut parts = release.split('.').map(|part| part.parse::<u32>().unwrap());
    parts.next().unwrap() * 10_000 + parts.next().unwrap() * 100 + parts.next().unwrap()
}

/// The network that carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Ib,
    Efa,
    Gib,
    Tcpx,
    FasTrak,
    Mnnvl,
    Socket,
    FastSocket,
    LibfabricTcp,
    SoftwareRdma,
    /// All ranks are on one node.
    None,
}

impl Network {
    pub(super) const ALL: [Self; 11] = [
        Self::Ib,
        Self::Efa,
        Self::Gib,
        Self::Tcpx,
        Self::FasTrak,
        Self::Mnnvl,
        Self::Socket,
        Self::FastSocket,
        Self::LibfabricTcp,
        Self::SoftwareRdma,
        Self::None,
    ];
}

/// The prefix of each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    None,
    Kubectl,
    Stern,
    Cri,
    Docker,
    Mpirun,
    Torchrun,
    Ray,
    Time,
    Colours,
}

impl Prefix {
    pub(super) const ALL: [Self; 10] = [
        Self::None,
        Self::Kubectl,
        Self::Stern,
        Self::Cri,
        Self::Docker,
        Self::Mpirun,
        Self::Torchrun,
        Self::Ray,
        Self::Time,
        Self::Colours,
    ];

    fn line(self, pod: &str, rank: usize, line: &str) -> String {
        match self {
            Self::None => line.to_owned(),
            Self::Kubectl => format!("[pod/{pod}/main] {line}"),
            Self::Stern => format!("{pod} main {line}"),
            Self::Cri => format!("2026-11-24T07:42:11.527123456Z stdout F {line}"),
            Self::Docker => {
                serde_json::json!({"log": format!("{line}\n"), "stream": "stdout", "time": "x"}).to_string()
            }
            Self::Mpirun => format!("[1,{rank}]<stdout>:{line}"),
            Self::Torchrun => format!("[default{rank}]:{line}"),
            Self::Ray => format!("(RayWorker pid={rank}, ip=10.0.0.3) {line}"),
            Self::Time => format!("2026-11-24T07:42:11.527123456Z {line}"),
            Self::Colours => format!("\x1b[36m{line}\x1b[0m"),
        }
    }
}

/// A log of a release that uses a network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    release: u32,
    name: &'static str,
    network: Network,
    prefix: Prefix,
}

impl Form {
    /// `None` for a network that the release does not know.
    pub(super) fn of(release: &'static str, network: Network, prefix: Prefix) -> Option<Self> {
        let since = match network {
            Network::Mnnvl => 22_003,
            Network::Gib => 22_105,
            Network::Tcpx | Network::FasTrak | Network::FastSocket => 21_212,
            Network::LibfabricTcp | Network::SoftwareRdma => 20_708,
            Network::Ib | Network::Efa | Network::Socket | Network::None => 0,
        };
        let form = Self { release: number(release), name: release, network, prefix };
        (form.release >= since).then_some(form)
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.network {
            Network::Socket | Network::FastSocket | Network::LibfabricTcp | Network::SoftwareRdma => "tcp",
            Network::None => "single-node",
            _ => "fabric",
        }
    }

    /// The log of a job.
    pub(super) fn job(&self, nodes: usize, gpus: usize) -> String {
        self.job_named("train", nodes, gpus)
    }

    pub(super) fn job_named(&self, job: &str, nodes: usize, gpus: usize) -> String {
        let nodes = if self.network == Network::None { 1 } else { nodes };
        self.log(job, 0..nodes * gpus, nodes, gpus)
    }

    /// The log of ranks of a job with two nodes.
    pub(super) fn ranks(&self, job: &str, ranks: Range<usize>, all: usize) -> String {
        self.log(job, ranks, 2, all / 2)
    }

    fn log(&self, job: &str, ranks: Range<usize>, nodes: usize, gpus: usize) -> String {
        let all = nodes * gpus;
        let of_ranks: Vec<String> = ranks
            .map(|rank| {
                let pod = format!("{job}-{}", rank / gpus);
                let mut text = String::new();
                for (level, line) in self.lines(job, rank, all, nodes, gpus) {
                    let device = rank % gpus;
                    let process = format!("{pod}:{}:{} [{device}]", 100 + device, 900 + device);
                    let line = match level {
                        "" => line,
                        level => format!("{process} NCCL {level} {line}"),
                    };
                    let _ = writeln!(text, "{}", self.prefix.line(&pod, rank, &line));
                }
                text
            })
            .collect();
        interleaved(&of_ranks)
    }

    /// The lines of a rank, each with its level.
    fn lines(
        &self,
        job: &str,
        rank: usize,
        all: usize,
        nodes: usize,
        gpus: usize,
    ) -> Vec<(&'static str, String)> {
        let release = self.release;
        let mut lines: Vec<(&'static str, String)> = Vec::new();
        let mut info = |line: String| lines.push(("INFO", line));
        let space = if release >= 22_403 { "" } else { " " };
        info(format!("Bootstrap{space}: Using eth0:10.0.0.{rank}<0>"));
        info("cudaDriverVersion 12080".to_owned());
        self.choice(&mut info);
        if rank == 0 && release < 22_203 {
            lines.push(("", format!("NCCL version {}+cuda12.8", self.name)));
        } else if release >= 22_203 {
            lines.push(("INFO", format!("NCCL version {}+cuda12.8", self.name)));
        }
        let mut info = |line: String| lines.push(("INFO", line));
        let comm = job.bytes().fold(0xabcd_u64, |id, byte| id * 31 + u64::from(byte));
        let id = if release >= 21_602 { format!(" commId 0x{comm:x}") } else { String::new() };
        let call = if release >= 22_105 { "ncclCommInitRank " } else { "" };
        let bus = if release >= 20_506 { " busId 18000" } else { "" };
        let of =
            format!("{call}comm 0x55 rank {rank} nranks {all} cudaDev {} nvmlDev 0{bus}{id}", rank % gpus);
        if release >= 21_803 {
            info(format!("{of} - Init START"));
        }
        if release >= 22_003 {
            let mnnvl = u8::from(self.network == Network::Mnnvl);
            // NVLink makes one node of several.
            let shown = if mnnvl == 1 { 1 } else { nodes };
            info(format!(
                "comm 0x55 rank {rank} nRanks {all} nNodes {shown} localRanks {gpus} localRank {} MNNVL {mnnvl}",
                rank % gpus
            ));
        }
        info("Trees [0] -1/-1/-1->0->1".to_owned());
        if release < 22_203 {
            self.channels(rank, all, nodes, gpus, &mut info);
        }
        info(format!("{of} - Init COMPLETE"));
        if release >= 22_203 {
            self.channels(rank, all, nodes, gpus, &mut info);
        }
        lines.push(("", format!("step 10 | loss 2.1{rank} | 1234 tokens/s")));
        lines
    }

    /// The lines with which NCCL chooses its network.
    fn choice(&self, info: &mut impl FnMut(String)) {
        let release = self.release;
        let no_plugin = match release {
            ..21_700 => "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            ..22_105 => {
                "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation"
            }
            ..22_203 => "NET/Plugin: No plugin found (libnccl-net.so)",
            _ => "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        };
        let chosen = |name: &str| format!("Using network {name}");
        let ib = |devices: &str, info: &mut dyn FnMut(String)| {
            let order = if release >= 21_207 { " [RO]" } else { " " };
            info(format!("NET/IB : Using {devices}{order}; OOB eth0:10.0.0.1<0>"));
        };
        let socket = |info: &mut dyn FnMut(String)| {
            info("NET/IB : No device found.".to_owned());
            if release >= 22_403 {
                info("NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>".to_owned());
            }
            info("NET/Socket : Using [0]eth0:10.0.0.1<0>".to_owned());
        };
        let old_ofi = release < 22_304;
        let names = release >= 20_604;
        match self.network {
            Network::Ib => {
                info(no_plugin.to_owned());
                ib("[0]mlx5_0:1/IB [1]mlx5_1:1/IB", info);
                if names {
                    info(chosen("IB"));
                }
            }
            Network::SoftwareRdma => {
                info(no_plugin.to_owned());
                ib("[0]rxe0:1/RoCE", info);
                info(chosen("IB"));
            }
            Network::Efa | Network::LibfabricTcp => {
                let provider = if self.network == Network::Efa { "efa" } else { "tcp" };
                info("NET/OFI Initializing aws-ofi-nccl 1.13.2-aws".to_owned());
                info("NET/OFI No eligible providers were found".to_owned());
                info(if old_ofi {
                    format!("NET/OFI Selected Provider is {provider} (found 4 nics)")
                } else {
                    format!("NET/OFI Selected provider is {provider}, fabric is {provider} (found 32 nics)")
                });
                if names {
                    info(chosen(if old_ofi { "AWS Libfabric" } else { "Libfabric" }));
                }
            }
            Network::Gib => {
                info("NET/gIB : Initializing gIB v1.0.6".to_owned());
                info(chosen("gIB"));
            }
            Network::Tcpx => {
                info("NET/GPUDirectTCPX : Using [0]eth1:10.128.0.2<0> [1]eth2:10.128.0.3<0>".to_owned());
                info(chosen("GPUDirectTCPX_v7"));
            }
            Network::FasTrak => info(chosen("FasTrak")),
            Network::Mnnvl | Network::None => {
                info(no_plugin.to_owned());
                socket(info);
                info(chosen("Socket"));
            }
            Network::Socket => {
                info(no_plugin.to_owned());
                socket(info);
                if names {
                    info(chosen("Socket"));
                }
            }
            Network::FastSocket => {
                info("NET/FastSocket : Using [0]eth0:10.0.0.6<0>".to_owned());
                info(chosen("FastSocket"));
            }
        }
    }

    fn path(&self) -> &'static str {
        match self.network {
            Network::Ib => "IB/0/GDRDMA",
            Network::SoftwareRdma => "IB/0",
            Network::Efa if self.release < 22_304 => "AWS Libfabric/0/GDRDMA",
            Network::Efa => "Libfabric/0/GDRDMA",
            Network::LibfabricTcp if self.release < 22_304 => "AWS Libfabric/0",
            Network::LibfabricTcp => "Libfabric/0",
            Network::Gib => "gIB/3/GDRDMA",
            Network::Tcpx => "GPUDirectTCPX_v7/0",
            Network::FasTrak => "FasTrak/0/GDRDMA",
            Network::Socket => "Socket/0",
            Network::FastSocket => "FastSocket/0",
            Network::Mnnvl | Network::None => "",
        }
    }

    /// The connections of a ring: between nodes by the network, within one by other ways.
    fn channels(&self, rank: usize, all: usize, nodes: usize, gpus: usize, info: &mut impl FnMut(String)) {
        let next = (rank + 1) % all;
        for channel in 0..2 {
            let from_to = match self.release {
                ..20_700 => format!("Ring {channel:02} : {rank} -> {next}"),
                ..21_207 => format!("Channel {channel:02} : {rank}[18000] -> {next}[2a000]"),
                _ => format!("Channel {channel:02}/0 : {rank}[{}] -> {next}[{}]", rank % gpus, next % gpus),
            };
            if self.network == Network::Mnnvl {
                info(format!("{from_to} via P2P/MNNVL"));
            } else if nodes > 1 && rank / gpus != next / gpus {
                info(format!("{from_to} [send] via NET/{}", self.path()));
                let before = (rank + all - gpus) % all;
                info(format!(
                    "Channel {channel:02}/0 : {before}[0] -> {rank}[0] [receive] via NET/{}",
                    self.path()
                ));
            } else {
                info(format!("{from_to} via P2P/IPC"));
            }
        }
        let rings = if self.release >= 22_403 { ", use ring PXN 0 GDR 1" } else { "" };
        info(format!("Connected all rings{rings}"));
    }
}

/// A fault that ends a job, or takes its network away.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    NoDevice,
    NoEfa,
    NoPluginLibrary,
    Disabled,
    Memlock,
    SharedMemory,
    Interface,
    PodIdentity,
    Gid,
    Retry,
    Imex,
    Version,
    NetworkNotFound,
    Rxdm,
    Refused,
    OutOfMemory,
    Watchdog,
    Name,
}

impl Fault {
    pub(super) const ALL: [Self; 18] = [
        Self::NoDevice,
        Self::NoEfa,
        Self::NoPluginLibrary,
        Self::Disabled,
        Self::Memlock,
        Self::SharedMemory,
        Self::Interface,
        Self::PodIdentity,
        Self::Gid,
        Self::Retry,
        Self::Imex,
        Self::Version,
        Self::NetworkNotFound,
        Self::Rxdm,
        Self::Refused,
        Self::OutOfMemory,
        Self::Watchdog,
        Self::Name,
    ];
}

/// The log of a job with a fault, its verdict and its cause. `None` for a fault that the release does not know.
pub(super) fn with_fault(
    release: &'static str,
    fault: Fault,
) -> Option<(String, &'static str, &'static str)> {
    let version = number(release);
    let log = |network| Form::of(release, network, Prefix::None).map(|form| form.job(2, 2));
    let (ib, tcp) = (log(Network::Ib)?, log(Network::Socket)?);
    let time = if version >= 22_602 { "[2026-03-13 22:26:02] " } else { "" };
    let function = if version >= 23_007 { " (connect)" } else { "" };
    let warn = |line: &str| format!("\n{time}train-1:100:900 [0] misc/x.cc:12{function} NCCL WARN {line}\n");
    let info = |line: &str| format!("train-1:100:900 [0] NCCL INFO {line}\n");
    let consequence = format!(
        "{}train-0:100:900 [0] NCCL INFO misc/socket.cc:57 -> 6\n",
        warn("socketProgress: Connection closed by remote peer train-1.train<47300>")
    );
    let crash = |line: String, cause| Some((format!("{ib}{line}{consequence}"), "crash", cause));
    match fault {
        Fault::NoDevice => Some((tcp, "tcp", "no_rdma_device")),
        Fault::NoEfa => Some((format!("{}{tcp}", warn("NET/OFI aws-ofi-nccl initialization failed")), "tcp", "no_efa")),
        Fault::NoPluginLibrary => {
            let line = match version {
                ..22_203 => "NET/Plugin: Plugin load returned 2 : libfabric.so.1: cannot open shared object file: No such file or directory : when loading libnccl-net.so",
                _ => "NET/Plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: No such file or directory",
            };
            Some((format!("{}{tcp}", info(line)), "tcp", "plugin_image"))
        }
        Fault::Disabled => Some((format!("{}{tcp}", info("NCCL_IB_DISABLE set by environment to 1.")), "tcp", "fabric_disabled")),
        Fault::Memlock => crash(warn("Call to ibv_reg_mr failed with error Cannot allocate memory"), "memlock"),
        Fault::SharedMemory => {
            let line = match version {
                ..21_207 => "Error while creating shared memory segment nccl-shm-recv-1 (size 9637888)",
                ..22_203 => "Error: failed to extend /dev/shm/nccl-Ab12 to 33030532 bytes",
                _ => "Error: failed to extend /dev/shm/nccl-Ab12 to 33030532 bytes, error: No space left on device (28)",
            };
            crash(warn(line), "shared_memory")
        }
        Fault::Interface => {
            Some((warn("Bootstrap : no socket interface found"), "crash", "no_interface"))
        }
        Fault::PodIdentity => {
            let line = match version {
                ..21_602 => "Connect to 169.254.170.23<47300> failed : Connection refused",
                ..22_403 => "socketStartConnect: Connect to 169.254.170.23<47300> failed : Connection refused",
                _ => "socketPollConnect: connect to 169.254.170.23<47300> returned Connection refused, exceeded error retry count after 35 attempts",
            };
            crash(warn(line), "pod_identity_interface")
        }
        Fault::Gid => {
            let line = match version {
                ..22_105 => "Call to ibv_modify_qp failed with error Invalid argument",
                ..22_403 => "Call to ibv_modify_qp failed with error Invalid argument errno 22",
                _ => "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2",
            };
            crash(warn(line), "gid_or_route")
        }
        Fault::Retry => {
            let line = match version {
                ..21_003 => "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
                ..22_003 => "NET/IB : Got completion from peer 10.0.0.2<4791> with error 12, opcode 1, len 0, vendor err 129",
                ..22_203 => "NET/IB : Got completion from peer 10.0.0.2<4791> with status=12 opcode=129 len=0 vendor err 129 (Send)",
                ..22_807 => "NET/IB: Got completion from peer 10.0.0.2<4791> with status=12 opcode=129 len=0 vendor err 129 (Send) hca mlx5_0",
                _ => "NET/IB: Got completion from peer 10.0.0.2<4791> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 hca mlx5_0",
            };
            crash(warn(line), "no_route")
        }
        Fault::Imex => {
            let line = match version {
                ..22_003 => return None,
                ..22_501 => "MNNVL is not supported on this system",
                ..22_703 => "MNNVL (cliqueSize 8) is available but not supported on this system. Check the IMEX configuration.",
                _ => "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels).",
            };
            crash(warn(line), "no_imex_channel")
        }
        Fault::Version if version >= 22_304 => {
            crash(warn("Mismatched NCCL version detected : rank 0 version 22304 rank 1 version 22105"), "version_mismatch")
        }
        Fault::Version => crash(warn("Message truncated : received 1024 bytes instead of 256"), "version_mismatch"),
        Fault::NetworkNotFound => {
            let line = match version {
                ..21_003 => return None,
                ..22_703 => "Error: network IB not found.",
                _ => "Failed to initialize any NET plugin",
            };
            Some((format!("{}{}", info("NET/IB : No device found."), warn(line)), "crash", "no_rdma_device"))
        }
        Fault::Rxdm => {
            let line = "NET/FasTrak 2026-03-13T22:26:02.0+00:00: Timeout: RxDM not ready on train-1 after 600 seconds: DEADLINE_EXCEEDED";
            Some((warn(line), "crash", "rxdm_not_ready"))
        }
        Fault::Refused => {
            crash("[rank1]: torch.distributed.DistNetworkError: The client socket has failed to connect to [train-0.train]:29500 (errno: 110 - Connection timed out).\n".to_owned(), "connection_refused")
        }
        Fault::OutOfMemory => crash(warn("Cuda failure 2 'out of memory'"), "out_of_gpu_memory"),
        Fault::Watchdog => Some((format!("{ib}[rank1]:[E1218 20:27:21.42 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out.\n"), "crash", "watchdog")),
        Fault::Name => Some(("ssh: Could not resolve hostname a-worker-0.a: Name or service not known\nORTE was unable to reliably start one or more daemons.\n".to_owned(), "crash", "name_not_resolved")),
    }
}

/// The lines of several texts, one of each in turn.
pub(super) fn interleaved(texts: &[String]) -> String {
    let mut lines: Vec<_> = texts.iter().map(|text| text.split_inclusive('\n')).collect();
    let mut all = String::with_capacity(texts.iter().map(String::len).sum());
    loop {
        let before = all.len();
        for lines in &mut lines {
            all.extend(lines.next());
        }
        if all.len() == before {
            return all;
        }
    }
}
