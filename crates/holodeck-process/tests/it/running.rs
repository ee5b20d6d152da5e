//! Tests of running programs: streams, environment, limits, and named causes of failure.

use std::time::Duration;

use holodeck_process::{AtLimit, ChildEnv, Exit, ProcessError, ProcessSpec, run};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use crate::script::{Script, script};

async fn output(script: &Script) -> holodeck_process::ProcessOutput {
    run(&script.spec, &CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn input_goes_in_and_output_and_exit_code_come_out() {
    let mut script = script("cat; echo warn >&2; exit 3");
    script.spec = script.spec.stdin("héllo");
    let output = output(&script).await;
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "héllo");
    assert_eq!(
        (output.exit, output.stderr.as_str(), output.dropped),
        (Exit::Code(3), "warn", 0)
    );
    let error = output.check().unwrap_err();
    assert_eq!(error.to_string(), "exit code 3");
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_mark() {
    let mut script = script("/usr/bin/env");
    let mut env = ChildEnv::new();
    env.set("ONLY", "this");
    script.spec = ProcessSpec::new("/bin/sh", env)
        .args(["./script"])
        .current_dir(script.folder.path());
    let text = String::from_utf8(output(&script).await.stdout).unwrap();
    // The shell itself adds some of these.
    let own = ["PWD=", "SHLVL=", "_=", "OLDPWD="];
    let mut given: Vec<_> = text
        .lines()
        .filter(|line| !own.iter().any(|own| line.starts_with(own)))
        .collect();
    given.sort_unstable();
    assert_eq!(given.len(), 2, "{given:?}");
    assert!(given.contains(&"ONLY=this"), "{given:?}");
    assert!(
        given.iter().any(|line| line.starts_with("_HOLODECK_CHILD=m")),
        "{given:?}"
    );
}

#[tokio::test]
async fn large_input_and_output_do_not_block_each_other() {
    let mut script = script("cat");
    let bytes = vec![b'x'; 3_000_000];
    script.spec = script.spec.stdin(bytes.clone());
    assert!(output(&script).await.stdout == bytes);
}

#[tokio::test]
async fn a_program_may_ignore_its_input() {
    let mut script = script("echo done");
    script.spec = script.spec.stdin(vec![b'x'; 1_000_000]);
    assert_eq!(output(&script).await.stdout, b"done\n");
}

#[tokio::test]
async fn too_much_output_is_dropped_or_stops_the_program() {
    let mut script = script("head -c 100000 /dev/zero; echo end >&2");
    script.spec = script.spec.stdout_limit(1000, AtLimit::Drop);
    let dropping = output(&script).await;
    assert_eq!((dropping.stdout.len(), dropping.dropped), (1000, 99_000));
    assert_eq!((dropping.exit, dropping.stderr.as_str()), (Exit::Code(0), "end"));

    let mut endless = crate::script::script("while :; do echo xxxxxxxxxxxxxxxx; done");
    endless.spec = endless.spec.stdout_limit(1000, AtLimit::Stop);
    let error = run(&endless.spec, &CancellationToken::new()).await.unwrap_err();
    assert!(
        matches!(error, ProcessError::OutputLimit { limit: 1000 }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_end_of_a_flood_on_stderr_is_kept() {
    let mut script = script("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done");
    script.spec = script.spec.stderr_kept(20);
    assert_eq!(output(&script).await.stderr, "…line 1998\nline 1999");
}

#[tokio::test]
async fn what_can_not_be_started_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("plain"), "x").unwrap();
    let env = || {
        let mut env = ChildEnv::new();
        env.set("PATH", "/usr/bin:/bin");
        env
    };
    let start = async |spec: ProcessSpec| run(&spec, &CancellationToken::new()).await.unwrap_err();

    let error = start(ProcessSpec::new("no-such-program", env())).await;
    assert_eq!(error.to_string(), "program `no-such-program` not found");
    let error = start(ProcessSpec::new("./gone", env()).current_dir(folder.path())).await;
    assert!(matches!(error, ProcessError::NotFound { .. }), "{error:?}");
    let error = start(ProcessSpec::new("./plain", env()).current_dir(folder.path())).await;
    assert!(
        matches!(
            error,
            ProcessError::NotExecutable {
                reason: "permission denied",
                ..
            }
        ),
        "{error:?}"
    );
    let error = start(ProcessSpec::new(folder.path(), env())).await;
    assert!(
        matches!(
            error,
            ProcessError::NotExecutable {
                reason: "it is a folder",
                ..
            }
        ),
        "{error:?}"
    );
    let error = start(ProcessSpec::new("sh", env()).current_dir(path("gone"))).await;
    assert!(
        matches!(error, ProcessError::WorkingDirectory { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_script_that_names_no_or_a_missing_interpreter_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [
        ("#!/no/such/interpreter\n", "interpreter is missing"),
        ("\u{1}\u{2}", "neither a binary"),
    ] {
        let path = folder.path().join("script");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = run(
            &ProcessSpec::new(&path, ChildEnv::new()),
            &CancellationToken::new(),
        )
        .await
        .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_signal_differs_from_a_code() {
    let output = output(&script("kill -SEGV $$")).await;
    assert_eq!(output.exit, Exit::Signal(11));
    assert_eq!(output.check().unwrap_err().to_string(), "killed by SIGSEGV");
}

#[tokio::test]
async fn a_program_that_runs_too_long_is_stopped_and_its_stderr_kept() {
    let mut script = script("echo waiting for godot >&2; exec sleep 600");
    script.spec = script.spec.timeout(Duration::from_millis(200));
    let error = run(&script.spec, &CancellationToken::new()).await.unwrap_err();
    assert!(
        matches!(&error, ProcessError::TimedOut { stderr, .. } if stderr == "waiting for godot"),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "still running after 0.2 s");
}
