//! The reasons for which a declared tool cannot be offered to the model.

/// Why a tool can't be offered to the model.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Two tools have the same name.
    #[error("two tools are named `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The YAML names neither `file` and `function` nor `command`, or both.
    #[error("tool `{name}` needs either `file` and `function` or `command`")]
    Incomplete {
        /// The tool.
        name: String,
    },
    /// The parameters are not a valid JSON Schema.
    #[error("the parameters of tool `{name}` are not a valid JSON Schema: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// The problem of the schema.
        reason: String,
    },
    /// The parameters could not be read from the Python function.
    #[error("can't read the parameters of tool `{name}` from its Python function: {reason}")]
    Introspection {
        /// The tool.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The template of a prompt can't be used.
    #[error("the template of tool `{name}` can't be used: {reason}")]
    Template {
        /// The tool.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The setup was cancelled.
    #[error("cancelled")]
    Cancelled,
}
