//! Tests of nested agents: recorded under the call that started them, and separate from the run's result.

use holodeck_backend_api::{BackendError, ExecutionResult, StopReason};
use holodeck_events::execution_result;
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{answered, broken, call, nested, result, stop, text, thinking},
    session::record_run,
};

#[test]
fn an_agent_under_a_call_is_recorded_beside_the_run_and_is_no_part_of_its_result() {
    let emitted = [
        text("I'll ask"),
        call("t", "Agent"),
        // Without an end of the message: the first event under a call records the call.
        nested("t", thinking("sub")),
        nested("t", text("looking")),
        nested("t", call("u", "search")),
        nested("t", stop(StopReason::ToolUse, "sub_1")),
        nested("t", result("u", "search", "30")),
        nested("t", text("it is 30")),
        nested("t", stop(StopReason::EndTurn, "sub_2")),
        stop(StopReason::ToolUse, "msg_1"),
        result("t", "Agent", "it is 30"),
        text("30 days"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    let session = record_run(answered(emitted));
    assert_eq!(
        session.shape(),
        [
            "0 user_message_confirmed go",
            "- message_chunk 0 \"I'll ask\"",
            "1 message tool_use \"I'll ask\"",
            "2 tool_use t Agent",
            "- thinking_chunk 0 \"sub\" under t",
            "- thinking_complete 0 \"sub\" under t",
            "- message_chunk 1 \"looking\" under t",
            "3 thinking \"sub\" under t",
            "4 message tool_use \"looking\" under t",
            "5 tool_use u search under t",
            "6 tool_result u ok \"30\" under t",
            "- message_chunk 0 \"it is 30\" under t",
            "7 message end_turn \"it is 30\" under t",
            "8 tool_result t ok \"it is 30\"",
            "- message_chunk 0 \"30 days\"",
            "9 message end_turn \"30 days\"",
            "- complete success end_turn",
        ]
    );
    let run = &session.runs[0];
    let recorded = ExecutionResult {
        finish_reason: None,
        ..run.result.clone()
    };
    assert_eq!(execution_result(&session.pruned()), Some(recorded));
    assert_eq!(run.result.response, "30 days");
    assert_eq!(run.result.tool_calls.len(), 1);
}

#[test]
fn agents_at_the_same_time_do_not_mix() {
    let emitted = [
        call("t", "Agent"),
        call("u", "Agent"),
        stop(StopReason::ToolUse, "msg_1"),
        nested("t", text("one ")),
        nested("u", text("uno ")),
        nested("t", text("two")),
        nested("u", text("due")),
        nested("u", stop(StopReason::EndTurn, "b")),
        nested("t", stop(StopReason::EndTurn, "a")),
        result("t", "Agent", "x"),
        result("u", "Agent", "y"),
    ];
    let pruned = record_run(answered(emitted));
    let pruned: Vec<_> = pruned.pruned().iter().map(crate::session::shape).collect();
    assert_eq!(
        pruned[3..5],
        [
            "3 message end_turn \"uno due\" under u",
            "4 message end_turn \"one two\" under t",
        ]
    );
}

#[test]
fn when_the_run_breaks_an_agents_agents_are_closed_before_it() {
    let emitted = [
        call("t", "Agent"),
        nested("t", call("u", "Agent")),
        nested("t", nested("u", text("deep"))),
        nested("u", call("v", "search")),
    ];
    let died = BackendError::Terminated {
        detail: String::new(),
    };
    assert_eq!(
        record_run(broken(emitted, died)).shape()[1..],
        [
            "1 tool_use t Agent",
            "2 tool_use u Agent under t",
            "- message_chunk 0 \"deep\" under u",
            "3 message tool_use \"deep\" cut by error under u",
            "4 tool_use v search under u",
            "5 tool_result v failed \"not answered: subprocess terminated unexpectedly\" under u",
            "6 tool_result u failed \"not answered: subprocess terminated unexpectedly\" under t",
            "7 tool_result t failed \"not answered: subprocess terminated unexpectedly\"",
            "8 error SUBPROCESS_TERMINATED: subprocess terminated unexpectedly",
        ]
    );
}
