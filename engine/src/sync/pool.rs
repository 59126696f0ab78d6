//! Shared values that are used again, so that an I/O in the steady state asks the allocator for nothing.
//!
//! A [`Pooled`] is an `Arc` whose last owner clears the value and leaves it to the next one on its thread. Each thread keeps a few of each kind.

use std::{cell::RefCell, ops::Deref, sync::Arc, thread::LocalKey};

/// Values that a thread keeps, at most: more than its ring has under way, twice over.
const SPARE_MAX: usize = 2048;

pub(crate) type Spare<T> = RefCell<Vec<Arc<T>>>;

/// What can be used again.
pub(crate) trait Reuse: Default + 'static {
    /// Where a thread keeps what nobody has.
    fn spare() -> &'static LocalKey<Spare<Self>>;

    /// Lets go of whatever it holds: the next one finds it as if it were new.
    fn clear(&mut self);
}

/// One owner of a shared value. See the module's description.
#[derive(Debug)]
pub(crate) struct Pooled<T: Reuse>(Option<Arc<T>>);

impl<T: Reuse> Pooled<T> {
    /// A value like a new one, filled by `fill` before anybody shares it.
    pub fn new(fill: impl FnOnce(&mut T)) -> Self {
        // A thread that ends keeps nothing any more.
        let spare = T::spare().try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        let mut value = spare.unwrap_or_default();
        fill(Arc::get_mut(&mut value).expect("nobody else has a spare one"));
        Self(Some(value))
    }

    /// Whether nobody else owns it.
    pub fn is_alone(&self) -> bool {
        self.0.as_ref().is_some_and(|value| Arc::strong_count(value) == 1)
    }
}

impl<T: Reuse> Clone for Pooled<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Reuse> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("there until it is dropped")
    }
}

impl<T: Reuse> Drop for Pooled<T> {
    fn drop(&mut self) {
        // Two that let go at the same time may both find the other: then the allocator has it back.
        let Some(mut value) = self.0.take() else { return };
        let Some(alone) = Arc::get_mut(&mut value) else { return };
        alone.clear();
        let too_many = T::spare().try_with(|spare| match spare.try_borrow_mut() {
            Ok(mut spare) if spare.len() < SPARE_MAX => {
                spare.push(value);
                None
            }
            _ => Some(value),
        });
        drop(too_many);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Word(String);

    thread_local! {
        static WORDS: Spare<Word> = RefCell::default();
    }

    impl Reuse for Word {
        fn spare() -> &'static LocalKey<Spare<Self>> {
            &WORDS
        }

        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[test]
    fn the_last_owner_leaves_it_empty_for_the_next() {
        let word = Pooled::<Word>::new(|word| word.0.push_str("secret"));
        let place: *const Word = &raw const *word;
        let other = word.clone();
        assert!(!other.is_alone());
        drop(word);
        assert!(
            other.is_alone()
                && (*other).0 == "secret"
                && WORDS.with(|words| words.borrow().is_empty())
        );
        drop(other);
        let next = Pooled::<Word>::new(|word| assert_eq!(word.0, ""));
        assert_eq!(&raw const *next, place);
    }

    #[test]
    fn what_is_dropped_on_another_thread_is_kept_there() {
        let word = Pooled::<Word>::new(|word| word.0.push('x'));
        std::thread::spawn(move || {
            drop(word);
            WORDS.with(|words| assert_eq!(words.borrow().len(), 1));
        })
        .join()
        .expect("no panic");
        WORDS.with(|words| assert!(words.borrow().is_empty()));
    }
}
