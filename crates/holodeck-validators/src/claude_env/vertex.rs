//! The environment for Claude on Google Vertex AI, and the credentials that are missing.

use holodeck_model::Diagnostic;

use super::{Builder, ClaudeEnv, cloud::Cloud};

/// One region for each model.
const REGION_PREFIX: &str = "VERTEX_REGION_";

impl Builder<'_> {
    pub(super) fn vertex(mut self) -> Result<ClaudeEnv, Box<Diagnostic>> {
        self.set("CLAUDE_CODE_USE_VERTEX", "1".to_owned());
        let mut lacking = Vec::new();
        match self.env.non_blank("CLOUD_ML_REGION") {
            Some(region) => self.set("CLOUD_ML_REGION", region.to_owned()),
            None => lacking.push("`CLOUD_ML_REGION`"),
        }
        let project = [
            "ANTHROPIC_VERTEX_PROJECT_ID",
            "GOOGLE_CLOUD_PROJECT",
            "GCLOUD_PROJECT",
        ]
        .iter()
        .find_map(|name| self.env.non_blank(name));
        match project {
            Some(project) => self.set("ANTHROPIC_VERTEX_PROJECT_ID", project.to_owned()),
            None => lacking.push("`ANTHROPIC_VERTEX_PROJECT_ID`"),
        }
        let env = self.env;
        for (name, value) in env.iter().filter(|(name, _)| name.starts_with(REGION_PREFIX)) {
            self.set(name, value.to_owned());
        }
        self.pass(&["GOOGLE_CLOUD_QUOTA_PROJECT", "CLAUDE_CODE_SKIP_VERTEX_AUTH"]);
        self.base_url("ANTHROPIC_VERTEX_BASE_URL");
        self.pass_place("CLOUDSDK_CONFIG", ".config/gcloud");
        let below_home = ".config/gcloud/application_default_credentials.json";
        let file = self.pass_place("GOOGLE_APPLICATION_CREDENTIALS", below_home);
        if !file && let Some(lack) = self.vertex_lack() {
            lacking.push(lack);
        }
        self.done("vertex", &lacking)
    }

    fn vertex_lack(&mut self) -> Option<&'static str> {
        if self.env.non_blank("GOOGLE_APPLICATION_CREDENTIALS").is_some() {
            return Some("the file that `GOOGLE_APPLICATION_CREDENTIALS` names");
        }
        if self.env.non_blank("CLAUDE_CODE_SKIP_VERTEX_AUTH").is_some() {
            "`CLAUDE_CODE_SKIP_VERTEX_AUTH` is set".clone_into(&mut self.made.found);
            return None;
        }
        if self.cloud == Cloud::Google {
            "the service account of this machine".clone_into(&mut self.made.found);
            return None;
        }
        Some(
            "Google credentials (`GOOGLE_APPLICATION_CREDENTIALS`, or `gcloud auth application-default login`)",
        )
    }
}
