//! Pool of shared values that are reused, so that an I/O in the steady state allocates nothing.
//!
//! A [`Pooled`] is an `Arc` whose last owner clears the value and puts it into a pool of its
//! thread. Each thread keeps a few values of each type.

use std::{cell::RefCell, ops::Deref, sync::Arc, thread::LocalKey};

/// The most values of a type that a thread keeps: twice as many as its ring has requests in flight.
const SPARE_MAX: usize = 2048;

pub(crate) type Spare<T> = RefCell<Vec<Arc<T>>>;

/// A value that can be reused.
pub(crate) trait Reuse: Default + 'static {
    /// The thread's pool of unused values.
    fn spare() -> &'static LocalKey<Spare<Self>>;

    /// Drops everything that the value holds, so that the next user finds it as new.
    fn clear(&mut self);
}

/// One owner of a shared value. See the module's description.
#[derive(Debug)]
pub(crate) struct Pooled<T: Reuse>(Option<Arc<T>>);

impl<T: Reuse> Pooled<T> {
    /// A value like a new one, filled by `fill` before it is shared.
    pub fn new(fill: impl FnOnce(&mut T)) -> Self {
        // A thread that is ending has no pool any more.
        let spare = T::spare().try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        let mut value = spare.unwrap_or_default();
        fill(Arc::get_mut(&mut value).expect("nobody else has a spare one"));
        Self(Some(value))
    }

    /// Whether this is the only owner.
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
        // Two owners that drop it at the same time may both see the other one: then it is freed.
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
    fn the_last_owner_clears_a_value_for_reuse() {
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
    fn a_value_is_pooled_on_the_thread_that_drops_it() {
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
