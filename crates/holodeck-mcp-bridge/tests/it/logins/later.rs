//! Tests of logins that are made while a connection is open.

use pretty_assertions::assert_eq;

use super::*;

/// A connection that was opened without a login uses the first one that is made, and the next one after a logout.
#[tokio::test]
async fn a_login_that_is_made_later_is_used_by_an_open_connection() {
    let server = OauthServer::with(OauthOptions {
        guarded: Some("tools/call"),
        ..OauthOptions::default()
    });
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    let connected = connect(&tool, &user.options()).await;
    let needed = "it needs a login; type `holodeck mcp login tickets`";
    for _ in 0..2 {
        let refused = call(&connected, "mcp__tickets__read", json!({})).await;
        let refused = refused.map_or_else(|error| error.to_string(), |output| output.text);
        assert!(refused.contains(needed), "{refused}");
    }
    assert_eq!(server.issuer_requests().len(), 0);
    for issued in 1..3 {
        user.log_in(&tool).await.unwrap();
        let answer = text(&connected, "mcp__tickets__read", json!({})).await;
        assert_eq!(answer, "ticket 7 for ***");
        assert_eq!(server.issued(), issued);
        log_out(&user.logins(), &tool, &env()).await.unwrap();
    }
    connected.close().await;
}
