//! The frames that version 2 added, which other releases speak: they never change.

use super::{version_1::assert_frames, *};

// As the codec of version 2 wrote the messages of `version_2_to_daemon`, in their order.
#[rustfmt::skip]
const TO_DAEMON: &[&str] = &[
    "00000012 075a5a5a 5a5a5a5a 5a5a5a5a 5a5a5a5a 5a00",
    "00000012 07000000 00000000 00000000 00000000 0001",
    "0000002a 0807ffff ffff0fff ffffffff ffffffff 010464ed a0800080 a0b0c3bb a2fabc18 ffffffff ffffffff ff01",
    "0000002a 0807ffff ffff0fff ffffffff ffffffff 010464ed a0800180 a0b0c3bb a2fabc18 ffffffff ffffffff ff01",
    "00000022 0907ffff ffff0fff ffffffff ffffffff 010464ed a0800000 ffffffff ffffffff ff01",
    "00000022 0907ffff ffff0fff ffffffff ffffffff 010464ed a0800101 ffffffff ffffffff ff01",
    "00000021 0907ffff ffff0fff ffffffff ffffffff 010464ed a08002ff ffffffff ffffffff 01",
    "00000001 0a",
    "00000021 0b07e724 086d616b 65202d6a 32036164 6106656e 67696e65 08746f20 6275696c 64",
    "00000007 0b000000 000000",
    "00000007 0c030377 656200",
    "0000000c 0c030377 65620104 64eda080",
    "00000002 0d04",
];

// The same for `version_2_from_daemon`.
#[rustfmt::skip]
const FROM_DAEMON: &[&str] = &[
    "0000009e 08030203 03030303 03030303 03030303 030303e7 24086d61 6b65202d 6a320361 64610665 6e67696e 6508746f 20627569 6c640404 04040404 04040404 04040404 04040000 00000002 0464eda0 80010303 03030303 03030303 03030303 030301ff ffffffff ffffffff 01010104 64eda080 01030303 03030303 03030303 03030303 03000001 0464eda0 80010303 03030303 03030303 03030303 03030100 0000",
    "00000006 08030000 0001",
    "00000012 0904e724 05302e32 2e3080b8 99290301 0200",
    "00000001 0a",
];

#[test]
fn the_frames_of_version_2_are_what_they_were() {
    assert_frames(&version_2_to_daemon(), TO_DAEMON);
    assert_frames(&version_2_from_daemon(), FROM_DAEMON);
}
