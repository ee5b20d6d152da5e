//! Texts of every character set, declared in every way, and texts that no character set fits.

use proptest::prelude::*;

use super::*;

const TEXT: &str = "Größe: 5 € – “ja”\nzweite Zeile\n";

fn plain(bytes: &[u8]) -> Result<(String, Vec<String>), Problem> {
    decode(bytes, Declarations::default())
}

fn html(bytes: &[u8]) -> Result<(String, Vec<String>), Problem> {
    let declarations = Declarations {
        is_html: true,
        ..Declarations::default()
    };
    decode(bytes, declarations)
}

fn utf16(text: &str) -> (Vec<u8>, Vec<u8>) {
    (
        text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    )
}

/// A sentence in the letters of each character set.
const SENTENCES: [(&str, &str); 19] = [
    ("windows-1251", "Возврат занимает семь дней."),
    ("koi8-r", "Возврат занимает семь дней."),
    ("iso-8859-5", "Возврат занимает семь дней."),
    ("ibm866", "Возврат занимает семь дней."),
    ("koi8-u", "Повернення триває сім днів."),
    ("gbk", "退款需要七天。"),
    ("gb18030", "退款需要七天。"),
    ("gb2312", "退款需要七天。"),
    ("big5", "退款需要七天。"),
    ("Shift_JIS", "返金は七日かかります。"),
    ("euc-jp", "返金は七日かかります。"),
    ("iso-2022-jp", "返金は七日かかります。"),
    ("euc-kr", "환불은 칠 일 걸립니다."),
    ("windows-1253", "Η επιστροφή διαρκεί επτά ημέρες."),
    ("windows-1255", "ההחזר נמשך שבעה ימים."),
    ("windows-1256", "يستغرق الاسترداد سبعة أيام."),
    ("windows-874", "การคืนเงินใช้เวลาเจ็ดวัน"),
    ("iso-8859-2", "Zwrot zajmuje siedem dni – żółć."),
    ("ISO-8859-1", "Die Rückgabe dauert sieben Tage."),
];

fn encoded(label: &str, text: &str) -> Vec<u8> {
    let encoding = Encoding::for_label(label.as_bytes()).unwrap();
    let (bytes, _, has_errors) = encoding.encode(text);
    assert!(!has_errors || label == "iso-8859-2", "{label}");
    bytes.into_owned()
}

#[test]
fn every_declaration_of_every_character_set_is_read() {
    for (label, sentence) in SENTENCES {
        let sentence = sentence.replace('–', "-");
        let forms = [
            (
                true,
                format!("<!DOCTYPE html><html><head><meta charset=\"{label}\"></head><body><p>{sentence}"),
            ),
            (
                true,
                format!(
                    "<html><head><META http-equiv='Content-Type' content='text/html; charset={label}'><p>{sentence}"
                ),
            ),
            (
                true,
                format!("<?xml version=\"1.0\" encoding=\"{label}\"?><html><p>{sentence}"),
            ),
            (
                false,
                format!("<?xml version='1.0' encoding='{label}'?><a>{sentence}</a>"),
            ),
        ];
        for (is_html, text) in forms {
            let bytes = encoded(label, &text);
            let read = if is_html { html(&bytes) } else { plain(&bytes) };
            assert_eq!(read, Ok((text, Vec::new())), "{label}");
        }
        let of_server = Declarations {
            charset: Some(label),
            ..Declarations::default()
        };
        let bytes = encoded(label, &sentence);
        assert_eq!(decode(&bytes, of_server), Ok((sentence, Vec::new())), "{label}");
    }
}

#[test]
fn every_encoding_without_a_declaration_gives_the_same_text() {
    let (little, big) = utf16(TEXT);
    let all = [
        (TEXT.as_bytes().to_vec(), 0),
        ([b"\xEF\xBB\xBF", TEXT.as_bytes()].concat(), 0),
        ([b"\xFF\xFE".as_slice(), &little].concat(), 0),
        ([b"\xFE\xFF".as_slice(), &big].concat(), 0),
        (little, 0),
        (big, 0),
        (encoded("windows-1252", TEXT), 1),
        (TEXT.replace('\n', "\r\n").into_bytes(), 0),
        (TEXT.replace('\n', "\r").into_bytes(), 0),
    ];
    for (bytes, notes) in all {
        assert!(is_text(&bytes), "{bytes:?}");
        let (text, notices) = plain(&bytes).unwrap();
        assert_eq!((text.as_str(), notices.len()), (TEXT, notes), "{bytes:?}");
    }
}

#[test]
fn a_byte_order_mark_precedes_every_declaration() {
    let page = "<html><head><meta charset=gbk></head><p>семь</p>";
    let (little, big) = utf16(page);
    for bytes in [
        [b"\xEF\xBB\xBF", page.as_bytes()].concat(),
        [b"\xFF\xFE".as_slice(), &little].concat(),
        [b"\xFE\xFF".as_slice(), &big].concat(),
        little,
        big,
    ] {
        assert!(is_text(&bytes));
        assert_eq!(html(&bytes), Ok((page.to_owned(), Vec::new())));
    }
}

#[test]
fn a_declaration_that_the_text_contradicts_is_in_a_notice() {
    let read = |page: &str| html(page.as_bytes()).unwrap();
    for label in ["iso-8859-1", "windows-1251", "gbk", "shift_jis"] {
        let page = format!("<meta charset={label}><p>Die Rückgabe dauert länger für Büsum-Törns.");
        let (text, notes) = read(&page);
        assert_eq!(text, page);
        assert!(notes[0].ends_with("but is UTF-8; read as UTF-8"), "{notes:?}");
    }
    let page = "<meta charset=klingon><p>Rückgabe";
    let (text, notes) = read(page);
    assert_eq!(text, page);
    assert_eq!(
        notes,
        ["it declares the unknown character set `klingon`; read as UTF-8"]
    );
    let page = "<meta charset=utf-16><p>Rückgabe";
    assert_eq!(read(page), (page.to_owned(), Vec::new()));
    let (text, notes) = html(b"<meta charset=utf-8>\n<p>R\xFCckgabe").unwrap();
    assert!(text.ends_with("Rückgabe"));
    assert_eq!(
        notes,
        ["it declares UTF-8, but is not UTF-8 (see line 2); read as Windows-1252"]
    );
}

#[test]
fn a_text_that_no_character_set_fits_is_an_error() {
    let error = |bytes: &[u8], is_html| {
        let declarations = Declarations {
            is_html,
            charset: None,
        };
        decode(bytes, declarations).unwrap_err().to_string()
    };
    let japanese = encoded("Shift_JIS", "Titel\n返金は七日かかります。");
    let errors = [
        error(&japanese, false),
        error(b"<meta charset=klingon>R\xFCckgabe", true),
        error(b"<meta charset=utf-7>R+APw-ckgabe", true),
        error(b"<?xml version='1.0' encoding='hz-gb-2312'?><a>~{Q'~}</a>", false),
        error(&[b"<meta charset=euc-jp>\n".as_slice(), &japanese].concat(), true),
        error(b"\xFF\xFE\0\0a\0\0\0", false),
        error(b"\0\0\xFE\xFF\0\0\0a", false),
        error(b"\xFF\xFEa\0\x00\xD8b\0\x00\xD8", false),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_damaged_character_does_not_change_the_others() {
    let mut bytes = format!("erste\n{}", "ä ".repeat(20)).into_bytes();
    bytes.extend(b"\xFF end");
    for bytes in [bytes.clone(), [b"\xEF\xBB\xBF".as_slice(), &bytes].concat()] {
        let (text, notes) = plain(&bytes).unwrap();
        assert!(text.ends_with("ä \u{fffd} end"), "{text}");
        assert_eq!(
            notes,
            ["characters that are not valid UTF-8 are shown as `\u{fffd}`: 1, the first in line 2"]
        );
    }
    let mut bytes = encoded("gbk", &format!("<meta charset=gbk>\n{}", "退款".repeat(20)));
    bytes.extend(b"\xFF end");
    let (text, notes) = html(&bytes).unwrap();
    assert!(text.ends_with("退款\u{fffd} end"), "{text}");
    assert_eq!(
        notes,
        ["characters that are not valid GBK are shown as `\u{fffd}`: 1, the first in line 2"]
    );
}

#[test]
fn what_is_cut_within_a_character_when_looked_at_is_still_utf8() {
    let text = format!("{}ä{}", "x".repeat(LOOKED_AT - 1), "y".repeat(10));
    assert!(is_text(text.as_bytes()));
    assert_eq!(plain(text.as_bytes()), Ok((text, Vec::new())));
}

#[test]
fn binary_is_not_text() {
    let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
    assert!(!is_text(&all));
    assert!(!is_text(b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0"));
    assert!(is_text(b""));
}

proptest! {
    /// No text loses a character without a notice, whatever its bytes and its declaration are.
    #[test]
    fn no_character_is_replaced_without_a_notice(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        label in prop::sample::select(SENTENCES.map(|(label, _)| label).to_vec()),
        is_html: bool,
    ) {
        let page = [format!("<meta charset={label}>").as_bytes(), &bytes].concat();
        if let Ok((text, notes)) = decode(&page, Declarations { charset: None, is_html }) {
            let own = bytes.windows(3).any(|three| three == [0xEF, 0xBF, 0xBD]);
            let replaced = text.contains(char::REPLACEMENT_CHARACTER);
            prop_assert!(!replaced || !notes.is_empty() || own);
        }
    }
}

#[test]
fn japanese_in_escapes_is_read_without_a_declaration() {
    for sentence in [
        "返金は七日かかります。",
        "Refunds: 七日 (7 days)",
        "一\n二\nthree",
    ] {
        let bytes = encoded("iso-2022-jp", sentence);
        assert!(bytes.is_ascii(), "{sentence}");
        let (text, notes) = plain(&bytes).unwrap();
        assert_eq!(text, sentence);
        assert_eq!(notes, ["it has the escapes of ISO-2022-JP; read as ISO-2022-JP"]);
        // A mark says that it is something else.
        let marked = [b"\xef\xbb\xbf".as_slice(), &bytes].concat();
        assert!(plain(&marked).unwrap().0 != sentence, "{sentence}");
    }
    // Escapes of a terminal, and one that only looks like it.
    for text in ["\u{1b}[31mred\u{1b}[0m\u{1b}(B", "\u{1b}$B\u{1b}", "cost: $B"] {
        assert_eq!(
            plain(text.as_bytes()),
            Ok((text.to_owned(), Vec::new())),
            "{text:?}"
        );
    }
}
