use super::filled;
use crate::EmbeddedStore;

#[tokio::test]
async fn a_damaged_file_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let told = async |bytes: &[u8]| {
        let path = folder.path().join("i.db");
        std::fs::write(&path, bytes).unwrap();
        let error = EmbeddedStore::open(&path).await.err().unwrap().to_string();
        error.replace(&folder.path().display().to_string(), "…")
    };
    let mut errors = vec![told(b"no database at all, but long enough to be one").await];
    let path = folder.path().join("real.db");
    drop(filled(EmbeddedStore::open(&path).await.unwrap()).await);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(20_000);
    errors.push(told(&bytes).await);
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE a(b)")
        .unwrap();
    errors.push(told(&std::fs::read(&other).unwrap()).await);
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    errors.push(told(&std::fs::read(&path).unwrap()).await);
    errors.push(
        EmbeddedStore::open("/proc/none/i.db")
            .await
            .err()
            .unwrap()
            .to_string(),
    );
    insta::assert_snapshot!(errors.join("\n"), @"
    embedded index `…/i.db`: the file is damaged (file is not a database); delete it and build the index again
    embedded index `…/i.db`: the file is damaged (database disk image is malformed); delete it and build the index again
    embedded index `…/i.db`: the file is no index of HoloDeck but another database
    embedded index `…/i.db`: a newer version of HoloDeck made it; use that one, or delete it and build the index again
    embedded index `/proc/none/i.db`: the file can't be opened; does its folder exist and may you write to it?
    ");
}
