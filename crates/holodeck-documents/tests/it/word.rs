//! Features of Word documents that simple programs do not write.

use holodeck_documents::{ConvertOptions, Converted, Document, convert};

use crate::hostile::archive;

const RELATIONS: &str = r#"<Relationships>
    <Relationship Id="s" Type="http://x/styles" Target="styles.xml"/>
    <Relationship Id="n" Type="http://x/numbering" Target="numbering.xml"/>
    <Relationship Id="f" Type="http://x/footnotes" Target="/word/footnotes.xml"/>
    <Relationship Id="e" Type="http://x/endnotes" Target="endnotes.xml"/>
</Relationships>"#;

const STYLES: &str = r#"<w:styles>
    <w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>
    <w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>
    <w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/><w:basedOn w:val="berschrift1"/><w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr></w:style>
    <w:style w:type="paragraph" w:styleId="Klausel"><w:name w:val="Clause"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
    <w:style w:type="paragraph" w:styleId="Unter"><w:name w:val="Sub clause"/><w:basedOn w:val="Klausel"/></w:style>
    <w:style w:type="paragraph" w:styleId="Verzeichnis1"><w:name w:val="toc 1"/></w:style>
    <w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
</w:styles>"#;

const NUMBERING: &str = r#"<w:numbering>
    <w:abstractNum w:abstractNumId="0">
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
        <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl>
    </w:abstractNum>
    <w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>
</w:numbering>"#;

fn styled(style: &str, text: &str) -> String {
    format!(r#"<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"#)
}

fn read(body: &str) -> Document {
    let document = format!("<w:document><w:body>{body}<w:sectPr/></w:body></w:document>");
    let foot = r#"<w:footnotes><w:footnote w:id="-1"><w:p/></w:footnote>
        <w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>A footnote.</w:t></w:r></w:p></w:footnote></w:footnotes>"#;
    let end = r#"<w:endnotes><w:endnote w:id="2"><w:p><w:r><w:t>An endnote.</w:t></w:r></w:p></w:endnote></w:endnotes>"#;
    let bytes = archive(&[
        ("word/document.xml", document.as_bytes()),
        ("word/_rels/document.xml.rels", RELATIONS.as_bytes()),
        ("word/styles.xml", STYLES.as_bytes()),
        ("word/numbering.xml", NUMBERING.as_bytes()),
        ("word/footnotes.xml", foot.as_bytes()),
        ("word/endnotes.xml", end.as_bytes()),
    ]);
    match convert("a.docx", &bytes, &ConvertOptions::default()).unwrap() {
        Converted::Text(document) => document,
        Converted::Image(picture) => panic!("{picture:?}"),
    }
}

#[test]
fn headings_have_the_numbers_that_word_shows() {
    let body = [
        styled("Verzeichnis1", "1. Scope 3"),
        styled("berschrift1", "Scope"),
        styled("berschrift2", "Who is bound"),
        styled("berschrift2", "Who is not"),
        styled("Unter", "A clause"),
        styled("Loop", "Text."),
        styled("berschrift1", "Terms"),
        styled("berschrift2", "Defined"),
    ];
    insta::assert_snapshot!(read(&body.concat()).text, @r"
    # 1. Scope

    ## 1.1 Who is bound

    ## 1.2 Who is not

    ### A clause

    Text.

    # 2. Terms

    ## 2.1 Defined
    ");
}

#[test]
fn notes_changes_boxes_and_fields_are_read_as_they_are_shown() {
    let body = r#"
        <w:p><w:r><w:t>One</w:t><w:footnoteReference w:id="2"/></w:r><w:r><w:t xml:space="preserve"> and </w:t></w:r>
            <w:ins><w:r><w:t>two</w:t><w:endnoteReference w:id="2"/></w:r></w:ins>
            <w:del><w:r><w:delText>three</w:delText></w:r></w:del>
            <w:r><w:fldChar/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>.</w:t><w:tab/><w:t>Tab</w:t><w:br/><w:t># line</w:t></w:r></w:p>
        <w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing><wp:docPr id="1" descr="A lamp&#10;on a table"/><a:blip/>
            <w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent></w:drawing></mc:Choice>
            <mc:Fallback><w:pict><w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent></w:pict></mc:Fallback>
            </mc:AlternateContent></w:r></w:p>
        <w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>
        <w:tbl><w:tr><w:tc><w:p><w:r><w:t>A frame around text.</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
        <w:tbl><w:tblPr/><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p><w:r><w:t>Wide</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>C</w:t></w:r></w:p></w:tc></w:tr>
            <w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p><w:p><w:r><w:t>a2</w:t></w:r></w:p></w:tc><w:tc><w:tbl><w:tr><w:tc><w:p><w:r><w:t>in</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>ner</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p/></w:tc><w:tc><w:p><w:r><w:t>c</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"#;
    let document = read(body);
    insta::assert_snapshot!(document.text);
    assert_eq!(document.notes, ["pictures left out: 1"]);
}

#[test]
fn texts_that_word_hides_are_counted_in_a_note() {
    for (properties, is_hidden) in [
        ("<w:rPr><w:vanish/></w:rPr>", true),
        ("<w:rPr><w:b/><w:vanish w:val=\"1\"/></w:rPr>", true),
        ("<w:rPr><w:vanish w:val=\"0\"/></w:rPr>", false),
        ("<w:rPr><w:vanish w:val=\"false\"/></w:rPr>", false),
        ("<w:rPr><w:b/></w:rPr>", false),
        ("", false),
    ] {
        let run = |text: &str| format!("<w:r>{properties}<w:t>{text}</w:t></w:r><w:r><w:t>!</w:t></w:r>");
        let body = format!(
            "<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>{}</w:p><w:tbl><w:tr><w:tc><w:p>{}</w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>",
            run("one"),
            run("two"),
        );
        let document = read(&body);
        assert!(
            document.text.contains("one!") && document.text.contains("two!"),
            "{}",
            document.text
        );
        let note = is_hidden.then(|| "hidden texts are among them: 2".to_owned());
        assert_eq!(document.notes, Vec::from_iter(note), "{properties}");
    }
}
