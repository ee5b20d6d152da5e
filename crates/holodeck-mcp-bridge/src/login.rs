//! Logins to MCP servers that require OAuth: asking for access in a browser, keeping the tokens in the user's folder, and
//! renewing them.
//!
//! A token goes only to the server that it was issued for. No login begins by itself: a run without one says which command
//! to type.

mod address;
mod callback;
mod error;
mod exchange;
mod flow;
mod issuer;
mod logout;
mod metadata;
mod news;
mod renewal;
mod saved;
mod store;
mod tokens;

pub use error::LoginError;
pub use flow::{LoginRequest, log_in};
pub use logout::{LoggedOut, log_out};
pub use news::LoginNews;
pub use store::{LoggedIn, Logins};

pub(crate) use address::server_url;
pub(crate) use error::foreign;
pub(crate) use flow::http_client;
pub(crate) use tokens::{SHORTEST_SECRET, Tokens};
