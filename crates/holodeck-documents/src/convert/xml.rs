//! Streaming XML with limits: no document types, only the five predefined entities, bounded nesting.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    escape::resolve_predefined_entity,
    events::{BytesStart, Event},
};

use crate::{Format, Limit, Problem};

/// Maximum nesting of elements; Word's own files nest some dozens deep.
const DEEPEST: u64 = 256;

pub(super) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    format: Format,
    depth: u64,
}

pub(super) enum Step<'a> {
    Start(Element<'a>),
    Text(Cow<'a, str>),
    End,
}

pub(super) struct Element<'a>(BytesStart<'a>);

impl Element<'_> {
    /// Its local name: the namespaces in use do not share relevant names.
    pub(super) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    /// An attribute by its local name.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.find(|key| key.rsplit(':').next() == Some(name))
    }

    /// An attribute with a prefix, for cases such as `r:id`, where `id` is another attribute.
    pub(super) fn get_prefixed(&self, name: &str) -> Option<String> {
        self.find(|key| key.split_once(':').is_some_and(|(_, local)| local == name))
    }

    fn find(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let mut attributes = self.0.attributes();
        let mut sound = attributes.with_checks(false).flatten();
        let attribute = sound.find(|attribute| wanted(attribute.key.into_inner()))?;
        let value = attribute
            .normalized_value(quick_xml::XmlVersion::Implicit1_0)
            .ok()?;
        Some(value.into_owned())
    }
}

impl<'a> Xml<'a> {
    pub(super) fn new(bytes: &'a [u8], format: Format) -> Self {
        let mut reader = Reader::from_reader(bytes);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_end_names = true;
        Self {
            reader,
            format,
            depth: 0,
        }
    }

    /// The next start, text or end; nothing at the end of the document.
    pub(super) fn step(&mut self) -> Result<Option<Step<'a>>, Problem> {
        loop {
            let event = self
                .reader
                .read_event()
                .map_err(|error| self.broken(&error.to_string()))?;
            let step = match event {
                Event::Start(start) | Event::Empty(start) => {
                    self.depth += 1;
                    if self.depth > DEEPEST {
                        return Err(Limit::Depth(DEEPEST).into());
                    }
                    Step::Start(Element(start))
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    Step::End
                }
                Event::Text(text) => Step::Text(text.into_inner()),
                Event::CData(text) => Step::Text(text.into_inner()),
                Event::GeneralRef(reference) => {
                    let text = match reference.resolve_char_ref() {
                        Ok(Some(c)) => Some(Cow::Owned(c.to_string())),
                        Ok(None) => resolve_predefined_entity(&reference.into_inner()).map(Cow::Borrowed),
                        Err(_) => None,
                    };
                    Step::Text(text.ok_or_else(|| self.broken("it refers to an entity"))?)
                }
                Event::DocType(_) => return Err(self.broken("it declares a document type")),
                Event::Eof if self.depth > 0 => return Err(self.broken("it ends too early")),
                Event::Eof => return Ok(None),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            };
            return Ok(Some(step));
        }
    }

    /// The text inside the current element, to its end.
    pub(super) fn text(&mut self) -> Result<String, Problem> {
        let mut text = String::new();
        let until = self.depth - 1;
        while self.depth > until {
            if let Some(Step::Text(part)) = self.step()? {
                text.push_str(&part);
            }
        }
        Ok(text)
    }

    /// Skips the current element.
    pub(super) fn skip(&mut self) -> Result<(), Problem> {
        let until = self.depth.saturating_sub(1);
        while self.depth > until {
            self.step()?;
        }
        Ok(())
    }

    fn broken(&self, reason: &str) -> Problem {
        Problem::Broken {
            format: self.format,
            reason: format!("at byte {}: {reason}", self.reader.buffer_position()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(xml: &str) -> Result<String, Problem> {
        let mut xml = Xml::new(xml.as_bytes(), Format::Docx);
        xml.step()?;
        xml.text()
    }

    #[test]
    fn text_is_read_with_its_references() {
        assert_eq!(
            text("<a>1 &lt; 2 <b>&#x41;&amp;</b><![CDATA[ & ]]></a>").unwrap(),
            "1 < 2 A& & "
        );
    }

    #[test]
    fn tricks_are_refused() {
        let error = |xml: &str| text(xml).unwrap_err().to_string();
        assert!(error("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>").contains("document type"));
        assert!(error("<a>&b;</a>").contains("it refers to an entity"));
        assert!(error("<a>text").contains("it ends too early"));
        assert!(error("<a>text</b>").contains("damaged"));
        assert_eq!(error(&"<a>".repeat(1000)), "it is nested deeper than 256 levels");
    }
}
