//! Kills the remaining children of a program that starts no watchdogs of its own, if that program is killed: the stdin of
//! a shell closes then.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::mark::Mark;

/// Keeps a list of process groups (numbers) and marks, and kills them when its input ends.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
children=' '
while read -r what child; do
  case $what in
  +) children="$children$child " ;;
  -) children="${children%% $child *} ${children#* $child }" ;;
  esac
done
marks=
for child in $children; do
  case $child in
  *[!0-9]*) marks="$marks -e $child" ;;
  *) kill -s KILL -- "-$child" ;;
  esac
done
[ -n "$marks" ] || exit 0
# A process that is replacing its program shows no environment: one look that finds nothing does not suffice.
empty=0
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=$(grep -lsF $marks /proc/[0-9]*/environ)
  if [ -n "$found" ]; then empty=0; else empty=$((empty + 1)); fi
  [ $empty -lt 3 ] || break
  [ -n "$found" ] || sleep 0.02
  for file in $found; do
    id=${file#/proc/}
    kill -s KILL "${id%/environ}"
  done
done
"#;

/// The shell's stdin; `None` if there is no shell.
static INPUT: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();

/// An entry on the list, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    mark: Mark,
    group: Option<u32>,
}

impl Watched {
    /// Watches everything with this mark. Called before the child is started, so that there is no unwatched moment.
    pub(crate) fn marked(mark: Mark) -> Self {
        write(&format!("+ {mark}\n"));
        Self { mark, group: None }
    }

    /// Watches the child's process group as well, where environments cannot be read.
    pub(crate) fn add_group(&mut self, group: u32) {
        write(&format!("+ {group}\n"));
        self.group = Some(group);
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        write(&format!("- {}\n", self.mark));
        if let Some(group) = self.group {
            write(&format!("- {group}\n"));
        }
    }
}

fn write(lines: &str) {
    let input = INPUT.get_or_init(|| {
        start()
            .inspect_err(|error| tracing::warn!(%error, "children will survive if this program is killed"))
            .ok()
            .map(Mutex::new)
    });
    let Some(input) = input else { return };
    let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = input.write_all(lines.as_bytes()) {
        tracing::debug!(%error, "the watchdog of child processes has exited");
    }
}

/// Not a `ChildProcess`: it outlives every runtime, and must not watch itself.
fn start() -> io::Result<ChildStdin> {
    let mut shell = shell().spawn()?;
    shell.stdin.take().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}

fn shell() -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "with `Direct`, the only place that spawns"
    )]
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", SCRIPT])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    shell
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ChildEnv, ChildProcess, ProcessSpec};

    fn sleeper() -> ChildProcess {
        let spec = ProcessSpec::new("/bin/sleep", ChildEnv::new()).args(["600"]);
        ChildProcess::spawn(&spec).unwrap()
    }

    /// Runs the script with these lines, as if this program ended after them.
    async fn after(lines: &str) {
        let env = [("PATH".into(), "/usr/bin:/bin".into())].into_iter().collect();
        let spec = ProcessSpec::new("/bin/sh", env).args(["-c", SCRIPT]).stdin(lines);
        let cancel = tokio_util::sync::CancellationToken::new();
        crate::run(&spec, &cancel).await.unwrap();
    }

    #[tokio::test]
    async fn groups_on_the_list_at_the_end_are_killed() {
        let (mut one, mut two, mut three) = (sleeper(), sleeper(), sleeper());
        let [a, b, c] = [one.id(), two.id(), three.id()];
        after(&format!("+ {a}\n+ {b}\n+ {c}\n- {b}\n")).await;
        assert_eq!(one.wait().await.unwrap().to_string(), "killed by SIGKILL");
        assert_eq!(three.wait().await.unwrap().to_string(), "killed by SIGKILL");
        let waited = tokio::time::timeout(Duration::from_millis(50), two.wait()).await;
        assert!(waited.is_err(), "{waited:?}");
    }

    #[tokio::test]
    async fn everything_with_a_mark_on_the_list_is_killed() {
        let (mut marked, mut removed) = (sleeper(), sleeper());
        let marks = [marked.mark().unwrap(), removed.mark().unwrap()];
        after(&format!("+ {}\n+ {}\n- {}\n", marks[1], marks[0], marks[1])).await;
        assert_eq!(marked.wait().await.unwrap().to_string(), "killed by SIGKILL");
        let waited = tokio::time::timeout(Duration::from_millis(50), removed.wait()).await;
        assert!(waited.is_err(), "{waited:?}");
    }
}
