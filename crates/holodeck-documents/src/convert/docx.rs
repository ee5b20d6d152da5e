//! Word documents: headings with the numbers Word gives them, paragraphs, lists, tables, notes.
//!
//! Included: the text with all changes accepted. Left out: headers and footers, comments, tables of contents, images
//! (their descriptions are included).

use std::{collections::HashMap, fmt::Write as _};

use crate::{Document, Format, Problem};

use self::{numbering::Numbering, styles::Styles};
use super::{
    blocks::{self, Block},
    package::{Package, Relation},
    xml::{Element, Step, Xml},
};

mod numbering;
mod styles;

pub(super) fn convert(bytes: &[u8]) -> Result<Document, Problem> {
    let mut package = Package::open(bytes, Format::Docx)?;
    let main = package.main("word/document.xml")?;
    let relations = package.relations(&main)?;
    let title = package.title()?;
    let part = |kind: &str| {
        let mut all = relations.values();
        all.find(|relation| relation.kind == kind && !relation.external)
            .map(|relation| relation.target.clone())
    };
    let mut optional = |kind: &str| match part(kind) {
        Some(name) => package.part(&name),
        None => Ok(None),
    };
    let styles = optional("styles")?.map_or_else(|| Ok(Styles::default()), |bytes| Styles::read(&bytes))?;
    let numbering =
        optional("numbering")?.map_or_else(|| Ok(Numbering::default()), |bytes| Numbering::read(&bytes))?;
    let (footnotes, endnotes) = (optional("footnotes")?, optional("endnotes")?);
    let body = package.required(&main)?;
    let mut reader = Body {
        styles,
        numbering,
        relations,
        notes: Vec::new(),
        pictures: 0,
        is_hidden: false,
        hidden: 0,
        title: None,
    };
    let mut all = Vec::new();
    reader.blocks(&mut Xml::new(&body, Format::Docx), &mut all)?;
    let mut text = String::new();
    blocks::write(&mut text, &all);
    reader.write_notes(&mut text, footnotes.as_deref(), endnotes.as_deref())?;
    let mut notes = Vec::new();
    if reader.pictures > 0 {
        notes.push(format!("pictures left out: {}", reader.pictures));
    }
    if reader.hidden > 0 {
        notes.push(format!("hidden texts are among them: {}", reader.hidden));
    }
    Ok(Document {
        title: title.or(reader.title),
        ..super::plain(text, notes)
    })
}

struct Body {
    styles: Styles,
    numbering: Numbering,
    relations: HashMap<String, Relation>,
    /// The notes that were referred to so far.
    notes: Vec<(NoteKind, String)>,
    pictures: usize,
    /// Whether Word does not show the run that is open, and the number of such texts.
    is_hidden: bool,
    hidden: usize,
    /// The first title paragraph.
    title: Option<String>,
}

/// Whether the properties of a run, which are read to their end, hide it.
fn hides(xml: &mut Xml<'_>) -> Result<bool, Problem> {
    let mut hides = false;
    while let Some(step) = xml.step()? {
        match step {
            Step::Start(element) => {
                let value = element.get("val");
                let is_off = matches!(value.as_deref(), Some("0" | "false" | "off"));
                hides |= element.name() == "vanish" && !is_off;
                xml.skip()?;
            }
            Step::End => break,
            Step::Text(_) => {}
        }
    }
    Ok(hides)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NoteKind {
    Foot,
    End,
}

/// A paragraph that is being read.
#[derive(Default)]
struct Paragraph {
    style: Option<String>,
    outline: Option<usize>,
    list: Option<String>,
    list_level: Option<usize>,
    text: String,
    /// Text boxes next to it.
    beside: Vec<Block>,
}

impl Body {
    /// Reads blocks to the end of the enclosing element.
    fn blocks(&mut self, xml: &mut Xml<'_>, out: &mut Vec<Block>) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "p" => self.paragraph(xml, out)?,
                    "tbl" => self.table(xml, out)?,
                    "sectPr" | "sdtPr" | "sdtEndPr" | "Fallback" | "del" | "moveFrom" | "tblPr" | "tcPr" => {
                        xml.skip()?;
                    }
                    _ => self.blocks(xml, out)?,
                },
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    fn paragraph(&mut self, xml: &mut Xml<'_>, out: &mut Vec<Block>) -> Result<(), Problem> {
        let mut paragraph = Paragraph::default();
        self.inline(xml, &mut paragraph)?;
        let style = self.styles.get(paragraph.style.as_deref());
        if style.contents {
            return Ok(());
        }
        let text = std::mem::take(&mut paragraph.text);
        if !text.trim().is_empty() {
            let list = paragraph.list.as_deref().or(style.list.as_deref());
            let level = paragraph.list_level.or(style.list_level).unwrap_or_default();
            let mark = list.and_then(|list| self.numbering.next(list, level));
            let outline = paragraph.outline.or(style.outline).filter(|level| *level < 9);
            out.push(match (outline, mark) {
                (Some(outline), mark) => {
                    if style.title && self.title.is_none() {
                        self.title = Some(blocks::one_line(&text));
                    }
                    let number = mark.filter(|mark| !mark.bullet).map(|mark| mark.text);
                    let text = number.map_or_else(|| text.clone(), |number| format!("{number} {text}"));
                    let level = outline + 1;
                    Block::Heading { level, text }
                }
                (None, Some(mark)) => {
                    let mark = mark.in_markdown();
                    Block::Item { level, mark, text }
                }
                (None, None) => Block::Paragraph(text),
            });
        }
        out.append(&mut paragraph.beside);
        Ok(())
    }

    /// Reads inline content to the end of the enclosing element.
    fn inline(&mut self, xml: &mut Xml<'_>, to: &mut Paragraph) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => self.inline_element(xml, &element, to)?,
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    fn inline_element(
        &mut self,
        xml: &mut Xml<'_>,
        element: &Element<'_>,
        to: &mut Paragraph,
    ) -> Result<(), Problem> {
        match element.name() {
            "pPr" => return properties(xml, to),
            "t" => {
                let text = xml.text()?;
                self.hidden += usize::from(self.is_hidden && !text.trim().is_empty());
                to.text.push_str(&text);
                return Ok(());
            }
            "r" => {
                let outer = std::mem::take(&mut self.is_hidden);
                self.inline(xml, to)?;
                self.is_hidden = outer;
                return Ok(());
            }
            "rPr" => {
                self.is_hidden |= hides(xml)?;
                return Ok(());
            }
            "txbxContent" => return self.blocks(xml, &mut to.beside),
            "del" | "moveFrom" | "Fallback" | "instrText" | "delText" | "sdtPr" | "sdtEndPr" => {
                return xml.skip();
            }
            "hyperlink" => return self.hyperlink(xml, element, to),
            "tab" | "ptab" => to.text.push(' '),
            "br" | "cr" => to.text.push('\n'),
            "noBreakHyphen" => to.text.push('-'),
            "footnoteReference" => self.refer(NoteKind::Foot, element, to),
            "endnoteReference" => self.refer(NoteKind::End, element, to),
            "docPr" => {
                if let Some(shown) = element.get("descr").filter(|shown| !shown.trim().is_empty()) {
                    let _ = write!(to.text, "[picture: {}]", blocks::one_line(&shown));
                }
            }
            "blip" | "imagedata" => self.pictures += 1,
            _ => {}
        }
        self.inline(xml, to)
    }

    fn hyperlink(
        &mut self,
        xml: &mut Xml<'_>,
        element: &Element<'_>,
        to: &mut Paragraph,
    ) -> Result<(), Problem> {
        let relation = element.get_prefixed("id").and_then(|id| self.relations.get(&id));
        let address = relation
            .filter(|relation| relation.external)
            .map(|relation| relation.target.clone());
        let before = std::mem::take(&mut to.text);
        self.inline(xml, to)?;
        let text = std::mem::replace(&mut to.text, before);
        match address {
            Some(address) if !text.trim().is_empty() && text != address => {
                let _ = write!(to.text, "[{text}]({address})");
            }
            _ => to.text.push_str(&text),
        }
        Ok(())
    }

    fn refer(&mut self, kind: NoteKind, element: &Element<'_>, to: &mut Paragraph) {
        if let Some(id) = element.get("id") {
            self.notes.push((kind, id));
            let _ = write!(to.text, "[^{}]", self.notes.len());
        }
    }

    fn table(&mut self, xml: &mut Xml<'_>, out: &mut Vec<Block>) -> Result<(), Problem> {
        let mut rows = Vec::new();
        self.rows(xml, &mut rows)?;
        // A frame around text is not a table.
        if let [row] = rows.as_mut_slice()
            && let [cell] = row.as_mut_slice()
        {
            out.append(cell);
            return Ok(());
        }
        let rows = rows
            .iter()
            .map(|row| row.iter().map(|cell| blocks::flat(cell)).collect())
            .collect();
        out.push(Block::Table(rows));
        Ok(())
    }

    fn rows(&mut self, xml: &mut Xml<'_>, rows: &mut Vec<Vec<Vec<Block>>>) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "tr" => {
                        rows.push(Vec::new());
                        self.rows(xml, rows)?;
                    }
                    "tc" => {
                        let mut cell = Vec::new();
                        let span = self.cell(xml, &mut cell)?;
                        if let Some(row) = rows.last_mut() {
                            row.push(cell);
                            row.extend((1..span).map(|_| Vec::new()));
                        }
                    }
                    "tblPr" | "tblGrid" | "trPr" | "del" | "moveFrom" | "Fallback" => xml.skip()?,
                    _ => self.rows(xml, rows)?,
                },
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    /// A cell and the number of columns it spans.
    fn cell(&mut self, xml: &mut Xml<'_>, cell: &mut Vec<Block>) -> Result<usize, Problem> {
        const WIDEST: usize = 64;
        let mut span = 1;
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "p" => self.paragraph(xml, cell)?,
                    "tbl" => self.table(xml, cell)?,
                    "gridSpan" => {
                        let columns = element.get("val").and_then(|columns| columns.parse().ok());
                        span = columns.unwrap_or(1).clamp(1, WIDEST);
                        xml.skip()?;
                    }
                    // Its properties contain the span.
                    "tcPr" => span = self.cell(xml, cell)?,
                    _ => self.blocks(xml, cell)?,
                },
                Step::End => return Ok(span),
                Step::Text(_) => {}
            }
        }
        Ok(span)
    }

    /// Footnotes and endnotes that were referred to, in that order.
    fn write_notes(
        &mut self,
        text: &mut String,
        foot: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<(), Problem> {
        let mut all = HashMap::new();
        let referred = std::mem::take(&mut self.notes);
        for (kind, bytes) in [(NoteKind::Foot, foot), (NoteKind::End, end)] {
            let Some(bytes) = bytes else { continue };
            let mut xml = Xml::new(bytes, Format::Docx);
            while let Some(step) = xml.step()? {
                if let Step::Start(element) = step
                    && matches!(element.name(), "footnote" | "endnote")
                {
                    let id = element.get("id").unwrap_or_default();
                    let mut note = Vec::new();
                    self.blocks(&mut xml, &mut note)?;
                    all.insert((kind == NoteKind::Foot, id), blocks::flat(&note));
                }
            }
        }
        for (number, (kind, id)) in referred.into_iter().enumerate() {
            if let Some(note) = all.get(&(kind == NoteKind::Foot, id)) {
                let _ = write!(text, "\n[^{}]: {note}\n", number + 1);
            }
        }
        Ok(())
    }
}

/// The properties of a paragraph.
fn properties(xml: &mut Xml<'_>, to: &mut Paragraph) -> Result<(), Problem> {
    while let Some(step) = xml.step()? {
        match step {
            Step::Start(element) => {
                let value = || element.get("val");
                let number = || value().and_then(|value| value.parse().ok());
                match element.name() {
                    "pStyle" => to.style = value(),
                    "outlineLvl" => to.outline = number(),
                    "numId" => to.list = value(),
                    "ilvl" => to.list_level = number(),
                    // Properties from before a tracked change.
                    "pPrChange" | "rPr" => {
                        xml.skip()?;
                        continue;
                    }
                    _ => {}
                }
                properties(xml, to)?;
            }
            Step::End => return Ok(()),
            Step::Text(_) => {}
        }
    }
    Ok(())
}
