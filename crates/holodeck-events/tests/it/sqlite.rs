//! Tests of the store in a SQLite file alone: other writers, ends of processes, a full disk.

mod approvals;
mod file;
mod history;
mod reading;
mod writers;
