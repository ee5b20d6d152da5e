//! `quality_loop:` on the real CLI.

use std::sync::atomic::{AtomicUsize, Ordering};

use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::Bench;

const LOOPED: &str = "name: geography\nmodel: {provider: anthropic, name: claude-sonnet-4-5}\n\
                      instructions: {inline: Answer briefly.}\nevaluations:\n  metrics:\n    \
                      - {type: standard, metric: contains, value: Paris}\nquality_loop:\n  \
                      scorer: {metrics: [contains]}\n";

/// `somewhere`, then `Paris` where the question carries that answer as data.
fn server() -> AnthropicServer {
    AnthropicServer::answering(|request| {
        let again = request
            .prompt()
            .contains("Previous answer:\n```data\nsomewhere\n```");
        AnthropicReply::text(if again { "Paris" } else { "somewhere" })
    })
}

#[test]
fn an_answer_of_the_cli_is_improved_in_a_fresh_execution() {
    let bench = Bench::new(LOOPED, server());
    let ran = bench
        .run(&["run", "--explain", "The capital of France?"])
        .exits(0);
    assert_eq!(ran.stdout, "Paris\n");
    assert!(
        ran.stderr
            .contains("loop      0.0 → 100.0   threshold_met after 2 of 5"),
        "{}",
        ran.all()
    );
    let requests = bench.server.finish();
    // No message of the first execution is in the second one.
    assert!(requests.iter().all(|request| request.messages().len() == 1));
}

#[test]
fn a_case_of_the_cli_is_improved_and_counted() {
    let cases = "test_cases:\n  - {name: capital, input: The capital of France?, evaluations: [{type: standard, metric: \
                 starts_with, value: Paris}]}\n";
    let bench = Bench::new(&format!("{LOOPED}{cases}"), server());
    bench.run(&["test"]).exits(0);
    let case = bench.project.run_file()["report"]["results"][0].clone();
    assert_eq!(case["loop"]["scores"], json!([0.0, 100.0]));
    assert_eq!((&case["num_turns"], &case["passed"]), (&json!(2), &json!(true)));
    drop(bench.server.finish());
}

#[test]
fn best_of_n_is_refused_with_a_shell_and_works_without() {
    let asked = AtomicUsize::new(0);
    let server = AnthropicServer::answering(move |_| {
        AnthropicReply::text(match asked.fetch_add(1, Ordering::Relaxed) {
            1 => "Paris",
            _ => "somewhere",
        })
    });
    let best = format!("{LOOPED}  strategy: best_of_n\n");
    let bench = Bench::new(&format!("{best}claude: {{bash: {{enabled: true}}}}\n"), server);
    bench
        .run(&["run", "The capital of France?"])
        .exits(2)
        .says("`strategy: best_of_n` would repeat the work of tools that may change something: `Bash`");
    bench.project.write("agent.yaml", &best);
    bench.run(&["run", "The capital of France?"]).exits(0);
    assert_eq!(bench.server.finish().len(), 2);
}
