//! Chunks and records per second on one core: `cargo bench -p holodeck-documents`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::fmt::Write as _;
use std::sync::LazyLock;

use divan::counter::ItemsCount;
use holodeck_documents::{ChunkOptions, Document, Format, RecordOptions, chunk, read_records};
use holodeck_model::{ChunkingStrategy, DocumentDomain};

fn main() {
    divan::main();
}

/// About a megabyte of a manual: short sections, lists, code and tables.
static MANUAL: LazyLock<Document> = LazyLock::new(|| {
    let mut text = String::new();
    for section in 1..=2_500 {
        let _ = write!(
            text,
            "## {section}. Part {section}\n\nTurn the screw until it holds. Then measure the distance to the wall, and write it down. \
             If it differs from the plan, see Section {}.\n\n- **Wrench {section}**: a tool for screws of this size.\n- Keep it dry.\n\n\
             ```sh\nmeasure --part {section}\n```\n\n| Size | Force |\n|---|---|\n| {section} mm | 12 N |\n| 9 mm | 14 N |\n\n",
            section + 1
        );
    }
    document(text)
});

/// About a megabyte of a contract without Markdown.
static CONTRACT: LazyLock<Document> = LazyLock::new(|| {
    let mut text = String::new();
    for article in 1..=500 {
        let _ = write!(text, "ARTICLE {article}\nOBLIGATIONS\n\n");
        for section in 1..=5 {
            let _ = write!(
                text,
                "{article}.{section} Delivery. \"Goods {section}\" means the things that the Supplier delivers under Section 2.1:\n\
                 (a) in the condition of Schedule A; and\n(b) within ten days, unless clause 3.1(b) says otherwise,\n    \
                 (i) by road, or\n    (ii) by rail.\n\nThe Customer pays the price of the Goods on the day that they arrive. \
                 It may withhold what is in dispute.\n\n"
            );
        }
    }
    document(text)
});

fn document(text: String) -> Document {
    Document {
        text,
        ..Document::default()
    }
}

/// Chunks of 50 tokens, the small ones of the ingestion budget, and of 512, the default.
const SIZES: [usize; 2] = [50, 512];

fn cut(bencher: divan::Bencher<'_, '_>, document: &Document, options: &ChunkOptions) {
    let count = chunk(document, options).len();
    bencher
        .counter(ItemsCount::new(count))
        .bench_local(|| chunk(divan::black_box(document), options));
}

#[divan::bench(args = SIZES)]
fn structure(bencher: divan::Bencher<'_, '_>, max_tokens: usize) {
    let options = ChunkOptions {
        max_tokens,
        overlap_tokens: max_tokens / 10,
        ..ChunkOptions::default()
    };
    cut(bencher, &MANUAL, &options);
}

#[divan::bench(args = SIZES)]
fn token(bencher: divan::Bencher<'_, '_>, max_tokens: usize) {
    let options = ChunkOptions {
        strategy: ChunkingStrategy::Token,
        max_tokens,
        overlap_tokens: max_tokens / 10,
        ..ChunkOptions::default()
    };
    cut(bencher, &MANUAL, &options);
}

#[divan::bench(args = SIZES)]
fn contract_with_definitions_and_references(bencher: divan::Bencher<'_, '_>, max_tokens: usize) {
    let options = ChunkOptions {
        max_tokens,
        overlap_tokens: max_tokens / 10,
        domain: DocumentDomain::LegalContract,
        extract_definitions: true,
        extract_cross_references: true,
        ..ChunkOptions::default()
    };
    cut(bencher, &CONTRACT, &options);
}

#[divan::bench(args = ["csv", "json"])]
fn records(bencher: divan::Bencher<'_, '_>, kind: &str) {
    const COUNT: usize = 10_000;
    let mut text = String::from(if kind == "csv" { "id,name,text\n" } else { "[" });
    for record in 0..COUNT {
        let comma = if record == 0 { "" } else { "," };
        let _ = if kind == "csv" {
            writeln!(
                text,
                "{record},Part {record},\"A part, which holds the wall in place\""
            )
        } else {
            write!(
                text,
                "{comma}{{\"id\":{record},\"name\":\"Part {record}\",\"text\":\"It holds the wall\"}}"
            )
        };
    }
    let format = if kind == "csv" {
        Format::Csv
    } else {
        text.push(']');
        Format::Json
    };
    let options = RecordOptions {
        id_field: "id".to_owned(),
        vector_fields: vec!["name".to_owned(), "text".to_owned()],
        meta_fields: vec!["name".to_owned()],
        field_separator: "\n".to_owned(),
        ..RecordOptions::default()
    };
    bencher
        .counter(ItemsCount::new(COUNT))
        .bench_local(|| read_records("parts", format, divan::black_box(text.as_bytes()), &options).unwrap());
}
