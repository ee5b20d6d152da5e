//! What only the store in a PostgreSQL database has to prove: other processes, their ends, and lost connections.

mod connections;
mod processes;
mod writers;
