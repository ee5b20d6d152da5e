//! What only the store in a SQLite file has to prove: other writers, ends of processes, a full disk.

mod approvals;
mod file;
mod writers;
