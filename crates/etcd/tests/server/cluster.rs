//! Three nodes that are one etcd.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{DEADLINE, Server};

/// Three nodes, of which one may be away.
pub(crate) struct Cluster {
    pub(crate) nodes: [Server; 3],
}

impl Cluster {
    /// Starts them, and waits until all of them answer.
    pub(crate) fn start() -> Self {
        let mut nodes = Server::several();
        let members: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(nth, node): (_, &Server)| format!("node-{nth}={}", node.peer_url()))
            .collect();
        for (nth, node) in nodes.iter_mut().enumerate() {
            let members = members.join(",");
            node.flags = vec![format!("--name=node-{nth}"), format!("--initial-cluster={members}")];
            node.restart();
        }
        let cluster = Self { nodes };
        cluster.until_whole();
        cluster
    }

    pub(crate) fn endpoints(&self) -> [String; 3] {
        self.nodes.each_ref().map(Server::endpoint)
    }

    /// Has another node, which has nothing yet and is elsewhere, take the place of this one for good. Nobody
    /// is where that was, for as long as it is kept.
    #[must_use]
    pub(crate) fn replace(&mut self, nth: usize) -> Server {
        let others = (0..3).filter(|other| *other != nth);
        let others: Vec<_> = others.map(|other| &self.nodes[other]).collect();
        let (number, _) = status(&self.nodes[nth]).expect("it answers");
        let number = format!("{:x}", number.parse::<u64>().unwrap());
        others[0].until_done(&["member", "remove", &number]);
        let [mut node] = Server::several();
        let name = format!("node-{}", node.peer.number());
        let url = format!("--peer-urls={}", node.peer_url());
        let said = others[0].until_done(&["member", "add", &name, &url]);
        let all = said.lines().find_map(|line| line.strip_prefix("ETCD_INITIAL_CLUSTER="));
        let all = all.unwrap_or_else(|| panic!("{said}")).trim_matches('"').to_owned();
        node.flags = vec![
            format!("--name={name}"),
            format!("--initial-cluster={all}"),
            "--initial-cluster-state=existing".to_owned(),
        ];
        node.restart();
        let mut old = std::mem::replace(&mut self.nodes[nth], node);
        old.kill();
        self.until_whole();
        old
    }

    /// Which node leads, as one of those says that are not stopped.
    pub(crate) fn leader(&self) -> usize {
        let since = Instant::now();
        loop {
            let leads = |node: &Server| {
                let (member, leader) = status(node)?;
                Some(member == leader)
            };
            let running = |node: &&Server| node.running.is_some();
            let found =
                self.nodes.iter().position(|node| running(&node) && leads(node) == Some(true));
            if let Some(found) = found {
                return found;
            }
            assert!(since.elapsed() < DEADLINE, "no node leads");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all nodes follow the same leader.
    pub(crate) fn until_whole(&self) {
        let since = Instant::now();
        loop {
            let leaders = self.nodes.each_ref().map(|node| Some(status(node)?.1));
            let is_whole = leaders.iter().all(|leader| *leader == leaders[0]);
            if is_whole && leaders[0].as_deref().is_some_and(|leader| leader != "0") {
                return;
            }
            assert!(since.elapsed() < DEADLINE, "the cluster is not whole: {leaders:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The node's own number and that of who it believes to lead; `None` if it does not answer.
fn status(node: &Server) -> Option<(String, String)> {
    let status = node.etcdctl(&["endpoint", "status", "--write-out=json", "--command-timeout=2s"]);
    let status = status.ok()?;
    let number = |key: &str| -> Option<String> {
        let (_, rest) = status.split_once(key)?;
        Some(rest.chars().take_while(char::is_ascii_digit).collect())
    };
    Some((number("\"member_id\":")?, number("\"leader\":").unwrap_or_else(|| "0".to_owned())))
}
