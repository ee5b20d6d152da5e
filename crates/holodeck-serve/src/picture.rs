//! Pictures in requests of OpenAI clients: only those whose content is in the request. No address is ever fetched.

use base64::Engine as _;
use holodeck_backend_api::Image;

use crate::{openai_fields::Fields, problem::Result};

/// The pictures that models read, with the bytes that their files begin with.
const FORMATS: [(&str, &[&[u8]]); 4] = [
    ("image/png", &[b"\x89PNG\r\n\x1a\n"]),
    ("image/jpeg", &[b"\xff\xd8\xff"]),
    ("image/gif", &[b"GIF87a", b"GIF89a"]),
    ("image/webp", &[b"RIFF"]),
];

/// The picture in a field that is a `data:` URL.
pub(crate) fn read_picture(fields: &mut Fields, name: &str) -> Result<Image> {
    let url = fields.text(name)?;
    let url = url.ok_or_else(|| fields.invalid(name, "is missing"))?;
    read_data_url(&url).map_err(|why| fields.invalid(name, why))
}

fn read_data_url(url: &str) -> Result<Image, &'static str> {
    const FORM: &str = "must be a `data:` URL with a PNG, JPEG, GIF or WebP picture in base64";
    let scheme = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"));
    if scheme.is_none() {
        return Err("must be a `data:` URL: this server fetches no addresses");
    }
    let (head, content) = url.get(5..).and_then(|rest| rest.split_once(',')).ok_or(FORM)?;
    let mut words = head.split(';').map(str::trim);
    let declared = words.next().unwrap_or_default().to_ascii_lowercase();
    let declared = if declared == "image/jpg" {
        "image/jpeg"
    } else {
        &declared
    };
    if !words.any(|word| word.eq_ignore_ascii_case("base64")) {
        return Err(FORM);
    }
    let content: String = content.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(&content)
        .map_err(|_| FORM)?;
    let known = FORMATS.iter().find(|(media_type, _)| *media_type == declared);
    let (media_type, beginnings) = known.ok_or(FORM)?;
    if !beginnings.iter().any(|beginning| bytes.starts_with(beginning)) {
        return Err("is not the kind of picture that it says");
    }
    Ok(Image {
        media_type: (*media_type).to_owned(),
        base64: content.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQSFgAAAHEASFiX4r9AAAAAElFTkSuQmCC";

    #[test]
    fn only_pictures_in_the_request_are_read() {
        for url in [
            format!("data:image/png;base64,{PIXEL}"),
            format!("DATA:IMAGE/PNG;charset=x;BASE64,{PIXEL}"),
        ] {
            let image = read_data_url(&url).unwrap();
            assert_eq!(
                (&*image.media_type, &*image.base64),
                ("image/png", PIXEL),
                "{url}"
            );
        }
        for url in [
            "",
            "data:",
            "http://169.254.169.254/latest/meta-data",
            "https://example.com/a.png",
            "file:///etc/passwd",
            "/etc/passwd",
            "//example.com/a.png",
            "data:image/png,raw",
            "data:image/png;base64,",
            "data:image/png;base64,%%%",
            &format!("data:image/jpeg;base64,{PIXEL}"),
            &format!("data:image/svg+xml;base64,{PIXEL}"),
            &format!("data:text/html;base64,{PIXEL}"),
            &format!("data:;base64,{PIXEL}"),
            &format!("data:image/png;base64{PIXEL}"),
        ] {
            assert!(read_data_url(url).is_err(), "{url}");
        }
    }
}
