//! The environment for Claude on Amazon Bedrock, and the credentials that are missing.

use holodeck_model::Diagnostic;

use super::{Builder, ClaudeEnv, cloud::Cloud};

/// Credentials, and variables that select them.
const SECRETS: [&str; 11] = [
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
];

const SETTINGS: [&str; 7] = [
    "AWS_DEFAULT_REGION",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CA_BUNDLE",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_EC2_METADATA_DISABLED",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
];

impl Builder<'_> {
    pub(super) fn bedrock(mut self) -> Result<ClaudeEnv, Box<Diagnostic>> {
        self.set("CLAUDE_CODE_USE_BEDROCK", "1".to_owned());
        let mut lacking = Vec::new();
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .find_map(|name| self.env.non_blank(name));
        match region {
            Some(region) => self.set("AWS_REGION", region.to_owned()),
            None => lacking.push("`AWS_REGION`"),
        }
        self.pass(&SETTINGS);
        self.base_url("ANTHROPIC_BEDROCK_BASE_URL");
        let files = self.pass_place("AWS_CONFIG_FILE", ".aws/config")
            | self.pass_place("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        // Tokens of `aws sso login` are only looked for below the home.
        self.link_home(".aws/sso");
        for name in SECRETS {
            self.pass_secret(name);
        }
        if let Some(lack) = self.bedrock_lack(files) {
            lacking.push(lack);
        }
        self.done("bedrock", &lacking)
    }

    fn bedrock_lack(&mut self, files: bool) -> Option<&'static str> {
        let is_set = |name: &str| self.env.non_blank(name).is_some();
        if is_set("AWS_BEARER_TOKEN_BEDROCK") {
            return None;
        }
        match (is_set("AWS_ACCESS_KEY_ID"), is_set("AWS_SECRET_ACCESS_KEY")) {
            (true, true) => return None,
            (true, false) => return Some("`AWS_SECRET_ACCESS_KEY`"),
            (false, true) => return Some("`AWS_ACCESS_KEY_ID`"),
            (false, false) => {}
        }
        let others = [
            "AWS_PROFILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ];
        if files || others.into_iter().any(is_set) {
            return None;
        }
        if is_set("CLAUDE_CODE_SKIP_BEDROCK_AUTH") {
            "`CLAUDE_CODE_SKIP_BEDROCK_AUTH` is set".clone_into(&mut self.made.found);
            return None;
        }
        if self.cloud == Cloud::Amazon {
            "the role of this machine".clone_into(&mut self.made.found);
            return None;
        }
        Some(
            "AWS credentials (`AWS_BEARER_TOKEN_BEDROCK`, `AWS_ACCESS_KEY_ID` with `AWS_SECRET_ACCESS_KEY`, or `AWS_PROFILE`)",
        )
    }
}
