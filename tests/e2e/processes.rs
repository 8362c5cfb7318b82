//! Programs that run for as long as the cluster does.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// A running program, killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it. What it says is appended to a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true);
        let child = command.spawn();
        Self {
            child: child
                .unwrap_or_else(|error| panic!("{}: {error}", command.as_std().get_program().display())),
        }
    }

    /// Its exit status, if it has ended; 128 and the number of the signal that ended it.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.try_wait().unwrap()?;
        Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
    }

    /// Its number, if it still runs.
    pub(crate) fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id()?.try_into().ok()?)
    }

    /// Sends it a signal, if it still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.id() {
            kill_process(id, signal).unwrap();
        }
    }
}

/// Runs a command to its end: whether it succeeded, and all it said.
pub(crate) async fn outcome(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    crate::step();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}
