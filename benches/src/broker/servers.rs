//! The servers of all peers, while they are measured on the same CPUs.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{
    layout::{Layout, Seat},
    participant::Participant,
    peer::Peer,
};

/// The running servers, each with a directory of its own. They end when this is dropped.
pub(super) struct Servers {
    layout: Layout,
    running: Vec<Running>,
}

struct Running {
    peer: Peer,
    place: PathBuf,
    // The process ends before its files are removed: the order of these two fields counts.
    _process: Option<Participant>,
    _directory: TempDir,
}

impl Servers {
    /// Starts the servers of these peers on their CPU. If an installed server does not start, its peer is
    /// left out from then on, and the reason is printed.
    pub(super) fn start(layout: Layout, peers: &mut Vec<Peer>) -> Result<Self, String> {
        let mut running = Vec::new();
        let mut able = Vec::new();
        for &peer in &*peers {
            match start(layout, peer) {
                Ok(server) => {
                    running.push(server);
                    able.push(peer);
                }
                Err(error) if peer.is_installed_apart() => {
                    eprintln!("{}: skipped, it does not start: {error}", peer.id());
                }
                Err(error) => return Err(format!("{}: cannot start: {error}", peer.id())),
            }
        }
        *peers = able;
        Ok(Self { layout, running })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Peer> {
        self.running.iter().map(|server| server.peer)
    }

    /// Where the clients of this peer find its server.
    pub(super) fn place(&self, peer: Peer) -> &Path {
        let server = self.running.iter().find(|server| server.peer == peer);
        server.map_or(Path::new(""), |server| &server.place)
    }
}

fn start(layout: Layout, peer: Peer) -> std::io::Result<Running> {
    let directory = tempfile::tempdir()?;
    let cpu = layout.cpu(Seat::Server)?;
    let (place, participant) = peer.start(cpu, directory.path())?;
    Ok(Running { peer, place, _process: participant, _directory: directory })
}
