//! The files in which the shapes of the language are kept, made from its types.

use holodeck_model::{Agent, GlobalConfig};

use crate::{
    agent_doc::front_matter_schema,
    load::routing_schema,
    schema::{FrontMatter, raw},
    shape::read_shapes,
};

/// A file in which shapes of the language are kept, as the types have them: of `agent`, `config`, `front_matter` of
/// instructions, `agent_front_matter` of a specialist, or `routing` cases.
#[doc(hidden)]
pub fn kept_shapes(of: &str) -> Option<String> {
    let schema = match of {
        "agent" => raw::<Agent>(),
        "config" => raw::<GlobalConfig>(),
        "front_matter" => raw::<FrontMatter>(),
        "agent_front_matter" => front_matter_schema(),
        "routing" => routing_schema(),
        _ => return None,
    };
    Some(read_shapes(&schema).written())
}
