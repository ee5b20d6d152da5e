//! The secrets of an agent.

use secrecy::SecretString;

use crate::{
    Agent, DatabaseConfig, DatabaseRef, MetricConfig, ModelConfig, SecretMap, ToolConfig,
    value::{names_a_secret, option_secrets},
};

pub(super) fn collect(agent: &Agent) -> Vec<SecretString> {
    let mut secrets = Vec::new();
    let mut model =
        |model: Option<&ModelConfig>| secrets.extend(model.and_then(|model| model.api_key.clone()));
    model(Some(&agent.model));
    let evaluations = agent.evaluations.as_ref();
    model(evaluations.and_then(|evaluations| evaluations.model.as_ref()));
    let shared = evaluations
        .into_iter()
        .flat_map(|evaluations| &evaluations.metrics);
    let own = agent.test_cases.iter().flat_map(|case| {
        case.evaluations
            .iter()
            .chain(case.turns.iter().flat_map(|turn| &turn.evaluations))
    });
    for metric in shared.chain(own) {
        model(MetricConfig::model(metric));
    }
    let embeddings = agent.embedding_provider.as_ref();
    secrets.extend(embeddings.and_then(|embeddings| embeddings.api_key.clone()));
    for tool in &agent.tools {
        match tool {
            ToolConfig::Vectorstore(tool) => secrets.extend(database(tool.database.as_ref())),
            ToolConfig::HierarchicalDocument(tool) => {
                for model in [&tool.reranker_model, &tool.context_model].into_iter().flatten() {
                    secrets.extend(model.api_key.clone());
                }
                secrets.extend(database(tool.database.as_ref()));
                if let Some(index) = &tool.keyword_index {
                    secrets.extend(index.password.clone());
                    secrets.extend(index.api_key.clone());
                    secrets.extend(option_secrets(&index.options));
                }
            }
            ToolConfig::Function(tool) => secrets.extend(named(&tool.env)),
            ToolConfig::Mcp(tool) => secrets.extend(named(&tool.env).chain(named(&tool.headers))),
            ToolConfig::Prompt(tool) => {
                secrets.extend(tool.model.as_ref().and_then(|model| model.api_key.clone()));
            }
        }
    }
    let exporters = agent
        .observability
        .as_ref()
        .and_then(|observability| observability.exporters.as_ref());
    if let Some(exporters) = exporters {
        secrets.extend(exporters.otlp.iter().flat_map(|otlp| named(&otlp.headers)));
        secrets.extend(
            exporters
                .azure_monitor
                .as_ref()
                .and_then(|azure| azure.connection_string.clone()),
        );
    }
    secrets.extend(
        agent
            .deployment
            .iter()
            .flat_map(|deployment| named(&deployment.environment)),
    );
    secrets
}

/// The values whose names say that they are secrets. Others are words like `production`, which must not be blotted
/// out of answers.
fn named(map: &SecretMap) -> impl Iterator<Item = SecretString> {
    map.iter()
        .filter(|(name, _)| names_a_secret(name))
        .map(|(_, value)| value.clone())
}

/// Those of a store.
pub(super) fn of_database(config: &DatabaseConfig) -> Vec<SecretString> {
    let mut secrets = option_secrets(&config.options);
    secrets.extend(config.connection_string.clone());
    secrets
}

fn database(database: Option<&DatabaseRef>) -> Vec<SecretString> {
    match database {
        Some(DatabaseRef::Config(config)) => of_database(config),
        Some(DatabaseRef::Name(_)) | None => Vec::new(),
    }
}
