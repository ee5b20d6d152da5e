//! Texts that no tracked file may contain: keys, and paths of one machine.

use super::Finding;

/// A kind of key: how it begins, how many characters of the alphabet follow at least.
struct Key {
    begins: &'static str,
    tail: usize,
}

const KEYS: &[Key] = &[
    Key {
        begins: "sk-",
        tail: 20,
    },
    Key {
        begins: "sk-proj-",
        tail: 20,
    },
    Key {
        begins: "sk-ant-",
        tail: 20,
    },
    Key {
        begins: "AKIA",
        tail: 16,
    },
    Key {
        begins: "AIza",
        tail: 35,
    },
    Key {
        begins: "ghp_",
        tail: 36,
    },
    Key {
        begins: "github_pat_",
        tail: 22,
    },
    Key {
        begins: "glpat-",
        tail: 20,
    },
    Key {
        begins: "hf_",
        tail: 30,
    },
    Key {
        begins: "npm_",
        tail: 36,
    },
    Key {
        begins: "xoxb-",
        tail: 20,
    },
];

/// Fewer different characters than this, and it is a dummy.
const VARIETY: usize = 8;

/// Folders that only one machine has. Split, so that this file passes its own rule.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path == "Cargo.lock" || path.ends_with("package-lock.json") {
        return findings;
    }
    let here = crate::workspace::root().to_string_lossy();
    for (line, at) in text.lines().zip(1..) {
        if let Some(key) = KEYS.iter().find(|key| holds_key(line, key)) {
            findings.push(Finding::new(
                path,
                at,
                format!("something in the shape of a key (`{}…`)", key.begins),
                "if it is real, revoke it now; a dummy's tail is one character repeated",
            ));
        }
        if line.contains(concat!("PRIVATE KEY", "-----")) {
            let todo = "if it is real, replace it now; tests make their own";
            findings.push(Finding::new(path, at, "a private key", todo));
        }
        let machine = MACHINE_PATHS
            .iter()
            .copied()
            .chain([here.as_ref()])
            .find(|folder| starts(line, folder));
        if let Some(folder) = machine {
            let todo = "use a path below the repository, or /home/user in an example";
            findings.push(Finding::new(
                path,
                at,
                format!("`{folder}` is a path of one machine"),
                todo,
            ));
        }
    }
    findings
}

fn holds_key(line: &str, key: &Key) -> bool {
    line.match_indices(key.begins).any(|(at, _)| {
        let inside_word = line
            .get(..at)
            .and_then(|text| text.chars().next_back())
            .is_some_and(char::is_alphanumeric);
        let tail = line.get(at + key.begins.len()..).unwrap_or_default();
        let dashes = key.begins != "sk-";
        let tail: Vec<char> = tail
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_' || (dashes && *c == '-'))
            .collect();
        let mut different = tail.clone();
        different.sort_unstable();
        different.dedup();
        !inside_word && tail.len() >= key.tail && different.len() >= VARIETY
    })
}

/// Whether an absolute path in `line` starts with `folder`.
fn starts(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | ')' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    fn found(line: &str) -> usize {
        check("docs/x.md", line).len()
    }

    #[test]
    fn keys() {
        let tail = "a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8";
        for begins in ["sk-", "sk-proj-", "sk-ant-", "AKIA", "ghp_", "hf_"] {
            assert_eq!(found(&format!("key: {begins}{tail}")), 1, "{begins}");
        }
        assert_eq!(found(concat!("-----BEGIN ", "PRIVATE KEY", "-----")), 1);
    }

    #[test]
    fn not_keys() {
        assert_eq!(found("sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx"), 0);
        assert_eq!(found("sk-test-1"), 0);
        assert_eq!(found("a task-manager-for-everything-imaginable"), 0);
    }

    #[test]
    fn paths_of_one_machine() {
        assert_eq!(found(concat!("see /ro", "ot/x")), 1);
        assert_eq!(found(concat!("\"/Us", "ers/me/x\"")), 1);
        assert_eq!(found(concat!("https://example.org/wo", "rk/x")), 0);
        assert_eq!(found("/home/user/x"), 0);
    }
}
