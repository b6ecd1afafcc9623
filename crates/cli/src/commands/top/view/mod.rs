//! What is drawn, which depends on the model and the size alone.

mod client_table;
mod content;
mod deadlocks;
mod frame;
mod line;
mod name_details;
mod name_table;
mod tree;

use self::content::Body;
pub(super) use self::frame::draw;
use super::model::{Model, View};

/// The body of the view that is shown.
pub(super) fn body(model: &Model) -> Body<'_> {
    match &model.place().view {
        View::Names => name_table::body(model),
        View::Name(name) => name_details::body(model, name),
        View::Tree => tree::body(model),
        View::Clients => client_table::body(model),
        View::Deadlocks => deadlocks::body(model),
    }
}
