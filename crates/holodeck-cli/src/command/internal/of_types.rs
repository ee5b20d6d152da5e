//! Prints what is generated from the types of the program, for `cargo xtask codegen`. The release has no such commands, and
//! therefore no generator of schemas.

use holodeck::{model, yaml};

use crate::render;

#[derive(Debug, clap::Subcommand)]
pub(super) enum OfTypes {
    /// Print every field of the YAML files in Markdown.
    FieldReference,
    /// Print an example of every metric in Markdown.
    MetricReference,
    /// Print the JSON Schema of `agent` or `config`.
    Schema {
        of: String,
        /// As the program keeps it.
        #[arg(long)]
        kept: bool,
    },
    /// Print the shapes of the language, which the program keeps: of `agent`, `config`, `front_matter`,
    /// `agent_front_matter` or `routing`.
    Shapes { of: String },
    /// Print every type of event with its fields in Markdown.
    EventReference,
    /// Print every field of the file of a run in Markdown.
    RunFileReference,
}

impl OfTypes {
    pub(super) fn print(&self) -> String {
        let schema = |of: &str| yaml::generate_schema(of).unwrap_or_default();
        match self {
            Self::FieldReference => render::field_page(&schema("agent"), &schema("config")),
            Self::MetricReference => render::metric_page(&schema("agent")),
            Self::Schema { of, kept: true } => yaml::write_schema(&schema(of)),
            Self::Schema { of, kept: false } => format!("{:#}\n", schema(of)),
            Self::Shapes { of } => yaml::kept_shapes(of).unwrap_or_default(),
            Self::EventReference => render::event_page(&model::events::event_schema()),
            Self::RunFileReference => render::run_file_page(&model::run_file_schema()),
        }
    }
}
