//! The settings of routing, all layers applied.

use holodeck_model::{
    Agent, Env, PLAIN_COMMAND, RoutingConfig, RoutingDecision,
    env::{HOLODECK_ROUTING_COMMANDS, HOLODECK_ROUTING_ENABLED},
};

/// Settings of a caller in place of the environment and the YAML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct RoutingOverrides {
    /// Whether commands are routed.
    pub enabled: Option<bool>,
    /// The commands that may be routed; an empty list allows none.
    pub commands: Option<Vec<String>>,
}

/// Whether commands are routed, and which: by the caller, else the environment, else the YAML.
pub(super) struct RoutingSettings {
    pub(super) enabled: bool,
    pub(super) commands: Vec<String>,
}

impl RoutingSettings {
    pub(super) fn new(agent: &Agent, env: &Env, overrides: &RoutingOverrides) -> Self {
        let yaml = agent.routing.as_ref();
        let of_env = env.get(HOLODECK_ROUTING_ENABLED).map(is_yes);
        // Set but empty allows nothing.
        let listed = env.get(HOLODECK_ROUTING_COMMANDS).map(split_list);
        Self {
            enabled: overrides
                .enabled
                .or(of_env)
                .unwrap_or_else(|| yaml.is_some_and(|routing| routing.enabled)),
            commands: overrides.commands.clone().or(listed).unwrap_or_else(|| {
                yaml.map(|routing: &RoutingConfig| routing.commands.clone())
                    .unwrap_or_default()
            }),
        }
    }
}

impl RoutingSettings {
    /// Whether a command may be routed.
    pub(super) fn allows(&self, command: &str) -> bool {
        let is_it = |allowed: &String| allowed.trim().eq_ignore_ascii_case(command);
        self.commands.iter().any(is_it)
    }

    /// Why the agent itself answers a plain message.
    pub(super) fn why_itself(code: RoutingDecision) -> Option<String> {
        match code {
            RoutingDecision::SdkNotEnabled => Some("routing is not enabled".to_owned()),
            RoutingDecision::CommandNotAllowed => {
                Some(format!("`{PLAIN_COMMAND}` is not one of the routed commands"))
            }
            _ => None,
        }
    }
}

fn is_yes(text: &str) -> bool {
    ["1", "true", "yes"].contains(&text.trim().to_ascii_lowercase().as_str())
}

fn split_list(text: &str) -> Vec<String> {
    let entries = text.split(',').map(|entry| entry.trim().to_lowercase());
    entries.filter(|entry| !entry.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use holodeck_model::MemoryFiles;
    use holodeck_yaml::load_agent;
    use pretty_assertions::assert_eq;

    use super::*;

    fn settings(
        block: &str,
        variables: &[(&str, &str)],
        overrides: &RoutingOverrides,
    ) -> (bool, Vec<String>) {
        let yaml =
            format!("name: a\nmodel: {{provider: ollama, name: m}}\ninstructions: {{inline: Hi}}\n{block}\n");
        let files = MemoryFiles::new().with("agent.yaml", yaml);
        let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
        let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let env: Env = variables.collect();
        let settings = RoutingSettings::new(&agent.config, &env, overrides);
        (settings.enabled, settings.commands)
    }

    #[test]
    fn the_caller_comes_before_the_environment_before_the_yaml() {
        let none = RoutingOverrides::default();
        let block = "routing: {commands: [review]}";
        assert_eq!(settings(block, &[], &none), (true, vec!["review".to_owned()]));
        assert_eq!(settings("", &[], &none), (false, Vec::new()));
        let variables = [
            ("HOLODECK_ROUTING_ENABLED", "no"),
            ("HOLODECK_ROUTING_COMMANDS", " Analyze, ,plan"),
        ];
        let listed = vec!["analyze".to_owned(), "plan".to_owned()];
        assert_eq!(settings(block, &variables, &none), (false, listed));
        let explicit = RoutingOverrides {
            enabled: Some(true),
            commands: Some(Vec::new()),
        };
        assert_eq!(settings(block, &variables, &explicit), (true, Vec::new()));
        for (value, enabled) in [
            ("1", true),
            ("TRUE", true),
            ("yes", true),
            ("0", false),
            ("on", false),
        ] {
            let variables = [
                ("HOLODECK_ROUTING_ENABLED", value),
                ("HOLODECK_ROUTING_COMMANDS", ""),
            ];
            assert_eq!(
                settings(block, &variables, &none),
                (enabled, Vec::new()),
                "{value}"
            );
        }
    }
}
