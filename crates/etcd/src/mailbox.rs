//! The mailbox of a connection: which of the names that it owns others want.
//!
//! An owner grants a name only until its lease is over by its clock. A watch that hangs tells nothing,
//! and nobody notices. So each term of a lease counts from the moment in which a renewal was sent together
//! with a reading of the mailbox, and only if both were answered: whoever wants a name has put that into
//! the mailbox (`ask_owner` in `navlock-machines`), and knows that the owner has no right to
//! grant the name any more one term later, unless the owner has read it.

use navlock_etcd_client::{Client, Error, LeaseKeepAliveResponse, RangeRequest};

use crate::data::prefix_end;

/// How many keys are read in one call.
const PAGE: i64 = 1000;

/// What stood in a mailbox.
pub(crate) struct Asked {
    /// The owner keys of the names that others want.
    pub(crate) keys: Vec<Vec<u8>>,
    term: u64,
}

/// Reads the mailbox with this prefix.
pub(crate) async fn read(mut client: Client, prefix: &[u8]) -> Result<Asked, Error> {
    let (mut keys, mut start, mut term) = (Vec::new(), prefix.to_vec(), None);
    loop {
        let page = RangeRequest::range(&*start, prefix_end(prefix));
        let answer = client.get(RangeRequest { keys_only: true, limit: PAGE, ..page }).await?;
        let term = *term.get_or_insert(answer.header.unwrap_or_default().raft_term);
        let found = answer.kvs.iter().filter_map(|kv| kv.key.strip_prefix(prefix));
        keys.extend(found.map(<[u8]>::to_vec));
        match answer.kvs.last() {
            // The smallest key after the last one.
            Some(last) if answer.count > PAGE => start = [&*last.key, &[0]].concat(),
            _ => return Ok(Asked { keys, term }),
        }
    }
}

impl Asked {
    /// Whether the renewal that was sent with the reading counts.
    ///
    /// Etcd answers a reading only when a majority of its members has agreed, since it was asked, that its
    /// leader is still the leader. A renewal is answered by the leader alone, and by one that is none any
    /// more if it has not noticed that yet, as when its disk hangs. If both were in one term, the leader
    /// that has renewed the lease was the leader when the renewal was sent, or later. One that was elected
    /// after that gives each lease its whole time.
    pub(crate) fn is_in_term_of(&self, renewed: &LeaseKeepAliveResponse) -> bool {
        renewed.header.unwrap_or_default().raft_term == self.term
    }
}

#[cfg(test)]
mod tests {
    use navlock_etcd_client::ResponseHeader;

    use super::*;

    #[test]
    fn a_renewal_counts_if_it_was_in_the_term_of_the_reading() {
        let renewed = |raft_term| {
            let header = Some(ResponseHeader { raft_term, ..ResponseHeader::default() });
            LeaseKeepAliveResponse { header, ..LeaseKeepAliveResponse::default() }
        };
        let asked = Asked { keys: Vec::new(), term: 2 };
        assert!(asked.is_in_term_of(&renewed(2)));
        assert!(!asked.is_in_term_of(&renewed(1)));
        assert!(!asked.is_in_term_of(&LeaseKeepAliveResponse::default()));
    }
}
