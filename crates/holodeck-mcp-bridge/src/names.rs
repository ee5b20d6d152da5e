/// The name of our in-process server. Tests of existing agents expect tools as `mcp__holodeck_tools__search`.
pub const HOLODECK_SERVER: &str = "holodeck_tools";

/// The name a model gets for a tool of an MCP server.
pub fn model_name(server: &str, tool: &str) -> String {
    format!("mcp__{}__{}", plain(server), plain(tool))
}

/// Longer names are refused by OpenAI and those who do as it does.
const LONGEST: usize = 64;

/// A name that is not too long: of one that is, the end gives way to a number that no other name has.
pub(crate) fn bounded(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mark = format!("_{:08x}", hash >> 32);
    let kept = name.floor_char_boundary(LONGEST - mark.len());
    let short = format!("{}{mark}", name.get(..kept).unwrap_or_default());
    tracing::warn!("the name `{name}` is too long for a tool, it is offered as `{short}`");
    short
}

/// Names that the CLI takes for parts of a JavaScript object.
const RESERVED: [&str; 5] = [
    "constructor",
    "prototype",
    "toString",
    "valueOf",
    "hasOwnProperty",
];

/// The names that no server of the YAML gets.
pub(crate) fn taken() -> Vec<String> {
    vec![HOLODECK_SERVER.to_owned()]
}

/// The name that a server has in those of its tools: one that the CLI takes too and no other server has.
pub(crate) fn server(name: &str, taken: &mut Vec<String>) -> String {
    let mut plain = plain(name);
    if RESERVED.contains(&plain.as_str()) || plain.starts_with("__") {
        plain = format!("mcp_{}", plain.trim_start_matches('_'));
    }
    let mut free = plain.clone();
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{plain}_{number}");
        number += 1;
    }
    taken.push(free.clone());
    free
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

    #[test]
    fn no_name_is_too_long_and_none_is_another() {
        let short = |last: &str| bounded(model_name("server", &format!("{}{last}", "long_".repeat(12))));
        assert_eq!(short("a").len(), LONGEST);
        assert_ne!(short("a"), short("b"));
        assert_eq!(bounded("mcp__a__b".to_owned()), "mcp__a__b");
    }

    #[test]
    fn servers_have_names_of_their_own() {
        let mut taken = taken();
        let names = ["files", "constructor", "__x", "holodeck_tools"].map(|name| server(name, &mut taken));
        assert_eq!(names, ["files", "mcp_constructor", "mcp_x", "holodeck_tools_2"]);
    }
}
