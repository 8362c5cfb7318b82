//! Namespaces of the system for all that is started here.
//!
//! The network is its own: every pod gets an address, and no port is taken or meets one of the machine. An API server
//! sends nothing to endpoints on loopback addresses, so pods need others. The processes are in a namespace of their own
//! as well: with its first process, which is this one, all of them go, however it ends.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Stands in the environment of the process that is inside.
const INSIDE: &str = "FABRIC_INJECTOR_TEST_ISOLATED";
/// Every address of this range is the machine itself (the range is set aside for tests of networks: RFC 2544).
pub(crate) const RANGE: &str = "198.18.0.0/16";

/// Starts this program anew in namespaces of its own, and returns there; or says why that cannot be.
pub(crate) fn enter() -> Result<(), String> {
    if env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let set_up = format!("ip link set lo up && ip route add local {RANGE} dev lo");
    let unshare = || {
        let mut command = Command::new("unshare");
        if !rustix::process::getuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--pid", "--fork", "--kill-child", "sh", "-c"]);
        command
    };
    let tried = unshare().arg(&set_up).output();
    let tried = tried.map_err(|error| format!("`unshare` does not start: {error}"))?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        return Err(format!("no network namespace can be made by `unshare` and `ip`: {}", said.trim()));
    }
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let started = format!("{set_up} && exec \"$0\" \"$@\"");
    let error = unshare().arg(started).arg(this).args(env::args_os().skip(1)).env(INSIDE, "1").exec();
    Err(format!("`unshare` does not start: {error}"))
}

/// Whether this process may become any user: not if it is root by the grace of a user namespace only.
pub(crate) fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let count = map.split_whitespace().nth(2).and_then(|count| count.parse::<u64>().ok());
    count.is_some_and(|count| count > 65_536)
}
