//! The metrics of etcd.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// The metrics at one moment.
pub(super) struct Metrics(String);

impl Metrics {
    /// # Errors
    ///
    /// If etcd does not say.
    pub(super) fn of(endpoint: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the metrics of etcd: {error}");
        let mut stream = TcpStream::connect(endpoint).map_err(failed)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(failed)?;
        Ok(Self(text))
    }

    /// The sum of all metrics of this name that have all of these labels.
    pub(super) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let (its, number) = rest.rsplit_once(' ')?;
            let is_it = (its.is_empty() || its.starts_with('{'))
                && labels.iter().all(|label| its.contains(label));
            number.parse::<f64>().ok().filter(|_| is_it)
        };
        self.0.lines().filter_map(of).sum()
    }

    /// How many proposals were committed to the log.
    pub(super) fn proposals(&self) -> f64 {
        self.sum("etcd_server_proposals_committed_total", &[])
    }

    /// How often leases were kept alive.
    pub(super) fn keepalives(&self) -> f64 {
        self.sum("grpc_server_msg_received_total", &["grpc_method=\"LeaseKeepAlive\""])
    }

    /// Calls of all other kinds that have one answer.
    pub(super) fn calls(&self) -> f64 {
        self.sum("grpc_server_handled_total", &["grpc_type=\"unary\""])
    }

    /// How many bytes etcd has stored, which it keeps until it is compacted.
    pub(super) fn stored(&self) -> f64 {
        self.sum("etcd_mvcc_db_total_size_in_use_in_bytes", &[])
    }

    /// How many watches there are.
    pub(super) fn watches(&self) -> f64 {
        self.sum("etcd_debugging_mvcc_watcher_total", &[])
    }
}
