//! The character set that a text names itself: in an XML declaration, or in a `meta` element of a web page.

/// Bytes of a file's beginning that are searched.
const SEARCHED: usize = 16 * 1024;

/// The label in an XML declaration at the start of a text.
pub(super) fn in_xml(bytes: &[u8]) -> Option<String> {
    let start = ascii_lowercase(bytes);
    let declaration = start.trim_start().strip_prefix("<?xml")?;
    let declaration = declaration.split("?>").next().unwrap_or_default();
    if !declaration.starts_with(|character: char| character.is_ascii_whitespace()) {
        return None;
    }
    let attributes = Attributes { rest: declaration };
    attributes
        .filter(|(name, _)| name == "encoding")
        .map(|(_, value)| value)
        .next()
}

/// The label in the first `meta` element of a page that names one.
pub(super) fn in_html(bytes: &[u8]) -> Option<String> {
    let start = ascii_lowercase(bytes);
    let mut rest = start.as_str();
    while let Some(at) = rest.find('<') {
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
        } else if let Some(meta) = rest.strip_prefix("meta")
            && meta.starts_with(|character: char| character.is_ascii_whitespace() || character == '/')
        {
            let mut attributes = Attributes { rest: meta };
            if let Some(label) = in_meta(&mut attributes) {
                return Some(label);
            }
            rest = attributes.rest;
        }
    }
    None
}

/// `charset="…"`, or `http-equiv="Content-Type" content="…; charset=…"`.
fn in_meta(attributes: &mut Attributes<'_>) -> Option<String> {
    let (mut charset, mut content, mut is_content_type) = (None, None, false);
    for (name, value) in attributes {
        match name.as_str() {
            "charset" => charset = charset.or(Some(value)),
            "content" => content = content.or(Some(value)),
            "http-equiv" => is_content_type |= value.trim() == "content-type",
            _ => {}
        }
    }
    // An empty label names nothing.
    let charset = charset.filter(|label: &String| !label.trim().is_empty());
    charset.or_else(|| in_media_type(&content.filter(|_| is_content_type)?))
}

/// The label in a media type such as `text/html; charset=utf-8`.
pub(crate) fn in_media_type(media_type: &str) -> Option<String> {
    let lower = media_type.to_ascii_lowercase();
    let mut rest = lower.as_str();
    loop {
        let (_, after) = rest.split_once("charset")?;
        rest = after;
        let Some(value) = after.trim_start().strip_prefix('=') else {
            continue;
        };
        let value = value.trim_start();
        let label = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value.get(1..)?.split(quote).next()?,
            _ => value
                .split(|character: char| character == ';' || character.is_ascii_whitespace())
                .next()?,
        };
        return Some(label.trim().to_owned()).filter(|label| !label.is_empty());
    }
}

/// The beginning of a text in small letters; bytes outside of ASCII become other characters, which no label has.
fn ascii_lowercase(bytes: &[u8]) -> String {
    let start = bytes.get(..bytes.len().min(SEARCHED)).unwrap_or_default();
    start
        .iter()
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}

/// The attributes of an element, up to its `>`.
struct Attributes<'t> {
    rest: &'t str,
}

impl Iterator for Attributes<'_> {
    type Item = (String, String);

    fn next(&mut self) -> Option<Self::Item> {
        let is_blank = |character: char| character.is_ascii_whitespace();
        self.rest = self
            .rest
            .trim_start_matches(|character| is_blank(character) || character == '/');
        if self.rest.is_empty() || self.rest.starts_with('>') {
            return None;
        }
        let end = self
            .rest
            .char_indices()
            .skip(1)
            .find(|(_, character)| is_blank(*character) || matches!(character, '=' | '>' | '/'))
            .map_or(self.rest.len(), |(at, _)| at);
        let (name, after) = self.rest.split_at(end);
        self.rest = after.trim_start_matches(is_blank);
        let Some(value) = self.rest.strip_prefix('=') else {
            return Some((name.to_owned(), String::new()));
        };
        let value = value.trim_start_matches(is_blank);
        let (value, rest) = if let Some(quote @ ('"' | '\'')) = value.chars().next() {
            let inner = value.get(1..).unwrap_or_default();
            inner.split_once(quote).unwrap_or((inner, ""))
        } else {
            let end = value.find(|character| is_blank(character) || character == '>');
            value.split_at(end.unwrap_or(value.len()))
        };
        self.rest = rest;
        Some((name.to_owned(), value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_its_character_set_in_any_form_of_meta() {
        for page in [
            "<!doctype html><html><head><meta charset=\"GBK\">",
            "<meta charset='gbk'/>",
            "<META CHARSET=GBK>",
            "<meta  name=a content=b><meta\ncharset = gbk >",
            "<meta http-equiv=\"Content-Type\" content=\"text/html; charset=gbk\">",
            "<meta content='text/html;charset = \"gbk\"' http-equiv=content-type>",
            "<!-- <meta charset=utf-8> --><meta charset=gbk>",
            "<meta name=\"charset\" content=\"charset=utf-8\"><meta charset=gbk>",
            "<metadata charset=utf-8><meta/charset=gbk>",
        ] {
            assert_eq!(in_html(page.as_bytes()).as_deref(), Some("gbk"), "{page}");
        }
        for page in [
            "<p>meta charset=gbk",
            "<meta name=a content=\"charset=gbk\">",
            "<!-- <meta charset=gbk>",
            "<meta charset=\"\"><meta content><meta charset",
        ] {
            assert_eq!(in_html(page.as_bytes()), None, "{page}");
        }
    }

    #[test]
    fn an_xml_declaration_names_a_character_set() {
        for text in [
            "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>",
            "<?xml version='1.0' encoding='iso-8859-1' standalone='yes' ?>",
            "\n<?xml encoding = \"iso-8859-1\"?>",
        ] {
            assert_eq!(in_xml(text.as_bytes()).as_deref(), Some("iso-8859-1"), "{text}");
        }
        for text in [
            "<?xml version=\"1.0\"?><a encoding=\"gbk\"/>",
            "<?xml-stylesheet encoding='gbk'?>",
            "encoding='x'",
        ] {
            assert_eq!(in_xml(text.as_bytes()), None, "{text}");
        }
    }
}
