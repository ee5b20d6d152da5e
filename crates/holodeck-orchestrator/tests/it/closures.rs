//! Closures of an embedding program: another executor and a hook.

use std::sync::{Arc, Mutex};

use holodeck_orchestrator::{
    ExecuteOptions, ExecutionFacade, ExecutorCall, ExecutorFailure, ExecutorOutput, FacadeSettings,
    FailureClass, HookEvent, HookPoint, Verdict,
};
use pretty_assertions::assert_eq;

use crate::bench::context;

#[tokio::test]
async fn a_closure_executes_a_command_and_another_one_observes_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observed = Arc::clone(&seen);
    let mut settings = FacadeSettings::default();
    settings.legacy = Some(Arc::new(|call: ExecutorCall| async move {
        Ok::<_, ExecutorFailure>(ExecutorOutput::text(call.context.command.task()))
    }));
    settings.hooks = vec![Arc::new(move |event: &HookEvent| {
        observed.lock().unwrap().push(event.point.clone());
    })];
    let result = ExecutionFacade::new(settings)
        .execute(&context(), &ExecuteOptions::default())
        .await
        .unwrap();
    assert_eq!(
        (result.success, &result.output["output"]),
        (true, &"look at src".into())
    );
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, [HookPoint::SessionStart, HookPoint::SessionEnd]);
}

#[tokio::test]
async fn a_closure_that_panics_is_a_failure_that_says_why() {
    let mut settings = FacadeSettings::default();
    settings.legacy = Some(Arc::new(|_: ExecutorCall| async move { panic!("no paper") }));
    let execution = ExecutionFacade::new(settings)
        .execute_explained(&context(), &ExecuteOptions::default())
        .await
        .unwrap();
    assert_eq!(execution.verdict, Verdict::Failed(FailureClass::Broken));
    assert_eq!(execution.result.errors, ["the executor panicked: no paper"]);
}
