//! The values of any iterable, one at a time, as `foreach` gives them.

use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendIterator, ZendObject, Zval};

use crate::call::{Guarded, guarded};
use crate::error::Fault;

unsafe extern "C" {
    fn zend_iterator_dtor(iterator: *mut ZendIterator);
}

/// Calls this with each value; nothing when what was given is no iterable.
///
/// The iterable and the value are held meanwhile, whatever PHP code does to the variables that they came from.
pub fn each(iterable: &Zval, mut take: impl FnMut(&Zval) -> Result<(), Fault>) -> Result<Option<()>, Fault> {
    let mut iterable = Guarded::of(iterable);
    if let Some(table) = iterable.array() {
        // Not the table's own iterator: it panics at a key that is not UTF-8.
        let mut members = Iter::new(table);
        while let Some((_, value)) = members.next_zval() {
            take_one(value, &mut take)?;
        }
        return iterable.release().map(Some);
    }
    let Some(class) = iterable.object().filter(|_| iterable.is_traversable()).map(ZendObject::get_class_entry) else {
        return Ok(None);
    };
    let Some(iterator) = guarded(|| class.get_iterator(&mut iterable, false).map(std::ptr::from_mut))? else {
        return Err(Fault::invalid("jobs cannot be iterated"));
    };
    // SAFETY: it was made just now, and nobody else has it until `zend_iterator_dtor`.
    let walked = walk(unsafe { &mut *iterator }, &mut take);
    if !matches!(walked, Err(Fault::BailedOut)) {
        // SAFETY: the iterator is not used any more. Its end may run the `finally` of a generator.
        let ended = guarded(|| unsafe { zend_iterator_dtor(iterator) });
        return walked.and(ended).and_then(|()| iterable.release()).map(Some);
    }
    walked.map(Some)
}

fn walk(iterator: &mut ZendIterator, take: &mut impl FnMut(&Zval) -> Result<(), Fault>) -> Result<(), Fault> {
    guarded(|| iterator.rewind())?;
    while guarded(|| iterator.valid())? {
        let Some(value) = guarded(|| iterator.get_current_data().map(Guarded::of))? else { return Ok(()) };
        take_one(&value, take)?;
        value.release()?;
        guarded(|| iterator.move_forward())?;
    }
    Ok(())
}

fn take_one(value: &Zval, take: &mut impl FnMut(&Zval) -> Result<(), Fault>) -> Result<(), Fault> {
    let value = Guarded::of(value);
    take(&value)?;
    value.release()
}
