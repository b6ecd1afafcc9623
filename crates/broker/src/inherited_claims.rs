//! The locks that a client has left to others. Its file of inherited locks contains them as the
//! messages that claim them.

use std::collections::HashSet;

use bytes::BytesMut;
use navlock_engine::RequestId;
use navlock_wire::{Sent, ToDaemon, decode_last, encode};

/// The locks that are claimed in these bytes.
pub(crate) fn locks(bytes: &[u8]) -> Option<HashSet<RequestId>> {
    let mut bytes = BytesMut::from(bytes);
    let mut locks = HashSet::new();
    loop {
        match decode_last::<Sent>(&mut bytes).ok()??.message {
            ToDaemon::ClaimLock { request, .. } => _ = locks.insert(request),
            ToDaemon::Claimed => return Some(locks),
            _ => {}
        }
    }
}

/// These claims without this lock.
pub(crate) fn without(bytes: &[u8], lost: RequestId) -> BytesMut {
    let (mut bytes, mut kept) = (BytesMut::from(bytes), BytesMut::new());
    while let Ok(Some(Sent { at, message })) = decode_last(&mut bytes) {
        let is_lost = matches!(&message, ToDaemon::ClaimLock { request, .. } if *request == lost);
        if !is_lost {
            // This does not fail: the message was in a frame before, so it fits into a frame.
            let _ = encode(&Sent { at, message: &message }, &mut kept);
        }
    }
    kept
}
