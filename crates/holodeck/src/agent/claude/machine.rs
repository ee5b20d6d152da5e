//! Finds the parts of this machine that reach an agent on Claude Code beside its YAML: settings of the user and of the checkout, and those
//! that an administrator manages. It only reads, and what cannot be read counts as if it had every program.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use holodeck_cassette::file_digest;
use holodeck_model::{
    Env, ManagedFileRecord, ResolvedAgent, SettingSource, decode_text, io_reason, read_text_input, unix_lines,
};
use holodeck_validators::{Check, CheckState};
use serde_json::Value;

/// Where an administrator puts files that apply to every start of the CLI.
pub(crate) const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode"
} else {
    "/etc/claude-code"
};

/// Size limit of a settings file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Keys of a settings file that make the CLI run a program.
const PROGRAMS: &[&str] = &[
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "enabledPlugins",
    "fileSuggestion",
    "gcpAuthRefresh",
    "hooks",
    "otelHeadersHelper",
    "proxyAuthHelper",
    "statusLine",
];

/// The files that the CLI reads of the user's own folder with `setting_sources: [user]`.
const OF_USER: &[&str] = &[
    "CLAUDE.md",
    "agents",
    "commands",
    "output-styles",
    "rules",
    "settings.json",
    "skills",
];

/// The files of the administrator that are there.
pub(crate) fn managed_files(folder: &Path) -> Vec<PathBuf> {
    let names = [
        "managed-settings.json",
        "managed-settings.d",
        "managed-mcp.json",
        "CLAUDE.md",
    ];
    let files = names.iter().map(|name| folder.join(name));
    files.filter(|file| file.symlink_metadata().is_ok()).collect()
}

/// The administrator's files that apply to a run of an agent, for its run file. What is in a folder has a record of its own.
pub(crate) fn managed_records(agent: &ResolvedAgent, folder: &Path) -> Vec<ManagedFileRecord> {
    if !agent.config.is_claude() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for path in managed_files(folder) {
        let Ok(entries) = fs::read_dir(&path) else {
            found.push(path);
            continue;
        };
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        found.append(&mut entries);
    }
    let records = found.into_iter().map(|path| ManagedFileRecord {
        path: path.display().to_string(),
        digest: file_digest(&path).ok(),
    });
    records.collect()
}

/// Names the administrator's files in `holodeck doctor`; nothing where there are none.
pub(crate) fn checks(agent: &ResolvedAgent) -> Vec<Check> {
    let files = managed_files(Path::new(MANAGED));
    if !agent.config.is_claude() || files.is_empty() {
        return Vec::new();
    }
    let files: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    let message = format!(
        "an administrator's files apply to every agent, whatever its YAML says: {}",
        files.join(", ")
    );
    vec![Check {
        state: CheckState::Warning,
        ..Check::ok("managed settings", message)
    }]
}

/// The names of the administrator's MCP servers; `None` if there is no file of them.
pub(super) fn managed_servers(folder: &Path) -> Result<Option<Vec<String>>, String> {
    let path = folder.join("managed-mcp.json");
    let text = match read_text_input(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("can't read `{}`: {}", path.display(), io_reason(&error))),
    };
    let document: Value =
        serde_json::from_str(&text).map_err(|error| format!("`{}` is not JSON: {error}", path.display()))?;
    let servers = document.get("mcpServers").and_then(Value::as_object);
    let servers = servers.ok_or_else(|| format!("`{}` has no `mcpServers`", path.display()))?;
    Ok(Some(servers.keys().cloned().collect()))
}

/// The user's own folder of the CLI.
pub(crate) fn user_folder(env: &Env) -> Option<PathBuf> {
    let of = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("CLAUDE_CONFIG_DIR").or_else(|| of("HOME").map(|home| home.join(".claude")))
}

/// The files that the CLI needs in its private folder to see the settings of the user: names and files.
pub(crate) fn user_files(env: &Env) -> Vec<(&'static str, PathBuf)> {
    let Some(folder) = user_folder(env) else {
        return Vec::new();
    };
    let files = OF_USER.iter().map(|name| (*name, folder.join(name)));
    files.filter(|(_, file)| file.exists()).collect()
}

/// The programs that settings of these sources would run: the keys, each with its file.
pub(super) fn programs(sources: &[&str], working_directory: &Path, env: &Env) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let project = working_directory.join(".claude");
    let user = user_folder(env);
    let mut add = |folder: &Path, file: &str| add_settings(&folder.join(file), &mut found);
    if sources.contains(&"project") {
        add(&project, "settings.json");
    }
    if sources.contains(&"local") {
        add(&project, "settings.local.json");
    }
    if let (true, Some(user)) = (sources.contains(&"user"), &user) {
        add(user, "settings.json");
    }
    let project = sources.contains(&"project").then_some(&project);
    let user = user.as_ref().filter(|_| sources.contains(&"user"));
    for folder in project.into_iter().chain(user) {
        for part in ["agents", "commands", "skills"] {
            add_documents(&folder.join(part), &mut found, 0);
        }
    }
    found
}

fn add_settings(file: &Path, found: &mut BTreeSet<String>) {
    let text = match read_text_input(file, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            found.insert(format!("`{}`, which can't be read: {error}", file.display()));
            return;
        }
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(settings)) => {
            let has = |key: &&str| settings.get(*key).is_some_and(|value| !is_empty(value));
            let keys = PROGRAMS.iter().filter(|key| has(key));
            found.extend(keys.map(|key| format!("`{key}` in `{}`", file.display())));
        }
        _ => {
            found.insert(format!("`{}`, which is not a JSON object", file.display()));
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        _ => false,
    }
}

/// Markdown files whose front matter has hooks.
fn add_documents(folder: &Path, found: &mut BTreeSet<String>, depth: u32) {
    const DEEPEST: u32 = 4;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && depth < DEEPEST {
            add_documents(&path, found, depth + 1);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let bytes = fs::read(&path).unwrap_or_default();
            // A byte order mark must not hide the front matter.
            let text = decode_text(bytes.clone()).unwrap_or_else(|_| {
                String::from_utf8_lossy(&bytes)
                    .trim_start_matches('\u{feff}')
                    .to_owned()
            });
            let text = unix_lines(&text);
            let front = text
                .strip_prefix("---")
                .and_then(|rest| rest.split("\n---").next());
            let has_hooks = |line: &str| line.trim_start_matches(['"', '\'']).starts_with("hooks");
            if front.is_some_and(|front| front.lines().any(has_hooks)) {
                found.insert(format!("`hooks` in `{}`", path.display()));
            }
        }
    }
}

/// The sources by their names for the CLI.
pub(super) fn setting_sources(configured: &[SettingSource]) -> Vec<&'static str> {
    let is_enabled = |own: SettingSource| {
        let mut sources = configured.iter();
        sources.any(|source| *source == own || *source == SettingSource::All)
    };
    let names = [
        (SettingSource::User, "user"),
        (SettingSource::Project, "project"),
        (SettingSource::Local, "local"),
    ];
    let names = names.into_iter().filter(|(source, _)| is_enabled(*source));
    names.map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn every_key_that_runs_a_program_is_found_and_what_cannot_be_read_is_not_taken_for_empty() {
        let env = Env::empty();
        for key in PROGRAMS {
            let folder = tempfile::tempdir().unwrap();
            write(
                folder.path(),
                ".claude/settings.json",
                &format!("{{\"{key}\": {{\"a\": 1}}}}"),
            );
            let found = programs(&["project"], folder.path(), &env);
            assert_eq!(found.len(), 1, "{key}");
            assert!(programs(&["local"], folder.path(), &env).is_empty(), "{key}");
            assert!(programs(&[], folder.path(), &env).is_empty(), "{key}");
        }
        for (text, count) in [
            ("{}", 0),
            ("{\"hooks\": {}, \"apiKeyHelper\": \"\", \"model\": \"opus\"}", 0),
            ("", 1),
            ("[]", 1),
            ("{\"hooks\": {", 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), ".claude/settings.local.json", text);
            assert_eq!(programs(&["local"], folder.path(), &env).len(), count, "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            ".claude/agents/a.md",
            "---\nname: a\nhooks:\n  Stop: []\n---\nHi\n",
        );
        write(
            folder.path(),
            ".claude/skills/s/SKILL.md",
            "---\nname: s\n---\nhooks: none\n",
        );
        assert_eq!(programs(&["project"], folder.path(), &env).len(), 1);
        // YAML also reads lines that end in CR.
        let mixed = "---\nname: b\rhooks:\r  Stop: []\n---\nHi\n";
        write(folder.path(), ".claude/agents/b.md", mixed);
        assert_eq!(programs(&["project"], folder.path(), &env).len(), 2);
    }

    #[test]
    fn a_run_file_has_every_managed_file_with_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let agent = |provider: &str| {
            let yaml =
                format!("name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\n");
            let files = holodeck_model::MemoryFiles::new().with("agent.yaml", yaml);
            holodeck_yaml::load_agent("agent.yaml".as_ref(), &Env::empty(), &files)
                .agent
                .unwrap()
        };
        let claude = agent("anthropic");
        assert_eq!(managed_records(&claude, folder.path()), []);
        for (name, text) in [
            ("managed-settings.json", "{}"),
            ("managed-settings.d/10-a.json", "{\"a\": 1}"),
            ("managed-settings.d/20-b.json", "{\"b\": 2}"),
            ("managed-mcp.json", "{\"mcpServers\": {}}"),
            ("CLAUDE.md", "Be kind."),
            ("other.json", "{\"c\": 3}"),
        ] {
            write(folder.path(), name, text);
        }
        std::os::unix::fs::symlink(
            "/nowhere/at/all",
            folder.path().join("managed-settings.d/30-c.json"),
        )
        .unwrap();
        let records = managed_records(&claude, folder.path());
        let names: Vec<_> = records
            .iter()
            .map(|record| record.path.rsplit('/').next().unwrap())
            .collect();
        let expected = [
            "managed-settings.json",
            "10-a.json",
            "20-b.json",
            "30-c.json",
            "managed-mcp.json",
            "CLAUDE.md",
        ];
        assert_eq!(names, expected);
        let digests: BTreeSet<_> = records.iter().map(|record| record.digest.clone()).collect();
        assert_eq!(digests.len(), expected.len());
        assert_eq!(records[3].digest, None, "it cannot be read");
        assert_eq!(managed_records(&agent("openai"), folder.path()), []);
    }

    #[test]
    fn managed_files_are_named_and_their_servers_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(managed_files(folder.path()).is_empty());
        assert_eq!(managed_servers(folder.path()), Ok(None));
        write(
            folder.path(),
            "managed-mcp.json",
            "{\"mcpServers\": {\"tickets\": {}, \"wiki\": {}}}",
        );
        let servers = managed_servers(folder.path()).unwrap().unwrap();
        assert_eq!(servers, ["tickets", "wiki"]);
        assert_eq!(managed_files(folder.path()).len(), 1);
        for broken in ["", "{}", "[]", "{\"mcpServers\": []}"] {
            write(folder.path(), "managed-mcp.json", broken);
            assert!(managed_servers(folder.path()).is_err(), "{broken}");
        }
    }
}
