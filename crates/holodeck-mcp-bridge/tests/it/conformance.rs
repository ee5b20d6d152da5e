//! The protocol's own client conformance suite, with the client in `examples/conformance_client.rs`.

use std::path::Path;
use std::time::Duration;

use holodeck_process::{ChildEnv, ProcessSpec, run};
use tokio_util::sync::CancellationToken;

use crate::setup::{env, workspace};

const SUITE: &str = ".smoke/mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// The result of one scenario.
async fn scenario(name: &str) -> (bool, String) {
    let suite = workspace().join(SUITE);
    assert!(
        suite.is_file(),
        "{} is missing; `cargo xtask smoke` installs it",
        suite.display()
    );
    let tests = std::env::current_exe().unwrap();
    let client = tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/conformance_client");
    assert!(
        client.is_file(),
        "{} is missing; `cargo build --examples` makes it",
        client.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/globsync.mjs");
    let env = ChildEnv::inherit(&["PATH"], |name| env().get(name).map(str::to_owned));
    let mut args: Vec<String> = vec!["--import".to_owned(), hook.display().to_string()];
    args.push(suite.display().to_string());
    args.extend(["client", "--scenario", name, "--command"].map(str::to_owned));
    args.push(client.display().to_string());
    let spec = ProcessSpec::new("node", env)
        .args(args)
        .current_dir(folder.path())
        .timeout(Duration::from_mins(1));
    let output = run(&spec, &CancellationToken::new()).await.unwrap();
    let output_text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), output.stderr);
    (output.exit.success(), output_text)
}

async fn passes(name: &str) {
    let (passed, output_text) = scenario(name).await;
    assert!(passed, "{output_text}");
}

#[tokio::test]
async fn the_handshake() {
    passes("initialize").await;
}

#[tokio::test]
async fn a_call() {
    passes("tools_call").await;
}

#[tokio::test]
async fn the_defaults_of_a_question() {
    passes("elicitation-sep1034-client-defaults").await;
}

#[tokio::test]
async fn going_on_with_a_stream() {
    passes("sse-retry").await;
}
