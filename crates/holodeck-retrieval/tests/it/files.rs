//! Tests that files become passages with their provenance, and that unreadable ones are named.

use std::{fs, sync::Arc};

use futures::TryStreamExt as _;
use holodeck_documents::{ChunkOptions, ConvertOptions, Converter, Isolation, RecordOptions};
use holodeck_retrieval::{
    Cutting, EmbeddedStore, FileCorpus, FileSource, HashEmbedder, IngestMode, IngestReport, Ingestor,
    VectorStore,
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
        let chunks = ChunkOptions {
            max_tokens: 20,
            overlap_tokens: 0,
            extract_definitions: true,
            ..ChunkOptions::default()
        };
        self.ingest_cut(names, chunks.into()).await
    }

    async fn ingest_cut(&self, names: &[&str], cutting: Cutting) -> IngestReport {
        let files = names.iter().map(|name| {
            let path = self.0.path().join(name);
            ((*name).to_owned(), FileSource::Path(path))
        });
        let converter = Converter::new(Isolation::None);
        let corpus = FileCorpus::new(files, converter, ConvertOptions::default(), cutting);
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
                let own = passage.id.split_once('#').map_or("", |(_, own)| own);
                format!("{} {own}: {:?} {metadata}", passage.source, passage.text)
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
    folder.write("broken.pdf", "Not a PDF.");
    let names = ["law.md", "notes.txt", "broken.pdf", "gone.md"];
    let report = folder.ingest(&names).await;
    let failed: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_snapshot!(failed.join("\n"), @r"
    `gone.md`: no such file
    `broken.pdf`: it has the extension of a PDF document, but other content
    ");
    assert_snapshot!(folder.passages().await, @r###"
    law.md : "# Act\n\n## 1 Scope\n\n\"Ship\" means anything that floats." {"headings":["Act","1 Scope"],"start":0,"end":53,"definitions":[{"term":"Ship","meaning":"anything that floats."}]}
    law.md : "## 2 Duties\n\nA master keeps a log of every voyage that the ship makes, and shows" {"headings":["Act","2 Duties"],"start":55,"end":135}
    law.md : "it to any officer who asks." {"headings":["Act","2 Duties"],"start":136,"end":163}
    notes.txt : "Nothing much." {"start":0,"end":13}
    "###);

    folder.write("notes.txt", "Something else.");
    folder.write("broken.pdf.md", "Now it is Markdown.");
    let report = folder.ingest(&["law.md", "notes.txt", "broken.pdf.md"]).await;
    assert_eq!((report.stored, report.unchanged, report.failed.len()), (2, 1, 0));
    assert!(folder.passages().await.contains("Something else."));
}

#[tokio::test]
async fn records_become_passages_by_their_own_ids() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.write(
        "faq.csv",
        "id,question,topic\n1,How do I pay?,money\n2,Where are you?,place\n",
    );
    folder.write(
        "twice.json",
        r#"[{"id": 1, "question": "a"}, {"id": 1, "question": "b"}]"#,
    );
    let records = RecordOptions {
        id_field: "id".to_owned(),
        vector_fields: vec!["question".to_owned()],
        meta_fields: vec!["topic".to_owned()],
        field_separator: "\n".to_owned(),
        ..RecordOptions::default()
    };
    let report = folder
        .ingest_cut(&["faq.csv", "twice.json"], records.into())
        .await;
    assert_eq!((report.stored, report.passages), (1, 2));
    let failed: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_snapshot!(failed.join("\n"), @"`twice.json`: record 2: its `id` is `1`, as in record 1; ids must be unique");
    assert_snapshot!(folder.passages().await, @r#"
    faq.csv 1: "How do I pay?" {"topic":"money"}
    faq.csv 2: "Where are you?" {"topic":"place"}
    "#);
}
