//! The text of an image's `Containerfile`.
//!
//! Names that a user chose appear only in the JSON form of `CMD`, in which nothing is expanded.

use std::fmt::Write as _;

use serde_json::json;

use super::{
    HOME, PROGRAM, USER,
    needs::{Needs, Runtime},
    service::Service,
};

/// The first line, by which a folder is recognised that may be written again.
pub(super) const MARK: &str = "# Written by `holodeck deploy build`.";

const PYTHON: &str = "docker.io/library/python:3.13-slim";
const NODE: &str = "docker.io/library/node:22-slim";
const DEBIAN: &str = "docker.io/library/debian:stable-slim";
const UV: &str = "ghcr.io/astral-sh/uv:0.9";

/// The parts of an image.
pub(super) struct Recipe<'a> {
    pub(super) needs: &'a Needs,
    /// In the place of the base that the needs ask for.
    pub(super) base: Option<&'a str>,
    pub(super) has_requirements: bool,
    pub(super) packages: Packages,
    pub(super) service: &'a Service,
}

/// The packages of Node beside the agent file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packages {
    None,
    /// With a lock file.
    Locked,
    Unlocked,
}

impl Recipe<'_> {
    /// Whether the image has nothing but what the context brings.
    pub(super) fn is_from_scratch(&self) -> bool {
        self.base() == "scratch"
    }

    fn base(&self) -> &str {
        let needs = self.needs;
        match self.base {
            Some(base) => base,
            None if needs.has(Runtime::Python) => PYTHON,
            None if needs.has(Runtime::Node) => NODE,
            None if needs.has(Runtime::Shell) => DEBIAN,
            None => "scratch",
        }
    }

    pub(super) fn text(&self) -> String {
        let base = self.base();
        let (needs, owner) = (self.needs, format!("{USER}:{USER}"));
        let mut text =
            format!("{MARK}\n# Build it with docker, podman or buildah; `holodeck deploy build` does.\n");
        let _ = writeln!(text, "FROM {base}");
        if self.base.is_none() && needs.has(Runtime::Node) && base != NODE {
            let _ = writeln!(text, "COPY --from={NODE} /usr/local/bin/node /usr/local/bin/node");
            let modules = "/usr/local/lib/node_modules";
            let _ = writeln!(text, "COPY --from={NODE} {modules} {modules}");
            text.push_str("RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \\\n");
            text.push_str(" && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx\n");
        }
        if self.base.is_none() && needs.has(Runtime::Uv) {
            let _ = writeln!(text, "COPY --from={UV} /uv /uvx /usr/local/bin/");
        }
        if self.base.is_none() && needs.has(Runtime::Claude) {
            text.push_str("RUN npm install --global @anthropic-ai/claude-code\n");
        }
        let _ = writeln!(text, "COPY rootfs/ /");
        if self.is_from_scratch() {
            let _ = writeln!(text, "COPY --chown={owner} tmp/ /tmp/");
        }
        let _ = writeln!(text, "COPY agent/ {HOME}/");
        let _ = writeln!(text, "COPY --chown={owner} state/ {HOME}/");
        let _ = writeln!(text, "WORKDIR {HOME}");
        if self.has_requirements {
            text.push_str("RUN pip install --no-cache-dir --requirement requirements.txt\n");
        }
        match self.packages {
            Packages::None => {}
            Packages::Locked => text.push_str("RUN npm ci --omit=dev\n"),
            Packages::Unlocked => text.push_str("RUN npm install --omit=dev\n"),
        }
        let service = self.service;
        text.push_str("ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1\n");
        let _ = writeln!(text, "USER {owner}");
        let _ = writeln!(text, "EXPOSE {}", service.port);
        let probe = json!([PROGRAM, "internal", "probe", service.url("/health")]);
        let _ = writeln!(
            text,
            "HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 CMD {probe}"
        );
        text.push_str("STOPSIGNAL SIGTERM\n");
        let _ = writeln!(text, "ENTRYPOINT {}", json!([PROGRAM]));
        let _ = writeln!(text, "CMD {}", json!(service.command()));
        text
    }
}
