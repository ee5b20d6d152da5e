//! Expands bodies that a server or a gateway compressed although no request asks for it. What is expanded counts against the
//! limit of the body, and comes in small pieces, so that a small answer cannot take much memory.

use std::io::{self, BufRead, Read};

use bytes::{Buf as _, Bytes};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

use crate::{HttpError, HttpUrl};

/// Bytes of an expanded piece.
const PIECE: usize = 32 * 1024;

/// As many bytes as it takes to recognise a text.
const RECOGNISED_BY: usize = 16;

/// The longest name of an encoding that is shown.
const LONGEST_NAME: usize = 40;

/// How a body is encoded on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Plain,
    Gzip,
    Deflate,
    Other(String),
}

impl Coding {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONTENT_ENCODING).into_iter();
        let names: Vec<String> = values
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty() && name != "identity")
            .collect();
        match names.as_slice() {
            [] => Self::Plain,
            [name] if name == "gzip" || name == "x-gzip" => Self::Gzip,
            [name] if name == "deflate" => Self::Deflate,
            names => Self::Other(shown(&names.join(", "))),
        }
    }

    /// The bytes as they were before.
    pub(crate) fn expand<S>(self, bytes: S, url: HttpUrl) -> BoxStream<'static, Result<Bytes, HttpError>>
    where
        S: Stream<Item = Result<Bytes, HttpError>> + Send + 'static,
    {
        match self {
            Self::Plain => bytes.boxed(),
            coding => {
                let expanding = Expanding {
                    coding,
                    url,
                    bytes: bytes.boxed(),
                    start: Vec::new(),
                    decoder: None,
                };
                let next = |mut expanding: Expanding| async move {
                    let item = expanding.next().await?;
                    Some((item, expanding))
                };
                // After its end it must not be asked again.
                stream::unfold(expanding, next).fuse().boxed()
            }
        }
    }
}

/// A name of an encoding, which the server wrote.
fn shown(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_., ".contains(c);
    if name.len() <= LONGEST_NAME && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        "an encoding without a usable name".to_owned()
    }
}

struct Expanding {
    coding: Coding,
    url: HttpUrl,
    bytes: BoxStream<'static, Result<Bytes, HttpError>>,
    /// The first bytes, which say which form it is.
    start: Vec<u8>,
    decoder: Option<Decoder>,
}

enum Decoder {
    Plain(Arrived),
    Gzip(MultiGzDecoder<Arrived>),
    Zlib(ZlibDecoder<Arrived>),
    Deflate(DeflateDecoder<Arrived>),
}

impl Expanding {
    /// The next piece; none at the end, and after an error.
    async fn next(&mut self) -> Option<Result<Bytes, HttpError>> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let mut piece = vec![0; PIECE];
                match decoder.read(&mut piece) {
                    Ok(0) => return None,
                    Ok(count) => {
                        piece.truncate(count);
                        return Some(Ok(piece.into()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Some(Err(self.broken(&error))),
                }
            }
            match self.bytes.next().await {
                Some(Ok(bytes)) => {
                    if let Some(decoder) = &mut self.decoder {
                        decoder.arrived().bytes = bytes;
                        continue;
                    }
                    self.start.extend_from_slice(&bytes);
                    if self.start.len() >= RECOGNISED_BY
                        && let Err(error) = self.begin(false)
                    {
                        return Some(Err(error));
                    }
                }
                Some(Err(error)) => {
                    self.decoder = Some(Decoder::Plain(Arrived::ended()));
                    return Some(Err(error));
                }
                None => {
                    if let Some(decoder) = &mut self.decoder {
                        decoder.arrived().has_ended = true;
                    } else if let Err(error) = self.begin(true) {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// Chooses the decoder. Some gateways expand a body and keep its header, some write `deflate` and mean another form of it,
    /// and some servers write their character set there.
    fn begin(&mut self, has_ended: bool) -> Result<(), HttpError> {
        let start = Bytes::from(std::mem::take(&mut self.start));
        let is_gzip = start.starts_with(&[0x1f, 0x8b]);
        let is_zlib = match start.as_ref() {
            [first, second, ..] => {
                first & 15 == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31)
            }
            _ => false,
        };
        let is_text = is_text(&start);
        let arrived = Arrived {
            bytes: start,
            has_ended,
        };
        self.decoder = Some(match &self.coding {
            Coding::Gzip | Coding::Deflate if is_gzip => Decoder::Gzip(MultiGzDecoder::new(arrived)),
            Coding::Deflate if is_zlib => Decoder::Zlib(ZlibDecoder::new(arrived)),
            _ if is_text => Decoder::Plain(arrived),
            Coding::Deflate => Decoder::Deflate(DeflateDecoder::new(arrived)),
            Coding::Gzip => {
                return Err(self.encoded("gzip", Some("it does not begin as gzip does".to_owned())));
            }
            Coding::Other(encoding) => return Err(self.encoded(&encoding.clone(), None)),
            Coding::Plain => Decoder::Plain(arrived),
        });
        Ok(())
    }

    /// The error for bytes that the decoder does not take.
    fn broken(&mut self, error: &io::Error) -> HttpError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            self.decoder = Some(Decoder::Plain(Arrived::ended()));
            let (url, reason) = (self.url.clone(), "it ended within its compressed body".to_owned());
            return HttpError::Body { url, reason };
        }
        let encoding = match self.coding {
            Coding::Deflate => "deflate",
            _ => "gzip",
        };
        self.encoded(encoding, Some(error.to_string()))
    }

    /// The error for a body that is not read; nothing of it follows.
    fn encoded(&mut self, encoding: &str, damage: Option<String>) -> HttpError {
        self.decoder = Some(Decoder::Plain(Arrived::ended()));
        HttpError::Encoded {
            url: self.url.clone(),
            encoding: encoding.to_owned(),
            damage,
        }
    }
}

/// Whether bytes are the beginning of a text.
fn is_text(start: &[u8]) -> bool {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            let valid = start.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.contains(|c: char| c.is_control() && !c.is_whitespace())
}

impl Decoder {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(arrived) => arrived.read(piece),
            Self::Gzip(decoder) => decoder.read(piece),
            Self::Zlib(decoder) => decoder.read(piece),
            Self::Deflate(decoder) => decoder.read(piece),
        }
    }

    fn arrived(&mut self) -> &mut Arrived {
        match self {
            Self::Plain(arrived) => arrived,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::Deflate(decoder) => decoder.get_mut(),
        }
    }
}

/// The bytes that arrived and are not expanded yet. More may follow until the end.
struct Arrived {
    bytes: Bytes,
    has_ended: bool,
}

impl Arrived {
    fn ended() -> Self {
        Self {
            bytes: Bytes::new(),
            has_ended: true,
        }
    }
}

impl BufRead for Arrived {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.bytes.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes)
    }

    fn consume(&mut self, count: usize) {
        self.bytes.advance(count.min(self.bytes.len()));
    }
}

impl Read for Arrived {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(piece)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use futures::executor::block_on;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// The forms in which a text is sent, with what their header says.
    fn forms(text: &[u8]) -> Vec<(Coding, Vec<u8>)> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(text).unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(text).unwrap();
        let (first, second) = text.split_at(text.len() / 2);
        vec![
            (Coding::Plain, text.to_vec()),
            (Coding::Gzip, gzip(text)),
            (Coding::Gzip, [gzip(first), gzip(second)].concat()),
            (Coding::Gzip, text.to_vec()),
            (Coding::Other("utf-8".to_owned()), text.to_vec()),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, deflate.finish().unwrap()),
            (Coding::Deflate, gzip(text)),
        ]
    }

    fn url() -> HttpUrl {
        HttpUrl::parse("http://127.0.0.1/").unwrap()
    }

    fn expand(coding: Coding, sent: &[u8], cut: usize) -> Result<Vec<u8>, HttpError> {
        let pieces: Vec<_> = sent
            .chunks(cut.max(1))
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let mut expanded = coding.expand(stream::iter(pieces), url());
        block_on(async {
            let mut all = Vec::new();
            while let Some(piece) = expanded.next().await {
                all.extend_from_slice(&piece?);
            }
            assert!(expanded.next().await.is_none());
            Ok(all)
        })
    }

    proptest! {
        #[test]
        fn what_was_compressed_is_as_before_wherever_it_is_cut(
            text in "[ -~é\n]{1,300}", cut in 1_usize..40,
        ) {
            for (coding, sent) in forms(text.as_bytes()) {
                let expanded = expand(coding.clone(), &sent, cut).unwrap();
                prop_assert_eq!(String::from_utf8(expanded).unwrap(), text.as_str(), "{:?}", coding);
            }
        }

        #[test]
        fn no_bytes_break_it(sent in prop::collection::vec(any::<u8>(), 0..200), cut in 1_usize..40) {
            for coding in [Coding::Gzip, Coding::Deflate] {
                let _ = expand(coding, &sent, cut);
            }
        }
    }

    #[test]
    fn a_part_of_a_compressed_body_is_an_error() {
        let text = "a text that is not so short. ".repeat(50);
        for (coding, sent) in forms(text.as_bytes()) {
            if sent == text.as_bytes() {
                continue;
            }
            for end in [sent.len() / 3, sent.len() - 9] {
                let error = expand(coding.clone(), &sent[..end], 7).unwrap_err();
                assert!(
                    matches!(error, HttpError::Body { .. }),
                    "{coding:?} {end}: {error:?}"
                );
            }
            // Only these two forms have a checksum.
            if !sent.starts_with(&[0x1f, 0x8b]) && !sent.starts_with(&[0x78]) {
                continue;
            }
            let mut damaged = sent.clone();
            damaged[sent.len() / 2] ^= 0xff;
            let error = expand(coding.clone(), &damaged, 7).unwrap_err();
            assert!(!error.retryable(), "{coding:?}: {error:?}");
        }
        for coding in [Coding::Gzip, Coding::Deflate] {
            assert_eq!(expand(coding, b"", 1).unwrap(), b"");
        }
    }

    #[test]
    fn the_header_says_which_and_what_is_unknown_is_named() {
        for (values, coding) in [
            (&[][..], Coding::Plain),
            (&[""], Coding::Plain),
            (&["identity"], Coding::Plain),
            (&["GZIP"], Coding::Gzip),
            (&["identity, x-gzip "], Coding::Gzip),
            (&["deflate"], Coding::Deflate),
            (&["br"], Coding::Other("br".to_owned())),
            (&["zstd"], Coding::Other("zstd".to_owned())),
            (&["gzip", "br"], Coding::Other("gzip, br".to_owned())),
            (&["gzip, gzip"], Coding::Other("gzip, gzip".to_owned())),
            (
                &["a`b"],
                Coding::Other("an encoding without a usable name".to_owned()),
            ),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(Coding::of(&headers), coding, "{values:?}");
        }
        let error = expand(Coding::Other("br".to_owned()), b"\x1b\x07\x00\xf8%", 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the answer from http://127.0.0.1/ is compressed with br, which was not asked for"
        );
    }
}
