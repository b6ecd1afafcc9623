//! What is drawn: a function of the model and the size alone.

mod clients;
mod content;
mod deadlocks;
mod frame;
mod line;
mod name;
mod names;
mod tree;

use self::content::Body;
pub(super) use self::frame::draw;
use super::model::{Model, View};

/// The body of the view that is shown.
pub(super) fn body(model: &Model) -> Body<'_> {
    match &model.place().view {
        View::Names => names::body(model),
        View::Name(name) => name::body(model, name),
        View::Tree => tree::body(model),
        View::Clients => clients::body(model),
        View::Deadlocks => deadlocks::body(model),
    }
}
