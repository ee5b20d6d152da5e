//! The thirty configurations that are drawn from the table of features.

use std::path::{Path, PathBuf};

use holodeck_import::{FindingKind, import_promptfoo};

use crate::setup::{Disk, findings};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/import/promptfoo")
}

fn configurations() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|folder| {
            let names = ["yaml", "json", "js"].map(|end| folder.join(format!("promptfooconfig.{end}")));
            names.into_iter().find(|path| path.is_file()).unwrap()
        })
        .collect();
    found.sort();
    found
}

#[test]
fn without_code_every_readable_configuration_is_converted_or_names_what_is_left_out() {
    let mut complete = Vec::new();
    for path in configurations() {
        let name = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let back = Path::new("..");
        match import_promptfoo(&path, back, &Disk, None) {
            Ok(import) => {
                println!("{name}: {} cases, {:#?}", import.cases, findings(&import));
                if import.is_partial() {
                    assert!(
                        import
                            .findings
                            .iter()
                            .any(|found| found.kind == FindingKind::LeftOut)
                    );
                } else {
                    assert!(import.cases > 0, "{name} has no case and nothing is left out");
                    complete.push(name);
                }
            }
            Err(error) => {
                assert!(error.message.contains("--run-code"), "{name}: {error}");
            }
        }
    }
    println!("{} complete: {complete:?}", complete.len());
    // What needs code is not among them.
    for name in [
        "11-prompt-code-js",
        "12-prompt-code-py",
        "22-js-config",
        "24-generated-tests",
    ] {
        assert!(
            !complete.iter().any(|other| other == name),
            "{name} needs its code"
        );
    }
    // What has no equal: traces, other protocols, markup, a choice among answers.
    for name in ["27-agent-traces", "28-safety-services", "29-markup", "30-best-of"] {
        assert!(!complete.iter().any(|other| other == name), "{name} has no equal");
    }
    assert_eq!(complete.len(), 22, "{complete:?}");
}
