//! How the name of a lock in a bucket is spelled to the browser, which has one set of names for an origin.
//!
//! In the bucket `""` a name is what it is, so that Rust and JavaScript mean the same lock by it. In any
//! other the bucket stands before it, with its length, so that no two pairs are spelled alike:
//! `navlock:3:app:db`.

use navlock_core::{ClientId, ResourceName};

/// What begins a name that says its bucket.
const MARK: &str = "navlock:";

/// The name as the browser gets it, in UTF-16 code units. It never begins with `-`.
pub(crate) fn spell(bucket: &str, name: &ResourceName) -> Vec<u16> {
    let plain: Vec<u16> = name.utf16().collect();
    // A name that looks like a name of another bucket is spelled with the empty bucket before it.
    if bucket.is_empty() && take_apart(&plain).is_none() {
        return plain;
    }
    let length = bucket.encode_utf16().count();
    let mut units: Vec<u16> = format!("{MARK}{length}:{bucket}:").encode_utf16().collect();
    units.extend(plain);
    units
}

/// The name that these code units spell, if it is of this bucket.
pub(crate) fn read(bucket: &str, units: &[u16]) -> Option<ResourceName> {
    let (in_bucket, name) = take_apart(units).unwrap_or((&[], units));
    if !in_bucket.iter().copied().eq(bucket.encode_utf16()) {
        return None;
    }
    // Code units that nobody who spells names this way could have made are left out.
    ResourceName::from_utf16(name).ok().filter(|name| spell(bucket, name) == units)
}

/// The bucket and the name, where they are said.
fn take_apart(units: &[u16]) -> Option<(&[u16], &[u16])> {
    let colon = u16::from(b':');
    let rest = units.strip_prefix(&MARK.encode_utf16().collect::<Vec<_>>()[..])?;
    let digits = rest.iter().position(|unit| *unit == colon)?;
    let digits_said = String::from_utf16(&rest[..digits]).ok()?;
    let length: usize = digits_said.parse().ok()?;
    // Not as `03` or `+3`: the same lock would have several spellings.
    if length.to_string() != digits_said {
        return None;
    }
    let rest = &rest[digits + 1..];
    let (bucket, name) = (rest.get(..length)?, rest.get(length..)?);
    Some((bucket, name.strip_prefix(&[colon])?))
}

/// The client id for a browser's name of a client. Most browsers give a UUID. From any other text a UUID is
/// made, the same each time.
pub(crate) fn client_id(text: &str) -> ClientId {
    text.parse().unwrap_or_else(|_| {
        // FNV-1a with 128 bits. Nobody gains by a collision, for whoever shares the origin can do everything.
        let hash =
            text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
            });
        ClientId::from_bytes(hash.to_be_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(units: &[u16]) -> ResourceName {
        ResourceName::from_utf16(units).expect("it is a name")
    }

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn names_of_the_empty_bucket_are_those_of_the_page() {
        for text in ["", "db", "ö\0", "navlock", "navlock:db", "navlock:x:db", "navlock:9:short:db"]
        {
            assert_eq!(spell("", &name(&units(text))), units(text));
            assert_eq!(read("", &units(text)), Some(name(&units(text))));
        }
        assert_eq!(read("app", &units("db")), None);
    }

    #[test]
    fn no_two_names_of_buckets_are_spelled_alike_and_each_is_read_as_it_was() {
        let texts =
            ["", "a", "a:b", ":", "1:a", "navlock:1:a:b", "navlock:0::b", "\u{10FFFF}", "3:a:b"];
        let names = texts.map(|text| name(&units(text)));
        let names = names.into_iter().chain([name(&[0xD800]), name(&[0xDC00, 0xD800])]);
        let names: Vec<_> = names.collect();
        let mut seen = std::collections::HashMap::new();
        for bucket in texts {
            for name in &names {
                let spelled = spell(bucket, name);
                assert_eq!(read(bucket, &spelled).as_ref(), Some(name), "{bucket:?}");
                for other in texts.iter().filter(|other| **other != bucket) {
                    assert_eq!(read(other, &spelled), None, "{bucket:?} {other:?} {name:?}");
                }
                let before = seen.insert(spelled, (bucket, name.clone()));
                assert_eq!(before, None);
            }
        }
    }

    #[test]
    fn a_hyphen_comes_never_first() {
        assert_eq!(spell("-", &name(&units("db"))), units("navlock:1:-:db"));
        assert_eq!(read("a", &units("navlock:1:a:-db")), None);
    }

    #[test]
    fn a_name_in_another_spelling_is_no_name_of_a_bucket() {
        for text in ["navlock:+3:app:db", "navlock:03:app:db"] {
            assert_eq!(read("app", &units(text)), None);
            // It is that of the page's that it is.
            assert_eq!(read("", &units(text)), Some(name(&units(text))));
            assert_eq!(spell("", &name(&units(text))), units(text));
        }
        assert_eq!(read("", &units("navlock:0::db")), None);
    }

    #[test]
    fn a_client_is_called_by_its_uuid_or_by_one_made_of_what_it_is_called() {
        let uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert_eq!(client_id(uuid).to_string(), uuid);
        assert_eq!(client_id(&format!("{{{uuid}}}")).to_string(), uuid);
        assert_eq!(client_id("8-page"), client_id("8-page"));
        assert_ne!(client_id("8-page"), client_id("9-page"));
    }
}
