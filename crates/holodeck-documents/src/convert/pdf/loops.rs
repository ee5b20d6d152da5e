//! Detects cyclic structures, which the PDF reader would follow forever.

use std::collections::HashSet;

use pdf_extract::{Dictionary, Document as Pdf, Object, ObjectId, Stream};

use crate::{Limit, Problem};

/// Maximum depth of page trees and nested contents.
const DEEPEST: usize = 64;

pub(super) fn check(pdf: &Pdf) -> Result<(), Problem> {
    let pages = pdf.catalog().and_then(|catalog| catalog.get(b"Pages"));
    if let Some(root) = pages.ok().and_then(|pages| pages.as_reference().ok()) {
        tree(pdf, root, &mut HashSet::new(), 0)?;
    }
    let mut sound = HashSet::new();
    for page in pdf.get_pages().into_values() {
        let Ok(page) = pdf.get_dictionary(page) else {
            continue;
        };
        let resources = inherited_resources(pdf, page)?;
        if let Some(resources) = resources {
            forms(pdf, resources, &mut sound, &mut Vec::new())?;
        }
    }
    Ok(())
}

/// No node of the page tree may be visited twice.
fn tree(pdf: &Pdf, node: ObjectId, met: &mut HashSet<ObjectId>, depth: usize) -> Result<(), Problem> {
    if depth > DEEPEST {
        return Err(Limit::Depth(DEEPEST as u64).into());
    }
    if !met.insert(node) {
        return Err(super::broken("its page tree loops"));
    }
    let kids = pdf
        .get_dictionary(node)
        .and_then(|node| node.get_deref(b"Kids", pdf));
    let Ok(kids) = kids.and_then(Object::as_array) else {
        return Ok(());
    };
    for kid in kids.iter().filter_map(|kid| kid.as_reference().ok()) {
        let inner = pdf.get_dictionary(kid).is_ok_and(|kid| kid.has_type(b"Pages"));
        if inner {
            tree(pdf, kid, met, depth + 1)?;
        }
    }
    Ok(())
}

/// The resources of a page or of an ancestor node.
fn inherited_resources<'a>(pdf: &'a Pdf, page: &'a Dictionary) -> Result<Option<&'a Dictionary>, Problem> {
    let mut node = page;
    let mut resources = None;
    for _ in 0..DEEPEST {
        if resources.is_none() {
            resources = dictionary(pdf, node, b"Resources");
        }
        match dictionary(pdf, node, b"Parent") {
            Some(parent) => node = parent,
            None => return Ok(resources),
        }
    }
    Err(super::broken("its page tree loops"))
}

/// No content may contain itself. `sound` holds the contents that were already checked completely.
fn forms<'a>(
    pdf: &'a Pdf,
    resources: &'a Dictionary,
    sound: &mut HashSet<ObjectId>,
    path: &mut Vec<ObjectId>,
) -> Result<(), Problem> {
    if path.len() > DEEPEST {
        return Err(Limit::Depth(DEEPEST as u64).into());
    }
    let Some(objects) = dictionary(pdf, resources, b"XObject") else {
        return Ok(());
    };
    for (_, object) in objects {
        let Ok((Some(id), Object::Stream(stream))) = pdf.dereference(object) else {
            continue;
        };
        if sound.contains(&id)
            || stream
                .dict
                .get(b"Subtype")
                .and_then(Object::as_name)
                .is_ok_and(|kind| kind == b"Image")
        {
            continue;
        }
        if path.contains(&id) {
            return Err(super::broken("its contents loop"));
        }
        path.push(id);
        match dictionary(pdf, &stream.dict, b"Resources") {
            Some(own) => forms(pdf, own, sound, path)?,
            // Without resources of its own it uses the enclosing ones, and may draw itself.
            None if draws(stream) => return Err(super::broken("its contents may loop")),
            None => {}
        }
        path.pop();
        sound.insert(id);
    }
    Ok(())
}

fn draws(stream: &Stream) -> bool {
    let content = stream.decompressed_content();
    let content = content.as_deref().unwrap_or(&stream.content);
    content.windows(2).any(|word| word == b"Do")
}

fn dictionary<'a>(pdf: &'a Pdf, of: &'a Dictionary, name: &[u8]) -> Option<&'a Dictionary> {
    let (_, object) = pdf.dereference(of.get(name).ok()?).ok()?;
    object.as_dict().ok()
}
