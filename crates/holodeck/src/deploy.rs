//! Deployment of an agent: the build context of its image, and the manifests that run the image.
//!
//! Nothing secret may get into a context or a manifest: manifests name variables, and what looks like a key in a file is
//! refused with its place. Start reading at [`context`](mod@context).

mod builder;
mod compose;
mod container;
mod containerfile;
mod context;
mod guard;
mod image;
mod kubernetes;
mod manifest;
mod needs;
mod output;
mod program;
mod service;

pub use builder::{BUILDERS, build_image, find_builder};
pub use compose::compose;
pub use container::{copy_folder, probe};
pub use context::{BuildContext, ContextFile, ContextOptions, build_context};
pub use guard::{Finding, SecretPlace};
pub use image::image_name;
pub use kubernetes::{KubernetesOptions, ShardedTest, kubernetes_server, kubernetes_test, new_run_name};
pub use output::{OutputError, write_folder, write_tar};

use std::path::PathBuf;

use holodeck_model::Location;

use crate::agent::fingerprint::IdentityError;

/// The user and the group of the container: numbers, so that Kubernetes can see that it is not root.
const USER: u32 = 10001;

/// The folder of the agent in its image.
const HOME: &str = "/agent";

/// The program in the image.
const PROGRAM: &str = "/usr/local/bin/holodeck";

/// Seconds that answers in progress may take when the container stops.
const DRAIN: u32 = 25;

/// Seconds until the container is killed: the drain, and what `serve` needs after it.
const GRACE: u32 = DRAIN + 20;

/// Why an image or a manifest could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// The agent or an option is not fit for it.
    #[error("{message}{}", place(at.as_deref()))]
    Refused {
        /// The problem.
        message: String,
        /// Where the YAML has the cause.
        at: Option<Box<Location>>,
        /// The next step.
        hint: String,
    },
    /// Files of the agent hold secrets.
    #[error("the files of the agent hold what must not be in an image")]
    Secrets(Vec<SecretPlace>),
    /// A file that the YAML names cannot be read.
    #[error(transparent)]
    File(#[from] IdentityError),
    /// A file cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The builder of images failed.
    #[error("`{builder}` could not build the image: {reason}")]
    Builder {
        /// Its name.
        builder: String,
        /// The end of its output.
        reason: String,
    },
}

impl DeployError {
    fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
            at: None,
            hint: hint.into(),
        }
    }

    fn at(mut self, place: Option<Location>) -> Self {
        if let Self::Refused { at, .. } = &mut self {
            *at = place.map(Box::new);
        }
        self
    }
}

fn place(at: Option<&Location>) -> String {
    at.map_or_else(String::new, |at| format!(" ({at})"))
}
