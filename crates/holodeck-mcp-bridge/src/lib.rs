//! MCP, as far as the Claude backend needs it: our tools as a server for its control channel, and the servers of the
//! YAML in the form its CLI reads.

mod claude_servers;
mod env_file;
mod in_process;
mod names;
mod reply;

pub use claude_servers::{ClaudeServer, ClaudeServers, ServerNeed};
pub use in_process::{FailedCall, InProcessServer, Reply, ServerError, cancelled_request};
pub use names::{HOLODECK_SERVER, model_name};
