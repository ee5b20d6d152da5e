//! A Chroma server for one test, stopped with it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub(super) struct Server {
    _folder: TempDir,
    port: u16,
    child: Child,
}

impl Server {
    pub(super) fn start() -> Self {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.smoke/chroma/bin");
        let program = programs.join("chroma");
        assert!(
            program.exists(),
            "Chroma is not installed; `cargo xtask services --chroma` installs it"
        );
        let folder = TempDir::with_prefix("holodeck-chroma-").unwrap();
        let port = TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        // Stops with the tests, however they end.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            // The program contains the path of its installation folder, which may have been moved.
            .arg(programs.join("python"))
            .arg(program)
            .arg("run")
            .arg("--path")
            .arg(folder.path().join("data"))
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .env("HOME", folder.path())
            .env("ANONYMIZED_TELEMETRY", "FALSE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        while !output.contains("listening on") {
            assert!(
                lines.read_line(&mut output).unwrap() > 0,
                "Chroma ended: {output}"
            );
        }
        // A full pipe would block the server.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self {
            _folder: folder,
            port,
            child,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
