//! Markdown is kept unchanged.

use crate::{ConvertOptions, Document, Problem};

pub(super) fn convert(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let (text, notes) = super::decode(bytes, options)?;
    Ok(Document {
        title: title(&text),
        ..super::plain(text, notes)
    })
}

/// The title in the front matter, or else the first heading of level 1.
fn title(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let mut title = None;
    if text.starts_with("---\n") {
        for line in lines.by_ref().skip(1).take_while(|line| *line != "---") {
            if let Some(value) = line.strip_prefix("title:") {
                title = Some(value.trim().trim_matches(['"', '\'']).to_owned());
            }
        }
    }
    let mut fence = None;
    title
        .or_else(|| {
            lines.find_map(|line| {
                let start = line.trim_start();
                let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
                match (fence, mark) {
                    (None, Some(mark)) => fence = Some(mark),
                    (Some(open), Some(mark)) if open == mark => fence = None,
                    _ => {}
                }
                let heading = line.strip_prefix("# ").filter(|_| fence.is_none())?;
                Some(heading.trim().trim_end_matches('#').trim_end().to_owned())
            })
        })
        .filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_found() {
        let of = |text: &str| title(text);
        assert_eq!(of("text\n\n# The Title #\n# Next"), Some("The Title".to_owned()));
        assert_eq!(
            of("---\nid: 1\ntitle: \"Front\"\n---\n# Body"),
            Some("Front".to_owned())
        );
        assert_eq!(of("---\nid: 1\n---\n# Body"), Some("Body".to_owned()));
        assert_eq!(of("```sh\n# a comment\n```\n## Second level"), None);
    }
}
