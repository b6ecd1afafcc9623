//! What the codec does without allocating.

use bytes::BytesMut;
use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};
use navlock_wire::{FromDaemon, Sent, ToDaemon, decode, encode};

#[test]
fn a_request_and_its_grant_are_said_and_heard_without_allocating() {
    let request = RequestId::from_parts(3, 70_000);
    let name = ResourceName::try_from("my-resource").unwrap();
    let ask = ToDaemon::Request {
        agent: 1,
        request,
        name,
        kind: RequestKind::Wait(Mode::Shared),
        slot: None,
    };
    let granted =
        FromDaemon::Granted { request, token: FencingToken::new(u64::MAX), in_slot: false };
    let mut bytes = BytesMut::with_capacity(8 << 10);

    let mut heard = (None, None);
    let allocated = allocation_counter::measure(|| {
        encode(&Sent { at: u64::MAX, message: &ask }, &mut bytes).unwrap();
        heard.0 = decode::<Sent>(&mut bytes).unwrap().map(|sent| sent.message);
        encode(&granted, &mut bytes).unwrap();
        heard.1 = decode(&mut bytes).unwrap();
    });
    assert_eq!(heard, (Some(ask), Some(granted)));
    assert_eq!(allocated.count_total, 0);
}
