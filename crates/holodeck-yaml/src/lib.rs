//! The YAML language of HoloDeck: loads an agent from a file and reports every problem.
//!
//! [`load_agent`] reads an agent file with its layers and reports every problem at once, each with its place. It fills
//! the types of `holodeck-model`. Nothing here is asynchronous, uses the network, or reads the process
//! environment.

mod agent_doc;
mod check;
mod edit;
mod foreign;
mod kept;
mod load;
mod loaded;
mod schema;
mod secrets;
mod shape;
mod yaml;

pub use agent_doc::load_agent_doc;
pub use edit::{EditError, add_item, add_test_case, item_lines, list_items, remove_item};
pub use foreign::{
    ForeignError, ForeignNode, ForeignValue, read_foreign, read_foreign_table, read_foreign_workbook,
};
#[doc(hidden)]
pub use kept::kept_shapes;
pub use load::{
    Load, load_agent, load_answers, load_combination, load_labels, load_routing_cases, load_skill,
};
pub use loaded::{LoadedAgent, Places, VariableUse};
pub use schema::{config_json_schema, json_schema};
#[doc(hidden)]
pub use schema::{generate_schema, write_schema};
