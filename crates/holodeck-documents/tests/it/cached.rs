//! Converted files are not converted again.

use holodeck_documents::{ConvertOptions, Converted, Converter, Isolation};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use crate::{files::fixture, hostile};

#[tokio::test]
async fn the_same_content_is_converted_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("documents");
    let cancel = CancellationToken::new();
    let (path, all) = (fixture("handbook.pdf"), ConvertOptions::default());
    let first = hostile::converter()
        .cache(&cache)
        .convert_file(&path, &all, &cancel)
        .await
        .unwrap();
    // No working converter is left.
    let without = Converter::new(Isolation::by_command("/nonexistent/holodeck")).cache(&cache);
    let elsewhere = folder.path().join("copy.pdf");
    std::fs::copy(&path, &elsewhere).unwrap();
    let second = without.convert_file(&elsewhere, &all, &cancel).await.unwrap();
    assert_eq!(first, second);

    // Other pages are another text.
    let pages = ConvertOptions {
        pages: vec![2],
        ..ConvertOptions::default()
    };
    without.convert_file(&path, &pages, &cancel).await.unwrap_err();

    // A damaged cache entry is converted again.
    let files: Vec<_> = std::fs::read_dir(&cache)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1);
    std::fs::write(&files[0], "{").unwrap();
    without.convert_file(&path, &all, &cancel).await.unwrap_err();
    let third = hostile::converter()
        .cache(&cache)
        .convert_file(&path, &all, &cancel)
        .await
        .unwrap();
    assert_eq!(first, third);
    without.convert_file(&path, &all, &cancel).await.unwrap();
}

#[tokio::test]
async fn text_needs_no_cache_and_no_child() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.md");
    std::fs::write(&path, "# Title\n").unwrap();
    let cache = folder.path().join("documents");
    let converter = Converter::new(Isolation::by_command("/nonexistent/holodeck")).cache(&cache);
    let converted = converter
        .convert_file(&path, &ConvertOptions::default(), &CancellationToken::new())
        .await
        .unwrap();
    let Converted::Text(document) = converted else {
        panic!()
    };
    assert_eq!(document.title.as_deref(), Some("Title"));
    assert!(!cache.exists());
}

#[tokio::test]
async fn folders_and_missing_files_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let error = async |path| {
        let cancel = CancellationToken::new();
        let converted = hostile::converter()
            .convert_file(path, &ConvertOptions::default(), &cancel)
            .await;
        converted.unwrap_err().problem.to_string()
    };
    assert_eq!(error(folder.path()).await, "can't be read: it is a folder");
    assert_eq!(error(&folder.path().join("none.pdf")).await, "no such file");
}
