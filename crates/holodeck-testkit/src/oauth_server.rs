//! An authorization server and an MCP server that wants its tokens, both on loopback.
//!
//! It is as strict as the standards: a request without PKCE, `resource` or the registered redirect is refused, and a refresh
//! token works once. Its options make it hostile.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::{Url, form_urlencoded};

use crate::{EndpointServer, ReceivedRequest, Reply};

/// An answer in place of the regular one.
type Instead = Box<dyn Fn(&ReceivedRequest) -> Option<Reply> + Send + Sync>;

/// A change of a document.
type Edit = Box<dyn Fn(&mut Value) + Send + Sync>;

/// How the servers differ from regular ones.
pub struct OauthOptions {
    /// Changes the metadata of the authorization server.
    pub metadata: Edit,
    /// Changes the metadata of the MCP server.
    pub resource: Edit,
    /// Answers a request of either server.
    pub instead: Instead,
    /// Changes a successful answer of the token endpoint.
    pub tokens: Edit,
    /// The path of the issuer, such as `/tenant`.
    pub issuer_path: &'static str,
    /// Seconds that a token is valid, as it is announced.
    pub expires_in: Option<u64>,
    /// An application that is known without registration, with its secret.
    pub application: Option<(&'static str, &'static str)>,
    /// The only method of the MCP server that needs a token; `None`: all do.
    pub guarded: Option<&'static str>,
}

impl Default for OauthOptions {
    fn default() -> Self {
        Self {
            metadata: Box::new(|_| {}),
            resource: Box::new(|_| {}),
            instead: Box::new(|_| None),
            tokens: Box::new(|_| {}),
            issuer_path: "",
            expires_in: Some(3600),
            application: None,
            guarded: None,
        }
    }
}

/// The two servers.
pub struct OauthServer {
    issuer: EndpointServer,
    mcp: EndpointServer,
    state: Arc<Mutex<State>>,
    issuer_path: &'static str,
}

#[derive(Default)]
struct State {
    /// The redirects of each application.
    applications: HashMap<String, Vec<String>>,
    /// Codes that were not exchanged.
    codes: HashMap<String, Code>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    issued: usize,
    /// The resource of the first authorization.
    resource: Option<String>,
    missing_scope: Option<String>,
}

struct Code {
    application: String,
    redirect: String,
    challenge: String,
    resource: String,
}

impl OauthServer {
    /// Regular servers.
    pub fn start() -> Self {
        Self::with(OauthOptions::default())
    }

    /// Servers that differ from regular ones.
    pub fn with(options: OauthOptions) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let issuer_path = options.issuer_path;
        let options = Arc::new(options);
        let issuer = {
            let (state, options) = (Arc::clone(&state), Arc::clone(&options));
            EndpointServer::answering(move |request| {
                (options.instead)(request)
                    .unwrap_or_else(|| authorization(request, &options, &mut lock(&state)))
            })
        };
        let mcp = {
            let (state, options) = (Arc::clone(&state), Arc::clone(&options));
            let issuer = format!("{}{issuer_path}", issuer.url());
            EndpointServer::answering(move |request| {
                (options.instead)(request)
                    .unwrap_or_else(|| resource(request, &options, &issuer, &lock(&state)))
            })
        };
        Self {
            issuer,
            mcp,
            state,
            issuer_path,
        }
    }

    /// The address of the MCP server.
    pub fn mcp_url(&self) -> String {
        format!("{}/mcp", self.mcp.url())
    }

    /// The identifier of the authorization server.
    pub fn issuer(&self) -> String {
        format!("{}{}", self.issuer.url(), self.issuer_path)
    }

    /// The access token that is valid now.
    pub fn access_token(&self) -> Option<String> {
        lock(&self.state).access_token.clone()
    }

    /// The refresh token that is valid now.
    pub fn refresh_token(&self) -> Option<String> {
        lock(&self.state).refresh_token.clone()
    }

    /// Makes the access token invalid.
    pub fn end_access(&self) {
        lock(&self.state).access_token = Some("ended".to_owned());
    }

    /// Makes the refresh token invalid too.
    pub fn end_all(&self) {
        self.end_access();
        lock(&self.state).refresh_token = None;
    }

    /// Lets the MCP server refuse calls because of a scope.
    pub fn want_scope(&self, scope: &str) {
        lock(&self.state).missing_scope = Some(scope.to_owned());
    }

    /// How many tokens were issued.
    pub fn issued(&self) -> usize {
        lock(&self.state).issued
    }

    /// The requests to the authorization server.
    pub fn issuer_requests(&self) -> Vec<ReceivedRequest> {
        self.issuer.requests()
    }

    /// The requests to the MCP server.
    pub fn mcp_requests(&self) -> Vec<ReceivedRequest> {
        self.mcp.requests()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn base(request: &ReceivedRequest) -> String {
    format!("http://{}", request.header("host").unwrap_or_default())
}

fn refuse(error: &str, description: &str) -> Reply {
    Reply::error(400, &json!({ "error": error, "error_description": description }))
}

fn document(value: &Value) -> Reply {
    Reply::raw(200, "application/json", value.to_string())
}

fn authorization(request: &ReceivedRequest, options: &OauthOptions, state: &mut State) -> Reply {
    let base = base(request);
    let well_known = format!("/.well-known/oauth-authorization-server{}", options.issuer_path);
    match request.route() {
        route if route == well_known => {
            let mut metadata = json!({
                "issuer": format!("{base}{}", options.issuer_path),
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "revocation_endpoint": format!("{base}/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["plain", "S256"],
                "authorization_response_iss_parameter_supported": true,
            });
            (options.metadata)(&mut metadata);
            document(&metadata)
        }
        "/register" => {
            let redirects = request.body["redirect_uris"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let redirects = redirects
                .iter()
                .filter_map(|uri| uri.as_str().map(str::to_owned))
                .collect();
            let id = format!("application-{}", state.applications.len());
            state.applications.insert(id.clone(), redirects);
            Reply::raw(
                201,
                "application/json",
                json!({ "client_id": id, "redirect_uris": request.body["redirect_uris"] }).to_string(),
            )
        }
        "/authorize" => authorize(request, options, state),
        "/token" => token(request, options, state),
        "/revoke" => {
            let given = request.body["token"].as_str();
            if given.is_some() && given == state.refresh_token.as_deref() {
                (state.access_token, state.refresh_token) = (None, None);
            }
            document(&json!({}))
        }
        _ => Reply::raw(404, "text/plain", "nothing here"),
    }
}

fn authorize(request: &ReceivedRequest, options: &OauthOptions, state: &mut State) -> Reply {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let fields: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let (id, redirect) = (field("client_id"), field("redirect_uri"));
    let known = options.application.is_some_and(|(own, _)| own == id)
        || state
            .applications
            .get(&id)
            .is_some_and(|redirects| redirects.contains(&redirect));
    let challenge = field("code_challenge");
    if !known || !redirect.starts_with("http://127.0.0.1:") {
        return refuse("invalid_client", "this application or its redirect is not known");
    }
    if field("response_type") != "code" || field("code_challenge_method") != "S256" || challenge.len() != 43 {
        return refuse("invalid_request", "PKCE with S256 is needed");
    }
    if field("resource").is_empty() || field("state").len() < 16 {
        return refuse("invalid_request", "`resource` and `state` are needed");
    }
    let code = format!("code-{}-{}", state.codes.len(), &challenge[..8]);
    state.resource.get_or_insert_with(|| field("resource"));
    state.codes.insert(
        code.clone(),
        Code {
            application: id,
            redirect: redirect.clone(),
            challenge,
            resource: field("resource"),
        },
    );
    let issuer = format!("{}{}", base(request), options.issuer_path);
    let answer = form_urlencoded::Serializer::new(String::new())
        .append_pair("code", &code)
        .append_pair("state", &field("state"))
        .append_pair("iss", &issuer)
        .finish();
    Reply::raw(302, "text/plain", "").header("location", &format!("{redirect}?{answer}"))
}

fn token(request: &ReceivedRequest, options: &OauthOptions, state: &mut State) -> Reply {
    let field = |name: &str| request.body[name].as_str().unwrap_or_default().to_owned();
    if let Some((id, secret)) = options.application {
        let pair = base64::prelude::BASE64_STANDARD.encode(format!("{id}:{secret}"));
        if request.header("authorization") != Some(format!("Basic {pair}").as_str()) {
            return refuse("invalid_client", "the secret is wrong");
        }
    }
    match field("grant_type").as_str() {
        "authorization_code" => {
            let Some(code) = state.codes.remove(&field("code")) else {
                return refuse("invalid_grant", "this code is not one of this server");
            };
            let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
            let is_same = options.application.is_some() || code.application == field("client_id");
            if challenge != code.challenge || code.redirect != field("redirect_uri") || !is_same {
                return refuse("invalid_grant", "this code is for another application");
            }
            if code.resource != field("resource") {
                return refuse("invalid_target", "this code is for another resource");
            }
        }
        "refresh_token" => {
            if state.refresh_token.as_deref() != Some(field("refresh_token").as_str()) {
                // Another process has a copy: nothing of this login is valid any more.
                (state.access_token, state.refresh_token) = (Some("ended".to_owned()), None);
                return refuse("invalid_grant", "this refresh token was used before or has ended");
            }
            if state.resource.as_deref() != Some(field("resource").as_str()) {
                return refuse("invalid_target", "this token is for another resource");
            }
        }
        _ => return refuse("unsupported_grant_type", ""),
    }
    state.issued += 1;
    let access = format!("access-token-{}-of-the-test", state.issued);
    let refresh = format!("refresh-token-{}-of-the-test", state.issued);
    state.access_token = Some(access.clone());
    state.refresh_token = Some(refresh.clone());
    let mut tokens = json!({
        "access_token": access,
        "token_type": "Bearer",
        "refresh_token": refresh,
        "scope": "tickets.read",
    });
    if let Some(seconds) = options.expires_in {
        tokens["expires_in"] = seconds.into();
    }
    (options.tokens)(&mut tokens);
    document(&tokens)
}

fn resource(request: &ReceivedRequest, options: &OauthOptions, issuer: &str, state: &State) -> Reply {
    let base = base(request);
    if request.route() == "/.well-known/oauth-protected-resource/mcp" {
        let mut metadata = json!({
            "resource": format!("{base}/mcp"),
            "authorization_servers": [issuer],
            "scopes_supported": ["tickets.read"],
        });
        (options.resource)(&mut metadata);
        return document(&metadata);
    }
    if request.route() != "/mcp" {
        return Reply::raw(404, "text/plain", "nothing here");
    }
    let token = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    let method = request.body["method"].as_str().unwrap_or_default();
    let is_free = options.guarded.is_some_and(|guarded| guarded != method);
    if !is_free && (token.is_none() || token != state.access_token.as_deref()) {
        let challenge = format!(
            "Bearer error=\"invalid_token\", resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\""
        );
        return Reply::error(401, &json!({ "error": "invalid_token" }))
            .header("www-authenticate", &challenge);
    }
    if request.method != "POST" {
        return Reply::raw(405, "text/plain", "");
    }
    if let Some(scope) = state
        .missing_scope
        .as_ref()
        .filter(|_| request.body["method"] == "tools/call")
    {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        return Reply::error(403, &json!({ "error": "insufficient_scope" }))
            .header("www-authenticate", &challenge);
    }
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "tickets", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "read", "inputSchema": { "type": "object" } }] }),
        // A careless server repeats what it got.
        "tools/call" => {
            let text = format!("ticket 7 for {}", token.unwrap_or_default());
            json!({ "content": [{ "type": "text", "text": text }] })
        }
        method if method.starts_with("notifications/") => return Reply::raw(202, "text/plain", ""),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return document(&json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error }));
        }
    };
    document(&json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result }))
}

/// The answer to a browser at an `http` address: the status, the address of a redirect, and the page.
#[expect(clippy::expect_used, reason = "without an answer there is no test")]
pub fn browse(url: &str) -> (u16, Option<String>, String) {
    let url = Url::parse(url).expect("an address");
    let host = format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or_default()
    );
    let mut stream = TcpStream::connect(&host).expect("a server");
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let request = format!(
        "GET {}{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        url.path()
    );
    stream.write_all(request.as_bytes()).expect("a server that reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_default();
    let location = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.trim().to_owned())
    });
    (status, location, page.to_owned())
}
