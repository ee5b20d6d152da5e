use std::{fs, sync::Arc};

use futures::TryStreamExt as _;
use holodeck_documents::{ChunkOptions, ConvertOptions, Converter, Isolation};
use holodeck_retrieval::{
    EmbeddedStore, FileCorpus, FileSource, HashEmbedder, IngestMode, IngestReport, Ingestor, VectorStore,
};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

struct Folder(tempfile::TempDir);

impl Folder {
    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.path().join(name), content).unwrap();
    }

    async fn ingest(&self, names: &[&str]) -> IngestReport {
        let files = names.iter().map(|name| {
            let path = self.0.path().join(name);
            ((*name).to_owned(), FileSource::Path(path))
        });
        let chunks = ChunkOptions {
            max_tokens: 20,
            overlap_tokens: 0,
            extract_definitions: true,
            ..ChunkOptions::default()
        };
        let converter = Converter::new(Isolation::None);
        let corpus = FileCorpus::new(files, converter, ConvertOptions::default(), chunks);
        let ingestor = Ingestor::new(Arc::new(self.store().await), Arc::new(HashEmbedder::default()));
        ingestor
            .ingest(
                Arc::new(corpus),
                IngestMode::Update,
                &|_| {},
                &CancellationToken::new(),
            )
            .await
            .unwrap()
    }

    async fn store(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.0.path().join("index.db")).await.unwrap()
    }

    async fn passages(&self) -> String {
        let sources: Vec<_> = self.store().await.entries().try_collect().await.unwrap();
        let mut lines: Vec<String> = sources
            .into_iter()
            .flat_map(|(_, entries)| entries)
            .map(|entry| {
                let passage = entry.passage;
                let metadata = serde_json::Value::Object(passage.metadata);
                format!("{}: {:?} {metadata}", passage.source, passage.text)
            })
            .collect();
        lines.sort();
        lines.join("\n")
    }
}

#[tokio::test]
async fn files_become_passages_with_their_provenance_and_bad_ones_are_named() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.write(
        "law.md",
        "# Act\n\n## 1 Scope\n\n\"Ship\" means anything that floats.\n\n## 2 Duties\n\nA master keeps a log of every \
         voyage that the ship makes, and shows it to any officer who asks.\n",
    );
    folder.write("notes.txt", "Nothing much.");
    folder.write("broken.pdf", "This is no PDF.");
    let names = ["law.md", "notes.txt", "broken.pdf", "gone.md"];
    let report = folder.ingest(&names).await;
    let failed: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_snapshot!(failed.join("\n"), @r"
    `gone.md`: no such file
    `broken.pdf`: its name says a PDF document, but its content does not
    ");
    assert_snapshot!(folder.passages().await, @r###"
    law.md: "# Act\n\n## 1 Scope\n\n\"Ship\" means anything that floats." {"headings":["Act","1 Scope"],"start":0,"end":53,"definitions":[{"term":"Ship","meaning":"anything that floats."}]}
    law.md: "## 2 Duties\n\nA master keeps a log of every voyage that the ship makes, and shows" {"headings":["Act","2 Duties"],"start":55,"end":135}
    law.md: "it to any officer who asks." {"headings":["Act","2 Duties"],"start":136,"end":163}
    notes.txt: "Nothing much." {"start":0,"end":13}
    "###);

    folder.write("notes.txt", "Something else.");
    folder.write("broken.pdf.md", "Now it is Markdown.");
    let report = folder.ingest(&["law.md", "notes.txt", "broken.pdf.md"]).await;
    assert_eq!((report.stored, report.unchanged, report.failed.len()), (2, 1, 0));
    assert!(folder.passages().await.contains("Something else."));
}
