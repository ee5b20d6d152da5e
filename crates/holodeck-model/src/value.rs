//! Small value types of the YAML that are neither plain strings nor plain structs.

mod cli_text;
mod decimal;
mod glob;
mod one_or_many;
mod path_glob;
mod path_part;
mod path_ref;
mod pattern;
mod python;
mod secret;
mod tagged;

pub use cli_text::CliText;
pub use decimal::{Decimal, has_lost_digits};
pub use glob::Glob;
pub use one_or_many::OneOrMany;
pub(crate) use path_glob::is_within;
pub use path_glob::{PathBases, PathGlob};
pub use path_ref::PathRef;
pub use pattern::Pattern;
pub use python::python_str;
pub use secret::SecretMap;

pub(crate) use decimal::without_grouping;
pub(crate) use one_or_many::nullable;
pub(crate) use path_glob::{OWN_FOLDER, components};
pub(crate) use python::is_space;
pub(crate) use secret::{read_secret, read_secrets, write_options, write_secret, write_secrets};
pub(crate) use tagged::{serialize_tagged, tagged_enum};

/// A JSON object in file order.
pub type JsonMap = serde_json::Map<String, serde_json::Value>;
