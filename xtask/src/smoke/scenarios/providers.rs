//! Where each way of paying sends the request, and with what credential.

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::Value;

use super::{Subject, scripted};
use crate::smoke::conversation::Launch;
use crate::smoke::facts::{Facts, text_at};

struct Way {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// Takes the server's address.
    endpoint: &'static str,
}

const WAYS: &[Way] = &[
    Way {
        name: "ANTHROPIC_AUTH_TOKEN",
        env: &[("ANTHROPIC_AUTH_TOKEN", "smoke")],
        endpoint: "ANTHROPIC_BASE_URL",
    },
    Way {
        name: "CLAUDE_CODE_OAUTH_TOKEN",
        env: &[("CLAUDE_CODE_OAUTH_TOKEN", "smoke")],
        endpoint: "ANTHROPIC_BASE_URL",
    },
    Way {
        name: "CLAUDE_CODE_USE_BEDROCK",
        env: &[
            ("CLAUDE_CODE_USE_BEDROCK", "1"),
            ("AWS_BEARER_TOKEN_BEDROCK", "smoke"),
            ("AWS_REGION", "eu-west-1"),
        ],
        endpoint: "ANTHROPIC_BEDROCK_BASE_URL",
    },
    Way {
        name: "CLAUDE_CODE_USE_VERTEX",
        env: &[
            ("CLAUDE_CODE_USE_VERTEX", "1"),
            ("CLOUD_ML_REGION", "eu"),
            ("ANTHROPIC_VERTEX_PROJECT_ID", "project"),
            ("CLAUDE_CODE_SKIP_VERTEX_AUTH", "1"),
        ],
        endpoint: "ANTHROPIC_VERTEX_BASE_URL",
    },
    Way {
        name: "CLAUDE_CODE_USE_FOUNDRY",
        env: &[
            ("CLAUDE_CODE_USE_FOUNDRY", "1"),
            ("ANTHROPIC_FOUNDRY_API_KEY", "smoke"),
        ],
        endpoint: "ANTHROPIC_FOUNDRY_BASE_URL",
    },
];

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    for way in WAYS {
        one(subject, way, facts)?;
    }
    nothing(subject, facts)
}

fn one(subject: &Subject, way: &Way, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("Hello."));
    scripted(server, |server| {
        let mut launch = Launch::new(&server.url())?
            .without_env("ANTHROPIC_API_KEY")
            .without_env("ANTHROPIC_BASE_URL")
            .env(way.endpoint, &server.url())
            .env("CLAUDE_CODE_MAX_RETRIES", "0");
        for (name, value) in way.env {
            launch = launch.env(name, value);
        }
        let mut cli = launch.args(&["--tools", ""]).start(subject)?;
        cli.initialize(&Value::Null)?;
        let turn = cli.turn("Hello?")?;
        let source = text_at(turn.first("system/init"), "/apiKeySource").to_owned();
        cli.close()?;
        facts.set(&format!("{}: apiKeySource", way.name), source);
        let requests = server.requests();
        let others = server.others();
        let seen = requests
            .first()
            .map(|request| {
                (
                    request.path().to_owned(),
                    Credential::of(|name| request.header(name)),
                )
            })
            .or_else(|| {
                let mut invoked = others.iter().filter(|other| other.path.contains("/invoke"));
                invoked
                    .next()
                    .map(|other| (other.path.clone(), Credential::of(|name| other.header(name))))
            });
        let found = seen.map_or_else(
            || "no request".to_owned(),
            |(path, credential)| format!("{} {}", route(&path), credential.0),
        );
        facts.set(way.name, found);
        Ok(())
    })
}

struct Credential(String);

impl Credential {
    fn of<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Self {
        let oauth = header("anthropic-beta").is_some_and(|betas| betas.contains("oauth-2025-04-20"));
        let beta = if oauth { ", beta oauth-2025-04-20" } else { "" };
        Self(match (header("x-api-key"), header("authorization")) {
            (Some("smoke"), _) => format!("with x-api-key{beta}"),
            (_, Some(value)) if value.starts_with("Bearer smoke") => format!("with Bearer{beta}"),
            (_, Some(_)) => "with another authorization".to_owned(),
            (Some(_), _) => "with another key".to_owned(),
            (None, None) => format!("without credential{beta}"),
        })
    }
}

/// The path without what depends on the model and the project.
fn route(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    if path.starts_with("/model/") {
        format!("/model/…/{last}")
    } else if let Some((_, method)) = last.split_once(':') {
        format!("…:{method}")
    } else {
        path.to_owned()
    }
}

/// Without any credential nothing is asked.
fn nothing(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::replies([]);
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .without_env("ANTHROPIC_API_KEY")
            .args(&["--tools", ""])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let turn = cli.turn("Hello?")?;
        facts.set("no credential", text_at(turn.result(), "/result"));
        cli.close()?;
        Ok(())
    })
}
