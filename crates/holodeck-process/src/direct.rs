//! A child of this very process. Its descendants are found by process group and mark; those that leave the group *and*
//! clear their environment are not found.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::group::Group;
use crate::mark::{Mark, VARIABLE};
use crate::shell_watchdog::Watched;
use crate::{Exit, ProcessSpec};

#[derive(Debug)]
pub(crate) struct Direct {
    child: Child,
    group: Group,
    watched: Option<Watched>,
}

impl Direct {
    pub(crate) fn spawn(program: &Path, spec: &ProcessSpec, pipes: [OwnedFd; 3]) -> io::Result<(Self, u32)> {
        let mut watched = Watched::marked(Mark::new());
        let [stdin, stdout, stderr] = pipes.map(Stdio::from);
        #[expect(
            clippy::disallowed_methods,
            reason = "with the watchdogs, the only place that spawns"
        )]
        let mut command = Command::new(program);
        command
            .args(&spec.args)
            .env_clear()
            .envs(spec.env.iter())
            .env(VARIABLE, watched.mark().to_string())
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = &spec.folder {
            command.current_dir(folder);
        }
        let child = command.spawn()?;
        let pid = child.id().unwrap_or_default();
        watched.add_group(pid);
        let group = Group::led_by(pid);
        let direct = Self {
            child,
            group,
            watched: Some(watched),
        };
        Ok((direct, pid))
    }

    /// Waits until the program exits, then kills what it left behind.
    pub(crate) async fn wait(&mut self) -> io::Result<Exit> {
        let exit = Exit::from(self.child.wait().await?);
        self.finish();
        Ok(exit)
    }

    pub(crate) fn try_wait(&mut self) -> Option<Exit> {
        let exit = Exit::from(self.child.try_wait().ok()??);
        self.finish();
        Some(exit)
    }

    pub(crate) fn terminate(&self) {
        self.group.terminate();
    }

    pub(crate) fn kill(&self) {
        self.group.kill();
    }

    fn finish(&mut self) {
        self.group.finish();
        if let Some(watched) = self.watched.take() {
            watched.mark().kill();
        }
    }

    #[cfg(test)]
    pub(crate) fn mark(&self) -> Option<&Mark> {
        self.watched.as_ref().map(Watched::mark)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // The runtime kills and reaps the leader; the rest is handled here.
        self.finish();
    }
}
