//! Runs a test under every order of its events: what loom does with threads, for messages and futures.

/// Runs `run` again and again, until each choice that it draws (one out of so many) was made each way; gives how often.
/// The error says which choices led to it.
pub(crate) fn every_order(
    mut run: impl FnMut(&mut dyn FnMut(usize) -> usize) -> Result<(), String>,
) -> Result<u64, String> {
    // Each choice, and out of how many.
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut orders = 0;
    loop {
        let mut at = 0;
        let mut draw = |count| {
            if at == path.len() {
                path.push((0, count));
            }
            at += 1;
            path[at - 1].0
        };
        run(&mut draw).map_err(|why| format!("{why}: {path:?}"))?;
        orders += 1;
        while path.last().is_some_and(|(choice, count)| choice + 1 == *count) {
            path.pop();
        }
        let Some(last) = path.last_mut() else { return Ok(orders) };
        last.0 += 1;
    }
}

#[test]
fn each_choice_is_made_each_way() {
    let mut seen = Vec::new();
    let orders = every_order(|draw| {
        let first = draw(3);
        seen.push((first, if first == 1 { draw(2) } else { 0 }));
        Ok(())
    });
    assert_eq!((orders, seen), (Ok(4), vec![(0, 0), (1, 0), (1, 1), (2, 0)]));
}
