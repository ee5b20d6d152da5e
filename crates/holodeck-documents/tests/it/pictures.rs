//! Text in images, recognised by a configured program.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use holodeck_documents::{ConvertOptions, Converted, Converter, Isolation, Picture};
use holodeck_process::ChildEnv;
use tokio_util::sync::CancellationToken;

use crate::files::fixture;

fn script(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("tesseract");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

async fn picture(converter: &Converter) -> Picture {
    let cancel = CancellationToken::new();
    let converted = converter
        .convert_file(&fixture("invoice.png"), &ConvertOptions::default(), &cancel)
        .await
        .unwrap();
    match converted {
        Converted::Image(picture) => picture,
        Converted::Text(document) => panic!("{document:?}"),
    }
}

#[tokio::test]
async fn its_text_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let env: ChildEnv = [("PATH".into(), "/usr/bin:/bin".into())].into_iter().collect();
    let program = script(
        &folder,
        r#"[ "$*" = "stdin stdout" ] && [ "$(wc -c)" -gt 1000 ] && echo "Invoice 4711""#,
    );
    let converter = Converter::new(Isolation::None)
        .tesseract(&program, env)
        .cache(folder.path().join("cache"));
    let read = picture(&converter).await;
    assert_eq!(
        (read.text.as_deref(), read.notes.len()),
        (Some("Invoice 4711"), 0)
    );
    fs::remove_file(program).unwrap();
    assert_eq!(picture(&converter).await.text.as_deref(), Some("Invoice 4711"));
    let document = Converted::Image(read).into_document().unwrap();
    assert_eq!(document.text, "Invoice 4711");
}

#[tokio::test]
async fn a_program_that_fails_leaves_a_picture_and_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "echo 'no such language' >&2; exit 1");
    let converter = Converter::new(Isolation::None).tesseract(program, ChildEnv::new());
    let picture = picture(&converter).await;
    assert_eq!(picture.text, None);
    assert_eq!(
        picture.notes,
        ["its text can't be read: converting it crashed: exit code 1: no such language"]
    );
}
