use std::{
    any::Any,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// One conversation, for tools that keep something from one call to the next: it is kept here, so that conversations
/// at the same time don't disturb each other and nothing outlives its conversation. Clones are the same conversation.
#[derive(Clone, Default)]
pub struct Conversation(Arc<Mutex<HashMap<String, Box<dyn Any + Send>>>>);

impl Conversation {
    /// A conversation in which nothing was kept yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes what `keeper` keeps; the first time that is `T::default()`. One keeper keeps one type.
    pub fn keep<T, R>(&self, keeper: &str, change: impl FnOnce(&mut T) -> R) -> R
    where
        T: Default + Send + 'static,
    {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept
            .entry(keeper.to_owned())
            .or_insert_with(|| Box::new(T::default()));
        if let Some(kept) = place.downcast_mut() {
            return change(kept);
        }
        let mut fresh = T::default();
        let result = change(&mut fresh);
        *place = Box::new(fresh);
        result
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(conversation: &Conversation, keeper: &str) -> u32 {
        conversation.keep(keeper, |calls: &mut u32| {
            *calls += 1;
            *calls
        })
    }

    #[test]
    fn each_conversation_keeps_its_own_and_clones_are_the_same() {
        let (one, other) = (Conversation::new(), Conversation::new());
        assert_eq!((count(&one, "a"), count(&one.clone(), "a")), (1, 2));
        assert_eq!((count(&one, "b"), count(&other, "a")), (1, 1));
        assert_eq!(one.keep("a", |text: &mut String| text.len()), 0);
    }
}
