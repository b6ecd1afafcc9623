//! The frames that versions 3 and 4 added, which other releases speak: they never change.

use super::{version_1::assert_frames, *};

// As the codec of version 4 wrote the messages of `version_4_to_daemon`, in their order.
#[rustfmt::skip]
const TO_DAEMON: &[&str] = &[
    "0000000b 0effffff ffffffff ffff01",
    "00000001 0f",
    "0000001b 10060377 65620464 eda080a5 a5a5a5a5 a5a5a5a5 a5a5a5a5 a5a5a5",
];

// The same for `version_4_from_daemon`.
#[rustfmt::skip]
const FROM_DAEMON: &[&str] = &[
    "0000002b 0b032865 74636420 61742031 302e302e 302e313a 32333739 2c206e61 6d657370 61636520 6e61766c 6f636b",
    "00000010 0cffffff ff0fffff ffffffff ffffff01",
    "00000003 0c0000",
    "0000000d 0d050204 6e696365 02313000 00",
    "00000003 0d0000",
    "00000001 0e",
    "00000006 0f060000 0000",
    "00000053 0f060104 64eda080 01030303 03030303 03030303 03030303 0301dc0b 01ffffff ffffffff ffff0101 e724086d 616b6520 2d6a3203 61646106 656e6769 6e650874 6f206275 696c6402 01ffffff ffffffff ffff01",
    "00000017 100701ff ffffffff ffffffff 01ffffff ffffffff ffff01",
    "00000011 05ffffff ff0fffff ffffffff ffffff01 04",
    "00000001 11",
    "00000011 05ffffff ff0fffff ffffffff ffffff01 05",
    "00000021 05ffffff ff0fffff ffffffff ffffff01 06070707 07070707 07070707 07070707 07",
];

#[test]
fn the_frames_of_versions_3_and_4_are_what_they_were() {
    assert_frames(&version_4_to_daemon(), TO_DAEMON);
    assert_frames(&version_4_from_daemon(), FROM_DAEMON);
}
