//! A program that is to outlive this one: the browser of a person. The only kind of child without an owner.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;

use crate::child::{find, spawn_error};
use crate::{ProcessError, ProcessSpec};

/// Starts a program without its streams, in a group of its own, and leaves it alone: it is not ended with this one. Only for what
/// a person asked for and continues to use, such as a browser. Of the spec only program, arguments, variables and folder apply.
pub fn start_and_leave(spec: &ProcessSpec) -> Result<(), ProcessError> {
    let program = find(spec)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "what a person asked for is not ended with this program"
    )]
    let mut command = Command::new(&program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(|error| spawn_error(program, error))?;
    // Without a reader its exit would stay in the list of processes.
    let waiting = move || child.wait();
    let waiter = thread::Builder::new()
        .name("left program".to_owned())
        .spawn(waiting);
    waiter.map(drop).map_err(ProcessError::Io)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::ChildEnv;

    #[test]
    fn it_runs_with_its_arguments_and_variables_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut variables = ChildEnv::new();
        variables.set("PAGE", "a-page");
        let script = "printf '%s %s %s' \"$PAGE\" \"$1\" \"${HOME-none}\" > out.new; mv out.new out";
        let spec = ProcessSpec::new("/bin/sh", variables)
            .args(["-c", script, "sh", "https://as.test/?a=b&c=$(id)"])
            .current_dir(folder.path());
        start_and_leave(&spec).unwrap();
        let out = folder.path().join("out");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !out.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            fs::read_to_string(out).unwrap(),
            "a-page https://as.test/?a=b&c=$(id) none"
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let error = start_and_leave(&ProcessSpec::new("/nowhere/open", ChildEnv::new())).unwrap_err();
        assert!(error.to_string().contains("/nowhere/open"), "{error}");
    }
}
