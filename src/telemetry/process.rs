//! The `process_*` metrics of Prometheus' client libraries, read from `/proc` at each scrape. kubert-prometheus-process
//! 0.2, which has them, needs another version of prometheus-client.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Collects the metrics of this process, where `/proc` exists.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
        };
        let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = Stat::read();
        gauge("process_resident_memory", "Resident memory", bytes, kibibytes(&status, "VmRSS:"))?;
        gauge("process_virtual_memory", "Virtual memory", bytes, kibibytes(&status, "VmSize:"))?;
        gauge("process_open_fds", "Open file descriptors", None, open_files())?;
        gauge("process_max_fds", "Limit on open file descriptors", None, most_open_files())?;
        gauge("process_threads", "Threads", None, number(&status, "Threads:"))?;
        gauge(
            "process_start_time",
            "Start time of the process, in seconds since the epoch",
            seconds,
            stat.as_ref().and_then(Stat::start),
        )?;
        if let Some(stat) = stat {
            let metric = ConstCounter::new(stat.cpu);
            let kind = metric.metric_type();
            metric.encode(encoder.encode_descriptor("process_cpu", "CPU time spent", seconds, kind)?)?;
        }
        Ok(())
    }
}

/// Fields of `/proc/self/stat`, see proc(5).
struct Stat {
    /// User and system time, in seconds.
    cpu: f64,
    /// The start of the process, in seconds since boot.
    start: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program is in parentheses, and may contain any character.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // Field 3 is the first one after the name.
        let ticks = |field: usize| -> Option<f64> { fields.get(field - 3)?.parse().ok() };
        #[expect(clippy::cast_precision_loss, reason = "100 on every Linux")]
        let a_second = rustix::param::clock_ticks_per_second() as f64;
        Some(Self { cpu: (ticks(14)? + ticks(15)?) / a_second, start: ticks(22)? / a_second })
    }

    /// The start of the process, in seconds since the epoch.
    fn start(&self) -> Option<f64> {
        let text = fs::read_to_string("/proc/stat").ok()?;
        Some(number(&text, "btime ")? + self.start)
    }
}

fn number(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

fn kibibytes(text: &str, label: &str) -> Option<f64> {
    Some(number(text, label)? * 1024.0)
}

fn open_files() -> Option<f64> {
    // The directory itself is open while it is read.
    let count = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}

fn most_open_files() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    number(&text, "Max open files")
}
