//! The words for locks and requests that an answer leaves out.

use super::{super::Context, QueryArgs};
use crate::text;

/// Says that this many entries are not shown.
pub(super) fn tell_left_out(context: &Context, left_out: u64, args: &QueryArgs) {
    if left_out > 0 {
        context.verbosity.tell(left_out_of(left_out, args));
    }
}

/// The sentence which says that this many entries are not shown.
pub(super) fn left_out_of(left_out: u64, args: &QueryArgs) -> String {
    let told = text::left_out(left_out);
    if args.name.is_some() { told } else { format!("{told}; ask for one NAME") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_of_all_names_is_told_to_ask_for_one_name() {
        let args = QueryArgs::default();
        assert_eq!(left_out_of(1, &args), "1 more lock or request is not shown; ask for one NAME");
        let args = QueryArgs { name: Some("a".try_into().unwrap()), ..args };
        assert_eq!(left_out_of(2, &args), "2 more locks and requests are not shown");
    }
}
