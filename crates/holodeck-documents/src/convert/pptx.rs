//! Presentations: the text, tables and notes of each slide, in the order they are shown.

use std::{collections::HashMap, fmt::Write as _};

use crate::{ConvertOptions, Document, Format, Mark, Place, Problem};

use super::{
    blocks::{self, Block},
    package::{Package, Relation},
    pages,
    xml::{Element, Step, Xml},
};

pub(super) fn convert(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let mut package = Package::open(bytes, Format::Pptx)?;
    let main = package.main("ppt/presentation.xml")?;
    let title = package.title()?;
    let slides = slides(&mut package, &main)?;
    let mut document = Document {
        title,
        ..Document::default()
    };
    let (mut hidden, mut pictures) = (Vec::new(), 0);
    for number in pages::select(&options.pages, slides.len())? {
        let Some(name) = slides.get(number as usize - 1) else {
            continue;
        };
        let slide = Slide::read(&mut package, name)?;
        if slide.hidden {
            hidden.push(number);
        }
        pictures += slide.pictures;
        document.marks.push(Mark {
            // A blank line separates it from the previous one.
            at: document.text.len() + usize::from(!document.text.is_empty()),
            place: Place::Slide(number),
        });
        blocks::write(&mut document.text, &slide.blocks(number));
    }
    if !hidden.is_empty() {
        document
            .notes
            .push(format!("hidden slides are among them: {}", pages::list(&hidden)));
    }
    if pictures > 0 {
        document
            .notes
            .push(format!("pictures and charts left out: {pictures}"));
    }
    Ok(document)
}

/// The names of the slides' parts in their order.
fn slides(package: &mut Package<'_>, main: &str) -> Result<Vec<String>, Problem> {
    let relations = package.relations(main)?;
    let bytes = package.required(main)?;
    let mut xml = Xml::new(&bytes, Format::Pptx);
    let mut slides = Vec::new();
    while let Some(step) = xml.step()? {
        if let Step::Start(element) = step
            && element.name() == "sldId"
            && let Some(id) = element.get_prefixed("id")
        {
            let slide = relations.get(&id).ok_or_else(|| Problem::Broken {
                format: Format::Pptx,
                reason: format!("slide {} is missing", slides.len() + 1),
            })?;
            slides.push(slide.target.clone());
        }
    }
    Ok(slides)
}

#[derive(Default)]
struct Slide {
    title: Option<String>,
    body: Vec<Block>,
    notes: Vec<Block>,
    hidden: bool,
    pictures: usize,
    relations: HashMap<String, Relation>,
}

/// The purpose of a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Title,
    Body,
    /// A date, a footer, a number.
    Furniture,
    Other,
}

/// A shape that is being read.
struct Shape {
    role: Role,
    paragraphs: Vec<(usize, String)>,
}

impl Slide {
    fn read(package: &mut Package<'_>, name: &str) -> Result<Self, Problem> {
        let mut slide = Self {
            relations: package.relations(name)?,
            ..Self::default()
        };
        let bytes = package.required(name)?;
        slide.shapes(&mut Xml::new(&bytes, Format::Pptx))?;
        let notes = slide
            .relations
            .values()
            .find(|relation| relation.kind == "notesSlide");
        if let Some(name) = notes.map(|notes| notes.target.clone())
            && let Some(bytes) = package.part(&name)?
        {
            let mut notes = Self::default();
            notes.shapes(&mut Xml::new(&bytes, Format::Pptx))?;
            slide.notes = notes.body;
        }
        Ok(slide)
    }

    fn blocks(self, number: u32) -> Vec<Block> {
        let mut all = vec![Block::Heading {
            level: 2,
            text: self.title.unwrap_or_else(|| format!("Slide {number}")),
        }];
        all.extend(self.body);
        if self
            .notes
            .iter()
            .any(|note| !blocks::flat(std::slice::from_ref(note)).is_empty())
        {
            all.push(Block::Heading {
                level: 3,
                text: "Notes".to_owned(),
            });
            all.extend(self.notes);
        }
        all
    }

    /// Reads shapes to the end of the enclosing element.
    fn shapes(&mut self, xml: &mut Xml<'_>) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "sld" => {
                        self.hidden = element
                            .get("show")
                            .is_some_and(|show| show == "0" || show == "false");
                        self.shapes(xml)?;
                    }
                    "sp" => self.shape(xml)?,
                    "tbl" => {
                        let mut rows = Vec::new();
                        self.rows(xml, &mut rows)?;
                        self.body.push(Block::Table(rows));
                    }
                    "docPr" | "cNvPr" => {
                        self.described(&element);
                        xml.skip()?;
                    }
                    "pic" | "chart" | "relIds" => {
                        self.pictures += 1;
                        self.shapes(xml)?;
                    }
                    "Fallback" | "extLst" | "timing" | "transition" => xml.skip()?,
                    _ => self.shapes(xml)?,
                },
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    /// Keeps the description of an image.
    fn described(&mut self, element: &Element<'_>) {
        if let Some(shown) = element.get("descr").filter(|shown| !shown.trim().is_empty()) {
            self.body.push(Block::Paragraph(format!(
                "[picture: {}]",
                blocks::one_line(&shown)
            )));
        }
    }

    fn shape(&mut self, xml: &mut Xml<'_>) -> Result<(), Problem> {
        let mut shape = Shape {
            role: Role::Other,
            paragraphs: Vec::new(),
        };
        self.inside_shape(xml, &mut shape)?;
        shape.paragraphs.retain(|(_, text)| !text.trim().is_empty());
        match shape.role {
            Role::Furniture => {}
            Role::Title if self.title.is_none() => {
                let lines: Vec<_> = shape
                    .paragraphs
                    .iter()
                    .map(|(_, text)| blocks::one_line(text))
                    .collect();
                self.title = Some(lines.join(" ")).filter(|title| !title.is_empty());
            }
            role => {
                let several = shape.paragraphs.len() > 1;
                for (level, text) in shape.paragraphs {
                    self.body.push(if role == Role::Body && several || level > 0 {
                        Block::Item {
                            level,
                            mark: "-".to_owned(),
                            text,
                        }
                    } else {
                        Block::Paragraph(text)
                    });
                }
            }
        }
        Ok(())
    }

    fn inside_shape(&self, xml: &mut Xml<'_>, shape: &mut Shape) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "ph" => {
                        shape.role = match element.get("type").as_deref() {
                            Some("title" | "ctrTitle") => Role::Title,
                            Some("dt" | "ftr" | "hdr" | "sldNum" | "sldImg") => Role::Furniture,
                            _ => Role::Body,
                        };
                        xml.skip()?;
                    }
                    "p" => {
                        let paragraph = self.paragraph(xml)?;
                        shape.paragraphs.push(paragraph);
                    }
                    "Fallback" => xml.skip()?,
                    _ => self.inside_shape(xml, shape)?,
                },
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    /// A paragraph's level and text.
    fn paragraph(&self, xml: &mut Xml<'_>) -> Result<(usize, String), Problem> {
        let mut paragraph = (0, String::new());
        self.inline(xml, &mut paragraph)?;
        Ok(paragraph)
    }

    fn inline(&self, xml: &mut Xml<'_>, to: &mut (usize, String)) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "pPr" => {
                        to.0 = element
                            .get("lvl")
                            .and_then(|level| level.parse().ok())
                            .unwrap_or_default();
                        xml.skip()?;
                    }
                    "t" => to.1.push_str(&xml.text()?),
                    "br" => {
                        to.1.push('\n');
                        xml.skip()?;
                    }
                    "r" => self.run(xml, to)?,
                    "Fallback" => xml.skip()?,
                    _ => self.inline(xml, to)?,
                },
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    /// A run of text, possibly a link.
    fn run(&self, xml: &mut Xml<'_>, to: &mut (usize, String)) -> Result<(), Problem> {
        let (mut text, mut address) = (String::new(), None);
        let mut depth = 0_usize;
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) if element.name() == "t" => text.push_str(&xml.text()?),
                Step::Start(element) => {
                    if element.name() == "hlinkClick" {
                        let relation = element.get_prefixed("id").and_then(|id| self.relations.get(&id));
                        address = relation
                            .filter(|relation| relation.external)
                            .map(|to| to.target.clone());
                    }
                    depth += 1;
                }
                Step::End if depth == 0 => break,
                Step::End => depth -= 1,
                Step::Text(_) => {}
            }
        }
        match address {
            Some(address) if !text.trim().is_empty() && text != address => {
                let _ = write!(to.1, "[{text}]({address})");
            }
            _ => to.1.push_str(&text),
        }
        Ok(())
    }

    fn rows(&self, xml: &mut Xml<'_>, rows: &mut Vec<Vec<String>>) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => match element.name() {
                    "tr" => {
                        rows.push(Vec::new());
                        self.rows(xml, rows)?;
                    }
                    "tc" => {
                        let mut cell = Shape {
                            role: Role::Other,
                            paragraphs: Vec::new(),
                        };
                        self.inside_shape(xml, &mut cell)?;
                        let lines: Vec<_> = cell.paragraphs.into_iter().map(|(_, text)| text).collect();
                        if let Some(row) = rows.last_mut() {
                            row.push(lines.join(" "));
                        }
                    }
                    _ => self.rows(xml, rows)?,
                },
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }
}
