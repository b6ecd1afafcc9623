//! The frames of HTTP/2, to have a watch hang while everything else on its connection goes on.

use std::{
    collections::HashSet,
    io::{Read, Result, Write},
    net::TcpStream,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// What a client says first.
const PREFACE: usize = 24;

/// The streams of a connection by which the client watches.
#[derive(Default)]
pub(super) struct Watches(Mutex<HashSet<[u8; 4]>>);

/// A frame: its type, its stream, and all of its bytes.
fn frame(from: &mut TcpStream) -> Result<(u8, [u8; 4], Vec<u8>)> {
    let mut bytes = vec![0; 9];
    from.read_exact(&mut bytes)?;
    let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    let (kind, stream) = (bytes[3], [bytes[5], bytes[6], bytes[7], bytes[8]]);
    bytes.resize(9 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut bytes[9..])?;
    Ok((kind, stream, bytes))
}

/// Whether these bytes of a stream ask for a watch: a message in which a message begins with a key.
fn asks_to_watch(data: &[u8]) -> bool {
    let Some(message) = data.get(5..) else { return false };
    let Some((0x0a, rest)) = message.split_first() else { return false };
    let Some(length) = rest.iter().position(|byte| byte & 0x80 == 0) else { return false };
    rest.get(length + 1) == Some(&0x0a)
}

/// Passes on what a client says, and notes the streams by which it watches.
pub(super) fn pass_client(mut from: TcpStream, mut to: TcpStream, watches: &Watches) -> Result<()> {
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface)?;
    to.write_all(&preface)?;
    loop {
        let (kind, stream, bytes) = frame(&mut from)?;
        if kind == 0 && asks_to_watch(&bytes[9..]) {
            watches.0.lock().unwrap().insert(stream);
        }
        to.write_all(&bytes)?;
    }
}

/// Passes on what a server says. While the watches hang, nothing that they tell is passed on.
pub(super) fn pass_server(
    mut from: TcpStream,
    mut to: TcpStream,
    watches: &Watches,
    hang: &AtomicBool,
) -> Result<()> {
    loop {
        let (kind, stream, bytes) = frame(&mut from)?;
        let hangs = hang.load(Ordering::SeqCst) && kind == 0;
        if !hangs || !watches.0.lock().unwrap().contains(&stream) {
            to.write_all(&bytes)?;
        }
    }
}
