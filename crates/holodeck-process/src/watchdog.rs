use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use crate::{ChildProcess, ProcessError, ProcessSpec};

/// Keeps a list of process groups, and kills those on it when its input ends, which it does when we are killed.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
children=' '
while read -r what child; do
  case $what in
  +) children="$children$child " ;;
  -) children="${children%% $child *} ${children#* $child }" ;;
  esac
done
for child in $children; do
  kill -s KILL -- "-${child%%:*}"
  mark=${child#*:}
  [ -n "$mark" ] || continue
  for file in $(grep -lsF -- "$mark" /proc/[0-9]*/environ); do
    id=${file#/proc/}
    kill -s KILL "${id%/environ}"
  done
done
"#;

/// Ends children that this program leaves behind when it is killed. Without it a child that does not read its stdin
/// would go on.
#[derive(Debug)]
pub struct Watchdog {
    lines: mpsc::UnboundedSender<String>,
    _shell: ChildProcess,
}

/// A child that is watched until this is dropped.
#[derive(Debug)]
pub struct Watched {
    child: String,
    watchdog: Arc<Watchdog>,
}

impl Watchdog {
    /// Starts one, which is a shell. Needs a runtime.
    pub fn start() -> Result<Arc<Self>, ProcessError> {
        let env = [("PATH".into(), "/usr/bin:/bin".into())].into_iter().collect();
        let spec = ProcessSpec::new("/bin/sh", env).args(["-c", SCRIPT]);
        let mut shell = ChildProcess::spawn(&spec)?;
        let (lines, mut written) = mpsc::unbounded_channel::<String>();
        if let Some(mut stdin) = shell.take_stdin() {
            tokio::spawn(async move {
                while let Some(line) = written.recv().await {
                    if stdin.write_all(line.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Arc::new(Self { lines, _shell: shell }))
    }

    /// Watches a child's process group, and what bears its mark.
    pub fn watch(self: &Arc<Self>, child: &ChildProcess) -> Watched {
        // A mark that would be two words can't be told.
        let mark = child.mark().filter(|mark| !mark.contains(char::is_whitespace));
        let child = format!("{}:{}", child.id(), mark.unwrap_or_default());
        // If the shell is gone, there is nobody to tell.
        let _ = self.lines.send(format!("+ {child}\n"));
        Watched {
            child,
            watchdog: Arc::clone(self),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.watchdog.lines.send(format!("- {}\n", self.child));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ChildEnv;

    fn sleeper() -> ChildProcess {
        let spec = ProcessSpec::new("/bin/sleep", ChildEnv::new()).args(["600"]);
        ChildProcess::spawn(&spec).unwrap()
    }

    /// Runs the script on these lines, as if we were gone after them.
    async fn after(lines: &str) {
        let env = [("PATH".into(), "/usr/bin:/bin".into())].into_iter().collect();
        let spec = ProcessSpec::new("/bin/sh", env).args(["-c", SCRIPT]).stdin(lines);
        let cancel = tokio_util::sync::CancellationToken::new();
        crate::run(&spec, &cancel).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_on_the_list_at_the_end_is_killed() {
        let (mut one, mut two, mut three) = (sleeper(), sleeper(), sleeper());
        let [a, b, c] = [one.id(), two.id(), three.id()];
        after(&format!("+ {a}:\n+ {b}:\n+ {c}:\n- {b}:\n")).await;
        assert_eq!(one.wait().await.unwrap().to_string(), "killed by SIGKILL");
        assert_eq!(three.wait().await.unwrap().to_string(), "killed by SIGKILL");
        let waited = tokio::time::timeout(Duration::from_millis(50), two.wait()).await;
        assert!(waited.is_err(), "{waited:?}");
    }

    #[tokio::test]
    async fn what_bears_the_mark_of_one_is_killed() {
        let mark = format!("mark-of-a-test-{}", std::process::id());
        let env = [("MARK".into(), mark.clone().into())].into_iter().collect();
        let spec = ProcessSpec::new("/bin/sleep", env).args(["600"]);
        let mut child = ChildProcess::spawn(&spec).unwrap();
        let ended = sleeper().id();
        after(&format!("+ {ended}:{mark}\n")).await;
        assert_eq!(child.wait().await.unwrap().to_string(), "killed by SIGKILL");
    }

    #[tokio::test]
    async fn nothing_is_killed_while_we_live() {
        let watchdog = Watchdog::start().unwrap();
        let mut child = sleeper();
        let watched = watchdog.watch(&child);
        drop(watchdog);
        let waited = tokio::time::timeout(Duration::from_millis(50), child.wait()).await;
        assert!(waited.is_err(), "{waited:?}");
        drop(watched);
    }
}
