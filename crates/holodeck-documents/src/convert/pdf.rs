//! PDF documents: text page by page. Headings come from the outline of the file, else from the font size.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document as Pdf, Object, output_doc_page};

use crate::{ConvertOptions, Document, Format, Limit, Mark, Place, Problem};

use super::{blocks, pages};

mod layout;
mod letters;
mod loops;

pub(super) fn convert(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let pdf = open(bytes)?;
    loops::check(&pdf)?;
    let count = pdf.get_pages().len();
    if count == 0 {
        return Err(broken("it has no pages"));
    }
    let (mut read, mut empty, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for number in pages::select(&options.pages, count)? {
        match lines(&pdf, number)? {
            Ok(lines) if lines.is_empty() => empty.push(number),
            Ok(lines) => read.push((number, lines)),
            Err(reason) => {
                tracing::debug!(page = number, reason, "a page can't be read");
                unreadable.push((number, reason));
            }
        }
    }
    if let (true, Some((page, reason))) = (read.is_empty(), unreadable.first()) {
        return Err(broken(&format!("page {page}: {reason}")));
    }
    let headings = layout::Headings::of(outline(&pdf), read.iter().flat_map(|(_, lines)| lines));
    let mut document = Document {
        title: title(&pdf),
        ..Document::default()
    };
    for (number, lines) in &read {
        document.marks.push(Mark {
            at: document.text.len() + usize::from(!document.text.is_empty()),
            place: Place::Page(*number),
        });
        blocks::write(&mut document.text, &layout::blocks(lines, &headings));
    }
    if !empty.is_empty() {
        let pages = pages::list(&empty);
        document
            .notes
            .push(format!("no text on page {pages}; it may be a picture"));
    }
    if !unreadable.is_empty() {
        let pages: Vec<u32> = unreadable.iter().map(|(page, _)| *page).collect();
        document.notes.push(format!(
            "page {} can't be read and is left out",
            pages::list(&pages)
        ));
    }
    Ok(document)
}

fn open(bytes: &[u8]) -> Result<Pdf, Problem> {
    let mut pdf = Pdf::load_mem(bytes).map_err(|error| match error {
        pdf_extract::Error::InvalidPassword => Problem::Encrypted,
        error => broken(&error.to_string()),
    })?;
    // Many are only encrypted against changes and can be read without a password.
    if pdf.is_encrypted() {
        pdf.decrypt("").map_err(|_| Problem::Encrypted)?;
    }
    Ok(pdf)
}

/// The lines of a page, or why it can't be read: fonts and contents fail in many ways, and one page must not fail the
/// document.
fn lines(pdf: &Pdf, number: u32) -> Result<Result<Vec<letters::Line>, String>, Problem> {
    let mut letters = letters::Letters::default();
    let read = || output_doc_page(pdf, &mut letters, number);
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(())) => Ok(Ok(letters.lines())),
        Ok(Err(_)) if letters.too_many() => Err(Limit::Output(letters::MOST_TEXT as u64).into()),
        Ok(Err(error)) => Ok(Err(error.to_string())),
        Err(panic) => {
            let reason = super::panic_reason(panic.as_ref());
            tracing::debug!(page = number, reason, "the PDF reader panicked");
            Ok(Err("its fonts or its contents cannot be understood".to_owned()))
        }
    }
}

/// The titles in the outline with their levels, from 1.
fn outline(pdf: &Pdf) -> Vec<(usize, String)> {
    const MOST: usize = 10_000;
    let mut titles = Vec::new();
    let root = pdf.catalog().and_then(|catalog| catalog.get(b"Outlines")).ok();
    let first = |of: &Object| {
        let dictionary = pdf.dereference(of).ok()?.1.as_dict().ok()?;
        dictionary.get(b"First").ok().cloned()
    };
    // The next item of each level, innermost last.
    let mut open: Vec<Object> = root.and_then(first).into_iter().collect();
    for _ in 0..MOST {
        let Some(item) = open.pop() else { break };
        let Ok(Ok(item)) = pdf.dereference(&item).map(|(_, item)| item.as_dict()) else {
            continue;
        };
        let level = open.len() + 1;
        if let Some(title) = item.get(b"Title").ok().and_then(|title| string(pdf, title)) {
            titles.push((level, title));
        }
        // Deeper outlines are not meant for readers.
        let deeper = open.len() < 8;
        // A finished level leaves a placeholder, so that the depth stays right.
        open.push(item.get(b"Next").ok().cloned().unwrap_or(Object::Null));
        if let Some(first) = item.get(b"First").ok().filter(|_| deeper) {
            open.push(first.clone());
        } else {
            while matches!(open.last(), Some(Object::Null)) {
                open.pop();
            }
        }
    }
    titles
}

fn title(pdf: &Pdf) -> Option<String> {
    let info = pdf.trailer.get(b"Info").ok()?;
    let info = pdf.dereference(info).ok()?.1.as_dict().ok()?;
    let title = string(pdf, info.get(b"Title").ok()?)?;
    Some(title).filter(|title| !title.is_empty() && title != "untitled")
}

/// A text string, in either encoding.
fn string(pdf: &Pdf, object: &Object) -> Option<String> {
    let bytes = pdf.dereference(object).ok()?.1.as_str().ok()?;
    let text = crate::text::decode_lossily(bytes);
    Some(blocks::one_line(&text))
}

fn broken(reason: &str) -> Problem {
    Problem::Broken {
        format: Format::Pdf,
        reason: reason.to_owned(),
    }
}
