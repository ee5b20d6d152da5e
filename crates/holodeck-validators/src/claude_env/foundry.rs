//! The environment for Claude on Microsoft Foundry, and the credentials that are missing.

use holodeck_model::Diagnostic;

use super::{Builder, ClaudeEnv, cloud::Cloud};

/// Credentials other than a key.
const SECRETS: [&str; 9] = [
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_CLIENT_CERTIFICATE_PASSWORD",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
    "IDENTITY_HEADER",
    "MSI_ENDPOINT",
    "MSI_SECRET",
    "ANTHROPIC_FOUNDRY_AUTH_TOKEN",
];

const SETTINGS: [&str; 5] = [
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_AUTHORITY_HOST",
    "AZURE_TOKEN_CREDENTIALS",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
];

impl Builder<'_> {
    pub(super) fn foundry(mut self) -> Result<ClaudeEnv, Box<Diagnostic>> {
        self.set("CLAUDE_CODE_USE_FOUNDRY", "1".to_owned());
        let mut lacking = Vec::new();
        // A resource and a URL exclude each other.
        if !self.base_url("ANTHROPIC_FOUNDRY_BASE_URL") {
            match self.env.non_blank("ANTHROPIC_FOUNDRY_RESOURCE") {
                Some(resource) => self.set("ANTHROPIC_FOUNDRY_RESOURCE", resource.to_owned()),
                None => lacking.push("`ANTHROPIC_FOUNDRY_RESOURCE` (or `model.endpoint`)"),
            }
        }
        self.pass(&SETTINGS);
        let signed_in = self.pass_place("AZURE_CONFIG_DIR", ".azure");
        let mut any = false;
        for name in SECRETS {
            any |= self.pass_secret(name);
        }
        let key = self.pass_secret("ANTHROPIC_FOUNDRY_API_KEY");
        let skipped = self.env.non_blank("CLAUDE_CODE_SKIP_FOUNDRY_AUTH").is_some();
        if !(key || any || signed_in) {
            if skipped {
                "`CLAUDE_CODE_SKIP_FOUNDRY_AUTH` is set".clone_into(&mut self.made.found);
            } else if self.cloud == Cloud::Azure {
                "the identity of this machine".clone_into(&mut self.made.found);
            } else {
                lacking.push("Azure credentials (`ANTHROPIC_FOUNDRY_API_KEY`, or `az login`)");
            }
        }
        self.done("foundry", &lacking)
    }
}
