//! Which variables decide where credentials go and which programs run: the one list of them.
//!
//! It decides nothing; code that passes variables on asks it for their effects.

use VariableEffect::{Connections, Program, Server, ServerPart};

/// The effect of a variable beyond that of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableEffect {
    /// It names a server that gets credentials.
    Server,
    /// It is a part of the name of such a server: a plain word chooses among the servers of one vendor.
    ServerPart,
    /// It decides how every server is reached, or who is taken for one.
    Connections,
    /// It names a program, or where programs and their settings are.
    Program,
}

/// Every variable with such an effect. `VERTEX_REGION_…` are parts of a server too.
pub const EFFECTS: &[(&str, VariableEffect)] = &[
    ("ALL_PROXY", Connections),
    ("ANTHROPIC_BASE_URL", Server),
    ("ANTHROPIC_BEDROCK_BASE_URL", Server),
    ("ANTHROPIC_FOUNDRY_BASE_URL", Server),
    ("ANTHROPIC_FOUNDRY_RESOURCE", Server),
    ("ANTHROPIC_VERTEX_BASE_URL", Server),
    ("AWS_CA_BUNDLE", Connections),
    ("AWS_CONFIG_FILE", Program),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", Server),
    ("AWS_DEFAULT_REGION", ServerPart),
    ("AWS_REGION", ServerPart),
    ("AWS_SHARED_CREDENTIALS_FILE", Program),
    ("AZURE_AUTHORITY_HOST", Server),
    ("AZURE_CONFIG_DIR", Program),
    ("CLAUDE_CONFIG_DIR", Program),
    ("CLOUDSDK_CONFIG", Program),
    ("CLOUD_ML_REGION", ServerPart),
    ("HOLODECK_CLAUDE_CLI", Program),
    ("HOME", Program),
    ("HTTPS_PROXY", Connections),
    ("HTTP_PROXY", Connections),
    ("IDENTITY_ENDPOINT", Server),
    ("MSI_ENDPOINT", Server),
    ("NODE_EXTRA_CA_CERTS", Connections),
    ("NO_PROXY", Connections),
    ("OPENAI_BASE_URL", Server),
    ("OTEL_EXPORTER_OTLP_CERTIFICATE", Connections),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", Server),
    ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", Connections),
    ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", Server),
    ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", Connections),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", Server),
    ("PATH", Program),
    ("SHELL", Program),
    ("SSL_CERT_DIR", Connections),
    ("SSL_CERT_FILE", Connections),
    ("all_proxy", Connections),
    ("http_proxy", Connections),
    ("https_proxy", Connections),
    ("no_proxy", Connections),
];

/// The effect of a variable; `None` if it is an option or a credential.
pub fn variable_effect(name: &str) -> Option<VariableEffect> {
    if name.starts_with("VERTEX_REGION_") {
        return Some(ServerPart);
    }
    let found = EFFECTS.binary_search_by_key(&name, |(known, _)| known);
    found
        .ok()
        .and_then(|at| EFFECTS.get(at))
        .map(|(_, effect)| *effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_the_list_is_found() {
        for (name, effect) in EFFECTS {
            assert_eq!(variable_effect(name), Some(*effect), "{name}");
        }
        assert_eq!(variable_effect("VERTEX_REGION_X"), Some(ServerPart));
        assert_eq!(variable_effect("OPENAI_API_KEY"), None);
    }
}
