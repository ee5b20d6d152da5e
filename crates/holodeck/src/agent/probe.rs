//! Checks whether the server of an agent's model answers: requests its list of models, which uses no tokens.

use std::time::Duration;

use holodeck_backend_api::Explanation;
use holodeck_backend_openai::Endpoint;
use holodeck_http::{CallOptions, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, RetryPolicy};
use holodeck_model::{
    AuthProvider, Code, Diagnostic, Env, ModelConfig, Provider, Severity, closest,
    env::{ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL},
};
use holodeck_validators::{Check, CheckState, ClaudeEnv, check_own_key, unless_replayed};
use holodeck_yaml::LoadedAgent;
use secrecy::ExposeSecret;
use serde_json::Value;

const ENDPOINT: &str = "endpoint";
const MODEL: &str = "model";

/// Time limit of the request.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Maximum number of names in a hint.
const MAX_NAMES: usize = 5;

const ASK_LIVE: &str = "`holodeck doctor --live` sends a request to the model";

/// The request for the list of models, and the hints for its failures.
struct Probe {
    url: HttpUrl,
    headers: Headers,
    hint_for_key: String,
    hint_when_down: String,
}

/// Checks whether the endpoint answers and has the model. Without a credential, or with one that only another program
/// uses, no request is sent.
pub(crate) async fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let not_checked = |why: &str| vec![Check::not_checked(ENDPOINT, why)];
    let credentials = check_own_key(agent, env).state;
    if matches!(credentials, CheckState::Missing | CheckState::Warning) {
        return not_checked("not checked without a usable credential");
    }
    let Some(model) = &agent.config.model else {
        return not_checked("a target is asked by `holodeck test`");
    };
    let auth = model.auth_provider;
    let probe = match model.provider {
        Provider::Openai | Provider::AzureOpenai | Provider::Ollama => compatible_probe(agent, model, env),
        Provider::Anthropic if matches!(auth, None | Some(AuthProvider::ApiKey)) => {
            anthropic_probe(agent, env)
        }
        Provider::Anthropic => {
            return not_checked(&format!("only the Claude Code CLI can sign in there; {ASK_LIVE}"));
        }
    };
    let problem = |diagnostic: Diagnostic| {
        let place = agent
            .locate("model.endpoint")
            .or_else(|| agent.locate("model.provider"));
        vec![Check::problem(
            ENDPOINT,
            unless_replayed(agent, diagnostic.at(place)),
        )]
    };
    let probe = match probe {
        Ok(probe) => probe,
        Err(explanation) => {
            let mut error = Diagnostic::error(Code::EndpointUnreachable, explanation.message);
            error.help = explanation.hint;
            return problem(error);
        }
    };
    match list_models(&probe, agent, env).await {
        Ok(models) => vec![
            Check::ok(ENDPOINT, format!("{} answers", probe.url)),
            check_model(agent, model, models.as_deref()),
        ],
        Err(Failure::Client(reason)) => problem(Diagnostic::error(Code::EndpointUnreachable, reason)),
        Err(Failure::Http(error)) => problem(diagnostic(&error, &probe)),
    }
}

fn compatible_probe(agent: &LoadedAgent, model: &ModelConfig, env: &Env) -> Result<Probe, Explanation> {
    let at = agent.locate("model.endpoint");
    let endpoint =
        Endpoint::resolve(model, "model", at.as_ref(), env).map_err(|error| error.explanation())?;
    Ok(Probe {
        url: endpoint.models_url().clone(),
        headers: endpoint.headers().clone(),
        hint_for_key: endpoint.model_endpoint().hint_for_key(),
        hint_when_down: endpoint.model_endpoint().hint_when_down(),
    })
}

fn anthropic_probe(agent: &LoadedAgent, env: &Env) -> Result<Probe, Explanation> {
    let claude = ClaudeEnv::for_agent(agent, env).map_err(|error| Explanation::from(&*error))?;
    let base = claude.get(ANTHROPIC_BASE_URL).map(ExposeSecret::expose_secret);
    let base = HttpUrl::parse(base.unwrap_or("https://api.anthropic.com"));
    let base = base.map_err(|error| error.to_string())?;
    let mut headers = Headers::new();
    if let Some(key) = claude.get(ANTHROPIC_API_KEY) {
        let set = headers.insert_secret("x-api-key", key);
        set.and_then(|()| headers.insert("anthropic-version", "2023-06-01"))
            .map_err(|error| error.to_string())?;
    }
    Ok(Probe {
        // The largest page contains all models.
        url: base.join("v1/models").with_query("limit", "1000"),
        headers,
        hint_for_key: format!("check the key in `{ANTHROPIC_API_KEY}` or `model.api_key`"),
        hint_when_down: format!(
            "is the network up, and is `model.endpoint` or `{ANTHROPIC_BASE_URL}` right?"
        ),
    })
}

enum Failure {
    Client(String),
    Http(HttpError),
}

/// The names on the list; `None` if the answer has an unknown format.
async fn list_models(probe: &Probe, agent: &LoadedAgent, env: &Env) -> Result<Option<Vec<String>>, Failure> {
    let options = HttpOptions::from_variables(|name| env.get(name).map(str::to_owned));
    let client = HttpClient::new(&options).map_err(|error| Failure::Client(error.to_string()))?;
    let call = CallOptions {
        timeout: Some(agent.execution.llm_timeout.value.min(MAX_TIME)),
        retry: RetryPolicy::none(),
        pacer: None,
    };
    let answer = async { client.get(&probe.url, &probe.headers, &call).await?.json().await };
    answer.await.map(|list| names(&list)).map_err(Failure::Http)
}

/// `data` of OpenAI and Anthropic, `models` of Ollama, or a bare list.
fn names(list: &Value) -> Option<Vec<String>> {
    let items = [list.get("data"), list.get("models"), Some(list)];
    let items = items.into_iter().flatten().find_map(Value::as_array)?;
    let name = |item: &Value| {
        let name = item.get("id").or_else(|| item.get("name"))?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    };
    items.iter().map(name).collect()
}

/// Checks whether the agent's model is on the list.
fn check_model(agent: &LoadedAgent, model: &ModelConfig, listed: Option<&[String]>) -> Check {
    let configured = model.name.as_str();
    let unknown = |why: String| Check::not_checked(MODEL, format!("{why}; {ASK_LIVE}"));
    if model.provider == Provider::AzureOpenai {
        return unknown("Azure lists models, not deployments".to_owned());
    }
    let name = match model.provider {
        // Suffixes such as `[1m]` choose a variant.
        Provider::Anthropic => configured.split('[').next().unwrap_or(configured),
        _ => configured,
    };
    if model.provider == Provider::Anthropic && !name.starts_with("claude-") {
        return unknown(format!("only the Claude Code CLI can resolve `{configured}`"));
    }
    let Some(listed) = listed else {
        return unknown("the endpoint's list of models has an unknown format".to_owned());
    };
    let is_model = |listed: &String| match model.provider {
        Provider::Ollama => listed == name || listed.strip_suffix(":latest") == Some(name),
        // Listed names have dates; a name without a date means the newest model.
        Provider::Anthropic => listed.starts_with(name),
        _ => listed == name,
    };
    if listed.iter().any(is_model) {
        return Check::ok(MODEL, format!("`{configured}` is on the endpoint's list"));
    }
    let message = format!(
        "`{configured}` is not on the endpoint's list of {} models",
        listed.len()
    );
    let warning = Diagnostic::warning(Code::UnlistedModel, message)
        .at(agent.locate("model.name"))
        .with_help(suggest_names(name, listed));
    Check::problem(MODEL, warning)
}

/// Suggests the listed names most similar to `name`, else some of the listed names.
fn suggest_names(name: &str, listed: &[String]) -> String {
    let mut others: Vec<&str> = listed.iter().map(String::as_str).collect();
    let mut similar = Vec::new();
    while let Some(found) = closest(name, others.iter().copied())
        && similar.len() < MAX_NAMES
    {
        others.retain(|other| *other != found);
        similar.push(found);
    }
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    if !similar.is_empty() {
        return format!("did you mean {}?", quoted(&similar).join(" or "));
    }
    if others.is_empty() {
        return ASK_LIVE.to_owned();
    }
    let mut shown = quoted(others.get(..MAX_NAMES).unwrap_or(&others));
    if others.len() > MAX_NAMES {
        shown.push("…".to_owned());
    }
    format!("available models: {}", shown.join(", "))
}

/// The diagnostic for a failed request. Some servers have no list of models, so a missing list is only a warning.
fn diagnostic(error: &HttpError, probe: &Probe) -> Diagnostic {
    use Severity::{Error, Warning};
    let (code, severity, help) = match error {
        HttpError::Connect { reason, .. } => (
            Code::EndpointUnreachable,
            Error,
            reason.hint().unwrap_or(&probe.hint_when_down),
        ),
        HttpError::Timeout { .. } => (Code::EndpointUnreachable, Error, probe.hint_when_down.as_str()),
        HttpError::Status {
            status: 401 | 403, ..
        } => (Code::RejectedCredential, Error, probe.hint_for_key.as_str()),
        HttpError::Status {
            status: 404 | 405 | 501,
            ..
        }
        | HttpError::Unexpected { .. } => (Code::UnlistedModel, Warning, ASK_LIVE),
        HttpError::Status {
            status: 300..=399, ..
        } => (
            Code::EndpointUnreachable,
            Error,
            "write the address it redirects to as `model.endpoint`",
        ),
        HttpError::Status {
            status: 400..=499, ..
        }
        | HttpError::TooLarge { .. } => (Code::EndpointUnreachable, Warning, ASK_LIVE),
        _ => (Code::EndpointUnreachable, Error, ASK_LIVE),
    };
    Diagnostic::new(code, severity, error.to_string()).with_help(help)
}
