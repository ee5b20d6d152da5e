//! Matches names against patterns with `*` and `?`.

/// A name in which `*` matches any characters and `?` matches one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<char>);

impl Glob {
    /// A glob as written.
    pub fn new(text: &str) -> Self {
        Self(text.trim().chars().collect())
    }

    /// The name itself, if it has no wildcard.
    pub fn as_literal(&self) -> Option<String> {
        let has_wildcard = self.0.iter().any(|character| matches!(character, '*' | '?'));
        (!has_wildcard).then(|| self.0.iter().collect())
    }

    /// Whether a whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at_glob, mut at_name) = (0, 0);
        // Where to continue if the text after the last `*` does not match.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let (wanted, there) = (self.0.get(at_glob), name.get(at_name));
            match (wanted, there) {
                (None, None) => return true,
                (Some('*'), _) => {
                    retry = Some((at_glob, at_name));
                    at_glob += 1;
                    continue;
                }
                (Some('?'), Some(_)) => {}
                (Some(wanted), Some(there)) if wanted == there => {}
                _ => match retry {
                    Some((star, taken)) if taken < name.len() => {
                        retry = Some((star, taken + 1));
                        at_glob = star + 1;
                        at_name = taken + 1;
                        continue;
                    }
                    _ => return false,
                },
            }
            at_glob += 1;
            at_name += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wildcards_match() {
        for (glob, name, fits) in [
            ("search", "search", true),
            ("search", "searches", false),
            ("read_*", "read_", true),
            ("read_*", "read_file", true),
            ("read_*", "thread_file", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*_file", "read_file", true),
            ("*a*b", "xaybab", true),
            ("*a*b", "xayba", false),
            ("mcp__*__delete_*", "mcp__files__delete_all", true),
            ("Read", "read", false),
            ("a.c", "abc", false),
            ("é?", "éé", true),
        ] {
            assert_eq!(Glob::new(glob).matches(name), fits, "{glob} {name}");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_regular_expression(glob in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let pattern = format!("^{}$", glob.replace('*', ".*").replace('?', "."));
            let expected = regex::Regex::new(&pattern).unwrap().is_match(&name);
            prop_assert_eq!(Glob::new(&glob).matches(&name), expected);
        }
    }
}
