//! User YAML as a tree in which every node has its place in a file.
//!
//! Parser events become nodes in one arena shared by all files of a load; layers and `${VAR}` are applied to the tree,
//! so that every value keeps its place; serde reads the result.

mod build;
mod de;
mod merge;
mod scalar;
mod tree;

pub(crate) use build::{build, build_masked};
pub(crate) use de::{from_tree, implied_type};
pub(crate) use merge::deep_merge;
pub(crate) use scalar::{Core, Legacy, legacy_reading, lenient_bool, lenient_f64, lenient_int, resolve};
pub(crate) use tree::{Entry, FileId, NodeId, Place, Scalar, SourceFile, Text, Tree};
