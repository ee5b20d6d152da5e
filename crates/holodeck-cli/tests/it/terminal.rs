//! A terminal emulated with Python's `pty`, to read output and type input.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

use crate::project::Project;

/// Runs its arguments on a new terminal that is connected to stdin and stdout.
const PTY: &str = "import os, pty, sys\n\
                   status = pty.spawn(sys.argv[1:])\n\
                   sys.exit(os.waitstatus_to_exitcode(status))\n";

/// The command on a terminal.
pub(crate) struct OnTerminal {
    child: Child,
    /// The output so far.
    pub(crate) shown: String,
}

impl OnTerminal {
    pub(crate) fn start(project: &Project, args: &[&str]) -> Self {
        Self::with(&project.command(args))
    }

    /// Runs this command of a project on a terminal.
    pub(crate) fn with(plain: &Command) -> Self {
        let mut command = Command::new("python3");
        command
            .args(["-c", PTY])
            .arg(plain.get_program())
            .args(plain.get_args());
        command.current_dir(plain.get_current_dir().unwrap()).env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap());
        }
        command.env("TERM", "xterm");
        // Python may be anywhere on the path of the tests.
        command.env("PATH", std::env::var_os("PATH").unwrap());
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child,
            shown: String::new(),
        }
    }

    pub(crate) fn types(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Reads until `what` is shown.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        let mut bytes = self.shown.clone().into_bytes();
        while !self.shown.contains(what) {
            let read = stdout.read(&mut byte).unwrap();
            assert!(read > 0, "no {what:?} in {:?}", self.shown);
            bytes.extend_from_slice(&byte);
            self.shown = String::from_utf8_lossy(&bytes).into_owned();
        }
    }

    /// Reads to the end; the exit code.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let mut rest = Vec::new();
        self.child
            .stdout
            .as_mut()
            .unwrap()
            .read_to_end(&mut rest)
            .unwrap();
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        let code = self.child.wait().unwrap().code();
        (code, self.shown)
    }
}
