//! Rules for every member's manifest.

use super::Finding;

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    let mut inherits_lints = false;
    for (line, at) in text.lines().map(str::trim).zip(1..) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            let table = section.rsplit_once("dependencies.").map(|(_, name)| name);
            if let Some(name) = table {
                let todo = format!("write `{name}.workspace = true` under the dependency table");
                findings.push(Finding::new(
                    path,
                    at,
                    format!("`{name}` has a table of its own"),
                    todo,
                ));
            }
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        inherits_lints |= section == "lints" && line == "workspace = true";
        if section.ends_with("dependencies") && !from_workspace(line) {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            findings.push(Finding::new(
                path,
                at,
                format!("`{name}` does not come from the workspace's dependency table"),
                format!("put it in [workspace.dependencies] and write `{name}.workspace = true`"),
            ));
        }
    }
    // Projects outside the workspace have no lints to inherit.
    if !inherits_lints && super::crate_of(path).is_some() {
        let todo = "add\n       [lints]\n       workspace = true";
        findings.push(Finding::new(
            path,
            1,
            "the crate does not inherit the workspace's lints",
            todo,
        ));
    }
    findings
}

fn from_workspace(line: &str) -> bool {
    let line: String = line.split_whitespace().collect();
    line.contains(".workspace=true") || line.contains("{workspace=true") || line.contains(",workspace=true")
}

#[cfg(test)]
mod tests {
    use super::check;

    fn lines(text: &str) -> Vec<(usize, String)> {
        let found = check("crates/x/Cargo.toml", text);
        found
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    #[test]
    fn a_good_manifest() {
        let text = "[package]\nname = \"x\"\n[lints]\nworkspace = true\n\n[dependencies]\n\
            # why\na.workspace = true\nb = { workspace = true, features = [\"c\"] }\n";
        assert_eq!(lines(text), []);
    }

    #[test]
    fn a_version_of_its_own() {
        let text = "[lints]\nworkspace = true\n[dev-dependencies]\nserde = \"1\"\nx = { path = \"../x\" }\n";
        assert_eq!(
            lines(text),
            [
                (
                    4,
                    "`serde` does not come from the workspace's dependency table".to_owned()
                ),
                (
                    5,
                    "`x` does not come from the workspace's dependency table".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn a_table_per_dependency() {
        let text = "[lints]\nworkspace = true\n[dependencies.serde]\nversion = \"1\"\n";
        assert_eq!(lines(text), [(3, "`serde` has a table of its own".to_owned())]);
    }

    #[test]
    fn lints_of_its_own() {
        assert_eq!(
            lines("[lints.clippy]\nworkspace = true\n"),
            [(1, "the crate does not inherit the workspace's lints".to_owned())]
        );
    }
}
