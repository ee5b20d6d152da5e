//! Logins to servers that require OAuth: with a regular authorization server, with hostile ones, and the use of the tokens.

mod later;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holodeck_mcp_bridge::{
    LoggedIn, LoginError, LoginNews, LoginRequest, Logins, McpOptions, log_in, log_out,
};
use holodeck_model::McpTool;
use holodeck_testkit::{EndpointServer, OauthOptions, OauthServer, ReceivedRequest, Reply, browse};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::setup::{call, connect, env, options, text, tool, try_connect};

/// A person's use of the page of the authorization server.
type Person = Box<dyn Fn(&str) + Send + Sync>;

/// The user's folder, and all that was said during logins.
struct User {
    folder: TempDir,
    said: Arc<Mutex<Vec<LoginNews>>>,
}

impl User {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            said: Arc::default(),
        }
    }

    fn logins(&self) -> Logins {
        Logins::new(self.place())
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("mcp-logins")
    }

    async fn log_in_as(&self, tool: &McpTool, person: Person) -> Result<LoggedIn, LoginError> {
        let (said, person) = (Arc::clone(&self.said), Arc::new(person));
        let tell = move |news: LoginNews| {
            if let LoginNews::Open { url, .. } = &news {
                let (person, url) = (Arc::clone(&person), url.clone());
                std::thread::spawn(move || person(&url));
            }
            said.lock().unwrap().push(news);
        };
        let env = env();
        let request = LoginRequest {
            tool,
            env: &env,
            patience: Some(Duration::from_secs(30)),
        };
        log_in(&self.logins(), request, &tell).await
    }

    /// A login of a person who agrees.
    async fn log_in(&self, tool: &McpTool) -> Result<LoggedIn, LoginError> {
        self.log_in_as(tool, agreeing()).await
    }

    fn options(&self) -> McpOptions {
        let mut options = options(Path::new("/"));
        options.logins = Some(self.logins());
        options
    }

    fn said(&self) -> Vec<LoginNews> {
        let mut said = self.said.lock().unwrap().clone();
        said.retain(|news| !matches!(news, LoginNews::Open { .. }));
        said
    }

    /// The text of the file that keeps a login.
    fn file(&self) -> PathBuf {
        let files = fs::read_dir(self.place())
            .unwrap()
            .map(|file| file.unwrap().path());
        let mut files: Vec<_> = files
            .filter(|file| file.extension().is_some_and(|end| end == "json"))
            .collect();
        assert_eq!(files.len(), 1);
        files.remove(0)
    }

    fn change(&self, change: impl Fn(&mut Value)) {
        let path = self.file();
        let mut saved: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut saved);
        fs::write(path, saved.to_string()).unwrap();
    }
}

/// The redirect of the authorization server to a person who agrees.
fn redirect(page: &str) -> String {
    let (status, location, text) = browse(page);
    assert_eq!(status, 302, "{text}");
    location.unwrap()
}

fn agreeing() -> Person {
    Box::new(|page| {
        let (status, _, text) = browse(&redirect(page));
        assert_eq!(status, 200, "{text}");
    })
}

/// A change of the right answer.
type Twist = fn(&str) -> String;

fn with_parameter(redirect: &str, name: &str, value: &str) -> String {
    let mut url = url::Url::parse(redirect).unwrap();
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let mut query = url.query_pairs_mut();
    query.clear();
    for (own, old) in &pairs {
        query.append_pair(own, if own == name { value } else { old });
    }
    drop(query);
    url.into()
}

fn remote(url: &str, more: &str) -> McpTool {
    tool(&format!(
        "name: tickets\ntransport: http\nurl: {url}\nrequest_timeout: 20\n{more}"
    ))
}

fn form<'a>(request: &'a ReceivedRequest, name: &str) -> &'a str {
    request.body[name].as_str().unwrap_or_default()
}

fn token_requests(server: &OauthServer) -> Vec<ReceivedRequest> {
    let mut requests = server.issuer_requests();
    requests.retain(|request| request.route() == "/token");
    requests
}

#[tokio::test]
async fn a_person_who_agrees_gives_the_server_a_token_and_the_model_does_not_see_it() {
    for issuer_path in ["", "/tenant/a"] {
        let server = OauthServer::with(OauthOptions {
            issuer_path,
            ..OauthOptions::default()
        });
        let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
        let done = user.log_in(&tool).await.unwrap();
        assert_eq!(
            (done.issuer, done.scopes),
            (server.issuer(), vec!["tickets.read".to_owned()])
        );
        assert!(done.renews && done.expires_at.is_some());
        assert_eq!(user.said(), []);
        let [exchange] = token_requests(&server)
            .try_into()
            .unwrap_or_else(|all| panic!("{all:?}"));
        assert_eq!(form(&exchange, "resource"), server.mcp_url());
        assert!(form(&exchange, "redirect_uri").starts_with("http://127.0.0.1:"));

        let connected = connect(&tool, &user.options()).await;
        assert_eq!(
            text(&connected, "mcp__tickets__read", json!({})).await,
            "ticket 7 for ***"
        );
        connected.close().await;
        assert_eq!(server.issued(), 1);
    }
}

#[tokio::test]
async fn a_server_without_a_login_names_the_command_and_opens_nothing() {
    let server = OauthServer::start();
    let user = User::new();
    for transport in ["http", "sse", "websocket"] {
        let tool = tool(&format!(
            "name: tickets\ntransport: {transport}\nurl: {}",
            server.mcp_url()
        ));
        let mut options = user.options();
        options.login_arguments = " --agent desk.yaml".to_owned();
        let connected = try_connect(&tool, &options).await;
        assert_eq!(
            connected.failed[0].reason,
            "it needs a login; type `holodeck mcp login tickets --agent desk.yaml`",
            "{transport}"
        );
    }
    assert_eq!(server.issuer_requests().len(), 0);
    assert!(!user.place().exists());
}

#[tokio::test]
async fn a_token_that_ends_is_renewed_with_the_same_resource_and_kept() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    user.log_in(&tool).await.unwrap();
    // By its own end, and by the server's refusal.
    user.change(|saved| saved["expires_at"] = 1000.into());
    let connected = connect(&tool, &user.options()).await;
    assert_eq!(server.issued(), 2);
    server.end_access();
    assert_eq!(
        text(&connected, "mcp__tickets__read", json!({})).await,
        "ticket 7 for ***"
    );
    assert_eq!(server.issued(), 3);
    connected.close().await;
    for request in &token_requests(&server)[1..] {
        assert_eq!(
            (form(request, "grant_type"), form(request, "resource")),
            ("refresh_token", server.mcp_url().as_str())
        );
    }
    let saved = fs::read_to_string(user.file()).unwrap();
    assert!(
        saved.contains(&server.refresh_token().unwrap()),
        "the rotated token is kept"
    );
    // Nothing was discovered again.
    let metadata = server.issuer_requests();
    let metadata = metadata
        .iter()
        .filter(|request| request.route().contains("well-known"));
    assert_eq!(metadata.count(), 1);
}

#[tokio::test]
async fn a_resource_without_a_final_slash_is_sent_as_it_was_announced() {
    let announced = Arc::new(Mutex::new(String::new()));
    let noted = Arc::clone(&announced);
    let server = OauthServer::with(OauthOptions {
        resource: Box::new(move |document| {
            let host = document["resource"]
                .as_str()
                .unwrap()
                .trim_end_matches("/mcp")
                .to_owned();
            document["resource"] = host.clone().into();
            *noted.lock().unwrap() = host;
        }),
        ..OauthOptions::default()
    });
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    user.log_in(&tool).await.unwrap();
    user.change(|saved| saved["expires_at"] = 1000.into());
    connect(&tool, &user.options()).await.close().await;
    let sent: Vec<String> = token_requests(&server)
        .iter()
        .map(|request| form(request, "resource").to_owned())
        .collect();
    assert_eq!(sent, vec![announced.lock().unwrap().clone(); 2]);
}

#[tokio::test]
async fn a_refresh_that_is_refused_says_to_log_in_again() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    user.log_in(&tool).await.unwrap();
    let connected = connect(&tool, &user.options()).await;
    let spent = server.refresh_token().unwrap();
    server.end_all();
    let error = call(&connected, "mcp__tickets__read", json!({}))
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "type `holodeck mcp login tickets`",
        "invalid_grant",
        "can't be renewed",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains(&spent), "{error}");
    let failed = try_connect(&tool, &user.options()).await.failed.remove(0).reason;
    assert!(failed.contains("type `holodeck mcp login tickets`"), "{failed}");
    // A new login is enough, also for the connection that is open.
    user.log_in(&tool).await.unwrap();
    assert_eq!(
        text(&connected, "mcp__tickets__read", json!({})).await,
        "ticket 7 for ***"
    );
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    user.log_in(&tool).await.unwrap();
    let connected = connect(&tool, &user.options()).await;
    server.want_scope("tickets.write");
    let error = call(&connected, "mcp__tickets__read", json!({}))
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "it lacks the scope tickets.write",
        "type `holodeck mcp login tickets`",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn two_processes_that_renew_at_once_use_each_refresh_token_once() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    user.log_in(&tool).await.unwrap();
    user.change(|saved| saved["expires_at"] = 1000.into());
    // Each has its own files, lock and memory, as a process has.
    let all = (0..6).map(|_| {
        let (tool, options) = (tool.clone(), user.options());
        tokio::spawn(async move { try_connect(&tool, &options).await.failed.len() })
    });
    for failed in futures::future::join_all(all).await {
        assert_eq!(failed.unwrap(), 0);
    }
    // The others have taken the token of the first.
    assert_eq!(server.issued(), 2);
}

#[tokio::test]
async fn a_token_goes_to_no_other_address() {
    let thief = EndpointServer::answering(|_| Reply::raw(200, "application/json", "{}"));
    let lure = thief.url();
    let server = OauthServer::with(OauthOptions {
        instead: Box::new(move |request| {
            let is_call = request.route() == "/mcp" && request.header("authorization").is_some();
            is_call.then(|| Reply::raw(307, "text/plain", "").header("location", &format!("{lure}/mcp")))
        }),
        ..OauthOptions::default()
    });
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    user.log_in(&tool).await.unwrap();
    let failed = try_connect(&tool, &user.options()).await.failed.remove(0).reason;
    assert!(failed.contains("another host"), "{failed}");
    // Another server under the same name, and the same server by another port, path or scheme.
    for url in [
        format!("{}/mcp", thief.url()),
        format!("{}/x", server.mcp_url()),
        server.mcp_url().replace("127.0.0.1", "localhost"),
    ] {
        let _ = try_connect(&remote(&url, ""), &user.options()).await;
    }
    let token = server.access_token().unwrap();
    for request in thief.requests() {
        let all = format!("{request:?}");
        assert!(!all.contains(&token), "{all}");
    }
    let elsewhere = server
        .mcp_requests()
        .into_iter()
        .filter(|request| request.route() != "/mcp");
    for request in elsewhere {
        assert_eq!(request.header("authorization"), None, "{request:?}");
    }
}

#[tokio::test]
async fn a_token_in_the_yaml_is_used_and_no_login() {
    let server = OauthServer::start();
    let user = User::new();
    user.log_in(&remote(&server.mcp_url(), "")).await.unwrap();
    let own = remote(&server.mcp_url(), "headers: {authorization: Bearer of-the-yaml}");
    let failed = try_connect(&own, &user.options()).await.failed.remove(0).reason;
    assert!(failed.contains("401"), "{failed}");
    assert!(!failed.contains("holodeck mcp login"), "{failed}");
    let error = user.log_in(&own).await.unwrap_err();
    assert!(matches!(error, LoginError::OwnHeader(_)), "{error}");
}

#[tokio::test]
async fn foreign_second_and_unreadable_answers_are_named_and_change_nothing() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    let person: Person = Box::new(|page| {
        let right = redirect(page);
        for (wrong, status) in [
            (with_parameter(&right, "state", "another-state-of-somebody"), 400),
            (format!("{}?code=stolen", right.split('?').next().unwrap()), 400),
            (format!("{right}&code=second"), 400),
            (right.replace("/callback", "/favicon.ico"), 404),
        ] {
            assert_eq!(browse(&wrong).0, status, "{wrong}");
        }
        assert_eq!(browse(&right).0, 200);
    });
    user.log_in_as(&tool, person).await.unwrap();
    assert_eq!(
        user.said(),
        [
            LoginNews::ForeignAnswer,
            LoginNews::ForeignAnswer,
            LoginNews::MalformedAnswer("it repeats a parameter"),
        ]
    );
    assert_eq!(token_requests(&server).len(), 1);

    // The token endpoint answers only after the second answer came.
    let gate = Arc::new(holodeck_testkit::Gate::new());
    let closed = Arc::clone(&gate);
    let server = OauthServer::with(OauthOptions {
        instead: Box::new(move |request| {
            let page = r#"{"access_token":"slow-token-1","token_type":"bearer"}"#;
            (request.route() == "/token").then(|| Reply::raw(200, "application/json", page).behind(&closed))
        }),
        ..OauthOptions::default()
    });
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    let person: Person = Box::new(move |page| {
        let right = redirect(page);
        assert_eq!(browse(&right).0, 200);
        assert_eq!(browse(&right).0, 200);
        gate.open();
    });
    user.log_in_as(&tool, person).await.unwrap();
    assert_eq!(user.said(), [LoginNews::SecondAnswer]);
}

#[tokio::test]
async fn an_answer_that_refuses_or_is_of_another_server_ends_the_login() {
    let cases: [(Twist, &str); 4] = [
        (
            |right| {
                let state = url::Url::parse(right).unwrap();
                let state = state
                    .query_pairs()
                    .find(|(name, _)| name == "state")
                    .unwrap()
                    .1
                    .into_owned();
                let base = right.split('?').next().unwrap();
                format!("{base}?error=access_denied&error_description=Not%20today&state={state}")
            },
            "refused the login: access_denied (Not today)",
        ),
        (
            |right| with_parameter(right, "iss", "https://evil.test"),
            "came from the authorization server https://evil.test",
        ),
        (
            |right| with_parameter(right, "iss", ""),
            "came from the authorization server",
        ),
        // The code of another login, or of another server.
        (
            |right| with_parameter(right, "code", "code-of-the-attacker"),
            "invalid_grant",
        ),
    ];
    for (answer, expected) in cases {
        let server = OauthServer::start();
        let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
        let person: Person = Box::new(move |page| drop(browse(&answer(&redirect(page)))));
        let error = user.log_in_as(&tool, person).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("code-of-the-attacker"), "{error}");
        let has_exchanged = !token_requests(&server).is_empty();
        assert_eq!(has_exchanged, expected == "invalid_grant");
        assert_eq!(user.logins().of(&server.mcp_url()).unwrap(), None);
    }
}

/// A change of a hostile or incomplete server, and the words of the refusal.
type Hostile = (&'static str, OauthOptions, &'static str);

fn in_metadata(name: &'static str, change: fn(&mut Value), expected: &'static str) -> Hostile {
    let options = OauthOptions {
        metadata: Box::new(change),
        ..OauthOptions::default()
    };
    (name, options, expected)
}

fn instead(name: &'static str, route: &'static str, reply: fn() -> Reply, expected: &'static str) -> Hostile {
    let options = OauthOptions {
        instead: Box::new(move |request| (request.route() == route).then(reply)),
        ..OauthOptions::default()
    };
    (name, options, expected)
}

fn remove(document: &mut Value, field: &str) {
    document.as_object_mut().unwrap().remove(field);
}

fn hostile_metadata() -> Vec<Hostile> {
    vec![
        in_metadata(
            "no PKCE",
            |it| remove(it, "code_challenge_methods_supported"),
            "does not list `S256`",
        ),
        in_metadata(
            "plain PKCE",
            |it| it["code_challenge_methods_supported"] = json!(["plain"]),
            "does not list `S256`",
        ),
        in_metadata(
            "empty PKCE",
            |it| it["code_challenge_methods_supported"] = json!([]),
            "does not list `S256`",
        ),
        in_metadata(
            "null PKCE",
            |it| it["code_challenge_methods_supported"] = Value::Null,
            "does not list `S256`",
        ),
        in_metadata(
            "another issuer",
            |it| it["issuer"] = json!("https://evil.test"),
            "https://evil.test; both must be equal",
        ),
        in_metadata("no issuer", |it| remove(it, "issuer"), "has no `issuer`"),
        in_metadata(
            "tokens elsewhere without TLS",
            |it| it["token_endpoint"] = json!("http://evil.test/token"),
            "`token_endpoint` is http://evil.test/token",
        ),
        in_metadata(
            "a page that is a program",
            |it| it["authorization_endpoint"] = json!("javascript:alert(1)"),
            "`authorization_endpoint`",
        ),
        in_metadata(
            "a page that is a file",
            |it| it["authorization_endpoint"] = json!("file:///etc/passwd"),
            "`authorization_endpoint`",
        ),
        in_metadata(
            "no codes",
            |it| it["response_types_supported"] = json!(["token"]),
            "does not list `code`",
        ),
        in_metadata(
            "no registration",
            |it| remove(it, "registration_endpoint"),
            "registers no applications",
        ),
        in_metadata(
            "unreadable",
            |it| *it = json!([]),
            "none published usable metadata",
        ),
    ]
}

fn hostile_answers() -> Vec<Hostile> {
    vec![
        instead(
            "no metadata",
            "/.well-known/oauth-authorization-server",
            || Reply::html(404, "none"),
            "none published usable metadata",
        ),
        instead(
            "a broken server",
            "/.well-known/oauth-authorization-server",
            || Reply::html(500, "down"),
            "answered 500",
        ),
        instead(
            "metadata elsewhere",
            "/.well-known/oauth-authorization-server",
            || Reply::raw(302, "text/plain", "").header("location", "http://localhost:1/metadata"),
            "can't be found",
        ),
        instead(
            "no registration today",
            "/register",
            || Reply::html(403, "no"),
            "registering HoloDeck failed",
        ),
        instead(
            "a page for a token",
            "/token",
            || Reply::html(200, "Sign in"),
            "text/html; charset=utf-8 instead of JSON",
        ),
        instead(
            "an error page for a token",
            "/token",
            || Reply::html(502, "Bad gateway"),
            "answered 502",
        ),
        instead(
            "tokens elsewhere",
            "/token",
            || Reply::raw(307, "text/plain", "").header("location", "http://localhost:1/token"),
            "with another address, http://localhost:1/token, which is not followed",
        ),
        instead(
            "an empty answer",
            "/token",
            || Reply::raw(200, "application/json", "{}"),
            "gave no token",
        ),
        instead(
            "a token of another type",
            "/token",
            || {
                Reply::raw(
                    200,
                    "application/json",
                    r#"{"access_token":"mac-token-1","token_type":"mac"}"#,
                )
            },
            "gave no token",
        ),
        instead(
            "a token with a line end",
            "/token",
            || {
                Reply::raw(
                    200,
                    "application/json",
                    r#"{"access_token":"a\nb-token-1","token_type":"bearer"}"#,
                )
            },
            "characters that no header may have",
        ),
        instead("a flood", "/token", || Reply::flood(8 << 20), "gave no token"),
        (
            "another resource",
            OauthOptions {
                resource: Box::new(|it| it["resource"] = json!("https://bank.test/mcp")),
                ..OauthOptions::default()
            },
            "can't be found",
        ),
        (
            "an authorization server inside",
            OauthOptions {
                resource: Box::new(|it| it["authorization_servers"] = json!(["http://10.0.0.1"])),
                ..OauthOptions::default()
            },
            "can't be found",
        ),
    ]
}

#[tokio::test]
async fn a_hostile_or_incomplete_server_gets_no_token_and_is_named() {
    for (name, options, expected) in hostile_metadata().into_iter().chain(hostile_answers()) {
        let server = OauthServer::with(options);
        let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
        let error = user.log_in(&tool).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        for secret in ["mac-token-1", "b-token-1", "code-0-"] {
            assert!(!error.contains(secret), "{name}: {error}");
        }
        assert!(!user.logins().has(&server.mcp_url()), "{name}");
    }
}

#[tokio::test]
async fn metadata_that_announces_an_issuer_in_answers_requires_it() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    let without = |right: &str| right.split("&iss=").next().unwrap().to_owned();
    let person: Person = Box::new(move |page| drop(browse(&without(&redirect(page)))));
    let error = user.log_in_as(&tool, person).await.unwrap_err().to_string();
    assert!(error.contains("has no `iss`"), "{error}");
    assert_eq!(token_requests(&server).len(), 0);
    // Without the announcement it may be absent.
    let server = OauthServer::with(OauthOptions {
        metadata: Box::new(|it| remove(it, "authorization_response_iss_parameter_supported")),
        ..OauthOptions::default()
    });
    let person: Person = Box::new(move |page| drop(browse(&without(&redirect(page)))));
    user.log_in_as(&remote(&server.mcp_url(), ""), person)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_application_of_the_yaml_is_used_with_its_secret_and_registers_nothing() {
    let server = OauthServer::with(OauthOptions {
        application: Some(("desk-app", "desk-secret-1")),
        ..OauthOptions::default()
    });
    let oauth =
        "oauth: {client_id: desk-app, client_secret: desk-secret-1, scopes: [tickets.write, tickets.read]}";
    let (user, tool) = (User::new(), remote(&server.mcp_url(), oauth));
    user.log_in(&tool).await.unwrap();
    user.change(|saved| saved["expires_at"] = 1000.into());
    connect(&tool, &user.options()).await.close().await;
    assert_eq!(server.issued(), 2);
    let requests = server.issuer_requests();
    assert!(!requests.iter().any(|request| request.route() == "/register"));
    let page = requests
        .iter()
        .find(|request| request.route() == "/authorize")
        .unwrap();
    assert!(
        page.path.contains("scope=tickets.write+tickets.read"),
        "{}",
        page.path
    );
    assert!(!page.path.contains("desk-secret-1"));

    let wrong = remote(
        &server.mcp_url(),
        "oauth: {client_id: desk-app, client_secret: wrong-secret}",
    );
    let error = user.log_in(&wrong).await.unwrap_err().to_string();
    assert!(
        error.contains("invalid_client") && !error.contains("wrong-secret"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_without_encryption_or_address_has_no_login() {
    let user = User::new();
    for (tool, expected) in [
        (
            McpTool {
                url: Some("http://tickets.example/mcp".to_owned()),
                ..remote("https://x.test", "")
            },
            "is not encrypted",
        ),
        (remote("ws://tickets.example/mcp", ""), "is not encrypted"),
        (tool("name: files\ncommand: cat"), "transport `stdio`"),
    ] {
        let error = user.log_in(&tool).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(!user.place().exists());
}

#[tokio::test]
async fn a_place_that_others_can_change_is_refused_before_a_person_is_asked() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    let elsewhere = user.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, user.place()).unwrap();
    let error = user.log_in(&tool).await.unwrap_err().to_string();
    assert!(error.contains("a link is not followed"), "{error}");
    assert_eq!(user.said.lock().unwrap().len(), 0);
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[tokio::test]
async fn a_login_that_is_dropped_listens_no_longer() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    let (sender, page) = tokio::sync::oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let person: Person = Box::new(move |page| {
        let sender = sender.lock().unwrap().take().unwrap();
        let _ = sender.send(redirect(page));
    });
    let answer = tokio::select! {
        done = user.log_in_as(&tool, person) => panic!("{done:?}"),
        answer = page => answer.unwrap(),
    };
    let address = url::Url::parse(&answer).unwrap();
    let connected = std::net::TcpStream::connect(("127.0.0.1", address.port().unwrap()));
    assert!(connected.is_err());
    assert!(!user.logins().has(&server.mcp_url()));
}

#[tokio::test]
async fn a_logout_removes_the_file_and_revokes_the_token() {
    let server = OauthServer::start();
    let (user, tool) = (User::new(), remote(&server.mcp_url(), ""));
    assert_eq!(log_out(&user.logins(), &tool, &env()).await.unwrap(), None);
    user.log_in(&tool).await.unwrap();
    let done = log_out(&user.logins(), &tool, &env()).await.unwrap().unwrap();
    assert_eq!((done.issuer, done.not_revoked), (Some(server.issuer()), None));
    assert_eq!((server.access_token(), server.refresh_token()), (None, None));
    assert!(!user.logins().has(&server.mcp_url()));
    // A file that cannot be read is removed too.
    user.log_in(&tool).await.unwrap();
    fs::write(user.file(), "damaged").unwrap();
    let done = log_out(&user.logins(), &tool, &env()).await.unwrap().unwrap();
    assert!(done.not_revoked.unwrap().contains("could not be read"));
    assert!(!user.logins().has(&server.mcp_url()));
}
