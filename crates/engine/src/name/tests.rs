use super::*;

fn name(units: &[u16]) -> ResourceName {
    ResourceName::from_utf16(units).unwrap()
}

fn units(name: &ResourceName) -> Vec<u16> {
    name.utf16().collect()
}

#[test]
fn every_code_unit_comes_back_unchanged() {
    for unit in 0..=u16::MAX {
        if unit == u16::from(b'-') {
            continue;
        }
        assert_eq!(units(&name(&[unit])), [unit]);
        assert_eq!(units(&name(&[0x61, unit, 0x62])), [0x61, unit, 0x62]);
    }
}

#[test]
fn every_character_is_the_same_from_utf8_and_from_utf16() {
    for char in ('\0'..=char::MAX).filter(|&char| char != '-') {
        let utf8 = ResourceName::try_from(char.encode_utf8(&mut [0; 4]) as &str).unwrap();
        let utf16 = name(char.encode_utf16(&mut [0; 2]));
        assert_eq!(utf8, utf16);
        assert_eq!(units(&utf8), char.encode_utf16(&mut [0; 2]).to_vec());
    }
}

#[test]
fn names_that_differ_in_a_lone_surrogate_differ() {
    let (high, low, replacement) = (name(&[0xD800]), name(&[0xDC00]), name(&[0xFFFD]));
    assert_ne!(high, low);
    assert_ne!(high, replacement);
    assert_eq!(high.as_str(), None);
    assert_eq!(high.to_string_lossy(), "\u{FFFD}");
    assert_eq!(format!("{high:?}"), r#""\u{d800}""#);
}

#[test]
fn a_hyphen_is_reserved_only_in_front() {
    assert_eq!(ResourceName::try_from("-"), Err(ReservedName));
    assert_eq!(ResourceName::from_utf16(&[0x2D, 0xD800]), Err(ReservedName));
    assert_eq!(ResourceName::from_wtf8(b"-x"), Err(InvalidName::Reserved));
    for fine in ["", "a-", " -", "\u{2010}", "\0-"] {
        assert_eq!(ResourceName::try_from(fine).unwrap().as_str(), Some(fine));
    }
}

#[test]
fn short_and_long_names_are_kept_alike() {
    for len in [0, 1, short::MAX - 1, short::MAX, short::MAX + 1, 255, 256, 1 << 20] {
        let long = "n".repeat(len);
        let name = ResourceName::try_from(&long).unwrap();
        assert_eq!(name.as_str(), Some(&*long));
        assert_eq!(name, ResourceName::from_wtf8(name.as_bytes()).unwrap());
    }
}

#[test]
fn bytes_that_are_not_wtf8_are_refused_where_they_go_wrong() {
    let cases: [(&[u8], usize); 7] = [
        (b"\xFF", 0),
        (b"ab\xC3", 2),
        (b"a\xED\xA0", 1),
        (b"\xED\xA0\x41", 0),
        (b"\xC0\x80", 0),
        // A surrogate pair spelled as two surrogates.
        (b"\xED\xA0\xBD\xED\xB8\x80", 3),
        (b"\xF5\x80\x80\x80", 0),
    ];
    for (bytes, valid_up_to) in cases {
        assert_eq!(ResourceName::from_wtf8(bytes), Err(InvalidName::NotWtf8 { valid_up_to }));
    }
}

#[test]
fn surrogates_that_form_no_pair_are_wtf8() {
    for pair in [[0xDC00, 0xD800], [0xD800, 0xD800], [0xDC00, 0xDC00]] {
        let name = name(&pair);
        assert_eq!(ResourceName::from_wtf8(name.as_bytes()).unwrap(), name);
        assert_eq!(units(&name), pair);
    }
    let parted = name(&[0xD800, 0x61, 0xDC00]);
    assert_eq!(ResourceName::from_wtf8(parted.as_bytes()).unwrap(), parted);
}

#[test]
fn names_order_by_utf16_code_unit() {
    // U+1F600 is above U+FF5E as a character, below it as code units.
    let mut names = [name(&[0xFF5E]), name(&[0xD83D, 0xDE00]), name(&[0xDC00]), name(&[0x61])];
    names.sort();
    let first_units: Vec<_> = names.iter().map(|name| units(name)[0]).collect();
    assert_eq!(first_units, [0x61, 0xD83D, 0xDC00, 0xFF5E]);
}

#[test]
fn names_of_every_length_keep_their_bytes_and_differ_in_each() {
    let letters: String = ('a'..='z').chain('A'..='F').collect();
    for length in 0..=letters.len() {
        let text = &letters[..length];
        let name = ResourceName::try_from(text).unwrap();
        assert_eq!(name.as_bytes(), text.as_bytes());
        assert_eq!(name.is_short(), length <= short::MAX);
        assert_eq!(name, ResourceName::from_wtf8(text.as_bytes()).unwrap());
        for at in 0..length {
            let mut other = text.to_owned();
            other.replace_range(at..=at, "_");
            assert_ne!(name, ResourceName::try_from(other).unwrap());
        }
        // What stands after a short name is no part of it, but its length is.
        assert_ne!(name, ResourceName::try_from(format!("{text}\0")).unwrap());
    }
}

#[test]
fn a_name_is_made_of_every_kind_of_string_and_compared_with_it() {
    let name = ResourceName::try_from("db").unwrap();
    assert_eq!(name, "db");
    assert_eq!("db", name);
    assert_eq!(name, *"db");
    assert_eq!(name, "db".to_owned());
    assert_ne!(name, "dc");
    assert_eq!(Ok(name.clone()), "db".parse());
    assert_eq!(Ok(name.clone()), ResourceName::try_from(Box::<str>::from("db")));
    let shared = Arc::<str>::from("db");
    assert_eq!(Ok(name.clone()), ResourceName::try_from(&shared));
    assert_eq!(Ok(name), ResourceName::try_from(shared));
    assert_eq!("-".parse::<ResourceName>(), Err(ReservedName));
    let lone = ResourceName::from_utf16(&[0xD800]).unwrap();
    assert_ne!(lone, "\u{FFFD}");
}

#[cfg(unix)]
#[test]
fn a_string_of_the_operating_system_is_a_name_if_it_is_text() {
    use std::{
        ffi::{OsStr, OsString},
        os::unix::ffi::OsStrExt,
    };

    assert_eq!(ResourceName::try_from(OsString::from("db")).unwrap(), "db");
    assert_eq!(ResourceName::try_from(&OsString::from("d\u{e9}")).unwrap(), "d\u{e9}");
    assert_eq!(ResourceName::try_from(OsStr::new("-db")), Err(InvalidName::Reserved));
    for (bytes, valid_up_to) in [(&b"db\xFF"[..], 2), (b"\xED\xA0\x80", 0)] {
        let refused = ResourceName::try_from(OsStr::from_bytes(bytes)).unwrap_err();
        assert_eq!(refused, InvalidName::NotUtf8 { valid_up_to });
        let expected = format!("not UTF-8 from byte {valid_up_to} on; choose");
        assert!(refused.to_string().contains(&expected), "{refused}");
    }
}
