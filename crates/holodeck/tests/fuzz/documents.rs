//! Targets for documents: random files, and valid archives with random parts, which random files would rarely be.

use std::sync::LazyLock;

use holodeck_documents::{
    ConvertLimits, ConvertOptions, Converted, Converter, Document, DocumentError, Isolation, Problem, convert,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::targets::{Outcome, Target, outcome, words};

pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "document",
        extension: "docx",
        words: ARCHIVE,
        run: document,
    },
    Target {
        name: "slides",
        extension: "pptx",
        words: ARCHIVE,
        run: slides,
    },
    Target {
        name: "document-xml",
        extension: "xml",
        words: XML,
        run: document_xml,
    },
    Target {
        name: "slide-xml",
        extension: "xml",
        words: XML,
        run: slide_xml,
    },
    Target {
        name: "text",
        extension: "md",
        words: TEXT,
        run: text,
    },
    Target {
        name: "pdf",
        extension: "pdf",
        words: PDF,
        run: pdf,
    },
    Target {
        name: "workbook",
        extension: "xlsx",
        words: ARCHIVE,
        run: workbook,
    },
    Target {
        name: "sheet-xml",
        extension: "xml",
        words: SHEET,
        run: sheet_xml,
    },
];

const ARCHIVE: &[&str] = &[
    "PK\u{3}\u{4}",
    "PK\u{1}\u{2}",
    "PK\u{5}\u{6}",
    "word/document.xml",
    "ppt/presentation.xml",
    "xl/workbook.xml",
    "_rels/.rels",
    "../",
    "\0\0\0\0",
    "\u{7f}\u{7f}\u{7f}\u{7f}",
];

const XML: &[&str] = &[
    "<w:p>",
    "</w:p>",
    "<w:pPr><w:pStyle w:val=\"Heading1\"/></w:pPr>",
    "<w:pPr><w:numPr><w:ilvl w:val=\"1\"/><w:numId w:val=\"1\"/></w:numPr></w:pPr>",
    "<w:pPr><w:outlineLvl w:val=\"8\"/></w:pPr>",
    "<w:r><w:t>a</w:t></w:r>",
    "<w:tbl>",
    "</w:tbl>",
    "<w:tr>",
    "</w:tr>",
    "<w:tc><w:tcPr><w:gridSpan w:val=\"3\"/></w:tcPr>",
    "</w:tc>",
    "<w:footnoteReference w:id=\"2\"/>",
    "<w:hyperlink r:id=\"a\">",
    "</w:hyperlink>",
    "<w:txbxContent>",
    "</w:txbxContent>",
    "<w:sdt><w:sdtContent>",
    "<p:sp><p:nvSpPr><p:nvPr><p:ph type=\"title\"/></p:nvPr></p:nvSpPr>",
    "<a:p><a:pPr lvl=\"1\"/><a:r><a:t>a</a:t></a:r></a:p>",
    "</p:sp>",
    "<a:tbl><a:tr><a:tc>",
    "</a:tc></a:tr></a:tbl>",
    "<!DOCTYPE a [<!ENTITY b \"c\">]>",
    "&b;",
    "&#x110000;",
    "&amp;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml version=\"1.0\" encoding=\"UTF-16\"?>",
    "xmlns:w=\"",
    "\"",
    "/>",
    "<",
];

const TEXT: &[&str] = &[
    "<!doctype html>",
    "<table><tr><td>",
    "</td></tr></table>",
    "<b>",
    "</p>",
    "<ul><li>",
    "<pre><code>",
    "<title>",
    "</title>",
    "<a href=\"",
    "&nbsp;",
    "&#0;",
    "sep=;\n",
    "\",\"",
    ";",
    "\t",
    "|",
    "\"",
    "{\"a\":[",
    "]}",
    "---\ntitle: ",
    "```",
    "# ",
    "\u{feff}",
    "\r\n",
    "é",
];

const PDF: &[&str] = &[
    " 0 R ",
    " 0 obj\n",
    "\nendobj\n",
    "<< ",
    " >>",
    "[",
    "]",
    "stream\n",
    "\nendstream",
    "/Type /Page ",
    "/Type /Pages ",
    "/Kids [2 0 R] ",
    "/Parent 2 0 R ",
    "/Contents 4 0 R ",
    "/Resources << /Font << /F 5 0 R >> >> ",
    "/XObject << /A 4 0 R >> ",
    "/Subtype /Form ",
    "/Filter /FlateDecode ",
    "/Filter /ASCII85Decode ",
    "/Encoding /WinAnsiEncoding ",
    "/First 2 0 R ",
    "/Next 2 0 R ",
    "/Outlines 2 0 R ",
    "/Title (a) ",
    "/Prev 9 ",
    "BT /F 12 Tf 1 0 0 1 9 9 Tm (a) Tj ET ",
    "/A Do ",
    "q ",
    "Q ",
    "xref\n0 9\n",
    "trailer\n",
    "startxref\n",
    "%%EOF",
];

const SHEET: &[&str] = &[
    "<row r=\"1\">",
    "</row>",
    "<c r=\"A1\"><v>1</v></c>",
    "<c r=\"XFD1048576\" t=\"str\"><v>a</v></c>",
    "<c t=\"s\"><v>99999999</v></c>",
    "<c t=\"inlineStr\"><is><t>a</t></is></c>",
    "<c t=\"d\"><v>2024-01-01</v></c>",
    "<c t=\"e\"><v>#N/A</v></c>",
    "<c s=\"1\"><v>45000.5</v></c>",
    "<sheetData>",
    "</sheetData>",
    "<dimension ref=\"A1:XFD1048576\"/>",
    "<f t=\"shared\" ref=\"A1:B2\" si=\"0\">A1</f>",
];

/// A Word document, byte by byte.
fn document(bytes: &[u8]) -> Outcome {
    convert_in_process("a.docx", bytes)
}

/// A presentation, byte by byte.
fn slides(bytes: &[u8]) -> Outcome {
    convert_in_process("a.pptx", bytes)
}

/// The body of a Word document, with styles, lists and notes around it.
fn document_xml(bytes: &[u8]) -> Outcome {
    let relations = br#"<R><Relationship Id="a" Type="x/hyperlink" Target="http://a/" TargetMode="External"/>
        <Relationship Id="n" Type="x/numbering" Target="numbering.xml"/>
        <Relationship Id="f" Type="x/footnotes" Target="footnotes.xml"/></R>"#;
    let numbering = br#"<w:numbering><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="upperRoman"/>
        <w:lvlText w:val="%1."/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>
        </w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>"#;
    let parts: &[(&str, &[u8])] = &[
        ("word/document.xml", bytes),
        ("word/_rels/document.xml.rels", relations),
        ("word/numbering.xml", numbering),
        ("word/footnotes.xml", bytes),
    ];
    convert_in_process("a.docx", &archive(parts))
}

/// A slide and its notes.
fn slide_xml(bytes: &[u8]) -> Outcome {
    let parts: &[(&str, &[u8])] = &[
        (
            "ppt/presentation.xml",
            b"<p:p><p:sldId id=\"1\" r:id=\"a\"/></p:p>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            b"<R><Relationship Id=\"a\" Type=\"x/slide\" Target=\"slide.xml\"/></R>",
        ),
        ("ppt/slide.xml", bytes),
        (
            "ppt/_rels/slide.xml.rels",
            b"<R><Relationship Id=\"a\" Type=\"x/notesSlide\" Target=\"slide.xml\"/></R>",
        ),
    ];
    convert_in_process("a.pptx", &archive(parts))
}

/// The same bytes as every kind of text.
fn text(bytes: &[u8]) -> Outcome {
    let names = ["a.md", "a.txt", "a.csv", "a.tsv", "a.json", "a.jsonl"];
    // A page of many elements is converted in a child.
    let page = convert_as_product("a.html", bytes);
    outcome(&(page, names.map(|name| convert_in_process(name, bytes))))
}

/// A PDF document, as the product converts it: in a child, because the third-party reader may crash.
fn pdf(bytes: &[u8]) -> Outcome {
    convert_as_product("a.pdf", bytes)
}

/// A workbook, as the product converts it.
fn workbook(bytes: &[u8]) -> Outcome {
    convert_as_product("a.xlsx", bytes)
}

/// A sheet inside a valid workbook.
fn sheet_xml(bytes: &[u8]) -> Outcome {
    const TYPE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let relation = |kind: &str, target: &str| {
        let relation = format!(r#"<Relationship Id="a" Type="{TYPE}/{kind}" Target="{target}"/>"#);
        format!("<Relationships>{relation}</Relationships>")
    };
    let main = relation("officeDocument", "xl/workbook.xml");
    let sheet = relation("worksheet", "worksheets/sheet1.xml");
    let parts: &[(&str, &[u8])] = &[
        ("_rels/.rels", main.as_bytes()),
        (
            "xl/workbook.xml",
            br#"<workbook xmlns:r="r"><sheets><sheet name="S" sheetId="1" r:id="a"/></sheets></workbook>"#,
        ),
        ("xl/_rels/workbook.xml.rels", sheet.as_bytes()),
        ("xl/worksheets/sheet1.xml", bytes),
    ];
    convert_as_product("a.xlsx", &archive(parts))
}

/// Converts in this process, for our own readers.
fn convert_in_process(name: &str, bytes: &[u8]) -> Outcome {
    check_result(name, convert(name, bytes, &ConvertOptions::default()))
}

/// Converts as the product does: what may be hostile in a child, which may fail in any way that the parent can report.
fn convert_as_product(name: &str, bytes: &[u8]) -> Outcome {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        // Each thread reserves much memory, which counts towards the limit of this process.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build();
        runtime.unwrap_or_else(|error| panic!("no runtime: {error}"))
    });
    static CONVERTER: LazyLock<Converter> = LazyLock::new(|| {
        let program = std::env::current_exe().unwrap_or_else(|error| panic!("no program: {error}"));
        let args = vec!["convert".into()];
        Converter::new(Isolation::Child { program, args }).limits(ConvertLimits {
            time: std::time::Duration::from_secs(10),
            memory: 400 * 1024 * 1024,
            ..ConvertLimits::default()
        })
    });
    let (options, never) = (ConvertOptions::default(), CancellationToken::new());
    let converting = CONVERTER.convert_bytes(name, bytes.to_vec(), &options, &never);
    check_result(name, RUNTIME.block_on(converting))
}

/// Checks that marks are in order and within the text, and that an error names the file.
fn check_result(name: &str, converted: Result<Converted, DocumentError>) -> Outcome {
    match converted {
        Ok(Converted::Text(Document {
            text, marks, notes, ..
        })) => {
            assert!(marks.is_sorted_by_key(|mark| mark.at), "{marks:?}");
            for mark in &marks {
                assert!(text.is_char_boundary(mark.at), "{mark:?} in {} bytes", text.len());
            }
            let shapes: Vec<char> = text
                .lines()
                .take(12)
                .filter_map(|line| line.chars().next())
                .collect();
            outcome(&(shapes, marks.len().min(3), notes.len()))
        }
        Ok(Converted::Image(picture)) => outcome(&picture.format),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with(&format!("`{name}`: ")), "{message}");
            assert!(!matches!(error.problem, Problem::Converter(_)), "{message}");
            outcome(&words(&message))
        }
    }
}

/// An archive of these parts, not compressed.
fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    for (name, content) in parts {
        let at = number(archive.len());
        let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        about.extend(checksum(content).to_le_bytes());
        about.extend(number(content.len()));
        about.extend(number(content.len()));
        about.extend(number(name.len()));
        archive.extend(b"PK\x03\x04");
        archive.extend(&about);
        archive.extend(name.as_bytes());
        archive.extend(*content);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(about);
        directory.extend([0; 10]);
        directory.extend(at);
        directory.extend(name.as_bytes());
    }
    let at = number(archive.len());
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    let count = &number(parts.len())[..2];
    archive.extend([count, count].concat());
    archive.extend(number(directory.len()));
    archive.extend(at);
    archive.extend([0; 2]);
    archive
}

/// The checksum of archive entries (CRC-32).
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 {
                sum >> 1 ^ 0xEDB8_8320
            } else {
                sum >> 1
            }
        })
    })
}
