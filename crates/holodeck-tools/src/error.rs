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
    /// Its parameters are no JSON Schema.
    #[error("the parameters of tool `{name}` are no valid JSON Schema: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with them.
        reason: String,
    },
    /// Its parameters could not be told from the Python function.
    #[error("can't read the parameters of tool `{name}` from its Python function: {reason}")]
    Introspection {
        /// The tool.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A prompt's template can't be used.
    #[error("the template of tool `{name}` can't be used: {reason}")]
    Template {
        /// The tool.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Getting ready was cancelled.
    #[error("cancelled")]
    Cancelled,
}
