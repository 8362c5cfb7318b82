//! The cost of a review through the server, next to a floor: the same server, whose handler reads the body and answers
//! `allowed: true`.
//!
//! `cargo bench --bench serve`. Both run as processes of their own and are driven over TLS and HTTP/1.1 from
//! this one, in turns. Prints for each payload requests a second, CPU seconds of the server for 1,000 requests, the
//! time to the answer at three percentiles, and the most memory that the server held, each with its ratio to the
//! floor; and memory at rest and the time from start to ready. `--nodes` prints the same with nodes that are watched, of
//! which 500 change each second. `--seconds 5` and `--rounds 5` are for longer runs, `--concurrency 16` for another number
//! of requests in flight. `--sustained 600` prints how memory grows in so many seconds at half of the most requests.
//! `benches/figures` writes some of this into `docs/figures.md`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops on what it does not expect"
)]

mod client;
mod floor;
mod nodes;
mod payload;
mod process;

use std::time::{Duration, Instant};

use client::{Client, Load};
use process::{Kind, Process};

/// The allocator of the program: the floor has to run on the same.
#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

/// How the benchmark is run.
struct Options {
    seconds: u64,
    rounds: usize,
    concurrency: usize,
    nodes: bool,
    sustained: Option<u64>,
}

impl Options {
    fn read() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let number = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1)?.parse::<usize>().ok()
        };
        // As a test it only has to run.
        let tested = arguments.iter().any(|argument| argument == "--test");
        let (seconds, rounds) = if tested { (0, 1) } else { (3, 5) };
        Self {
            seconds: number("--seconds").map_or(seconds, |seconds| seconds as u64),
            rounds: number("--rounds").unwrap_or(rounds),
            concurrency: number("--concurrency").unwrap_or(16),
            nodes: arguments.iter().any(|argument| argument == "--nodes"),
            sustained: number("--sustained").map(|seconds| seconds as u64),
        }
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds).max(Duration::from_millis(100))
    }
}

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: f64,
    cpu: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    memory: f64,
}

impl Figures {
    const NAMES: [&str; 6] = ["requests/s", "CPU s/1,000", "p50 ms", "p99 ms", "p99.9 ms", "peak memory MiB"];

    fn all(&self) -> [f64; 6] {
        [self.rate, self.cpu, self.p50, self.p99, self.p999, self.memory]
    }
}

async fn run(kind: Kind, body: &[u8], options: &Options) -> Figures {
    let process = Process::start(kind);
    if let Kind::Watching(count, _) = kind {
        process.wait_for_nodes(count).await;
    }
    let mut client = Client::connect(&process, options.concurrency).await;
    client.load(body, options.time() / 4, Duration::ZERO).await;
    let before = process.cpu();
    let began = Instant::now();
    let Load { mut latencies } = client.load(body, options.time(), Duration::ZERO).await;
    let took = began.elapsed().as_secs_f64();
    let cpu = process.cpu() - before;
    latencies.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = latencies.len() as f64;
    let at = |share: usize| {
        let latency = latencies[(latencies.len() * share / 1000).min(latencies.len() - 1)];
        latency.as_secs_f64() * 1e3
    };
    Figures {
        rate: count / took,
        cpu: cpu / count * 1e3,
        p50: at(500),
        p99: at(990),
        p999: at(999),
        memory: process.memory("VmHWM:"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn compare(name: &str, floor: Kind, server: Kind, body: &[u8], options: &Options) {
    let mut floors = Vec::new();
    let mut servers = Vec::new();
    for _ in 0..options.rounds {
        floors.push(run(floor, body, options).await);
        servers.push(run(server, body, options).await);
    }
    println!("\n{name}, {} bytes, {} in flight", body.len(), options.concurrency);
    let [first, second] = [server, floor].map(|kind| format!("{kind:?}"));
    println!("{:<18} {first:>20} {second:>12} {:>8}", "", "ratio");
    for (index, figure) in Figures::NAMES.iter().enumerate() {
        let of = |runs: &[Figures]| median(runs.iter().map(|run| run.all()[index]).collect());
        let (server, floor) = (of(&servers), of(&floors));
        println!("{figure:<18} {server:>20.3} {floor:>12.3} {:>8.2}", server / floor);
    }
}

/// Memory at rest, and the time from start to ready.
async fn at_rest(rounds: usize) {
    for kind in [Kind::Server, Kind::Floor] {
        let mut ready = Vec::new();
        let mut memory = Vec::new();
        for _ in 0..rounds.max(3) {
            let began = Instant::now();
            let process = Process::start(kind);
            process.wait_until_ready().await;
            ready.push(began.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(Duration::from_millis(300)).await;
            memory.push(process.memory("VmRSS:"));
        }
        println!("{kind:?} at rest: {:.1} MiB, ready after {:.1} ms", median(memory), median(ready));
    }
}

async fn without_nodes(options: &Options) {
    at_rest(options.rounds).await;
    let (floor, server) = (Kind::Floor, Kind::Server);
    compare("annotated pod", floor, server, &payload::annotated(), options).await;
    compare("pod without annotation", floor, server, &payload::unannotated(), options).await;
    // A namespace has a part of the memory for reviews; the answer to more of its large pods is 429.
    let few = Options { concurrency: options.concurrency.min(2), ..*options };
    compare("annotated pod of 1 MiB", floor, server, &payload::large(), &few).await;
}

/// Memory with nodes at rest, and the time from start to their use.
async fn with_nodes(count: usize) {
    let began = Instant::now();
    let process = Process::start(Kind::Watching(count, 0));
    process.wait_for_nodes(count).await;
    let took = began.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (rests, peak) = (process.memory("VmRSS:"), process.memory("VmHWM:"));
    println!("{count} nodes: {rests:.1} MiB, {peak:.1} MiB at most, in use after {took:.1} s");
}

/// The growth of a server's memory, by least squares over the second half of the time, in which nothing is warmed up.
async fn sustained(seconds: u64, options: &Options) {
    let process = Process::start(Kind::Server);
    let mut client = Client::connect(&process, options.concurrency).await;
    let (body, most) = (payload::annotated(), Duration::from_secs(5));
    let count = client.load(&body, most, Duration::ZERO).await.latencies.len();
    let every = most * u32::try_from(2 * options.concurrency).unwrap() / u32::try_from(count).unwrap();
    let mut samples = Vec::new();
    let sample = async {
        for second in 0..seconds {
            samples.push((f64::from(u32::try_from(second).unwrap()), process.memory("VmRSS:")));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    // The server closes connections after a few minutes.
    let load = async {
        let mut answered = 0;
        for _ in 0..seconds.div_ceil(60) {
            let mut client = Client::connect(&process, options.concurrency).await;
            answered += client.load(&body, Duration::from_secs(seconds.min(60)), every).await.latencies.len();
        }
        answered
    };
    let (answered, ()) = tokio::join!(load, sample);
    let half = &samples[samples.len() / 2..];
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let mean = |of: fn(&(f64, f64)) -> f64| half.iter().map(of).sum::<f64>() / half.len() as f64;
    let (x, y) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let products: f64 = half.iter().map(|sample| (sample.0 - x) * (sample.1 - y)).sum();
    let squares: f64 = half.iter().map(|sample| (sample.0 - x).powi(2)).sum();
    println!(
        "annotated pods at half of the most for {seconds} s: {} answered, none refused; {:.1} MiB, {:+.3} MiB an hour",
        answered,
        y,
        products / squares * 3600.0
    );
}

fn main() {
    if std::env::args().any(|argument| argument == floor::ARGUMENT) {
        return floor::serve();
    }
    let options = Options::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if let Some(seconds) = options.sustained {
            return sustained(seconds, &options).await;
        }
        if !options.nodes {
            without_nodes(&options).await;
        }
        let counts: &[usize] = match (options.seconds, options.nodes) {
            (0, _) => &[10, 20],
            (_, true) => &[5_000, 15_000],
            (_, false) => &[],
        };
        for &count in counts {
            with_nodes(count).await;
            let (still, watching) = (Kind::Watching(count, 0), Kind::Watching(count, 500));
            compare("annotated pod", Kind::Server, still, &payload::annotated(), &options).await;
            compare("annotated pod", still, watching, &payload::annotated(), &options).await;
            compare("pod without annotation", still, watching, &payload::unannotated(), &options).await;
        }
    });
}
