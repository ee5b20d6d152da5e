use std::{fs, path::Path};

#[path = "../../examples/fuzz/targets.rs"]
#[expect(dead_code, reason = "words and fixtures are for making new inputs")]
mod targets;

#[path = "../../examples/fuzz/documents.rs"]
mod documents;

#[path = "../../examples/fuzz/chunking.rs"]
mod chunking;

/// Its targets convert in a child that is the program itself, and the program of the tests is another one.
const IN_A_CHILD: &[&str] = &["pdf", "workbook", "sheet-xml"];

/// What once was a finding, and the seeds beside it, stays fine.
#[test]
fn saved_inputs_do_no_harm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if IN_A_CHILD.iter().any(|target| name == *target) {
            continue;
        }
        let own = [targets::TARGETS, documents::TARGETS, chunking::TARGETS];
        let target = own
            .into_iter()
            .flatten()
            .find(|target| name == target.name)
            .unwrap_or_else(|| panic!("no target for {}", entry.path().display()));
        for input in fs::read_dir(entry.path()).unwrap() {
            (target.run)(&fs::read(input.unwrap().path()).unwrap());
            count += 1;
        }
    }
    assert!(count > 0, "no input in {}", folder.display());
}
