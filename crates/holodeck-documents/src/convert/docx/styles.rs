//! Reads which paragraph styles of a Word document are headings, lists or titles, with inheritance.

use std::collections::HashMap;

use crate::{Format, Problem};

use super::super::xml::{Step, Xml};

/// The meaning of a style for the text of a paragraph.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    /// Its level as a heading, from 0.
    pub(super) outline: Option<usize>,
    /// The list it belongs to.
    pub(super) list: Option<String>,
    pub(super) list_level: Option<usize>,
    /// It is the document's title.
    pub(super) title: bool,
    /// It is a line of a table of contents.
    pub(super) contents: bool,
    based_on: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Styles {
    by_id: HashMap<String, Style>,
    usual: Style,
}

impl Styles {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut xml = Xml::new(bytes, Format::Docx);
        let mut styles = Self::default();
        while let Some(step) = xml.step()? {
            if let Step::Start(element) = step
                && element.name() == "style"
            {
                let usual = element.get("default").is_some_and(|value| value != "0")
                    && element.get("type").is_some_and(|kind| kind == "paragraph");
                let id = element.get("styleId").unwrap_or_default();
                let mut style = Style::default();
                style.read(&mut xml)?;
                if usual {
                    styles.usual = style.clone();
                }
                styles.by_id.insert(id, style);
            }
        }
        let whole = styles.by_id.keys().map(|id| (id.clone(), styles.inherited(id)));
        styles.by_id = whole.collect();
        Ok(styles)
    }

    /// The style of a paragraph, with or without a style name.
    pub(super) fn get(&self, id: Option<&str>) -> Style {
        match id {
            None => self.usual.clone(),
            Some(id) => self.by_id.get(id).cloned().unwrap_or_else(|| {
                // Generated files use styles that they do not define.
                let mut style = Style::default();
                style.name(&id.replace("Heading", "heading "));
                style
            }),
        }
    }

    /// A style with its inherited properties; some styles inherit from themselves.
    fn inherited(&self, id: &str) -> Style {
        const MOST_ANCESTORS: usize = 16;
        let mut style = self.by_id.get(id).cloned().unwrap_or_default();
        let mut ancestor = style.based_on.clone();
        for _ in 0..MOST_ANCESTORS {
            let Some(base) = ancestor.as_deref().and_then(|id| self.by_id.get(id)) else {
                break;
            };
            style.outline = style.outline.or(base.outline);
            style.list = style.list.or_else(|| base.list.clone());
            style.list_level = style.list_level.or(base.list_level);
            style.contents |= base.contents;
            ancestor.clone_from(&base.based_on);
        }
        style
    }
}

impl Style {
    fn read(&mut self, xml: &mut Xml<'_>) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => {
                    let value = || element.get("val");
                    let number = || value().and_then(|value| value.parse().ok());
                    match element.name() {
                        "name" => self.name(&value().unwrap_or_default()),
                        "basedOn" => self.based_on = value(),
                        "outlineLvl" => self.outline = number(),
                        "numId" => self.list = value(),
                        "ilvl" => self.list_level = number(),
                        _ => {}
                    }
                    self.read(xml)?;
                }
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }

    /// The names of built-in styles are the same in every language.
    fn name(&mut self, name: &str) {
        let name = name.trim().to_ascii_lowercase();
        if name == "title" {
            self.title = true;
            self.outline = Some(0);
        } else if let Some(level) = name
            .strip_prefix("heading ")
            .and_then(|level| level.trim().parse().ok())
        {
            self.outline = self.outline.or(usize::checked_sub(level, 1));
        } else if name == "toc heading"
            || name
                .strip_prefix("toc ")
                .is_some_and(|level| level.parse::<u8>().is_ok())
        {
            self.contents = true;
        }
    }
}
