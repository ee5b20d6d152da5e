//! The `holodeck` command: flags, rendering and exit codes. A library, so that it is compiled beside the crates below it;
//! the program has only to be linked.

mod args;
mod command;
mod crash;
mod failure;
mod interrupt;
mod logging;
mod render;
mod start;
mod stdin;
mod terminal;
mod usage;

pub use start::run;
