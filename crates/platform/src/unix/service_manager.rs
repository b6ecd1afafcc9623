//! Telling a service manager the state of the process (`sd_notify(3)`).

use std::{
    env,
    ffi::OsStr,
    fmt, io,
    os::unix::net::{SocketAddr, UnixDatagram},
};

/// A service manager that wants to be told, if there is one.
#[derive(Debug)]
pub struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The service manager that has started us.
    pub fn of_environment() -> Self {
        let named = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty());
        // The manager manages us whether it hears of us or not: without word it says that we are
        // late.
        Self(named.and_then(|named| open(&named).ok()))
    }

    /// Tells the manager this state: lines of the form NAME=VALUE.
    pub fn tell(&self, state: fmt::Arguments<'_>) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(state.to_string().as_bytes(), address);
        }
    }
}

fn open(named: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match named.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => in_no_directory(name)?,
        None => SocketAddr::from_pathname(named)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read is not waited for.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

#[cfg(target_os = "linux")]
fn in_no_directory(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn in_no_directory(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(named: &OsStr, manager: &UnixDatagram) -> String {
        manager.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        Manager(Some(open(named).unwrap())).tell(format_args!("READY=1\nSTATUS=fine"));
        let mut bytes = [0; 100];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_is_told_wherever_it_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        assert_eq!(told(path.as_os_str(), &manager), "READY=1\nSTATUS=fine");
        #[cfg(target_os = "linux")]
        {
            let name = format!("navlock-test-{}", std::process::id());
            let address = in_no_directory(name.as_bytes()).unwrap();
            let manager = UnixDatagram::bind_addr(&address).unwrap();
            assert_eq!(told(OsStr::new(&format!("@{name}")), &manager), "READY=1\nSTATUS=fine");
        }
    }
}
