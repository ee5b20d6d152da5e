//! Tests of the store in a PostgreSQL database alone: other processes, their ends, and lost connections.

mod connections;
mod processes;
mod writers;
