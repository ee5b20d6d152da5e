//! Servers that need a login, and servers over WebSocket: the CLI never gets the token, and HoloDeck passes the calls on.

use std::{fs, os::unix::fs::PermissionsExt as _};

use holodeck_testkit::{AnthropicReply, AnthropicServer, OauthServer, PINNED_CLAUDE, claude_cli};
use serde_json::json;

use super::Bench;
use crate::logins::{agree, files_with, log_in, tools};

#[test]
fn the_cli_calls_a_server_with_a_login_and_sees_no_token() {
    let oauth = OauthServer::start();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__tickets__read", &json!({})),
        AnthropicReply::text("ticket 7 it is"),
    ]);
    let yaml = format!(
        "name: desk\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Be brief}}\n{}\
         test_cases: [{{name: one, input: Read it., ground_truth: ticket 7, expected_tools: [read],\n  \
         evaluations: [{{type: standard, metric: contains}}]}}]\n",
        tools(&oauth)
    );
    let bench = Bench::new(&yaml, server);
    // Everything that the CLI is given: arguments, variables, and the files that arguments name.
    let wrapper = bench.wrapper();
    let given = bench.records().join("given");
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) ;; *)\n{{ printf '%s\\n' \"$@\"; env; for name do [ -f \"$name\" ] && cat \"$name\"; done; \
         }} >>'{0}'\nesac\nexec '{1}' \"$@\"\n",
        given.display(),
        claude_cli(PINNED_CLAUDE).display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();

    bench.run(&["test"]).exits(3).says("holodeck mcp login tickets");
    fs::remove_file(&given).unwrap();
    log_in(&bench.project, agree).exits(0);
    let token = oauth.access_token().unwrap();
    bench.run(&["test"]).exits(0).says("1 passed");
    let given = fs::read_to_string(given).unwrap();
    for secret in [token.as_str(), "-token-", "Bearer", &oauth.mcp_url()] {
        assert!(!given.contains(secret), "{secret}");
    }
    assert!(given.contains("ANTHROPIC_API_KEY"), "the variables were recorded");
    assert!(files_with(&bench.project.dir(), &token).is_empty());
    let Bench { server, .. } = bench;
    let requests = server.finish();
    assert_eq!(
        requests[1].last_results()[0],
        ("ticket 7 for ***".to_owned(), false)
    );
}
