//! The `holodeck` command.
fn main() {}
