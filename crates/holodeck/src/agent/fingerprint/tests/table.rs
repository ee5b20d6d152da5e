//! The digests of the files in `fixtures/identities`, which must not change.

use std::{collections::BTreeMap, fs, path::PathBuf};

use holodeck_model::{IDENTITY_FORMAT, digest_json};
use pretty_assertions::assert_eq;

use super::*;

/// The digests of all files, by the version of the format.
type Table = BTreeMap<String, BTreeMap<String, String>>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/identities")
}

/// A copy, because reading documents leaves a list of their digests beside the agent.
fn copy() -> (tempfile::TempDir, Vec<PathBuf>) {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&folder(), copy.path());
    let files = fs::read_dir(copy.path()).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let files = files.collect();
    (copy, files)
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn identity(agent: &Path) -> BTreeMap<String, String> {
    let load = crate::load::load(agent, &Env::empty());
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let answers = Answers::open(&AnswerSource::Live, None, &agent, &Env::empty()).unwrap();
    fingerprint(&agent, &Env::empty(), &answers).unwrap()
}

/// A stored run is compared with these digests: if they change for a file that did not, every run is one of another
/// agent. A change of them increases `IDENTITY_FORMAT` and adds a table for the new version; a table that is here
/// stays as it is.
#[test]
fn the_identities_of_stored_files_change_only_with_the_version_of_the_format() {
    let table = fs::read_to_string(folder().join("digests.json")).unwrap();
    let table: Table = serde_json::from_str(&table).unwrap();
    let (_folder, files) = copy();
    let digests: BTreeMap<String, String> = files
        .iter()
        .map(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, digest_json(&json!(identity(file))))
        })
        .collect();
    assert!(digests.len() >= 30, "{}", digests.len());
    let all: std::collections::BTreeSet<&String> = digests.values().collect();
    // Only a description was added.
    assert_eq!(digests["described"], digests["minimal"]);
    assert_eq!(all.len(), digests.len() - 1, "two files have one identity");
    let empty = BTreeMap::new();
    let expected = table.get(&IDENTITY_FORMAT.to_string()).unwrap_or(&empty);
    assert_eq!(
        &digests,
        expected,
        "{}",
        serde_json::to_string_pretty(&digests).unwrap()
    );
}

/// Reads the canonical form as configuration, which fills in the defaults, and writes the form again.
#[test]
fn the_canonical_form_of_a_file_has_everything_that_is_not_a_default() {
    let unnamed = |path: &str| path.to_owned();
    let mut checked = 0;
    let (_folder, files) = copy();
    for file in files {
        let load = crate::load::load(&file, &Env::empty());
        let config = load.agent.unwrap().config.without_cases();
        macro_rules! check {
            ($($field:ident: $type:ty),*) => {$(
                if let Some(part) = &config.$field {
                    let form = canonical(part, &unnamed);
                    let read: $type = serde_json::from_value(form.clone()).unwrap();
                    assert_eq!(json!(read), json!(part), "{}", file.display());
                    assert_eq!(canonical(&read, &unnamed), form, "{}", file.display());
                    checked += 1;
                }
            )*};
        }
        check!(
            tool_filtering: holodeck_model::ToolFilteringConfig,
            routing: holodeck_model::RoutingConfig,
            evidence: holodeck_model::EvidenceConfig,
            quality_loop: holodeck_model::QualityLoopConfig,
            embedding_provider: holodeck_model::EmbeddingConfig,
            claude: holodeck_model::ClaudeConfig,
            openai: holodeck_model::OpenAiConfig
        );
    }
    assert!(checked > 10, "{checked}");
}
