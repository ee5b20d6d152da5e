//! Tests of finding the Claude Code CLI: precedence, versions, and broken or hanging programs.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

/// A folder for programs, which is also the home.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn program(&self, name: &str, body: &str) -> PathBuf {
        self.file(name, 0o755, &format!("#!/bin/sh\n{body}\n"))
    }

    /// `bin` is the only folder on the path.
    fn env(&self, more: &[(&str, &str)]) -> Env {
        let bin = self.at("bin").display().to_string();
        let home = self.folder.path().display().to_string();
        [("PATH", bin.as_str()), ("HOME", home.as_str())]
            .into_iter()
            .chain(more.iter().copied())
            .collect()
    }

    /// An error without the folder's name.
    fn rendered(&self, error: &Diagnostic) -> String {
        let here = self.folder.path().display().to_string();
        let hint = error.hint().unwrap_or_default();
        format!("{}[{}]: {}\n{hint}", error.severity, error.code, error.message).replace(&here, "")
    }

    async fn error(&self, search: ClaudeCliSearch) -> String {
        self.rendered(&search.find().await.unwrap_err())
    }
}

#[test]
fn versions_are_read_and_compared() {
    let parse = |text| CliVersion::parse(text).map(|version| version.to_string());
    assert_eq!(parse("2.1.330 (Claude Code)\n").as_deref(), Some("2.1.330"));
    assert_eq!(parse("v10.0.0-beta.1").as_deref(), Some("10.0.0"));
    for text in ["", "claude 2.1.3", "2.1", "2.x.1", "2.1.-3", "99999999999.0.0"] {
        assert_eq!(parse(text), None, "{text}");
    }
    assert!(CliVersion::new(2, 1, 113) >= CliVersion::OLDEST);
    assert!(CliVersion::new(2, 1, 112) < CliVersion::OLDEST);
    assert!(CliVersion::new(3, 0, 0) > CliVersion::OLDEST);
}

#[tokio::test]
async fn the_named_one_outranks_the_path_and_the_path_the_usual_places() {
    let machine = Machine::new();
    let usual = machine.program(".local/bin/claude", "echo '2.1.200 (Claude Code)'");
    let cli = ClaudeCliSearch::new(&machine.env(&[])).find().await.unwrap();
    assert_eq!((cli.path, cli.version), (usual, CliVersion::new(2, 1, 200)));

    let on_path = machine.program("bin/claude", "echo 2.1.113");
    let cli = ClaudeCliSearch::new(&machine.env(&[])).find().await.unwrap();
    assert_eq!((cli.path, cli.kind), (on_path, ClaudeCliKind::Native));

    let named = machine.program("elsewhere/cli", "echo 2.1.330");
    let variable = named.display().to_string();
    let env = machine.env(&[("HOLODECK_CLAUDE_CLI", &variable)]);
    let cli = ClaudeCliSearch::new(&env).find().await.unwrap();
    assert_eq!(cli.path, named);

    let given = machine.program("given", "echo 2.1.331");
    let cli = ClaudeCliSearch::new(&env).at(&given).find().await.unwrap();
    assert_eq!((cli.command(), cli.version.patch), ((given.as_path(), None), 331));
}

#[tokio::test]
async fn a_name_without_folder_is_looked_up_on_the_path() {
    let machine = Machine::new();
    let cli = machine.program("bin/claude-next", "echo 2.2.0");
    let env = machine.env(&[("HOLODECK_CLAUDE_CLI", "claude-next")]);
    assert_eq!(ClaudeCliSearch::new(&env).find().await.unwrap().path, cli);
}

#[tokio::test]
async fn missing_programs_are_reported_with_a_remedy() {
    let machine = Machine::new();
    machine.file("data", 0o644, "2.1.330");
    let nothing = machine.error(ClaudeCliSearch::new(&machine.env(&[]))).await;
    let named = ClaudeCliSearch::new(&machine.env(&[("HOLODECK_CLAUDE_CLI", "/no/such/claude")]));
    let named = machine.error(named).await;
    let data = machine
        .error(ClaudeCliSearch::new(&Env::empty()).at(machine.at("data")))
        .await;
    let folder = machine
        .error(ClaudeCliSearch::new(&Env::empty()).at(machine.at(".")))
        .await;
    insta::assert_snapshot!([nothing, named, data, folder].join("\n\n"));
}

#[tokio::test]
async fn broken_programs_are_reported() {
    let machine = Machine::new();
    let of = |name: &str, body: &str| {
        let program = machine.program(name, body);
        ClaudeCliSearch::new(&machine.env(&[])).at(program)
    };
    let errors = [
        machine.error(of("old", "echo '2.0.14 (Claude Code)'")).await,
        machine.error(of("other", "echo hello")).await,
        machine.error(of("broken", "echo 'no GLIBC' >&2; exit 3")).await,
    ];
    insta::assert_snapshot!(errors.join("\n\n"));
}

#[tokio::test]
async fn a_hanging_one_is_given_up_and_ended() {
    let machine = Machine::new();
    let hangs = machine.program("hangs", "exec /bin/sleep 600");
    let mut search = ClaudeCliSearch::new(&machine.env(&[])).at(hangs);
    search.patience = Duration::from_millis(100);
    let errors = machine.error(search).await;
    assert_eq!(
        errors,
        "error[HD0802]: `/hangs --version` does not answer within 0.1 s\n"
    );
}

#[tokio::test]
async fn a_script_needs_node_and_nothing_else_does() {
    let machine = Machine::new();
    machine.file("package/cli.js", 0o644, "");
    let script = machine.file("bin/claude", 0o755, "#!/usr/bin/env node\n");
    for program in [machine.at("package/cli.js"), script.clone()] {
        let errors = machine
            .error(ClaudeCliSearch::new(&machine.env(&[])).at(program))
            .await;
        assert!(
            errors.contains("Node.js runs, and no `node` is on the path"),
            "{errors}"
        );
    }
    let node = machine.program(
        "bin/node",
        "test -f \"$1\" && test \"$2\" = --version && echo 2.1.150",
    );
    let cli = ClaudeCliSearch::new(&machine.env(&[])).find().await.unwrap();
    assert_eq!(cli.command(), (node.as_path(), Some(script.as_path())));
}

#[tokio::test]
async fn no_credential_reaches_it() {
    let machine = Machine::new();
    machine.program("bin/claude", "test -z \"$ANTHROPIC_API_KEY\" && echo 2.1.330");
    let env = machine.env(&[("ANTHROPIC_API_KEY", "hush")]);
    assert!(ClaudeCliSearch::new(&env).find().await.is_ok());
}
