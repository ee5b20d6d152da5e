//! Indexes that cannot be read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;

use crate::{
    index::{DOCS, shop},
    project::Project,
};

/// The file of the only index.
fn index_file(project: &Project) -> PathBuf {
    let find = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let agents = find(&project.path(".holodeck/index"));
    let mut files = agents.flat_map(|agent| find(&agent));
    let file = files.find(|file| file.extension().is_some_and(|extension| extension == "db"));
    file.unwrap()
}

#[test]
fn a_damaged_index_is_built_again_with_force() {
    let truncate = |bytes: &mut Vec<u8>| bytes.truncate(20_000);
    let no_header = |bytes: &mut Vec<u8>| bytes[..100].fill(b'x');
    let holes = |bytes: &mut Vec<u8>| bytes[16_384..].fill(0xee);
    for (how, damage) in [
        ("truncated", &truncate as &dyn Fn(&mut Vec<u8>)),
        ("no header", &no_header),
        ("holes", &holes),
    ] {
        let project = shop(DOCS);
        project.run(&["index", "build"]).exits(0);
        let file = index_file(&project);
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, bytes).unwrap();

        project.run(&["index", "build"]).exits(3).says("damaged");
        let built = project.run(&["index", "build", "--force"]).exits(0);
        assert!(built.all().contains(".damaged`"), "{how}: {}", built.all());
        project.run(&["index", "status"]).exits(0);
        project
            .run(&["index", "search", "express shipping"])
            .exits(0)
            .says("12 euros");
    }
}

#[test]
fn a_database_of_another_program_is_not_touched_with_force() {
    let project = shop(DOCS);
    project.run(&["index", "build"]).exits(0);
    let file = index_file(&project);
    // Another application's id; the rest is a sound database.
    let mut bytes = fs::read(&file).unwrap();
    bytes[68..72].copy_from_slice(b"Othr");
    fs::write(&file, &bytes).unwrap();
    project
        .run(&["index", "build", "--force"])
        .exits(3)
        .says("another program's database");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}
