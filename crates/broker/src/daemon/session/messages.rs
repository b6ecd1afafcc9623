//! Messages of a client: which of them are answered, and those that only change the client's record.

use navlock_core::ClientId;
use navlock_wire::ToDaemon;

use super::super::{
    client_record::ClientRecord,
    session_ends::{End, ProtocolError},
};
use crate::LOGS;

/// Does what a message asks for that changes only the record of the client, and has no answer.
pub(super) fn handle_client_message(
    client: &mut ClientRecord,
    message: ToDaemon,
) -> Result<(), End> {
    match message {
        ToDaemon::OpenAgent { agent, client_id, bucket } => {
            client.open_agent(agent, ClientId::from_bytes(client_id), bucket)?;
        }
        ToDaemon::Describe { agent, info } => client.describe(agent, info)?,
        ToDaemon::Inside { request, lock } => client.requests.put_inside(request, lock),
        ToDaemon::Patience { request, patience } => {
            client.requests.note_patience(request, patience);
        }
        ToDaemon::Why { request, why } => client.note_why(request, &why),
        ToDaemon::Terminate { agent } => client.terminate(agent)?,
        ToDaemon::Finish { request } => {
            tracing::trace!(target: LOGS, request = request.serial(), "a client is done with a request");
            client.finish(request);
        }
        _ => return Err(out_of_place()),
    }
    Ok(())
}

/// The end of a session whose client sent a message that has no place in a session.
pub(super) fn out_of_place() -> End {
    ProtocolError("it sent a message that has no place in its session").into()
}

/// Whether this message has an answer.
pub(super) fn asks(message: &ToDaemon) -> bool {
    matches!(message, ToDaemon::Request { .. } | ToDaemon::Map { .. } | ToDaemon::Status { .. })
        || is_question(message)
}

/// Whether this message ends a request or a lock.
pub(in super::super) fn ends_something(message: &ToDaemon) -> bool {
    matches!(
        message,
        ToDaemon::Finish { .. } | ToDaemon::CloseAgent { .. } | ToDaemon::Terminate { .. }
    )
}

/// Whether this message asks for a snapshot.
pub(in super::super) fn is_question(message: &ToDaemon) -> bool {
    matches!(message, ToDaemon::Query { .. } | ToDaemon::Inspect { .. } | ToDaemon::Position { .. })
}
