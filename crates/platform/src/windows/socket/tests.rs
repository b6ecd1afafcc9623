//! Tests of sockets, with and without a runtime.

use std::{
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{listener::BACKLOG, *};
use crate::wait::{Interest, Source};

#[test]
fn written_bytes_are_read_even_after_the_writing_end_is_dropped() {
    let (mut one, other) = Stream::pair().unwrap();
    other.set_nonblocking(true).unwrap();
    // More than the system buffers, and more than there is room for in one call.
    let mut sent = 0;
    let bytes = vec![7; 300_000];
    while let Ok(length) = send(&other, &bytes[sent..]) {
        sent += length;
    }
    assert!(sent > 0 && sent < bytes.len());
    drop(other);
    let mut read = Vec::new();
    one.read_to_end(&mut read).unwrap();
    assert_eq!(read, bytes[..sent]);
    assert_eq!(one.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn bytes_of_the_other_end_are_read_even_after_this_end_is_shut_down() {
    for (is_looked_at, is_read) in [(false, 0), (true, 0), (true, 4)] {
        let (mut one, mut other) = Stream::pair().unwrap();
        if is_looked_at {
            // From now on a read is under way.
            assert!(!one.pipe().is_readable());
        }
        other.write_all(b"last words").unwrap();
        one.read_exact(&mut vec![0; is_read]).unwrap();
        one.shutdown(Shutdown::Both).unwrap();
        let mut read = Vec::new();
        one.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"last words"[is_read..]);
        assert_eq!(one.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
        assert_eq!(other.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn a_read_waits_for_its_timeout_and_no_longer() {
    let (mut one, other) = Stream::pair().unwrap();
    one.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    one.set_nonblocking(true).unwrap();
    assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    one.set_nonblocking(false).unwrap();
    one.set_read_timeout(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| (&other).write_all(b"at last").unwrap());
        let mut bytes = [0; 7];
        one.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"at last");
    });
    other.shutdown(Shutdown::Both).unwrap();
    assert_eq!(one.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_socket_is_what_its_file_says_and_is_refused_once_nobody_listens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sock");
    assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
    let listener = Listener::bind(&path).unwrap();
    let has_come = |listener: &Listener| {
        let asked = [(listener.source(), Interest::READ)];
        crate::wait::wait(asked, Some(Duration::ZERO)).unwrap()[0].any()
    };
    assert!(!has_come(&listener));
    assert!(is_at(&path, &fs::symlink_metadata(&path).unwrap()));
    assert_eq!(Listener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    // More than can wait to be accepted.
    let mut connected = Vec::new();
    let full = loop {
        match connect(&path) {
            Ok(stream) => connected.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!((full.kind(), connected.len()), (ErrorKind::WouldBlock, BACKLOG));
    let accepted: Vec<_> = (0..BACKLOG).map(|_| listener.accept().unwrap().0).collect();
    for (mut client, mut server) in connected.into_iter().zip(accepted) {
        // In the order in which they have connected.
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
    }
    listener.set_nonblocking(true).unwrap();
    let asked = [(listener.source(), Interest::READ)];
    let (one, _) = thread::scope(|scope| {
        let one = scope.spawn(|| connect(&path).unwrap());
        assert!(crate::wait::wait(asked, Some(Duration::from_secs(20))).unwrap()[0].any());
        (one.join().unwrap(), listener.accept().unwrap())
    });
    drop(one);
    assert!(!has_come(&listener));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(listener);
    assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    fs::write(&path, "precious").unwrap();
    assert!(!is_at(&path, &fs::symlink_metadata(&path).unwrap()));
}

#[tokio::test]
async fn tasks_are_woken_for_what_comes_to_whom_they_listen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sock");
    let listener = listen(&directory.path().join("new"), &path).unwrap();
    let listener = AsyncListener::from_std(listener).unwrap();
    let talker = tokio::spawn(async move {
        let mut stream = AsyncStream::connect(&path).await.unwrap();
        stream.write_all(&[9; 200_000]).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(crate::peer::of(stream.stream()).unwrap().user, crate::user::ours());
    let mut bytes = vec![0; 200_000];
    stream.read_exact(&mut bytes).await.unwrap();
    stream.write_all(b"heard").await.unwrap();
    drop(stream);
    assert_eq!(talker.await.unwrap(), b"heard");
}

#[test]
fn many_can_be_waited_for_at_once() {
    let ends: Vec<_> = (0..200).map(|_| Stream::pair().unwrap()).collect();
    let asked: Vec<_> = ends.iter().map(|(one, _)| (one.source(), Interest::READ)).collect();
    let before = Instant::now();
    let none = crate::wait::wait_many(&asked, Some(Duration::from_millis(30))).unwrap();
    assert!(none.iter().all(|ready| !ready.any()));
    assert!(before.elapsed() >= Duration::from_millis(30));
    (&ends[170].1).write_all(b"x").unwrap();
    let one = crate::wait::wait_many(&asked, Some(Duration::from_secs(20))).unwrap();
    let found: Vec<_> = (0..200).filter(|at| one[*at].readable).collect();
    assert_eq!(found, [170]);
}
