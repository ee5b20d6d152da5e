//! A loop whose improver is a program that never ends.

use std::{fs, path::Path};

use holodeck_orchestrator::{
    Assessment, ImproveError, LoopControl, LoopOutput, LoopRules, QualityLoop, ScorerError,
    model::TerminationReason,
};
use holodeck_process::{ChildEnv, ProcessSpec, run};
use tokio_util::sync::CancellationToken;

/// Whether a process exists; one that ended and was not waited for does not count.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some(Some('Z')))
}

#[tokio::test]
async fn the_hard_limit_ends_a_hanging_program_and_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let script = format!(
        "sleep 1000 & echo $$ $! >'{0}.new'; mv '{0}.new' '{0}'; wait",
        pids.display()
    );
    let spec = ProcessSpec::new("/bin/sh", ChildEnv::inherit(&["PATH"], |_| Some("/usr/bin:/bin")))
        .args(["-c".to_owned(), script])
        .current_dir(dir.path());
    let scorer = |_: LoopOutput| async { Ok::<_, ScorerError>(Assessment::of(50.0)) };
    let improver = |_: LoopOutput, _: Assessment, _: u32| {
        let spec = spec.clone();
        async move {
            let ended = run(&spec, &CancellationToken::new()).await;
            Err::<LoopOutput, _>(ImproveError::new(format!("it ended: {ended:?}")))
        }
    };
    let rules = LoopRules {
        hard_timeout_seconds: Some(3.0),
        ..LoopRules::default()
    };
    let (output, assessment, report) = QualityLoop::new(rules)
        .unwrap()
        .run(
            LoopOutput::new("first"),
            &scorer,
            &improver,
            &LoopControl::default(),
        )
        .await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert_eq!((output.text.as_str(), assessment.score), ("first", Some(50.0)));
    let started = fs::read_to_string(&pids).expect("the program was started within the limit");
    for pid in started.split_whitespace() {
        // The group is killed; the kernel may need a moment.
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    }
}
