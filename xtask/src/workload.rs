//! The work of `holodeck test` that `bench` measures and from which `dist` takes the profile: an agent with many cases, and the
//! endpoint of its model.

pub(crate) mod project;
pub(crate) mod server;

pub(crate) use project::Project;
pub(crate) use server::Server;
