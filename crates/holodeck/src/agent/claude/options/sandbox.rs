//! Translates `claude.sandbox` into the CLI's own settings.

use holodeck_model::{PathRef, SandboxConfig};
use serde_json::{Value, json};

/// The sandbox in the CLI's own format. It must work, and approves nothing by itself.
pub(super) fn sandbox_settings(sandbox: &SandboxConfig) -> Value {
    let mut settings = json!({
        "enabled": true,
        "failIfUnavailable": true,
        "autoAllowBashIfSandboxed": false,
        "allowUnsandboxedCommands": sandbox.allow_unsandboxed_commands,
        "excludedCommands": sandbox.excluded_commands,
        "enableWeakerNestedSandbox": sandbox.enable_weaker_nested_sandbox,
    });
    let Some(all) = settings.as_object_mut() else {
        return settings;
    };
    if let Some(files) = &sandbox.filesystem {
        let paths = |places: &[PathRef]| {
            let places = places.iter().map(PathRef::path);
            let places = places.map(|place| std::path::absolute(&place).unwrap_or(place));
            json!(places.collect::<Vec<_>>())
        };
        let files = json!({
            "allowWrite": paths(&files.allow_write),
            "denyWrite": paths(&files.deny_write),
            "denyRead": paths(&files.deny_read),
            "allowRead": paths(&files.allow_read),
        });
        all.insert("filesystem".to_owned(), files);
    }
    if let Some(network) = &sandbox.network {
        let network = json!({
            "allowedDomains": network.allowed_domains,
            "deniedDomains": network.denied_domains,
            "allowAllUnixSockets": network.allow_all_unix_sockets,
            "allowLocalBinding": network.allow_local_binding,
        });
        all.insert("network".to_owned(), network);
    }
    settings
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_sandbox_must_work_and_approves_nothing() {
        let default: SandboxConfig = serde_json::from_value(json!({})).unwrap();
        assert_eq!(
            sandbox_settings(&default),
            json!({
                "enabled": true, "failIfUnavailable": true, "autoAllowBashIfSandboxed": false,
                "allowUnsandboxedCommands": false, "excludedCommands": [], "enableWeakerNestedSandbox": false,
            })
        );
        let all: SandboxConfig = serde_json::from_value(json!({
            "filesystem": {"allow_write": ["/a"], "deny_write": ["/b"], "deny_read": ["/c"], "allow_read": ["/d"]},
            "network": {"allowed_domains": ["e"], "denied_domains": ["f"], "allow_all_unix_sockets": true},
            "excluded_commands": ["g *"],
        }))
        .unwrap();
        let settings = sandbox_settings(&all);
        assert_eq!(
            settings["filesystem"],
            json!({"allowWrite": ["/a"], "denyWrite": ["/b"], "denyRead": ["/c"], "allowRead": ["/d"]})
        );
        assert_eq!(
            settings["network"],
            json!({
                "allowedDomains": ["e"], "deniedDomains": ["f"], "allowAllUnixSockets": true,
                "allowLocalBinding": false,
            })
        );
        assert_eq!(settings["excludedCommands"], json!(["g *"]));
    }
}
