//! The mailbox of a connection: which of the names that it owns others want.
//!
//! An owner grants a name only until its lease is over by its clock. A watch that hangs tells nothing,
//! and nobody notices. So each term of a lease counts from a renewal that was followed by a reading of
//! the mailbox: whoever wants a name has put that into the mailbox (see
//! [`ask_owner`](crate::transactions::ask_owner)), and knows that the owner has no right to grant the
//! name any more one term later, unless the owner has read it.

use navlock_etcd_client::{Client, Error, LeaseKeepAliveResponse, RangeRequest, ResponseHeader};

use crate::data::prefix_end;

/// How many keys are read in one call.
const PAGE: i64 = 1000;

/// Reads the mailbox with this prefix, after this renewal. Returns the owner keys of the names that
/// others want.
///
/// Etcd answers this only when a majority of its members has agreed that its leader is still the
/// leader. A renewal is answered by the leader alone, and by one that is none any more if it has not
/// noticed that yet, as when its disk hangs. So the renewal counts only if both were in one term.
///
/// # Errors
///
/// [`Error::Closed`] if another leader was elected meanwhile. Then the renewal is of no use.
pub(crate) async fn read(
    client: &mut Client,
    prefix: &[u8],
    renewed: &LeaseKeepAliveResponse,
) -> Result<Vec<Vec<u8>>, Error> {
    let (mut asked, mut start) = (Vec::new(), prefix.to_vec());
    loop {
        let page = RangeRequest::range(&*start, prefix_end(prefix));
        let answer = client.get(RangeRequest { keys_only: true, limit: PAGE, ..page }).await?;
        if !is_in_one_term(renewed.header, answer.header) {
            return Err(Error::Closed);
        }
        let Some(last) = answer.kvs.last() else { return Ok(asked) };
        // The smallest key after the last one.
        start = [&*last.key, &[0]].concat();
        let keys = answer.kvs.iter().filter_map(|kv| kv.key.strip_prefix(prefix));
        asked.extend(keys.map(<[u8]>::to_vec));
        if answer.count <= PAGE {
            return Ok(asked);
        }
    }
}

fn is_in_one_term(renewed: Option<ResponseHeader>, read: Option<ResponseHeader>) -> bool {
    let term = |header: Option<ResponseHeader>| header.map(|header| header.raft_term);
    term(renewed) == term(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_counts_if_nobody_was_elected_before_the_mailbox_was_read() {
        let header = |raft_term| Some(ResponseHeader { raft_term, ..ResponseHeader::default() });
        assert!(is_in_one_term(header(2), header(2)));
        assert!(!is_in_one_term(header(2), header(3)));
        assert!(!is_in_one_term(header(2), None));
    }
}
