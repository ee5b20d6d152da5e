//! Tests that errors of a damaged index name the remedy.

use super::filled;
use crate::EmbeddedStore;

#[tokio::test]
async fn errors_of_a_damaged_file_name_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let open_error = async |bytes: &[u8]| {
        let path = folder.path().join("i.db");
        std::fs::write(&path, bytes).unwrap();
        let error = EmbeddedStore::open(&path).await.err().unwrap().to_string();
        error.replace(&folder.path().display().to_string(), "…")
    };
    let mut errors = vec![open_error(b"no database at all, but long enough to be one").await];
    let path = folder.path().join("real.db");
    drop(filled(EmbeddedStore::open(&path).await.unwrap()).await);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(20_000);
    errors.push(open_error(&bytes).await);
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE a(b)")
        .unwrap();
    errors.push(open_error(&std::fs::read(&other).unwrap()).await);
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    errors.push(open_error(&std::fs::read(&path).unwrap()).await);
    errors.push(
        EmbeddedStore::open("/proc/none/i.db")
            .await
            .err()
            .unwrap()
            .to_string(),
    );
    insta::assert_snapshot!(errors.join("\n"), @"
    embedded index `…/i.db`: the file is damaged (file is not a database); delete it and rebuild the index
    embedded index `…/i.db`: the file is damaged (database disk image is malformed); delete it and rebuild the index
    embedded index `…/i.db`: the file is another program's database, not a HoloDeck index
    embedded index `…/i.db`: a newer version of HoloDeck made it; use that version, or delete it and rebuild the index
    embedded index `/proc/none/i.db`: the file can't be opened; check that its folder exists and is writable
    ");
}
