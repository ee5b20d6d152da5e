use std::time::Duration;

use holodeck_model::{
    AuthProvider, Code, Diagnostic, Env, LoadedAgent, Provider, Severity,
    env::{ANTHROPIC_BASE_URL, OPENAI_BASE_URL},
};
use tokio::{net::TcpStream, time::timeout};
use url::Url;

use crate::Check;

const SUBJECT: &str = "endpoint";
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether anything listens where the model should be. No request is sent.
pub(crate) async fn check(agent: &LoadedAgent, env: &Env) -> Check {
    let model = &agent.config.model;
    let endpoint = match (&model.endpoint, model.provider) {
        (Some(endpoint), _) => endpoint.as_str(),
        (None, Provider::Ollama) => "http://localhost:11434",
        (None, Provider::Openai) => env.non_blank(OPENAI_BASE_URL).unwrap_or("https://api.openai.com"),
        (None, Provider::Anthropic) => match inherited(agent, env) {
            Some(url) => url,
            None => return Check::not_needed(SUBJECT, "the Claude Code CLI finds its own"),
        },
        (None, Provider::AzureOpenai) => return Check::not_needed(SUBJECT, "none is configured"),
    };
    let severity = if agent.execution.replay.value.is_some() {
        Severity::Warning
    } else {
        Severity::Error
    };
    let problem = |message: String, help: Option<&str>| {
        let mut diagnostic = Diagnostic::new(Code::EndpointUnreachable, severity, message).at(agent
            .locate("model.endpoint")
            .or_else(|| agent.locate("model.provider")));
        if let Some(help) = help {
            diagnostic = diagnostic.with_help(help);
        }
        Check::problem(SUBJECT, diagnostic)
    };
    let Some((host, port)) = host_and_port(endpoint) else {
        return problem("`model.endpoint` is not an http or https URL".to_owned(), None);
    };
    let place = format!("{host}:{port}");
    let proxied = [
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "https_proxy",
        "http_proxy",
        "all_proxy",
    ]
    .iter()
    .any(|name| env.non_blank(name).is_some());
    let bare = host.trim_matches(['[', ']']).to_owned();
    match timeout(PATIENCE, TcpStream::connect((bare.as_str(), port))).await {
        Ok(Ok(_)) => Check::ok(SUBJECT, format!("{place} accepts connections")),
        Ok(Err(_)) | Err(_) if proxied => Check::ok(
            SUBJECT,
            format!("{place} is not reached directly; a proxy is configured"),
        ),
        Ok(Err(error)) => problem(
            format!("{place}: {}", error.kind()),
            Some(match model.provider {
                Provider::Ollama => "is Ollama running? `ollama serve`, or set `model.endpoint`",
                Provider::Anthropic if model.endpoint.is_none() => {
                    "is the server running, and is `ANTHROPIC_BASE_URL` right?"
                }
                _ => "is the server running, and is `model.endpoint` right?",
            }),
        ),
        Err(_) => problem(
            format!("{place} does not answer within {} s", PATIENCE.as_secs()),
            None,
        ),
    }
}

/// The URL that the CLI inherits, which clouds do not use.
fn inherited<'e>(agent: &LoadedAgent, env: &'e Env) -> Option<&'e str> {
    let direct = matches!(
        agent.config.model.auth_provider,
        None | Some(AuthProvider::ApiKey | AuthProvider::OauthToken | AuthProvider::Custom)
    );
    env.non_blank(ANTHROPIC_BASE_URL).filter(|_| direct)
}

fn host_and_port(endpoint: &str) -> Option<(String, u16)> {
    let url = Url::parse(endpoint).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_without_user_and_path() {
        assert_eq!(
            host_and_port("http://u:p@localhost:11434/v1?k=1"),
            Some(("localhost".to_owned(), 11434))
        );
        assert_eq!(
            host_and_port("https://api.example.com"),
            Some(("api.example.com".to_owned(), 443))
        );
        assert_eq!(
            host_and_port("http://[::1]:8080"),
            Some(("[::1]".to_owned(), 8080))
        );
        assert_eq!(host_and_port("ftp://x"), None);
        assert_eq!(host_and_port("localhost:1"), None);
    }
}
