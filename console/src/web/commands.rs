//! What can be done with a job, as commands to be copied into a terminal.

use duly::{DEFAULT_PREFIX, JobView, State};
use maud::{Markup, html};

use super::named::Named;
use super::view::View;
use crate::show::{can_be_copied, option, quoted};

/// Nothing for a job whose id cannot be copied from a page.
pub(crate) fn show(view: &View<'_>, named: &Named, job: &JobView) -> Markup {
    let id = &job.envelope.id;
    if !can_be_copied(id) {
        return html! {};
    }
    let commands = verbs(job.state, |act| view.may(act)).into_iter();
    let lines: Vec<_> = commands.map(|(verb, more)| command(view.client.prefix(), named, verb, id, more)).collect();
    html! {
        details { summary { (view.words.as_commands) } pre tabindex="0" { code { (lines.join("\n")) } } }
    }
}

/// With their options. What the page itself may not do is left out.
fn verbs(state: State, may: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    let mut verbs = vec![("find", ""), ("why", ""), ("trace", "")];
    match state {
        State::Delayed if may("reschedule") => verbs.push(("reschedule", "--now")),
        State::Failed if may("requeue") => verbs.push(("requeue", "")),
        _ => {}
    }
    if may("cancel") {
        verbs.push(("cancel", ""));
    }
    verbs
}

fn command(prefix: &str, named: &Named, verb: &str, id: &str, more: &str) -> String {
    let mut words = vec!["duly".to_owned(), verb.to_owned()];
    if named.partitions > 0 {
        words.push(format!("--partitions {}", named.partitions));
    }
    if prefix != DEFAULT_PREFIX {
        words.push(option("--prefix", prefix));
    }
    if !more.is_empty() {
        words.push(more.to_owned());
    }
    // Neither is an option, whatever it begins with.
    if named.name.starts_with('-') || id.starts_with('-') {
        words.push("--".to_owned());
    }
    words.extend([named.name.clone(), quoted(id)]);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_shell_and_the_command_read_what_is_meant() {
        let (plain, parts) = (Named::new("orders", 0), Named::new("clicks", 4));
        assert_eq!(command("duly:", &plain, "find", "order-42", ""), "duly find orders order-42");
        assert_eq!(command("duly:", &plain, "cancel", "a'b $(c)", ""), r"duly cancel orders 'a'\''b $(c)'");
        let of_parts = command("shop:", &parts, "reschedule", "-x", "--now");
        assert_eq!(of_parts, "duly reschedule --partitions 4 --prefix shop: --now -- clicks -x");
        let option = Named::new("--all", 0);
        assert_eq!(command("-p", &option, "requeue", "mail", ""), "duly requeue --prefix=-p -- --all mail");
        for state in [State::Delayed, State::Ready, State::Reserved, State::Failed] {
            for (verb, more) in verbs(state, |_| true) {
                for (named, id) in [(&parts, "-x"), (&option, "mail"), (&option, "--data")] {
                    let command = command("-p", named, verb, id, more);
                    let parsed = crate::Arguments::try_parse_from(command.split(' '));
                    assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
                }
            }
        }
        assert!(verbs(State::Failed, |_| false).iter().all(|(verb, _)| ["find", "why", "trace"].contains(verb)));
    }
}
