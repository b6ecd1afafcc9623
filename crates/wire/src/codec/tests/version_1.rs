//! The frames of version 1, which other releases speak: they never change.

use super::*;

// As the codec of version 1 wrote the messages of `version_1_to_daemon`, in their order.
#[rustfmt::skip]
const TO_DAEMON: &[&str] = &[
    "00000003 000109",
    "00000016 0107a5a5 a5a5a5a5 a5a5a5a5 a5a5a5a5 a5a50377 6562",
    "00000006 02ffffff ff0f",
    "00000002 0300",
    "00000018 0407ffff ffff0fff ffffffff ffffffff 010464ed a0800000",
    "00000018 0407ffff ffff0fff ffffffff ffffffff 010464ed a0800001",
    "00000018 0407ffff ffff0fff ffffffff ffffffff 010464ed a0800100",
    "00000018 0407ffff ffff0fff ffffffff ffffffff 010464ed a0800101",
    "00000017 0407ffff ffff0fff ffffffff ffffffff 010464ed a08002",
    "00000010 05ffffff ff0fffff ffffffff ffffff01",
    "0000000c 06ffffff ffffffff ffff0100",
];

// The same for `version_1_from_daemon`.
#[rustfmt::skip]
const FROM_DAEMON: &[&str] = &[
    "00000002 0001",
    "00000009 0107746f 6f206f6c 64",
    "0000001a 02ffffff ff0fffff ffffffff ffffff01 ffffffff ffffffff ff01",
    "00000010 03ffffff ff0fffff ffffffff ffffff01",
    "00000047 06010104 64eda080 00030303 03030303 03030303 03030303 03020464 eda08001 03030303 03030303 03030303 03030303 0464eda0 80000303 03030303 03030303 03030303 030301",
    "00000011 04ffffff ff0fffff ffffffff ffffff01 00",
    "00000003 070200",
    "00000011 04ffffff ff0fffff ffffffff ffffff01 01",
    "00000003 070201",
    "00000014 04ffffff ff0fffff ffffffff ffffff01 02026e6f",
    "00000006 07020202 6e6f",
    "00000014 04ffffff ff0fffff ffffffff ffffff01 03026e6f",
    "00000006 07020302 6e6f",
    "00000011 05ffffff ff0fffff ffffffff ffffff01 00",
    "00000011 05ffffff ff0fffff ffffffff ffffff01 01",
    "00000011 05ffffff ff0fffff ffffffff ffffff01 02",
    "00000011 05ffffff ff0fffff ffffffff ffffff01 03",
];

#[test]
fn the_frames_of_version_1_are_what_they_were() {
    assert_frames(&version_1_to_daemon(), TO_DAEMON);
    assert_frames(&version_1_from_daemon(), FROM_DAEMON);
}

pub(super) fn assert_frames<M: Message + PartialEq + fmt::Debug>(messages: &[M], frames: &[&str]) {
    assert_eq!(messages.len(), frames.len());
    for (message, frame) in messages.iter().zip(frames) {
        let bytes = encode_all(std::slice::from_ref(message));
        assert_eq!(&hex(&bytes), frame, "{message:?}");
    }
}

/// In groups of four bytes, the first of which is the length.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut hex = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        let gap = if index > 0 && index % 4 == 0 { " " } else { "" };
        write!(hex, "{gap}{byte:02x}").unwrap();
    }
    hex
}
