/// The name of our in-process server. Tests of existing agents expect tools as `mcp__holodeck_tools__search`.
pub const HOLODECK_SERVER: &str = "holodeck_tools";

/// The name a model gets for a tool of an MCP server.
pub fn model_name(server: &str, tool: &str) -> String {
    format!("mcp__{}__{}", plain(server), plain(tool))
}

/// As the CLI does it: all but ASCII letters, digits, `_` and `-` become `_`.
pub(crate) fn plain(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_the_model_sees() {
        assert_eq!(model_name("holodeck", "search"), "mcp__holodeck__search");
        assert_eq!(model_name("my server", "a.b/ü"), "mcp__my_server__a_b__");
    }
}
